"""The equations of a step, evaluated: inputs from specifications, one tape, named outputs.

Without NumPy: a prediction of one step is a few thousand operations, and importing it costs more.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, Final

from assay.errors import InputError, MissingInputsError, unknown_name
from assay.model.language.distributions import Z90
from assay.planner import formats
from assay.planner.own_kernels import own_constants
from assay.planner.plan import Plan
from assay.planner.sources import engine_collectives, engine_experts
from assay.planner.specs import BatchConfig, HardwareSpec, ModelSpec

if TYPE_CHECKING:
    from assay.model.tapes.compile import Compiled

STEP: Final = "serving.step."
PARTS: Final = ("time", "floor", "size", "flops")
ITEMS: Final = (
    "qkv", "latent_query", "latent_values", "out", "decode_full", "decode_window", "prompt_full",
    "prompt_window", "ffn_up", "ffn_down", "experts_up", "experts_down", "logits",
)  # fmt: skip
"""Operations whose work the stack declares, by layer."""
PASSES: Final = ("passes", "routing", "state")
"""Those without products, which have no floor."""
SUMS: Final = ("attention_sum", "feed_forward_sum", "context_sum", "send")
"""All-reduces, and hops between pipeline stages, of which it declares the time."""

TOTALS: Final = (
    "wall_time", "time", "floor_time", "host_time", "outer_time", "host_waiting_time",
    "launch_time", "tokens_per_second", "time_to_first_token", "outer_passes.size", "size",
)  # fmt: skip
OUTPUTS: Final = (
    *(f"{STEP}operation.{item}.{part}" for item in ITEMS for part in PARTS),
    *(f"{STEP}operation.{item}.{part}" for item in PASSES for part in ("time", "size")),
    *(f"{STEP}operation.{item}.time" for item in SUMS),
    *(STEP + name for name in TOTALS),
    "kernels.device.memory_bandwidth", "kernels.device.peak_flops",
    "architecture.linear.matrices", "architecture.attention.matrices",
)  # fmt: skip
POWERED: Final = (f"{STEP}energy_per_token", "gpu.power", "gpu.throttle", "gpu.clock")
PRICED: Final = ("econ.step.cost_per_token",)

POWER_VARIANTS: Final = {
    "gpu.work.tensor_use": "serving.step.tensor_use",
    "gpu.work.memory_use": "serving.step.memory_use",
    "gpu.work.clock_share": "serving.step.clock_share",
    "gpu.duty": "serving.step.duty",
}
"""The power of a GPU follows the step, not a training job."""

PROMPT_BUDGET: Final = "serving.prompt_budget"
_SHARED_KEYS: Final = 1000.0
_TAPES: Final = 64
"""Tapes kept in memory, about 0.3 MB each: a long-lived server meets ever new sets of inputs."""
ENGINES: Final = ("vllm", "sglang", "trtllm", "assay")


@dataclass(frozen=True, slots=True)
class Constants:
    """Constants of an engine, with the spread of their logarithms and the sources of both."""

    given: Mapping[str, float]
    log_spreads: Mapping[str, float]
    correlations: Mapping[tuple[str, str], float]
    borrowed: tuple[str, ...] = ()
    """Constants of vLLM, where no published case decides the engine's own."""


@cache
def engine_constants(engine: str) -> Constants:
    """Constants of an engine that runs steps, and of its server for the first token."""
    from assay.catalog import engines

    if engine not in ENGINES:
        raise unknown_name("engine", engine, ENGINES)
    # The engine of Assay is called in its own process.
    offline = engines.find(engine, "offline")
    server = offline if engine == "assay" else engines.find(engine, "inferencex")
    served = ("serving.request_time", "serving.model_error.first_token")
    lent = {} if engine == "assay" else engines.find("vllm", "offline").values
    given = {**lent, **offline.values, **{name: server.values[name] for name in served}}
    spreads = offline.log_standard_errors | {
        name: server.log_standard_errors.get(name, 0.0) for name in served
    }
    borrowed = tuple(sorted(lent.keys() - offline.values.keys()))
    return Constants(given, spreads, offline.correlations, borrowed)


