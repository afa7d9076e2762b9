"""Predict and residuals: what a step should take, and where the difference went."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import asdict, replace
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from assay.answers import data_of
from assay.diagnose.subject import ENGINES
from assay.errors import AssayError
from assay.improve.engines.protocol import EngineDescription
from assay.improve.loop.state import Predicted, RunState

if TYPE_CHECKING:
    from assay.diagnose.diagnosis import Diagnosis
    from assay.planner.specs import HardwareSpec, ModelSpec

Calibrate = Callable[[str, Collection[str], Path, Callable[[str], None]], None]
"""Measures ceilings of a device for some formats, into a file of this run."""
REFERENCE_FORMATS: Final = ("q8_0", "bf16")
"""Formats that a CPU's calibration always needs: of its GEMV overhead, of peak and attention."""
CALIBRATION: Final = "calibration.json"


def predict(state: RunState, calibrate: Calibrate | None = None) -> None:
    """Compare the trace with a prediction of its steps; what is missing is noted."""
    state.begin("predict")
    model = _model(state)
    # Ceilings that would be measured for a model whose shapes are not known would predict nothing.
    state.predicted = Predicted(model, _hardware(state, None if model is None else calibrate))
    if not (state.folder.trace / "header.json").is_file():
        _write_plan(state)
        return
    state.progress.say("predicting the steps of the trace")
    diagnosis: Diagnosis | None
    try:
        diagnosis = _diagnose(state, state.predicted.model, state.predicted.hardware)
    except AssayError as error:
        state.degrade(f"the trace does not fit the prediction, which is left out: {error.message}")
        # Ceilings that the trace contradicts say nothing of the floor either.
        state.predicted = replace(state.predicted, hardware=_catalog_hardware(state))
        diagnosis = _without_prediction(state)
    state.predicted = replace(state.predicted, diagnosis=diagnosis)
    if diagnosis is not None:
        for text in diagnosis.degradations:
            state.degrade(text)
        _write_residuals(state, diagnosis)
    _write_plan(state)


def _catalog_hardware(state: RunState) -> HardwareSpec | None:
    """The catalog's accelerator in place of a calibration that the trace contradicts."""
    from assay.planner import hardware_spec

    name, contradicted = _accelerator(state.description), state.predicted.hardware
    if name is None or contradicted is None or contradicted.source == "catalog":
        return None
    state.degrade(f"the calibration is set aside: the floor is that of the catalog's {name}")
    return hardware_spec(name)


def _without_prediction(state: RunState) -> Diagnosis | None:
    """The trace against the catalog's machine, else its gaps, critical path and causes alone."""
    if state.predicted.hardware is not None:
        try:
            return _diagnose(state, state.predicted.model, state.predicted.hardware)
        except AssayError as error:
            state.degrade(f"nor does it fit the catalog's machine: {error.message}")
    try:
        return _diagnose(state, None, None)
    except AssayError as error:
        state.degrade(f"no diagnosis of the trace: {error.message}")
        return None


def _diagnose(state: RunState, model: ModelSpec | None, hardware: HardwareSpec | None) -> Diagnosis:
    from assay.diagnose.examination import examine
    from assay.diagnose.request import Request
    from assay.observe.structure.opening import open_recovered

    where = str(state.folder.trace)
    recovered = open_recovered(
        where,
        _source(state),
        unreadable=lambda error: state.degrade(
            f"operations of the trace follow from names and order: {error.message}"
        ),
    )
    state.predicted = replace(state.predicted, trace=recovered.trace)
    details = state.description.details
    request = Request(
        model,
        hardware,
        state.description.engine if state.description.engine in ENGINES else None,
        weight_dtype=_text(details.get("weight_format")),
        kv_dtype=_text(state.start.get("kv_format")) or "bf16",
    )
    telemetry = None if state.recording is None else state.recording.samples()
    return examine(recovered, request, where, telemetry=telemetry, say=state.progress.say)


def _model(state: RunState) -> ModelSpec | None:
    """The model's shapes; without them no step is predicted."""
    from assay.planner import model_spec

    source = _source(state)
    if source is None:
        state.degrade("no prediction: the model's shapes are not known (--model names its files)")
        return None
    try:
        return model_spec(source)
    except AssayError as error:
        state.degrade(f"no prediction: {error.message}")
        return None


