"""Step times of a replay: from the first device event of a step to that of the next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from assay.array_types import Floats, Ints
from assay.diagnose.replay.scenario import Scenario
from assay.errors import InputError
from assay.lazy_import import np, pl

if TYPE_CHECKING:
    pass

DRAWS: Final = 400
"""Bootstrap samples of steps."""


@dataclass(frozen=True, slots=True)
class StepTimes:
    """Steps of one phase: their times in nanoseconds, and what they computed."""

    phase: str
    step: Ints
    ns: Floats
    batch: Ints
    """Sequences; -1 where the trace does not say."""
    context: Ints
    prefill_tokens: Ints

    def median(self) -> float:
        """The median step."""
        return float(np.median(self.ns))


EVERY: Final = "every"
"""Steps of all phases: where none is known to decode."""


def asked_phase(scenario: Scenario) -> str:
    """The phase whose steps a what-if is about: decode, or every where no step is known to."""
    decode = scenario.steps["phase"].cast(pl.String) == "decode"
    return "decode" if int(decode.fill_null(value=False).sum()) > 1 else EVERY


def step_times(scenario: Scenario, phase: str | None = None) -> StepTimes:
    """Times of the steps of a phase that are followed by another step."""
    phase = phase or asked_phase(scenario)
    first, last = _edges_of_steps(scenario)
    # Ranks run a step together: its first row stands for all.
    table = (
        scenario.steps.with_columns(pl.col("phase").cast(pl.String))
        .drop_nulls("step")
        .sort("start_ns")
        .unique("step", keep="first", maintain_order=True)
    )
    number = table["step"].to_numpy()
    known = np.isin(number, np.fromiter(first, np.int64, len(first)))
    table, number = table.filter(pl.Series(known)), number[known]
    begins = np.array([first[step] for step in number.tolist()], np.float64)
    ends = np.append(begins[1:], last.get(int(number[-1]), 0) if len(number) else 0)
    of_phase = (table["phase"].fill_null("") == phase).to_numpy() | (phase == EVERY)
    if phase in ("decode", EVERY):
        # The last step has no successor: its host work is not in the trace.
        of_phase &= np.arange(len(number)) < len(number) - 1
    counts = {
        name: table[name].fill_null(-1).to_numpy()[of_phase]
        for name in ("batch", "context", "prefill_tokens")
    }
    return StepTimes(phase, number[of_phase], (ends - begins)[of_phase], **counts)


def _edges_of_steps(scenario: Scenario) -> tuple[dict[int, int], dict[int, int]]:
    """When the first device event of each step begins, and the last ends."""
    times = scenario.replayed()
    chosen = np.flatnonzero(scenario.is_device & (scenario.step >= 0))
    if not len(chosen):
        raise InputError(
            "expected a trace with steps, got none", "name the model of the trace by --model"
        )
    present, step = np.unique(scenario.step[chosen], return_inverse=True)
    first = np.full(len(present), np.iinfo(np.int64).max)
    last = np.full(len(present), np.iinfo(np.int64).min)
    np.minimum.at(first, step, times.start[chosen])
    np.maximum.at(last, step, times.end[chosen])
    numbers = present.tolist()
    return dict(zip(numbers, first.tolist(), strict=True)), dict(
        zip(numbers, last.tolist(), strict=True)
    )


def resampled_median(ns: Floats, seed: int = 0) -> Floats:
    """Medians of bootstrap samples of steps."""
    source = np.random.default_rng(seed)
    drawn = source.integers(0, len(ns), (DRAWS, len(ns)))
    medians: Floats = np.median(ns[drawn], axis=1)
    return medians
