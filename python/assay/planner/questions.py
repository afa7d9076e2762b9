"""What a step or a load of a model should take on some hardware: without a GPU."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Final

from assay.answers import Answer, Progress, silent
from assay.catalog.offers import unlike
from assay.errors import InfeasibleError, InputError
from assay.keywords import takes
from assay.planner.evaluation import check, engine_notes
from assay.planner.fit import judge, meanings, refuse_impossible, require_fit
from assay.planner.graph import Graph
from assay.planner.predict import predict_graph
from assay.planner.prices import offer_of
from assay.planner.sources import hardware_spec, model_spec
from assay.planner.specs import BatchConfig, HardwareSpec, ModelSpec
from assay.planner.step_text import digits, heading
from assay.planner.summary import OperationSummary, by_operation
from assay.scenario.question import each_of

if TYPE_CHECKING:
    from assay.planner.serving_load import Completed, PredictedLoad
    from assay.planner.sweep import Sweep


_SETTINGS: Final = tuple(
    # The format of the weights is `dtype`, by default that of the model's files.
    field.name
    for field in fields(BatchConfig)
    if field.name != "weight_dtype"
)
_LOAD_SETTINGS: Final = tuple(
    # The requests that arrive decide these.
    name
    for name in _SETTINGS
    if name not in ("sequences", "context", "prefill_tokens", "prompt")
)
_SAID: Final = {
    "batch": "sequences", "batch_size": "sequences", "weight_dtype": "dtype", "tp": "tensor",
    "tensor_parallel": "tensor", "tensor_parallel_size": "tensor", "pp": "pipeline",
    "no_cuda_graphs": "cuda_graphs", "ttft_limit": "ttft_limit_ms", "tpot_limit": "tpot_limit_ms",
}  # fmt: skip
"""Words of the command line and of engines, by the keywords of these functions."""


@dataclass(frozen=True)
class StepPrediction(Answer):
    """A predicted step: its graph, and the operations of the graph, the longest first."""

    graph: Graph
    operations: Sequence[OperationSummary]

    def headline(self) -> str:
        """The time of the step with its interval and floor, and what it is of."""
        said = dict(heading(self.graph))
        return f"{said['step']}: {said['model']} on {said['on']}, {said['step of']}"

    def view(self) -> list[Any]:
        """What the terminal prints: figures, and the operations with the share of the step."""
        step = self.graph.totals["step"].value
        rows = [
            {
                "operation": row.operation, "count": row.nodes, "us": digits(row.expected_ns / 1e3),
                "90 %": f"{digits(row.lo_ns / 1e3)} to {digits(row.hi_ns / 1e3)}",
                "% step": f"{100 * row.expected_ns / step:.1f}",
                "floor us": digits(row.floor_ns / 1e3), "bound": row.bound,
            }
            for row in self.operations
        ]  # fmt: skip
        return [dict(heading(self.graph)), rows]

    def to_json(self) -> dict[str, Any]:
        """The graph with its nodes, and the operations."""
        return {**self.graph.to_data(), "operations": [asdict(row) for row in self.operations]}


@dataclass(frozen=True)
class SweepPrediction(Answer):
    """Predicted steps of many settings."""

    model: str
    batch: BatchConfig
    """What all of them share."""
    steps: Sweep
    usd_per_million: Sequence[float | None] = ()
    """Rent of the GPUs for a million tokens, by setting; None where no rent is known."""

    def to_json(self) -> dict[str, Any]:
        """Columns with a row for each setting."""
        steps = self.steps
        return {
            "model": self.model,
            "batch": asdict(self.batch),
            "seconds": steps.seconds,
            "configurations_per_second": steps.configurations_per_second,
            "settings": {
                name: list(map(_plain, column)) for name, column in steps.settings.items()
            },
            "step_ns": steps.step_ns.tolist(),
            "floor_ns": steps.floor_ns.tolist(),
            "tokens_per_second": steps.tokens_per_second.tolist(),
            "usd_per_million_tokens": list(self.usd_per_million),
        }


@dataclass(frozen=True)
class LoadPrediction(Answer):
    """Latencies and goodput by arrival rate, and the rates that a server cannot keep up with."""

    model: str
    hardware: str
    prompt: int
    output: int
    rates: Sequence[PredictedLoad]
    refused: Sequence[tuple[float, str]]
    completes: Completed | None = None
    """The most requests per second, where it cannot keep up with one of the rates."""

    @property
    def has_gaps(self) -> bool:
        """Whether there is a time between tokens: requests have two of them at least."""
        return self.output > 1

    def to_json(self) -> dict[str, Any]:
        """A row for each rate."""
        rows = [asdict(row) for row in self.rates]
        for row in rows if not self.has_gaps else []:
            for load in (row, row["lo"], row["hi"] or {}):
                load |= {"output_token": None, "token_gap": None}
        return {
            "prompt": self.prompt,
            "output": self.output,
            "rates": rows,
            "completes": None if self.completes is None else asdict(self.completes),
            "refused": [
                {"rate": rate, "verdict": "saturated", "reason": reason}
                for rate, reason in self.refused
            ],
        }


@takes(_SETTINGS, _SAID)
def predict_step(
    model: str, gpu: str, *, dtype: str | None = None, offer: str | None = None, **batch: Any
) -> StepPrediction:
    """Predict the time of one step, operation by operation.

    `batch` are settings of a `BatchConfig`; `dtype` is the format of the weights, if not the one
    of the model's files; `offer` is the one at which GPUs are rented, `PROVIDER[:TERMS]`.

    >>> answer = predict_step("llama-3.1-8b", "h200", sequences=64)
    >>> answer.graph.totals["floor"].value < answer.graph.totals["step"].value
    True
    """
    spec, hardware = model_spec(model), hardware_spec(gpu, offer)
    chosen = _batch(spec, dtype, batch)
    check(chosen, hardware)
    require_fit(spec, hardware, chosen)
    graph = predict_graph(spec, hardware, chosen)
    notes = (*_format_notes(spec, dtype), *graph.degradations)
    return StepPrediction(graph, by_operation(graph), notes=notes)


@takes(_SETTINGS, _SAID)
def sweep_steps(
    model: str,
    gpus: str | Sequence[str],
    over: Mapping[str, Sequence[Any]],
    *,
    dtype: str | None = None,
    offer: str | None = None,
    **batch: Any,
) -> SweepPrediction:
    """Predict the step of every combination of settings in `over`, on every GPU.

    Combinations that no server could run, by layout or memory, are left out and counted.
    """
    from assay.planner.sweep import sweep

    spec = model_spec(model)
    shared = _batch(spec, dtype, batch)
    machines = [hardware_spec(gpu, offer) for gpu in each_of(gpus)]
    contexts = over.get("context") or (shared.context,)
    longest = max(max(c) if isinstance(c, tuple) else c for c in contexts)
    refuse_impossible(spec, shared, longest)
    steps = sweep(spec, machines, shared, over, only_fitting=True)
    reasons = meanings(steps.left_out)
    if reasons and not len(steps):
        raise InfeasibleError(
            f"none of {sum(steps.left_out.values()):,} configurations fits: {'; '.join(reasons)}",
            "assay predict with one of them says what would fit",
        )
    left_out = [f"configurations left out: {reason}" for reason in reasons]
    rents = [offer_of(machine) for machine in machines]
    hourly = {rent.accelerator: rent.usd_per_hour for rent in rents if rent is not None}
    by_machine = {m.name: hourly.get(m.accelerator or m.name) for m in machines}
    prices = [rent.note for rent in rents if rent is not None]
    notes = [
        *left_out, *_format_notes(spec, dtype), *spec.notes,
        *(note for machine in machines for note in machine.notes),
        *([unlike(rents)] if unlike(rents) else prices),
    ]  # fmt: skip
    costs = _costs(steps, shared, by_machine)
    return SweepPrediction(spec.name, shared, steps, costs, notes=tuple(dict.fromkeys(notes)))


def _costs(
    steps: Sweep, shared: BatchConfig, rents: Mapping[str, float | None]
) -> list[float | None]:
    """USD for a million tokens in each row: the rent of its GPUs over its rate."""
    names = steps.settings.get("hardware", [*rents] * len(steps))
    ranks = [
        steps.settings.get(name, [getattr(shared, name)] * len(steps))
        for name in ("tensor", "pipeline", "context_parallel")
    ]
    costs: list[float | None] = []
    for row, rate in enumerate(steps.tokens_per_second.tolist()):
        rent = rents[str(names[row])]
        gpus = math.prod(float(column[row]) for column in ranks)
        known = rent is not None and math.isfinite(rate) and rate > 0
        costs.append(rent * gpus / 3600 / rate * 1e6 if known and rent is not None else None)
    return costs


@takes(_LOAD_SETTINGS, _SAID)
def predict_load(
    model: str,
    gpu: str,
    rates: Sequence[float],
    *,
    prompt: int = 1024,
    output: int = 128,
    prefix_hits: float = 0.0,
    max_running: int = 1024,
    ttft_limit_ms: float | None = None,
    tpot_limit_ms: float | None = None,
    dtype: str | None = None,
    finds_most: bool = True,
    progress: Progress = silent,
    **batch: Any,
) -> LoadPrediction:
    """Predict latencies and goodput of a server by arrival rate, in requests per second.

    Requests arrive as a Poisson process and have one length; a request counts as goodput within
    the limits. `batch` are settings of a `BatchConfig`, such as `engine` and `tensor`. `finds_most`
    also finds what a server completes that cannot keep up, which takes a second or more.
    """
    from assay.planner.serving_load import ServedLoad, latencies

    spec, hardware = model_spec(model), hardware_spec(gpu)
    shared = _batch(spec, dtype, batch)
    whole = replace(
        shared, sequences=1, context=prompt + output, prefill_tokens=0, prompt=0
    )  # fmt: skip
    check(whole, hardware)
    # Requests are half way through their output on average.
    half = replace(whole, context=prompt + output // 2)
    longest = require_fit(spec, hardware, whole, running=max_running)
    held = math.floor(judge(spec, hardware, half, running=max_running).requests)
    limits = []
    if held < max_running:
        limits.append(
            f"the KV cache holds {math.floor(longest.requests):,} requests of their whole "
            f"{prompt + output:,} tokens (serving.kv.max_concurrency), and {held:,} half way through "
            "their output, as those in flight are on average: so many run at once"
        )
    load = ServedLoad(
        prompt, output, prefix_hits, min(max_running, held), _seconds("--ttft-limit", ttft_limit_ms),
        _seconds("--tpot-limit", tpot_limit_ms),
    )  # fmt: skip
    rows, refused, completes = latencies(spec, hardware, shared, load, rates, finds_most, progress)
    return LoadPrediction(
        spec.name, hardware.name, prompt, output, rows, refused, completes,
        notes=(
            *_format_notes(spec, dtype), *limits, *engine_notes(shared, hardware), *spec.notes,
            *hardware.notes, *_clock_notes(hardware),
        ),
    )  # fmt: skip


def _clock_notes(hardware: HardwareSpec) -> list[str]:
    """That queues have the clock of short runs, where a board may have to lower it under a lasting load."""
    if not hardware.is_gpu or "gpu.power.limit" not in hardware.given:
        return []
    return [
        "prompts take what they take at the clock of short runs: where the power limit lowers it for "
        "long, a server completes less (assay plan counts that)"
    ]


def _batch(model: ModelSpec, dtype: str | None, settings: Mapping[str, Any]) -> BatchConfig:
    return BatchConfig(weight_dtype=dtype or model.weight_dtype or "bf16", **settings)


def _format_notes(model: ModelSpec, dtype: str | None) -> list[str]:
    """That the weights have the format of the model's files, where that is not 16 bits."""
    if dtype or not model.format_source:
        return []
    return [
        f"{model.weight_dtype} weights: the format of the model's files ({model.format_source}); "
        "--dtype takes another"
    ]


def _seconds(name: str, milliseconds: float | None) -> float:
    if milliseconds is None:
        return math.inf
    if not milliseconds > 0:
        raise InputError(f"{name}: expected milliseconds above 0, got {milliseconds:g}")
    return milliseconds / 1e3


def _plain(value: Any) -> Any:
    return float(value) if hasattr(value, "dtype") else value
