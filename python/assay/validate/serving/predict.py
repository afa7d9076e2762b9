"""Serving cases predicted through the graph: latencies, throughput, and their terms."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache

from assay.catalog import accelerators, constants, engines, stand_ins
from assay.errors import AssayError
from assay.model.inputs import Inputs
from assay.planner.sources import OWN_KERNELS
from assay.scenario.includes import ENGINE_VARIANTS, include_engine
from assay.stack import registry
from assay.validate import groups, intervals as sampled, rivals
from assay.validate.assumed import count_assumed
from assay.validate.cases import Case
from assay.validate.folds import Fold, fold_of, folds_by_case
from assay.validate.load_error import spreads_without_model
from assay.validate.model_error import (
    spreads_of,
    spreads_without_source,
    with_constants,
    with_spreads,
)
from assay.validate.other_makers import TRANSFER, spread_without_source
from assay.validate.points import GroupedPoints, Variants
from assay.validate.score import Row
from assay.validate.serving.arrivals import Loads, in_flight
from assay.validate.serving.deployments import Deployment, ObservedFigure, deployment_of
from assay.validate.sources import source_of

FIGURES = (
    "time_to_first_token", "prompt_time", "step_time", "end_to_end_time", "throughput",
    "throughput_per_gpu",
)  # fmt: skip
"""Outputs that figures are compared with, within the scope `serving`."""

LOAD_FIGURES = (
    "median_interval", "tail_interval", "board_power", "board_energy", "weight_memory",
    "activation_memory", "cache_memory",
)  # fmt: skip
"""Further outputs, of a loaded server: most cases do without them, and power takes a solver."""

PROMPT_FIGURES = ("time_to_first_token", "prompt_time")
"""Figures that prefill GPUs determine in disaggregated deployments."""

_PARTS = ("projection", "attention", "feed_forward", "pass", "reduction")
_TERMS = (
    *(f"decode.{part}_time" for part in _PARTS), "decode.logits.time", "decode.time",
    "mixed.time", "prompt_share", "host_time", "own_prompt_time", "steady_prompt_time",
    "burst_time", "waiting_time", "request_time", "weight_memory", "batch", "decoding",
    "context", "kv.bytes_per_token", "instance_gpus",
)  # fmt: skip


@dataclass(frozen=True)
class _Family:
    """Figures that are evaluated together, which come first among the outputs."""

    figures: tuple[str, ...]
    variants: Variants = ()

    @property
    def outputs(self) -> tuple[str, ...]:
        """All outputs behind the figures and their terms."""
        names = dict.fromkeys((*self.figures, *_TERMS))
        return (
            *(f"serving.{name}" for name in names),
            "gpu.memory.bandwidth", "gpu.peak_flops", "architecture.active_parameters",
        )  # fmt: skip


_LATENCIES = _Family(FIGURES)
_LOADED = _Family((*FIGURES, *LOAD_FIGURES), tuple(sorted(ENGINE_VARIANTS.items())))

_RATE, _DECODE = "serving.request_rate", "serving.decode.time"

# Kernel constants are fitted at the clock that the tables were measured at.
_CLOCK = {"kernels.device.clock_ratio": 1.0}


def values_of(
    deployment: Deployment, prompts: bool = False, fold: Fold | None = None
) -> dict[str, float]:
    """All inputs of the graph for a deployment, or for its prefill GPUs.

    With a fold, constants of the engine are those of the fit without the fold's cases.
    """
    own = deployment.prompt_values if prompts else None
    return {
        **hardware(deployment.system, deployment.engine),
        **_engine_values(deployment.engine, deployment.client, tuple(deployment.release)),
        **(_cooling(deployment.system) if _family(deployment) is _LOADED else {}),
        **(_fitted(deployment, fold) if fold is not None else {}),
        **(own or deployment.values),
        **(_sampler(deployment, fold) if fold is not None else {}),
        "serving.model_error.unstated_inputs": float(count_assumed(deployment.notes)),
    }


@cache
def _cooling(system: str) -> dict[str, float]:
    """The coolant of the boards, which no publication states: that of the benchmarks."""
    known = hardware(system).get("gpu.reference.coolant_temperature")
    return {} if known is None else {"gpu.coolant_temperature": known}


@cache
def _engine_values(engine: str, client: str, release: tuple[int, ...]) -> dict[str, float]:
    return engines.given(engine, client, release)


def _fitted(deployment: Deployment, fold: Fold) -> dict[str, float]:
    """Constants of the engine and the client of a deployment, of a fit without a source."""
    own = fold.constants.get(deployment.engine, {})
    return {**own.get("", {}), **own.get(deployment.client, {})}


def _sampler(deployment: Deployment, fold: Fold) -> dict[str, float]:
    """Constants of the sampler without the source that decided them, where it is the one used."""
    own = fold.constants.get("samplers", {}).get(deployment.engine, {})
    return {name: float(value) for name, value in own.items() if name in deployment.values}


def _fold(case: Case) -> Fold | None:
    """The fold without the source of a case, of the constants of engines or of their samplers."""
    return fold_of(case, "serving") or fold_of(case, "samplers")


@cache
def hardware(system: str, engine: str = "vllm") -> dict[str, float]:
    """Data sheet and fitted constants of an accelerator, with the engine's all-reduce."""
    entry = stand_ins.modeled(accelerators.find(system))
    calibration = calibration_of(system)
    fitted = constants.given(calibration)
    if engine in constants.engines(calibration):
        own = constants.given(calibration, engine)
        fitted |= {name: own[name] for name in OWN_KERNELS if name in own}
    known = registry().units
    both = {**entry.given, **accelerators.low_precision_rates(entry), **fitted, **_CLOCK}
    return {name: value for name, value in both.items() if name in known}