def _source(state: RunState) -> str | None:
    return state.model or _local_weights(state.description)


def _local_weights(description: EngineDescription) -> str | None:
    """The files that a server says it serves, where they are on this machine."""
    path = _text(description.details.get("weights"))
    return path if path and path.startswith("/") and Path(path).exists() else None


def _hardware(state: RunState, calibrate: Calibrate | None) -> HardwareSpec | None:
    """This machine's device: calibrated before, in this run, or a GPU that the catalog has."""
    from assay.planner import hardware_spec

    device = state.description.device
    if state.description.engine not in ENGINES:
        return None
    try:
        return hardware_spec(device)
    except AssayError as error:
        reason = error.message
    name = _accelerator(state.description)
    if name is not None:
        state.degrade(f"{reason}: predicted with the catalog's {name}")
        return hardware_spec(name)
    if calibrate is not None and state.description.engine == "assay":
        own = _text(state.description.details.get("weight_format"))
        formats = {*REFERENCE_FORMATS, *([own] if own else [])}
        path = state.folder.path / CALIBRATION
        try:
            calibrate(device, formats, path, state.progress.say)
            state.notes.append(
                f"{device} was calibrated for this run, for {', '.join(sorted(formats))}; "
                "assay calibrate measures more, once for all runs"
            )
            return hardware_spec(str(path))
        except AssayError as error:
            reason = error.message
    state.degrade(f"no floor: {reason}; assay calibrate --device {device} measures it")
    return None


def _accelerator(description: EngineDescription) -> str | None:
    """The catalog's name of the GPU."""
    from assay.catalog import accelerators
    from assay.errors import UnknownNameError

    text = str(description.hardware.get("device_description") or "")
    if "cuda" not in description.capabilities or not text:
        return None
    try:
        return str(accelerators.find(text).name)
    except UnknownNameError:
        return None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _write_residuals(state: RunState, diagnosis: Diagnosis) -> None:
    """residuals.parquet: a row for each step, a column for each term."""
    content = BytesIO()
    diagnosis.residuals.steps.write_parquet(content)
    state.folder.write(state.folder.residuals.name, content.getvalue())


def _write_plan(state: RunState) -> None:
    """What was predicted, and which files hold it."""
    objective, diagnosis = state.workload.objective, state.predicted.diagnosis
    state.plan["objective"] = {"metric": objective.metric, "better": objective.better}
    state.plan |= (
        {"prediction": None, "waterfall": [], "causes": [], "nodes": []}
        if diagnosis is None
        else _diagnosed(diagnosis)
    )
    state.folder.write_json(state.folder.plan.name, state.plan)
    state.journal.append(
        "plan",
        prediction=state.plan["prediction"],
        files=[path.name for path in (state.folder.plan, state.folder.residuals) if path.is_file()],
    )


def _diagnosed(diagnosis: Diagnosis) -> dict[str, Any]:
    """What plan.json says of the step that the waterfall shows."""
    return {
        "prediction": _prediction(diagnosis),
        "waterfall": [asdict(term) for term in diagnosis.residuals.waterfall.terms],
        "causes": [{**data_of(cause, "name ns_per_token lo hi")} for cause in diagnosis.causes],
        # Operations, predicted beside observed.
        "nodes": [asdict(node) for node in diagnosis.nodes()],
    }


def _prediction(diagnosis: Diagnosis) -> dict[str, Any] | None:
    """Floor and expectation of the step, in nanoseconds."""
    if not diagnosis.situation.can_predict:
        return None
    step, floor = diagnosis.graph.totals.get("step"), diagnosis.graph.totals.get("floor")
    if step is None or floor is None:
        return None
    return {
        "floor_ns": floor.value,
        "expected_ns": step.value,
        "lo_ns": step.lo,
        "hi_ns": step.hi,
        "observed_ns": diagnosis.residuals.waterfall.observed_ns,
        "step": diagnosis.residuals.waterfall.step,
        "hardware": diagnosis.graph.hardware,
        "batch": dict(diagnosis.graph.batch),
    }
