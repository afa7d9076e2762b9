"""Whether a server of a model could run a step at all: the graph's own constraints, judged first.

`resolve` reports the same constraints beside a value. A step that no server can run has no time, so
that predictions refuse it, with what would fit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from assay.errors import AssayError, InfeasibleError, InputError
from assay.planner import evaluation as e
from assay.planner.plan import plan_step
from assay.planner.specs import BatchConfig, HardwareSpec, ModelSpec
from assay.scenario.refusals import impossible
from assay.spoken_options import given, option

if TYPE_CHECKING:
    from assay.model.tapes.compile import Compiled

LAYOUT: Final = ("serving.heads_divide", "serving.layers_divide", "serving.experts_divide")
"""Constraints on how a model is divided over GPUs."""
MEMORY: Final = ("serving.fits_memory", "serving.fits_cache")
"""Constraints on memory: of the weights and one request, and of all requests that run."""
CONSTRAINTS: Final = (*LAYOUT, *MEMORY)

LEAST_RUNNING: Final = 256
"""Requests that an engine reserves memory for at least (max_num_seqs of vLLM)."""
_FIGURES: Final = (
    "serving.weight_memory", "serving.one_request_memory", "serving.cache_memory",
    "serving.requests_that_fit", "gpu.memory.capacity",
)  # fmt: skip
_GROUPS: Final = (1, 2, 4, 8, 16, 32, 64)
"""Tensor-parallel groups that a hint looks at."""


@dataclass(frozen=True, slots=True)
class Fit:
    """What the constraints say of a step, with the figures that they compare."""

    broken: tuple[str, ...]
    weights: float
    """Bytes of weights on one GPU."""
    request: float
    """Bytes of one request's KV cache on one GPU."""
    cache: float
    """Bytes that a GPU has left for the KV cache."""
    requests: float
    """Requests that the KV cache of all GPUs holds."""
    capacity: float


def refuse_impossible(model: ModelSpec, batch: BatchConfig, tokens: float) -> None:
    """Raise for a context beyond the model's, or experts of a dense model."""
    given = {
        "serving.prompt": max(tokens - 1.0, 0.0), "serving.output": min(tokens, 1.0),
        "serving.expert": float(batch.expert),
        "architecture.experts": model.architecture["experts"],
        **({"architecture.context": float(model.context)} if model.context else {}),
    }  # fmt: skip
    for error in impossible(given, {}):
        message = error.message.replace("serving.prompt + serving.output", "context")
        hint = error.hint or ""
        if "RoPE" in hint:
            hint = (
                "with RoPE scaling give a config.json that states the longer context: --model PATH"
            )
        raise InputError(message, hint)


def judge(
    model: ModelSpec, hardware: HardwareSpec, batch: BatchConfig, *, running: int = LEAST_RUNNING
) -> Fit:
    """Judge one step; `running` are the most requests that the engine may run."""
    given, _ = e.inputs(model, hardware, batch, plan_step(model, batch, on_gpu=hardware.is_gpu))
    point = {**given, **held(batch, running)}
    names = sorted(point)
    function = _compiled(tuple(names))
    out = e.matrix(len(_FIGURES) + len(CONSTRAINTS), 1)
    function.tape.evaluate([point[name] for name in names], 1, out)
    figures = [out[row, 0] for row in range(len(_FIGURES))]
    broken = [name for row, name in enumerate(CONSTRAINTS, len(_FIGURES)) if not out[row, 0]]
    return Fit(tuple(broken), *figures)


def held(batch: BatchConfig, running: int = LEAST_RUNNING) -> dict[str, float]:
    """The requests whose KV cache is held during a step, as inputs of the constraints.

    Context-parallel GPUs hold a part of each context.
    """
    prompt = batch.prompt or batch.prefill_tokens
    tokens = e.mean_context(batch) if batch.sequences else float(prompt)
    requests = batch.sequences or math.ceil(batch.prefill_tokens / max(prompt, 1))
    return {
        "serving.prompt": max(tokens / batch.context_parallel - 1.0, 1.0),
        "serving.output": 1.0,
        "serving.concurrency": float(max(requests, 1)),
        "serving.batch_limit": float(max(running, requests)),
    }