def points_of(
    deployments: Sequence[Deployment],
    prompts: int = 0,
    *,
    held_out: bool = False,
    variants: Variants = (),
) -> GroupedPoints:
    """Deployments as points of the graph; of the last `prompts` the prefill GPUs.

    With `held_out`, cases of sources that a fit has seen have the constants of one without those.
    """
    first = len(deployments) - prompts
    return GroupedPoints(
        [
            values_of(deployment, index >= first, _fold(deployment.case) if held_out else None)
            for index, deployment in enumerate(deployments)
        ],
        variants,
    )


def predict(cases: Sequence[Case]) -> list[Row]:
    """One row per observed figure of every case."""
    rows: list[Row] = []
    deployments: list[Deployment] = []
    for case in cases:
        try:
            deployments.append(deployment_of(case))
        except AssayError as error:
            rows += _gaps(case, error.message, case.observed)
            continue
        named = {figure.quantity for figure in deployments[-1].figures}
        rows += _gaps(
            case, "no such figure in the serving scope",
            {name: value for name, value in case.observed.items() if name not in named},
        )  # fmt: skip
    settled: list[Deployment] = []
    for deployment in deployments:
        steady, reason = in_flight(deployment, loads_of)
        answered = {figure.quantity for figure in steady.figures}
        rows += [
            Row(
                steady.case.id, steady.case.suite, figure.quantity, figure.unit, figure.observed,
                None, gap=reason, group=figure.group,
            )
            for figure in deployment.figures
            if figure.quantity not in answered
        ]  # fmt: skip
        settled.append(steady)
    for family in (_LATENCIES, _LOADED):
        own = [served for served in settled if _family(served) is family]
        if own:
            rows += _predicted(own, family)
    return rows


def _family(deployment: Deployment) -> _Family:
    named = {figure.variable for figure in deployment.figures}
    return _LATENCIES if named.isdisjoint(LOAD_FIGURES) else _LOADED


def _predicted(deployments: Sequence[Deployment], family: _Family) -> list[Row]:
    rows: list[Row] = []
    shipped, held_out = (
        _Outputs(deployments, family, held_out=held_out) for held_out in (False, True)
    )
    intervals = _intervals(deployments, family, inputs_at)
    left_out = _intervals(deployments, family, inputs_left_out)
    for index, deployment in enumerate(deployments):
        for figure in deployment.figures:
            if missing := shipped.missing(index, figure):
                reason = f"missing inputs: {', '.join(missing)}"
                rows += _gaps(deployment.case, reason, {figure.quantity: figure.observed})
                continue
            key = deployment.case.id, _is_prompt(figure)
            row = _row(
                deployment, figure, shipped.of(index, figure), intervals[key][figure.variable]
            )
            if row.predicted is not None:
                ends = left_out[key][figure.variable]
                row = replace(
                    row, held_out_lo=ends[0] * figure.scale, held_out_hi=ends[1] * figure.scale
                )
            if (fold := _fold(deployment.case)) is not None:
                value = held_out.of(index, figure)[figure.variable] * figure.scale
                fitted = (
                    deployment.case.id in folds_by_case("serving") or "samplers" in fold.constants
                )
                row = replace(row, in_sample=fitted, held_out=value)
            rows.append(row)
    return rows