def inputs(
    model: ModelSpec, hardware: HardwareSpec, batch: BatchConfig, plan: Plan
) -> tuple[dict[str, float], list[str]]:
    """Given values of the graph of equations for a step, and what was assumed."""
    check(batch, hardware)
    notes: list[str] = []
    engine = engine_constants(batch.engine)
    projections, experts = _formats(model, hardware, batch, plan, notes)
    own: dict[str, float] = {}
    if batch.engine == "assay":
        own, more = own_constants(model, hardware, batch, plan)
        notes += more
    else:
        own = _collectives(batch, hardware)
        if hardware.accelerator:
            own = own | engine_experts(hardware.accelerator, batch.engine)
        notes += engine_notes(batch, hardware)
    prompt = batch.prompt or batch.prefill_tokens
    values = {
        **engine.given,
        **hardware.given,
        f"{STEP}unpacking_time": 0.0,
        **own,
        **{f"architecture.{name}": value for name, value in model.architecture.items()},
        "serving.tensor": float(batch.tensor),
        "serving.pipeline": float(batch.pipeline),
        "serving.expert": float(batch.expert),
        "serving.attention_replicas": 1.0,
        "serving.compute_bits": float(projections.compute_bits),
        "serving.weight_bytes": projections.weight_bytes,
        "serving.expert_bits": float(experts.compute_bits),
        "serving.expert_bytes": experts.weight_bytes,
        "serving.kv_bytes": formats.kv_bytes(batch.kv_dtype),
        "serving.group_limit": _SHARED_KEYS,
        f"{STEP}sequences": batch.sequences / batch.pipeline,
        f"{STEP}context": mean_context(batch) + 1.0,
        f"{STEP}prefill_tokens": float(batch.prefill_tokens),
        f"{STEP}prompt": float(max(prompt, 1)),
        f"{STEP}draft_tokens": float(batch.speculative_tokens),
        f"{STEP}acceptance": batch.acceptance or 0.0,
        f"{STEP}context_ranks": float(batch.context_parallel),
        f"{STEP}eager": float(not batch.cuda_graphs),
        f"{STEP}launches": float(plan.launches),
        f"{STEP}outer_kernels": float(plan.outer_kernels),
        f"{STEP}head_bytes": _head_bytes(model, batch, projections, plan),
    }
    if isinstance(batch.context, tuple) and len(set(batch.context)) > 1:
        notes.append(
            f"contexts of {min(batch.context):,} to {max(batch.context):,} tokens count by their "
            f"mean of {mean_context(batch):,.0f}"
        )
    if batch.speculative_tokens:
        notes.append("the time of the model that drafts tokens is not part of the step")
    return values, notes


def _collectives(batch: BatchConfig, hardware: HardwareSpec) -> dict[str, float]:
    """The all-reduce of another engine than vLLM, whose the hardware has."""
    if batch.engine == "vllm" or not hardware.accelerator:
        return {}
    return engine_collectives(hardware.accelerator, batch.engine)


def engine_notes(batch: BatchConfig, hardware: HardwareSpec) -> list[str]:
    """What a prediction of SGLang or TensorRT-LLM takes from vLLM."""
    if batch.engine in ("vllm", "assay"):
        return []
    names = [] if batch.cuda_graphs else list(engine_constants(batch.engine).borrowed)
    if batch.tensor > 1 and not _collectives(batch, hardware):
        names.append("all-reduce")
    borrowed = f"; borrowed from vLLM: {', '.join(names)}" if names else ""
    return [
        f"{batch.engine}: operations as vLLM fuses them, constants fitted to published figures of "
        f"{batch.engine}{borrowed}"
    ]


def mean_context(batch: BatchConfig) -> float:
    """Tokens in the cache of a sequence, mean over sequences."""
    if isinstance(batch.context, tuple):
        return math.fsum(batch.context) / max(len(batch.context), 1)
    return float(batch.context)


