"""What the power limit takes from prompts where a load lasts.

GEMMs of the kernel tables were measured alone, a few milliseconds each at most, so that only long ones lowered the
clock (`kernels.gemm.throttle_depth`). A server runs them one after the other: its clock follows its mean power.
Steps without prompts were fitted on servers that ran for minutes, and stay as they are.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

from assay.errors import MissingInputsError
from assay.lazy_import import np
from assay.planner import evaluation as e
from assay.planner.plan import plan_step
from assay.planner.prices import cooled
from assay.planner.specs import BatchConfig, HardwareSpec, ModelSpec
from assay.planner.sweep import sweep

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]

AVERAGED: Final = 0.1
"""Seconds over which the power controller averages: GEMMs that begin on a cool H200 keep their rate for 0.04 to
0.1 s (bench/results/gemm-h200.json)."""
_THROTTLE_TIME: Final = "kernels.gemm.throttle_time"
_LASTING: Final = 1e-9
_LIMIT: Final = "gpu.power.limit"
_IDLE: Final = "gpu.power.idle"
_UNLIMITED: Final = 10.0
"""Times the limit, more than any board draws."""
_POINTS: Final = 5
"""Numbers of sequences, and of tokens, at which power is evaluated, about."""


@dataclass(frozen=True)
class Throttle:
    """Prompts at the lowest clock, and the power that decides how far it is lowered."""

    extra: Numbers
    """By tokens of prompts: seconds that a step takes longer in a server that computes prompts alone."""
    limit: float
    """Watts of a board."""
    idle: float
    prompts: float
    """Watts of steps of prompts alone at the clock of short runs, as if there were no limit."""
    sequences: Numbers
    decode: Numbers
    """Those of steps without prompts, by sequences."""

    def shares(
        self, sequences: Numbers, prompt_shares: Numbers, prompts_per_second: float
    ) -> Numbers:
        """Mean part of the lowest clock's slowdown in a busy server, by the sequences that decode.

        Prompts come as a Poisson process and take parts of the time: the power that the controller averages varies
        (shot noise, Campbell's theorem), and a normal one is above the limit by so much on average.
        """
        from scipy.special import ndtr

        decode = np.interp(sequences, self.sequences, self.decode)
        above = prompt_shares * self.prompts + (1 - prompt_shares) * decode - self.limit
        joules = prompt_shares / prompts_per_second * (self.prompts - decode)
        spread = np.maximum(joules * math.sqrt(prompts_per_second / (2 * AVERAGED)), 1e-9)
        places = above / spread
        density = np.exp(-(places**2) / 2) / math.sqrt(2 * math.pi)
        mean = spread * density + above * ndtr(places)
        return np.clip(mean / (self.prompts - self.limit), 0.0, 1.0)

    def drawn(self, sequences: int, prompt_share: float) -> float:
        """The same of one step, without NumPy: a replay asks for hundreds of thousands."""
        index = min(bisect_right(self._numbers, sequences), len(self._numbers) - 1)
        low, high = self._numbers[index - 1], self._numbers[index]
        part = min(max((sequences - low) / (high - low), 0.0), 1.0)
        decode = self._watts[index - 1] + part * (self._watts[index] - self._watts[index - 1])
        return prompt_share * self.prompts + (1 - prompt_share) * decode

    @cached_property
    def _numbers(self) -> list[float]:
        return [float(number) for number in self.sequences]

    @cached_property
    def _watts(self) -> list[float]:
        return [float(watts) for watts in self.decode]

    def slower(self, factor: float) -> Throttle:
        """The same where prompts take longer by a factor."""
        return replace(self, extra=self.extra * factor)


def throttle_of(
    model: ModelSpec, hardware: HardwareSpec, step: BatchConfig, sequences: Sequence[int],
    chunks: Sequence[int], short: Numbers,
) -> Throttle | None:  # fmt: skip
    """The throttle of a server; None where no power is known, or prompts do not reach the limit.

    `step` has its mean context and length of prompts, `short` are seconds of steps of prompts by `chunks`.
    """
    limit, idle = (hardware.given.get(name) for name in (_LIMIT, _IDLE))
    if limit is None or idle is None or not hardware.is_gpu:
        return None
    prompts = replace(step, sequences=0, prefill_tokens=chunks[-1])
    numbers, tokens = _some(sequences[1:]), _some(chunks)
    try:
        decode = [
            _drawn(model, hardware, replace(step, sequences=number, prefill_tokens=0), limit)
            for number in numbers
        ]
        alone = [
            _drawn(model, hardware, replace(prompts, prefill_tokens=number), limit)
            for number in tokens
        ]
    except MissingInputsError:
        return None
    throttle = Throttle(
        np.zeros(1), limit, idle, alone[-1], np.array([0.0, *numbers]), np.array([idle, *decode])
    )
    if throttle.prompts <= limit:
        return None
    lasting = replace(hardware, given={**hardware.given, _THROTTLE_TIME: _LASTING})
    long = sweep(model, lasting, prompts, {"prefill_tokens": list(chunks)}).step_ns * 1e-9
    # Few tokens wait for memory, which keeps its clock.
    above = np.interp(chunks, tokens, alone) - limit
    shares = np.clip(above / (throttle.prompts - limit), 0.0, 1.0)
    extra = np.concatenate([[0.0], np.maximum(long - short, 0.0) * shares])
    return replace(throttle, extra=extra)


def _some(values: Sequence[int]) -> list[int]:
    every = max(len(values) // _POINTS, 1)
    return sorted({*values[::every], values[-1]})


def _drawn(model: ModelSpec, hardware: HardwareSpec, step: BatchConfig, limit: float) -> float:
    """Watts of a board as if it had no limit."""
    given, _ = e.inputs(model, hardware, step, plan_step(model, step))
    cooling, _ = cooled(hardware)
    free = {**given, **cooling, _LIMIT: _UNLIMITED * limit}
    return e.evaluate([free], e.POWERED, e.POWER_VARIANTS)[0]["gpu.power"]
