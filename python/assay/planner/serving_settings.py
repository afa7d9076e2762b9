"""The settings that a server of the own engine starts with: batch and token budget, by prediction.

A larger batch and a larger budget raise the throughput until the device is busy, and make every step
longer. So each is the smallest that comes close to the best predicted rate and, where a service
level is stated, whose decode step keeps it; chunks of prompts adapt to measured steps then
(`assay.engine.core.step_pacing`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from assay.errors import InputError
from assay.planner.evaluation import PROMPT_BUDGET, engine_constants
from assay.planner.specs import BatchConfig, HardwareSpec, ModelSpec
from assay.planner.sweep import sweep

REFERENCE_CONTEXT: Final = 1024
"""Tokens of the prompts and contexts that settings are chosen for, as nobody has sent any yet."""
NEAR_BEST: Final = 0.97
"""The share of the best predicted rate from which on a larger setting is not worth longer steps."""
LEAST_CHUNK: Final = 64
"""Tokens of prefill that a step has beside a full batch, so that prompts do not starve."""
MOST_BATCH: Final = 1024
MOST_BUDGET: Final = 8192
"""As vLLM's max_num_batched_tokens on the largest GPUs."""


@dataclass(frozen=True, slots=True)
class ServingSettings:
    """Knobs of a server, and what was predicted with them."""

    max_batch: int
    token_budget: int
    decode_s: float
    """The step of a full batch at the reference context."""
    prefill_rate: float
    """Prompt tokens per second in steps of the whole budget."""
    hardware: str

    @property
    def decode_rate(self) -> float:
        """Tokens per second of a full batch."""
        return self.max_batch / self.decode_s

    def sentence(self) -> str:
        """What was chosen and why."""
        return (
            f"max_batch {self.max_batch:,}, token_budget {self.token_budget:,}: {self.hardware} is "
            f"predicted to decode {self.decode_rate:,.0f} tokens/s at {REFERENCE_CONTEXT:,} tokens of "
            f"context in steps of {1e3 * self.decode_s:.1f} ms, and to read {self.prefill_rate:,.0f} "
            "prompt tokens/s"
        )


@dataclass(frozen=True, slots=True)
class StepLimits:
    """What a service level asks of steps, in seconds; None is not limited."""

    ttft_s: float | None = None
    tpot_s: float | None = None


def serving_settings(
    model: ModelSpec,
    hardware: HardwareSpec,
    limits: StepLimits | None = None,
    *,
    weight_dtype: str = "bf16",
    kv_dtype: str = "bf16",
) -> ServingSettings:
    """Choose batch and token budget; raises `InputError` where no setting keeps the limits.

    >>> from assay.planner import hardware_spec, model_spec
    >>> chosen = serving_settings(model_spec("llama-3.1-8b"), hardware_spec("h200"))
    >>> chosen.max_batch, chosen.token_budget
    (512, 2048)
    """
    limits = limits or StepLimits()
    steps = _Steps(model, hardware, weight_dtype, kv_dtype)
    max_batch, decode_s = _batch(steps, limits)
    budget = _budget(steps, max_batch)
    prefill_s = steps.seconds([(0, budget)])[0]
    _check_first_token(steps, budget, limits)
    return ServingSettings(max_batch, budget, decode_s, budget / prefill_s, hardware.name)


def started_with(
    model: ModelSpec, hardware: HardwareSpec, batch: BatchConfig
) -> tuple[int, int | None]:
    """The token budget and the limit of running requests of a server that nobody tuned.

    The limit is None where the engine's own is one of the KV cache.

    >>> from assay.planner import hardware_spec, model_spec
    >>> started_with(model_spec("llama-3.1-8b"), hardware_spec("h200"), BatchConfig())
    (8192, None)
    """
    if batch.engine != "assay":
        return int(engine_constants(batch.engine).given[PROMPT_BUDGET]), None
    chosen = serving_settings(
        model, hardware, weight_dtype=batch.weight_dtype, kv_dtype=batch.kv_dtype
    )
    return chosen.token_budget, chosen.max_batch


class _Steps:
    """Predicted steps of one model on one machine."""

    def __init__(self, model: ModelSpec, hardware: HardwareSpec, weights: str, kv: str) -> None:
        self.model, self.hardware = model, hardware
        self._weights, self._kv = weights, kv

    def seconds(self, loads: Sequence[tuple[int, int]]) -> list[float]:
        """The steps of so many decoding sequences and tokens of prefill each."""
        return [self._step(*load) for load in loads]

    def _step(self, sequences: int, prefill: int) -> float:
        batch = BatchConfig(
            sequences=sequences,
            context=REFERENCE_CONTEXT,
            prefill_tokens=prefill,
            prompt=min(prefill, REFERENCE_CONTEXT),
            weight_dtype=self._weights,
            kv_dtype=self._kv,
            engine="assay",
        )
        return float(sweep(self.model, self.hardware, batch).step_ns[0]) * 1e-9


def _batch(steps: _Steps, limits: StepLimits) -> tuple[int, float]:
    """The smallest batch near the best decode rate, and its step."""
    sizes = _doubling(1, MOST_BATCH)
    times = steps.seconds([(size, 0) for size in sizes])
    # Prompts must progress beside a full batch, too.
    beside = steps.seconds([(size, LEAST_CHUNK) for size in sizes])
    allowed = [
        (size, step)
        for size, step, whole in zip(sizes, times, beside, strict=True)
        if limits.tpot_s is None or whole <= limits.tpot_s
    ]
    if not allowed:
        assert limits.tpot_s is not None
        raise InputError(
            f"--slo tpot: expected at least {1e3 * beside[0]:.1f} ms, the predicted step of one "
            f"request beside {LEAST_CHUNK} tokens of a prompt ({steps.model.name} on "
            f"{steps.hardware.name}), got {1e3 * limits.tpot_s:g} ms",
            "a smaller model or another --knob weight_format has shorter steps",
        )
    best = max(size / step for size, step in allowed)
    return next((size, step) for size, step in allowed if size / step >= NEAR_BEST * best)


def _budget(steps: _Steps, max_batch: int) -> int:
    """The smallest budget near the best prefill rate beside a full batch."""
    sizes = _doubling(LEAST_CHUNK, MOST_BUDGET)
    times = steps.seconds([(0, size) for size in sizes])
    best = max(size / step for size, step in zip(sizes, times, strict=True))
    chunk = next(
        size for size, step in zip(sizes, times, strict=True) if size / step >= NEAR_BEST * best
    )
    return next(size for size in sizes if size >= chunk + max_batch or size == sizes[-1])


def _check_first_token(steps: _Steps, budget: int, limits: StepLimits) -> None:
    """Refuse a TTFT that even a prompt alone cannot keep."""
    if limits.ttft_s is None:
        return
    whole, rest = divmod(REFERENCE_CONTEXT, budget)
    chunks = [budget] * whole + ([rest] if rest else [])
    least = sum(steps.seconds([(0, chunk) for chunk in chunks]))
    if least > limits.ttft_s:
        raise InputError(
            f"--slo ttft: expected at least {1e3 * least:.1f} ms, the predicted prefill of one prompt "
            f"of {REFERENCE_CONTEXT:,} tokens ({steps.model.name} on {steps.hardware.name}, "
            f"token_budget {budget:,}), got {1e3 * limits.ttft_s:g} ms",
            "a smaller model or another --knob weight_format is faster",
        )


def _doubling(least: int, most: int) -> list[int]:
    sizes = [least]
    while sizes[-1] < most:
        sizes.append(2 * sizes[-1])
    return sizes
