"""Times of steps of one server, by what they work on: from the planner, through one table.

A step decodes some sequences at a mean context and computes some tokens of prompts. Its time is that of
both at a reference context and length of prompts, plus what attention takes longer elsewhere: of decode by
context, of prompts by their length. Both are parts of the sum that `serving.step.wall_time` is.
"""

from __future__ import annotations

import bisect
import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

from assay.lazy_import import np
from assay.planner.capacity.throttle import Throttle, throttle_of
from assay.planner.evaluation import STEP, inputs, spreads
from assay.planner.plan import plan_step
from assay.planner.specs import BatchConfig, HardwareSpec, ModelSpec
from assay.planner.sweep import sweep

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]

_RATIO: Final = 1.3
"""Ratio of the numbers of sequences at which steps are evaluated; lines join them."""
_CHUNKS: Final = (0, 1, 64, 128, 256, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192)
_LITTLE: Final = 1e-3
"""Part of the lowest clock's slowdown that is left out."""
_CONTEXTS: Final = (0.1, 0.5, 1.0, 2.0, 8.0)
"""Contexts at which steps are evaluated, of the mean one."""


@dataclass(frozen=True)
class StepTable:
    """Seconds of steps on a grid, joined by lines."""

    budget: int
    """Tokens of a step at most: those of decoding sequences and of prompts."""
    most: int
    """Sequences that decode at most."""
    sequences: Numbers
    chunks: Numbers
    base: Numbers
    """By sequences and tokens of prompts, at the reference context and length of prompts."""
    contexts: Numbers
    context_extra: Numbers
    """By sequences and context: what a step takes longer than at the reference."""
    prompts: Numbers
    prompt_extra: Numbers
    """By tokens of prompts and length of prompts."""
    floor: Numbers
    """As `base`: below it no kernel can get."""
    log_errors: tuple[float, float] = (0.0, 0.0)
    """Standard deviation of the logarithm of the time of steps without and with prompts."""
    throttle: Throttle | None = None
    """What the power limit takes where the load lasts; None where that is not known, or nothing."""

    def lasting(self, decoding: Numbers, prompt_shares: Numbers, rate: float) -> StepTable:
        """The table at the clock of a server with so much work for long: prompts a second, and their part of the time.

        The part is by the number of sequences that decode.
        """
        if self.throttle is None:
            return self
        taken = np.interp(self.sequences, decoding, prompt_shares)
        shares = self.throttle.shares(self.sequences, taken, rate)
        if float(shares.max()) < _LITTLE:
            return self
        return replace(self, base=self.base + shares[:, None] * self.throttle.extra)

    def slower(self, deviations: float) -> StepTable:
        """The table of a server whose steps take so many standard deviations longer."""
        if not deviations:
            return self
        decode, mixed = (math.exp(deviations * error) for error in self.log_errors)
        base = self.base * mixed
        base[:, 0] = self.base[:, 0] * decode
        # A prompt never makes a step shorter.
        base = np.maximum(base, base[:, :1])
        return replace(
            self, base=base, context_extra=self.context_extra * decode,
            prompt_extra=self.prompt_extra * mixed, log_errors=(0.0, 0.0),
            throttle=self.throttle and self.throttle.slower(mixed),
        )  # fmt: skip

    def seconds(
        self, decoding: Numbers | float, context: float, tokens: Numbers | float, prompt: float
    ) -> Numbers:
        """Times of steps; the numbers of sequences and of tokens may be arrays that broadcast.

        `prompt` is the length of a prompt whose tokens attend to as many others on average.
        """
        decoding, tokens = np.broadcast_arrays(
            np.asarray(decoding, float), np.asarray(tokens, float)
        )
        times = _bilinear(self.sequences, self.chunks, self.base, decoding, tokens)
        extra = _across(self.contexts, self.context_extra, context)
        longer = _across(self.prompts, self.prompt_extra, prompt)
        times = times + np.interp(decoding, self.sequences, extra)
        times = times + np.interp(tokens, self.chunks, longer)
        return np.maximum(times, 0.0)

    def longer(self, lengths: Numbers, than: float) -> Numbers:
        """Seconds that each token of prompts of these lengths takes longer than of one of another."""
        full, axis = self.prompt_extra[-1], self.prompts
        values = np.append(lengths, than)
        index = np.clip(np.searchsorted(axis, values, side="right") - 1, 0, len(axis) - 2)
        share = (values - axis[index]) / (axis[index + 1] - axis[index])
        extra = (1 - share) * full[index] + share * full[index + 1]
        difference: Numbers = (extra[:-1] - extra[-1]) / self.budget
        return difference

    @cached_property
    def _rows(self) -> tuple[list[float], ...]:
        return tuple(
            part.tolist() for part in (self.sequences, self.chunks, self.contexts, self.prompts)
        )

    @cached_property
    def _lists(self) -> tuple[list[list[float]], ...]:
        return tuple(part.tolist() for part in (self.base, self.context_extra, self.prompt_extra))

    def longer_by_power(self, tokens: float, watts: float) -> float:
        """Seconds that a step with so many tokens of prompts takes longer at a mean power without a limit."""
        throttle = self.throttle
        if throttle is None or not tokens or watts <= throttle.limit:
            return 0.0
        column, share = _place(self._rows[1], tokens)
        extra = throttle.extra
        lowered = min((watts - throttle.limit) / (throttle.prompts - throttle.limit), 1.0)
        return float(lowered * ((1 - share) * extra[column] + share * extra[column + 1]))

    def one(self, decoding: int, context: float, tokens: float, prompt: float) -> float:
        """The time of one step, without NumPy: a replay asks for hundreds of thousands."""
        sequences, chunks, contexts, prompts = self._rows
        base, context_extra, prompt_extra = self._lists
        time = 0.0
        row, part = _place(sequences, decoding)
        low, high = base[row], base[row + 1]
        if tokens:
            column, share = _place(chunks, tokens)
            time += (1 - part) * ((1 - share) * low[column] + share * low[column + 1])
            time += part * ((1 - share) * high[column] + share * high[column + 1])
            other, weight = _place(prompts, prompt)
            first, second = prompt_extra[column], prompt_extra[column + 1]
            time += (1 - share) * ((1 - weight) * first[other] + weight * first[other + 1])
            time += share * ((1 - weight) * second[other] + weight * second[other + 1])
        else:
            time += (1 - part) * low[0] + part * high[0]
        if decoding:
            column, share = _place(contexts, context)
            low, high = context_extra[row], context_extra[row + 1]
            time += (1 - part) * ((1 - share) * low[column] + share * low[column + 1])
            time += part * ((1 - share) * high[column] + share * high[column + 1])
        return max(time, 0.0)


