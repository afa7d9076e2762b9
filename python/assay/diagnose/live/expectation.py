"""What the steps of a server should take, where its model, GPU and engine are known."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

from assay.catalog import accelerators
from assay.diagnose.live.watch import Window
from assay.diagnose.subject import ENGINES
from assay.errors import AssayError, UnknownNameError
from assay.openai_api.answers import ServedModel
from assay.planner import (
    BatchConfig,
    HardwareSpec,
    ModelSpec,
    hardware_spec,
    model_spec,
    predict_graph,
)
from assay.planner.graph import Graph

_ENGINES: Final = {"vLLM": "vllm", "assay": "assay"}
"""Engines whose steps can be predicted, by the kind of server."""


@dataclass(slots=True)
class Expectation:
    """Predictions of steps, made when they are asked for; none where something is not known."""

    model: str | None = None
    gpu: str | None = None
    engine: str | None = None
    tensor: int = 1
    notes: list[str] = field(default_factory=list)
    _specs: tuple[ModelSpec, HardwareSpec, dict[str, Any]] | None = None
    _graphs: dict[tuple[int, int, bool], Graph | None] = field(default_factory=dict)
    _said: list[str] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        model: ModelSpec,
        hardware: HardwareSpec,
        engine: str,
        *,
        tensor: int = 1,
        dtype: str | None = None,
        kv_dtype: str = "bf16",
    ) -> Self:
        """What is expected where everything is known; without a format, that of the files."""
        expectation = cls(model.name, hardware.name, engine, tensor)
        expectation._assume(model, hardware, dtype, kv_dtype)
        return expectation

    def _assume(
        self, model: ModelSpec, hardware: HardwareSpec, dtype: str | None, kv_dtype: str
    ) -> None:
        how: dict[str, Any] = {"engine": self.engine, "tensor": self.tensor, "kv_dtype": kv_dtype}
        if stored := dtype or model.weight_dtype:
            how["weight_dtype"] = stored
        self._specs = (model, hardware, how)

    def step(
        self, sequences: int, context: int, *, cuda_graphs: bool = True
    ) -> dict[str, float] | None:
        """A decode step in nanoseconds: expected, lo, hi and floor_ns."""
        graph = self._graph(sequences, context, cuda_graphs)
        if graph is None:
            return None
        step, floor = graph.totals["step"], graph.totals["floor"]
        return {
            "expected": step.value, "lo": step.lo, "hi": step.hi, "floor_ns": floor.value,
        }  # fmt: skip

    def ttft(self, prompt_tokens: int) -> dict[str, float | None]:
        """The time to first token of a prompt: predicted_ns, lo and hi."""
        graph = self._graph(1, prompt_tokens)
        figure = None if graph is None else graph.totals.get("ttft")
        return {
            "predicted_ns": None if figure is None else figure.value,
            "lo": None if figure is None else figure.lo,
            "hi": None if figure is None else figure.hi,
        }

    def predictions(self) -> list[dict[str, Any]]:
        """Every prediction that was asked for, with what it assumes."""
        return [
            {
                "sequences": sequences,
                "context": context,
                "cuda_graphs": cuda_graphs,
                **graph.totals_json(),
                "missing": dict(graph.missing),
                "degradations": list(graph.degradations),
            }
            for (sequences, context, cuda_graphs), graph in self._graphs.items()
            if graph is not None
        ]

    def failures(self) -> list[str]:
        """Why a prediction that was asked for could not be made."""
        return list(dict.fromkeys(self._said))

    def _graph(self, sequences: int, context: int, cuda_graphs: bool = True) -> Graph | None:
        if self._specs is None:
            return None
        key = (sequences, context, cuda_graphs)
        if key not in self._graphs:
            model, hardware, how = self._specs
            try:
                self._graphs[key] = predict_graph(
                    model,
                    hardware,
                    BatchConfig(
                        sequences=sequences, context=context, cuda_graphs=cuda_graphs, **how
                    ),
                )
            except AssayError as error:
                self._said.append(f"no prediction: {error.message}")
                self._graphs[key] = None
        return self._graphs[key]


def expect(
    served: ServedModel,
    server: str | None,
    seen: Window,
    *,
    model: ModelSpec | None,
    hardware: HardwareSpec | None,
    engine: str | None,
    dtype: str | None,
    kv_dtype: str,
    tensor: int | None,
    is_local: bool,
) -> Expectation:
    """What can be predicted of a server; what the caller does not say is asked of the server."""
    expectation = Expectation(tensor=tensor or 1)
    expectation.engine = engine or _ENGINES.get(server or "")
    spec = model or _model(served, expectation.notes, is_local=is_local)
    hardware = hardware or _hardware(seen, expectation.notes)
    expectation.model = spec.name if spec else None
    expectation.gpu = hardware.name if hardware else None
    if expectation.engine is None:
        expectation.notes.append(
            f"no prediction: the server is {server or 'not recognized'}; --engine says whose kernels to "
            f"assume: {', '.join(ENGINES)}"
        )
    if spec is None or hardware is None or expectation.engine is None:
        return expectation
    expectation._assume(spec, hardware, dtype, kv_dtype)
    return expectation


def _model(served: ServedModel, notes: list[str], *, is_local: bool) -> ModelSpec | None:
    for own in dict.fromkeys((served.root, served.name)):
        # What another machine calls a path is none of this one's files.
        if not is_local and Path(own).exists():
            continue
        try:
            spec = model_spec(own)
        except AssayError:
            continue
        notes.append(f"the model is the server's own name, {own}; --model names another")
        return spec
    notes.append(
        f"no prediction: the server calls its model {served.name}, which the catalog does not have; "
        "--model names a configuration"
    )
    return None


def _hardware(seen: Window, notes: list[str]) -> HardwareSpec | None:
    named = seen.machine.filter(seen.machine["source"].is_in(["nvidia", "amd"]))[
        "name"
    ].drop_nulls()
    for own in dict.fromkeys(named.to_list()):
        try:
            entry = accelerators.find(str(own))
        except UnknownNameError:
            continue
        notes.append(f"the GPU is this machine's, {own}; --gpu names another")
        return hardware_spec(entry.name)
    notes.append(
        "no prediction: no GPU given or seen; --gpu names one of the catalog or a calibration"
    )
    return None