class _Outputs:
    """Outputs of deployments, of those GPUs that a figure is about."""

    def __init__(
        self, deployments: Sequence[Deployment], family: _Family, *, held_out: bool
    ) -> None:
        self.outputs = family.outputs
        self.decoding, self.prompts = (
            points_of(deployments, prompts, held_out=held_out, variants=family.variants)
            for prompts in (0, len(deployments))
        )
        self.columns = {
            points: {
                name.removeprefix("serving."): column
                for name, column in points.evaluate(self.outputs).items()
            }
            for points in (self.decoding, self.prompts)
        }

    def _points(self, figure: ObservedFigure) -> GroupedPoints:
        return self.prompts if _is_prompt(figure) else self.decoding

    def of(self, index: int, figure: ObservedFigure) -> dict[str, float]:
        columns = self.columns[self._points(figure)]
        return {name: float(column[index]) for name, column in columns.items()}

    def missing(self, index: int, figure: ObservedFigure) -> tuple[str, ...]:
        """Inputs without which the figure has no value."""
        absent = self._points(figure).missing(index, self.outputs)
        return absent.get(f"serving.{figure.variable}", ())


def _is_prompt(figure: ObservedFigure) -> bool:
    return figure.variable in PROMPT_FIGURES


def _gaps(case: Case, reason: str, observed: dict[str, object]) -> list[Row]:
    return [
        Row(case.id, case.suite, name, "", float(value), None, gap=reason)
        for name, value in observed.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    ]


def loads_of(deployment: Deployment, concurrencies: Sequence[float]) -> Loads:
    """What a server does with so many requests in flight, by constants without its source."""
    loads = [
        replace(deployment, values=deployment.values | {"serving.concurrency": concurrency})
        for concurrency in concurrencies
    ]
    columns = points_of(loads, held_out=True).evaluate((_RATE, _DECODE))
    lo, hi = sampled.intervals([inputs_left_out(loads[-1])], (_RATE,))[0, 0]
    return Loads(columns[_RATE], columns[_DECODE], float(lo), float(hi))


def inputs_at(deployment: Deployment, prompts: bool = False) -> Inputs:
    """All inputs of a deployment as `resolve` takes them, with distributions."""
    return sampled.with_distributions(
        values_of(deployment, prompts),
        sampled.accelerator_inputs(deployment.system),
        _engine_inputs(deployment.engine, deployment.client),
    )


@cache
def _engine_inputs(engine: str, client: str) -> Inputs:
    return sampled.inputs_of(include_engine(engine, registry(), client))


def inputs_left_out(deployment: Deployment, prompts: bool = False) -> Inputs:
    """The same with constants and model errors that use nothing of the source of the case."""
    inputs = inputs_at(deployment, prompts)
    fold = _fold(deployment.case)
    if fold is not None:
        inputs = with_constants(inputs, {**_fitted(deployment, fold), **_sampler(deployment, fold)})
    return with_spreads(inputs, spreads_left_out(deployment))


def spreads_left_out(deployment: Deployment) -> dict[str, float]:
    """Spreads of the model error without the source of a deployment.

    Figures of loaded servers have spreads of their own, without the deployment's model.
    """
    spreads = spreads_without_source(
        deployment.case, "serving", calibration_of(deployment.system), deployment.client
    )
    if spreads is None:
        # No fit has seen the source: what ships is without it.
        spreads = spreads_of(inputs_at(deployment))
    if constants.is_other_maker(calibration_of(deployment.system)):
        spreads = spreads | {TRANSFER: spread_without_source(source_of(deployment.case))}
    if _family(deployment) is _LATENCIES:
        return spreads
    return spreads | spreads_without_model(deployment.model)


def calibration_of(system: str) -> str:
    """The system whose fitted constants an accelerator's entry names."""
    return str(accelerators.find(system).facts.get("calibration") or system)


def _intervals(
    deployments: Sequence[Deployment], family: _Family, inputs: Callable[[Deployment, bool], Inputs]
) -> dict[tuple[str, bool], dict[str, tuple[float, float]]]:
    """The 90 % intervals of all figures, by case and whether prefill GPUs are meant."""
    needed = [
        (deployment, prompts)
        for deployment in deployments
        for prompts in sorted({_is_prompt(figure) for figure in deployment.figures})
    ]
    # The figures come first in all outputs, whose tapes are compiled already.
    ends = sampled.intervals(
        [inputs(*pair) for pair in needed], family.outputs, first=len(family.figures),
        variants=family.variants,
    )  # fmt: skip
    return {
        (deployment.case.id, prompts): {
            name: (float(ends[row, position, 0]), float(ends[row, position, 1]))
            for row, name in enumerate(family.figures)
        }
        for position, (deployment, prompts) in enumerate(needed)
    }