def _place(axis: list[float], value: float) -> tuple[int, float]:
    """The point of an axis below a value and the part of the way to the next; lines go on beyond."""
    index = min(max(bisect.bisect_right(axis, value) - 1, 0), len(axis) - 2)
    return index, (value - axis[index]) / (axis[index + 1] - axis[index])


def _bilinear(rows: Numbers, columns: Numbers, table: Numbers, x: Numbers, y: Numbers) -> Numbers:
    row = np.clip(np.searchsorted(rows, x, side="right") - 1, 0, len(rows) - 2)
    column = np.clip(np.searchsorted(columns, y, side="right") - 1, 0, len(columns) - 2)
    part = (x - rows[row]) / (rows[row + 1] - rows[row])
    share = (y - columns[column]) / (columns[column + 1] - columns[column])
    low = (1 - share) * table[row, column] + share * table[row, column + 1]
    high = (1 - share) * table[row + 1, column] + share * table[row + 1, column + 1]
    result: Numbers = (1 - part) * low + part * high
    return result


def _across(axis: Numbers, table: Numbers, value: float) -> Numbers:
    """The column of a table at a value of its second axis; lines go on beyond the ends."""
    index, share = _place(axis.tolist(), value)
    column: Numbers = (1 - share) * table[:, index] + share * table[:, index + 1]
    return column


def step_table(
    model: ModelSpec, hardware: HardwareSpec, batch: BatchConfig, *, budget: int, most: int,
    context: float, prompt: float,
) -> StepTable:  # fmt: skip
    """The steps of a server up to `most` sequences, around a mean context and length of prompts."""
    sequences = [0, 1]
    while sequences[-1] < most:
        sequences.append(min(math.ceil(sequences[-1] * _RATIO), most))
    if len(sequences) < 3:
        sequences.append(most + 1)
    chunks = [chunk for chunk in _CHUNKS if chunk < budget] + [budget]
    middle = max(round(context), 1)
    contexts = sorted({max(round(share * middle), 1) for share in _CONTEXTS} | {2 * middle})
    lengths = sorted({max(round(prompt), 1), max(round(prompt / 8), 1) + 1, 8 * round(prompt) + 2})
    start = replace(
        batch, sequences=1, context=middle, prefill_tokens=0, prompt=max(round(prompt), 1)
    )  # fmt: skip
    grid = sweep(model, hardware, start, {"sequences": sequences[1:], "prefill_tokens": chunks})
    alone = sweep(
        model, hardware, replace(start, sequences=0, prefill_tokens=chunks[1]),
        {"prefill_tokens": chunks[1:]},
    )  # fmt: skip
    by_context = sweep(model, hardware, start, {"sequences": sequences[1:], "context": contexts})
    by_length = sweep(
        model, hardware, replace(start, sequences=0, prefill_tokens=chunks[1]),
        {"prefill_tokens": chunks[1:], "prompt": lengths},
    )  # fmt: skip
    base, floor = (
        _with_idle(np.reshape(getattr(grid, name), (-1, len(chunks))), getattr(alone, name))
        for name in ("step_ns", "floor_ns")
    )
    context_extra = np.zeros((len(sequences), len(contexts)))
    decode = np.reshape(by_context.step_ns, (-1, len(contexts))) * 1e-9
    context_extra[1:] = decode - base[1:, :1]
    prompt_extra = np.zeros((len(chunks), len(lengths)))
    prefill = np.reshape(by_length.step_ns, (-1, len(lengths))) * 1e-9
    prompt_extra[1:] = prefill - base[:1, 1:].T
    return StepTable(
        budget, most, np.array(sequences, float), np.array(chunks, float), base,
        np.array(contexts, float), context_extra, np.array(lengths, float), prompt_extra, floor,
        _log_errors(model, hardware, start, chunks[-1]),
        throttle_of(model, hardware, start, sequences, chunks[1:], base[0, 1:]),
    )  # fmt: skip


def _with_idle(grid: Numbers, alone: Numbers) -> Numbers:
    """Seconds with a first row for no sequences, which takes no time without prompts."""
    first = np.concatenate([[0.0], alone])
    return np.concatenate([first[None, :], grid]) * 1e-9


def _log_errors(
    model: ModelSpec, hardware: HardwareSpec, decode: BatchConfig, tokens: int
) -> tuple[float, float]:
    """Standard deviations of the logarithm of steps without and with prompts."""
    name = f"{STEP}wall_time"

    def spread(step: BatchConfig) -> float:
        given, _ = inputs(model, hardware, step, plan_step(model, step, on_gpu=hardware.is_gpu))
        return spreads(given, hardware, step.engine, [name])[name].sigma

    prefill = replace(decode, prefill_tokens=min(tokens, max(decode.prompt, 1)))
    return spread(decode), spread(prefill)