def require_fit(
    model: ModelSpec, hardware: HardwareSpec, batch: BatchConfig, *, running: int = LEAST_RUNNING
) -> Fit:
    """Judge one step, and raise for one that no server could run."""
    contexts = batch.context if isinstance(batch.context, tuple) else (batch.context,)
    longest = max(*contexts, batch.prompt, batch.prefill_tokens if not batch.prompt else 0)
    refuse_impossible(model, batch, longest)
    fit = judge(model, hardware, batch, running=running)
    if fit.broken:
        raise _refusal(model, hardware, batch, fit, running)
    return fit


def fit_notes(model: ModelSpec, hardware: HardwareSpec, batch: BatchConfig) -> list[str]:
    """What a prediction of a step that no server could run has to say of it."""
    fit = judge(model, hardware, batch)
    return [_refusal(model, hardware, batch, fit, LEAST_RUNNING).message] if fit.broken else []


def _refusal(
    model: ModelSpec, hardware: HardwareSpec, batch: BatchConfig, fit: Fit, running: int
) -> AssayError:
    for name in LAYOUT:
        if name in fit.broken:
            return InputError(*_layout_texts(name, model, batch))
    gpus = batch.tensor * batch.pipeline * batch.context_parallel
    where = f"{gpus} x {hardware.name}" if gpus > 1 else hardware.name
    tokens = f"{e.mean_context(batch):,.0f} tokens"
    hints = _fitting_groups(model, hardware, batch, running)
    if "serving.fits_memory" in fit.broken:
        text = (
            f"{model.name} does not fit {where}: {batch.weight_dtype} weights of "
            f"{fit.weights / 1e9:,.1f} GB a GPU and the KV cache of a request of {tokens}, "
            f"{fit.request / 1e9:,.2f} GB, in {fit.capacity / 1e9:,.1f} GB"
        )
    else:
        most = math.floor(fit.requests)
        text = (
            f"{batch.sequences or 'these'} requests of {tokens} do not fit {where}: beside "
            f"{fit.weights / 1e9:,.1f} GB of {model.name} the KV cache holds {most:,}"
        )
        hints = [given("--batch", most), *hints]
    return InfeasibleError(
        f"{text} ({', '.join(fit.broken)})",
        f"it fits with {' or '.join(hints)}" if hints else "take GPUs with more memory",
    )


def _layout_texts(name: str, model: ModelSpec, batch: BatchConfig) -> tuple[str, str]:
    shapes = model.architecture
    if name == "serving.heads_divide":
        heads = int(shapes["heads"])
        divisors = ", ".join(str(n) for n in range(1, min(heads, 64) + 1) if heads % n == 0)
        return (
            f"tensor: expected a divisor of the {heads} heads of {model.name}, got {batch.tensor} "
            f"({name})",
            f"{option('--tensor')} may be {divisors}",
        )
    if name == "serving.layers_divide":
        layers = int(shapes["layers"])
        return (
            f"pipeline: expected at most the {layers} layers of {model.name}, got {batch.pipeline} "
            f"({name})",
            "every stage has a layer at least",
        )
    return (
        f"expert: expected at most the {shapes['experts']:g} experts of {model.name}, got "
        f"{batch.expert} ({name})",
        "give fewer expert-parallel groups",
    )


def _fitting_groups(
    model: ModelSpec, hardware: HardwareSpec, batch: BatchConfig, running: int
) -> list[str]:
    """The fewest tensor-parallel GPUs that fit, as an option."""
    if batch.engine == "assay":
        return []
    for group in _GROUPS:
        if group <= batch.tensor:
            continue
        wider = replace(batch, tensor=group)
        if not judge(model, hardware, wider, running=running).broken:
            return [given("--tensor", group)]
    return []


def judge_rows(names: Sequence[str], columns: Sequence[Any]) -> Any:
    """Truth of every constraint at many points: a row a constraint, in the order of `CONSTRAINTS`."""
    return _compiled(tuple(names))(*columns)[len(_FIGURES) :]


@lru_cache(16)
def _compiled(names: tuple[str, ...]) -> Compiled:
    from assay.stack import registry

    graph = registry()
    conditions = {name: graph.constraints[name].part("expression") for name in CONSTRAINTS}
    return graph.compile(inputs=names, outputs=_FIGURES, conditions=conditions)


def meanings(broken: Mapping[str, int]) -> list[str]:
    """One text for each broken constraint with its count and what it says."""
    from assay.stack import registry

    constraints = registry().constraints
    return [
        f"{count:,} break {name} ({constraints[name].meaning})" for name, count in broken.items()
    ]