def _row(
    deployment: Deployment,
    figure: ObservedFigure,
    outputs: dict[str, float],
    ends: tuple[float, float],
) -> Row:
    case, scale = deployment.case, figure.scale
    predicted = outputs[figure.variable] * scale
    if not math.isfinite(predicted):
        return Row(
            case.id, case.suite, figure.quantity, figure.unit, figure.observed, None,
            gap="the graph gives no finite figure",
        )  # fmt: skip
    return Row(
        case.id, case.suite, figure.quantity, figure.unit, figure.observed, predicted,
        ends[0] * scale, ends[1] * scale, _terms(figure, outputs),
        {name: value * scale for name, value in _baselines(figure, outputs, deployment).items()},
        notes=tuple(dict.fromkeys((*deployment.notes, *_hardware_notes(deployment.system)))),
        group=figure.group or groups.SERVING.get(figure.variable, ""),
    )  # fmt: skip


@cache
def _hardware_notes(system: str) -> tuple[str, ...]:
    entry = accelerators.find(system)
    borrowed = constants.find(calibration_of(system), accelerator=entry.name).notes
    return (*stand_ins.notes(entry), *borrowed)


def _terms(figure: ObservedFigure, outputs: dict[str, float]) -> dict[str, float]:
    """Parts of a time in its own unit; for a rate, parts of the time of a step in ms."""
    if figure.variable in PROMPT_FIGURES:
        step = figure.scale
        return {
            "prompt": outputs["prompt_time"] * step,
            "own prompt": outputs["own_prompt_time"] * step,
            "waiting for memory": outputs["waiting_time"] * step,
            "request": outputs["request_time"] * step,
        }
    if figure.variable.endswith("_memory"):
        return {}
    terms = {f"decode {part}": outputs[f"decode.{part}_time"] * 1e3 for part in _PARTS}
    terms["decode logits"] = outputs["decode.logits.time"] * 1e3
    terms["prompts"] = (outputs["step_time"] - outputs["decode.time"]) * 1e3
    return terms


def _baselines(
    figure: ObservedFigure, outputs: dict[str, float], deployment: Deployment
) -> dict[str, float]:
    """What others predict: a roofline at data-sheet rates, a constant MFU, and the tools that were run."""
    rival = rivals.predictions().get(deployment.case.id, {}).get(figure.variable)
    return {**_rules(figure, outputs, deployment), **({rivals.NAME: rival} if rival else {})}


def _rules(
    figure: ObservedFigure, outputs: dict[str, float], deployment: Deployment
) -> dict[str, float]:
    """The roofline and a constant MFU; of power and energy a board at its limit, none of memory."""
    if figure.variable.endswith("_memory") or figure.variable == "tail_interval":
        return {}
    values, gpus = deployment.values, outputs["instance_gpus"]
    multiple = (
        hardware(deployment.system, deployment.engine)["gpu.rate_8bit"]
        if values["serving.compute_bits"] <= 8
        else 1
    )
    peak = outputs["gpu.peak_flops"] * multiple * gpus
    stream = outputs["gpu.memory.bandwidth"] * gpus
    flops, weights = 2 * outputs["architecture.active_parameters"], outputs["weight_memory"] * gpus
    batch, prompt = outputs["batch"], values["serving.prompt"]
    kv_bytes = batch * outputs["context"] * outputs["kv.bytes_per_token"]
    tokens = batch * (1 + (0 if values["serving.static"] else prompt / values["serving.output"]))

    def steps(share: float, loss: float) -> tuple[float, float]:
        step = max((weights + kv_bytes) / stream, flops * tokens / peak) / loss
        return step, max(weights / stream, flops * prompt / (share * peak)) / loss

    limit = hardware(deployment.system, deployment.engine).get("gpu.power.limit", math.nan)
    drawn = gpus * limit
    baselines = {}
    for name, share, loss in (("roofline", 1.0, 1.0), ("constant_mfu", 0.4, 0.6)):
        step, first = steps(share, loss)
        if figure.variable == "board_power":
            baselines["roofline"] = drawn
        elif figure.variable == "board_energy":
            baselines[name] = drawn * step / batch
        elif figure.variable in PROMPT_FIGURES:
            baselines[name] = first
        elif figure.variable in ("step_time", "median_interval"):
            baselines[name] = step
        elif figure.variable == "end_to_end_time":
            baselines[name] = first + values["serving.output"] * step
        else:
            baselines[name] = (
                batch / step / (gpus if figure.variable == "throughput_per_gpu" else 1)
            )
    return baselines