def check(batch: BatchConfig, hardware: HardwareSpec) -> None:
    """Refuse a batch that its engine could not run on this hardware."""
    if batch.engine not in ENGINES:
        raise unknown_name("engine", batch.engine, ENGINES)
    if batch.engine != "assay" and not hardware.is_gpu:
        name = {"vllm": "vLLM", "sglang": "SGLang", "trtllm": "TensorRT-LLM"}[batch.engine]
        raise InputError(
            f"{hardware.name}: expected a GPU for {name}, got a CPU", "--engine assay runs on CPUs"
        )
    for name in ("tensor", "pipeline", "expert", "context_parallel"):
        if getattr(batch, name) < 1:
            raise InputError(f"{name}: expected 1 or more, got {getattr(batch, name)}")
    for name in ("sequences", "prefill_tokens", "speculative_tokens", "prompt"):
        if getattr(batch, name) < 0:
            raise InputError(f"{name}: expected 0 or more, got {getattr(batch, name)}")
    if not batch.sequences and not batch.prefill_tokens:
        raise InputError("batch: expected sequences or prefill tokens, got an empty step")
    ranks = batch.tensor * batch.pipeline * batch.context_parallel
    if batch.engine == "assay" and ranks > 1:
        raise InputError(f"the engine of Assay runs on one device, got {ranks}", "--engine vllm")
    if batch.context_parallel > 1 and batch.prefill_tokens:
        raise InputError(
            f"context_parallel: expected 1 with prefill tokens, got {batch.context_parallel}",
            "only decode steps that split a context over GPUs are predicted",
        )
    contexts = batch.context if isinstance(batch.context, tuple) else (batch.context,)
    if min(contexts, default=0) < 0 or not contexts:
        raise InputError(f"context: expected 0 or more tokens, got {batch.context}")
    if isinstance(batch.context, tuple) and len(batch.context) != batch.sequences:
        raise InputError(
            f"context: expected one length for each of {batch.sequences} sequences, "
            f"got {len(batch.context)}"
        )
    if batch.expert > batch.tensor:
        raise InputError(
            f"expert: expected at most the {batch.tensor} tensor-parallel ranks, got {batch.expert}"
        )
    if batch.acceptance is not None and not 0 <= batch.acceptance <= 1:
        raise InputError(f"acceptance: expected 0 to 1, got {batch.acceptance}")


def _formats(
    model: ModelSpec, hardware: HardwareSpec, batch: BatchConfig, plan: Plan, notes: list[str]
) -> tuple[formats.Execution, formats.Execution]:
    """How projections and experts are stored and multiplied."""
    if batch.engine == "assay":
        weight_execution = formats.own_execution(
            batch.weight_dtype, plan.load.tokens, plan.load.on_gpu
        )
        notes += [weight_execution.note] if weight_execution.note else []
        return weight_execution, weight_execution
    weight_execution = formats.weight_execution(batch.weight_dtype, hardware.given)
    if weight_execution.note:
        notes.append(f"{hardware.name}: {weight_execution.note}")
    if model.architecture["experts"] and weight_execution.weight_bytes < 1:
        notes.append(
            f"{weight_execution.format} experts; attention and shared parts stay in 16 bits"
        )
        return formats.Execution("bf16", 2.0, 16), weight_execution
    return weight_execution, weight_execution


def _head_bytes(
    model: ModelSpec, batch: BatchConfig, projections: formats.Execution, plan: Plan
) -> float:
    """Bytes of a weight of the output projection: 16 bits, but for the engine of Assay."""
    if batch.engine != "assay":
        return 2.0
    if plan.load.on_gpu:
        # A tied embedding is gathered by row, which GPU kernels do from 16 bits only.
        return 2.0 if model.architecture["embedding_tables"] < 2 else projections.weight_bytes
    # Weights in another format than the file's are converted, the output projection's too.
    kept = model.head_dtype if batch.weight_dtype == model.weight_dtype else ""
    return formats.stored_bytes(kept or batch.weight_dtype)


def compiled(names: Sequence[str], outputs: Sequence[str], variants: Mapping[str, str]) -> Compiled:
    """The tape of some outputs, from the cache of tapes where it is there."""
    return _compiled(tuple(names), tuple(outputs), tuple(sorted(variants.items())))


@lru_cache(_TAPES)
def _compiled(
    names: tuple[str, ...], outputs: tuple[str, ...], variants: tuple[tuple[str, str], ...]
) -> Compiled:
    from assay.stack import registry

    return registry().compile(inputs=names, outputs=outputs, variants=dict(variants))


def evaluate(
    points: Sequence[Mapping[str, float]],
    outputs: Sequence[str],
    variants: Mapping[str, str] | None = None,
) -> list[dict[str, float]]:
    """Outputs at points that give the same inputs; missing inputs raise `MissingInputsError`."""
    names = sorted(points[0])
    function = compiled(names, outputs, variants or {})
    columns = [_column([point[name] for point in points]) for name in names]
    out = matrix(len(outputs), len(points))
    function.tape.evaluate(columns, len(points), out)
    return [
        {name: out[row, index] for row, name in enumerate(outputs)} for index in range(len(points))
    ]


def log_derivatives(
    point: Mapping[str, float], outputs: Sequence[str], wrt: Sequence[str]
) -> dict[str, list[float]]:
    """By output the derivative of its logarithm by the logarithm of each input."""
    names = sorted(point)
    function = compiled(names, outputs, {})
    columns = [point[name] for name in names]
    values, slopes = matrix(len(outputs), 1), matrix(len(outputs), len(wrt))
    function.tape.jacobian(columns, 1, [names.index(name) for name in wrt], slopes, values)
    derivatives = {}
    for row, output in enumerate(outputs):
        value = values[row, 0]
        derivatives[output] = [
            slopes[row, column] * point[name] / value if value else 0.0
            for column, name in enumerate(wrt)
        ]
    return derivatives


def _column(values: list[float]) -> Any:
    if len(values) == 1 or len(set(values)) == 1:
        return values[0]
    from array import array

    return array("d", values)


def matrix(rows: int, columns: int) -> Any:
    """A matrix of 64-bit floats."""
    return memoryview(bytearray(8 * rows * columns)).cast("d", shape=[rows, columns])


@dataclass(frozen=True, slots=True)
class Spread:
    """The 90 % interval of a figure as factors of its value."""

    sigma: float

    def ends(self, value: float, least: float = 0.0) -> tuple[float, float]:
        """The ends around a value; the lower is not below `least`."""
        factor = math.exp(Z90 * self.sigma)
        return min(max(value / factor, least), value), value * factor


def spreads(
    point: Mapping[str, float], hardware: HardwareSpec, engine: str, outputs: Sequence[str]
) -> dict[str, Spread]:
    """Spread of outputs by that of their inputs: derivatives at the point, with correlations."""
    own = engine_constants(engine)
    sigma = {
        name: value
        for name, value in {**hardware.log_spreads, **own.log_spreads}.items()
        if value and point.get(name)
    }
    names = list(sigma)
    index = {name: position for position, name in enumerate(names)}
    pairs = [
        (index[first], index[second], value)
        for (first, second), value in {**hardware.correlations, **own.correlations}.items()
        if first in index and second in index
    ]
    by_output = {}
    for output, slopes in log_derivatives(point, outputs, names).items():
        scaled = [slope * sigma[name] for slope, name in zip(slopes, names, strict=True)]
        variance = math.fsum(part * part for part in scaled)
        variance += 2 * math.fsum(scaled[a] * scaled[b] * value for a, b, value in pairs)
        by_output[output] = Spread(math.sqrt(max(variance, 0.0)))
    return by_output


def missing_names(error: MissingInputsError) -> str:
    """The inputs that an output lacks, as text."""
    first, *others = error.names
    return f"no value for {first}" + (f" and {len(others)} more inputs" if others else "")
