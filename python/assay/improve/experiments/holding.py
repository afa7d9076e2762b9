"""The soak: the treatment held under the workload, without a break, until slow effects would show.

Pairs change arms every few seconds, so that what grows slowly (a cache that fills, memory that
leaks, clocks that fall) never meets them. Here the treatment runs on; its last blocks are then
compared with the control on the same requests, and every answer with the control's. The requests of a
workload come again and again, which those of users do not: both arms end on requests that nobody
asked before, where a lever that only remembers has nothing to gain.
"""

from __future__ import annotations

import itertools
import math
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from assay.improve.engines.protocol import RESIDENT
from assay.improve.experiments.blocks import BlockMeter
from assay.improve.experiments.outputs.bounds import answers_needed
from assay.improve.experiments.outputs.ledger import AnswerLedger
from assay.improve.experiments.pairs import Pair, log_ratio
from assay.improve.experiments.result import Arm, Block, GateResult
from assay.improve.experiments.settings import ExperimentSettings
from assay.improve.experiments.slo import SloLedger
from assay.improve.experiments.verdict import percent
from assay.load.workloads.measurement import RequestRecord
from assay.load.workloads.workload import Direction

GATE: Final = "soak"
SOAK: Final = "soak"
"""Why blocks of the soak are in no pair."""
MOST_LATE: Final = 6
"""Blocks at the end of the soak that are compared with the control."""
LATE_SHARE: Final = 3
"""One in so many blocks of the soak is late."""
GAIN_LEFT: Final = 0.5
"""Share of the gain that must be left at the end of the soak."""
LATE_Z: Final = 2.0
"""Standard errors that the late ratio is given beyond its estimate."""
LEAST_SOAKED: Final = 12
"""Blocks of a soak between restarts at least; its end must be told from its beginning."""
LEAST_HELD_S: Final = 120.0
"""Seconds of it at least, where its share of the time has them: some effects begin with the minutes."""
NEW_BLOCKS: Final = 3
"""Blocks of new requests for each arm."""
SPARE: Final = 1.1
"""Answers over those that a promotion needs: some requests fail, some cannot be judged."""
LEAK_BYTES: Final = 8 << 20
LEAK_SHARE: Final = 0.005
"""Growth over the second half of the soak, beyond both of which memory leaks if it grows on."""
LEAK_RISES: Final = 0.75
"""Share of blocks of the second half after which memory is higher than before."""

STEPS_FALLS: Final = 0.1
"""What memory may fall by in all where it grows in steps, over what it grows by."""
STEPS_LEAST: Final = 0.25
"""Share of the growth that either half of it has at least where it does not end."""


@dataclass(slots=True)
class Hold:
    """A soak under way."""

    meter: BlockMeter
    answers: AnswerLedger
    slo: SloLedger
    better: Direction
    needed: int = 0
    """Answers that a promotion needs."""
    _blocks: list[Block] = field(default_factory=list)
    """The treatment's, in order of time."""
    _held: dict[int, Block] = field(default_factory=dict)
    """The last of the treatment's blocks of each place, the latest place last."""
    _beside: dict[int, Block] = field(default_factory=dict)
    """The control's."""
    _new: dict[Arm, list[Block]] = field(default_factory=dict)
    """Blocks of new requests."""
    _mark: str = field(default_factory=lambda: uuid.uuid4().hex[:8])
    """What makes them new."""
    _unknown: dict[int, list[RequestRecord]] = field(default_factory=dict)
    """Answers to requests that the control has not answered, by place."""

    @property
    def blocks(self) -> int:
        """Blocks of the treatment so far."""
        return len(self._blocks)

    @property
    def seconds(self) -> float:
        """Of blocks of the treatment so far."""
        return math.fsum(block.seconds for block in self._blocks)

    @property
    def answers_given(self) -> int:
        """Answers that are compared, or will be when the control has answered too."""
        waiting = sum(len(records) for records in self._unknown.values())
        return self.answers.total + waiting

    def treatment(self, place: int, has_time: Callable[[float], bool]) -> None:
        """Measure block after block from `place` on.

        `has_time` is told how long the control will take afterwards. Requests that the control has
        not answered cost its time too: where that is short, those that it has answered come again.
        """
        while has_time(self._control_s()):
            place = self._next(place, may_be_new=has_time(self._control_s() + self._new_s()))
            block, measurement = self.meter.measure("treatment", -1, place, dropped=SOAK)
            self.slo.add("treatment", measurement)
            self._held.pop(place, None)
            self._held[place] = block
            self._blocks.append(block)
            unknown = self.answers.compare(measurement.records)
            if unknown:
                self._unknown.setdefault(place, []).extend(unknown)
            if self.answers.wrong:
                return
            place += 1
        self._ask_anew("treatment")

    def ask_more(self, place: int, goes_on: Callable[[], bool]) -> None:
        """Compare more answers to requests that the control has answered."""
        while goes_on() and not self.answers.wrong:
            place = self._next(place, may_be_new=False)
            _, measurement = self.meter.measure("treatment", -1, place, dropped=SOAK)
            self.slo.add("treatment", measurement)
            self.answers.compare(measurement.records)
            place += 1

    def _ask_anew(self, arm: Arm) -> None:
        """Measure requests that were not asked before; the treatment comes first."""
        self._new[arm] = [
            self.meter.measure(arm, -1, place, dropped=SOAK, mark=self._mark).block
            for place in self._late()[:NEW_BLOCKS]
        ]

    def _next(self, place: int, *, may_be_new: bool) -> int:
        """The next place; one whose requests the control has answered, unless it may be new."""
        if may_be_new:
            return place
        for later in range(place, place + _MOST_PLACES):
            if later in self._unknown or all(
                number in self.answers.known for number in self.meter.requests_of(later)
            ):
                return later
        return place

    def _new_s(self) -> float:
        """Time that must be left for new requests: the control's, and what is needed besides."""
        missing = max(self.needed - self.answers_given, 0)
        blocks = missing / max(len(self.meter.requests_of(0)), 1)
        return self._block_s("control") + blocks * self._block_s("treatment")

    def control(self, left_s: Callable[[], float]) -> None:
        """Measure the control on the last requests of the soak, then on those without its answer."""
        self._ask_anew("control")
        late = self._late()
        places = [*late, *(place for place in sorted(self._unknown) if place not in late)]
        for place in places:
            if place not in late and left_s() < self._block_s("control"):
                return
            block, measurement = self.meter.measure("control", -1, place, dropped=SOAK)
            self.slo.add("control", measurement)
            self._beside[place] = block
            self.answers.know(measurement)
            self.answers.compare(self._unknown.pop(place, ()))

    def gate(self, gain: float, noise_sd: float | None) -> GateResult | None:
        """None where nothing was held; `gain` is the logarithm of what the pairs found."""
        late = [place for place in self._late() if place in self._beside]
        if not late:
            return None
        ratios = [
            log_ratio(Pair(place, self._beside[place].value, self._held[place].value), self.better)
            for place in late
        ]
        mean = math.fsum(ratios) / len(ratios)
        error = max(_deviation(ratios), noise_sd or 0.0) / math.sqrt(len(ratios))
        statement = (
            f"held for {self.seconds:.0f} s and {sum(block.requests for block in self._blocks)} "
            f"requests: {percent(math.exp(mean))} at its end ({percent(math.exp(gain))} in the pairs)"
        )
        evidence = {
            "blocks": len(self._blocks),
            "late_ratio": math.exp(mean),
            "late_error": error,
            "gain": math.exp(gain),
        }
        if mean + LATE_Z * error < GAIN_LEFT * gain:
            return GateResult(GATE, False, f"{statement}: faster first, slower later", evidence)
        new = self._new_ratios()
        if new:
            mean = math.fsum(new) / len(new)
            error = max(_deviation(new), noise_sd or 0.0) / math.sqrt(len(new))
            evidence["new_ratio"] = math.exp(mean)
            statement += f"; {percent(math.exp(mean))} for requests that were not asked before"
            if mean + LATE_Z * error < GAIN_LEFT * gain:
                return GateResult(GATE, False, f"{statement}: it only remembers", evidence)
        leak = leaked(self._blocks)
        if leak:
            evidence["leaked_bytes"] = leak
            statement += f"; memory grows without end, by {leak / 1e6:.0f} MB in its second half"
            return GateResult(GATE, False, statement, evidence)
        return GateResult(GATE, True, statement, evidence)

    def _new_ratios(self) -> list[float]:
        """Logarithms of the gain of each block of new requests; none where one has no figure."""
        both = zip(self._new.get("control", ()), self._new.get("treatment", ()), strict=False)
        pairs = [
            Pair(place, control.value, treatment.value)
            for place, (control, treatment) in enumerate(both)
        ]
        if any(min(pair.control, pair.treatment) <= 0.0 for pair in pairs):
            return []
        return [log_ratio(pair, self.better) for pair in pairs]

    def _late(self) -> list[int]:
        count = min(MOST_LATE, max(len(self._held) // LATE_SHARE, 1))
        return list(self._held)[-count:]

    def _control_s(self) -> float:
        """How long the control takes for its part."""
        late = min(MOST_LATE, (len(self._held) + 1) // LATE_SHARE + 1)
        blocks = max(late, len(self._unknown) + 1) + 2 * min(NEW_BLOCKS, late)
        return blocks * self._block_s("control")

    def _block_s(self, arm: Arm) -> float:
        seconds = [block.seconds for block in self.meter.blocks if block.arm == arm]
        return math.fsum(seconds) / len(seconds) if seconds else 0.0


def needed(settings: ExperimentSettings) -> int:
    """Answers that a promotion needs, with some to spare; 0 where it needs none."""
    if settings.most_changed is None:
        return 0
    rows = answers_needed(settings.most_changed, settings.answer_confidence)
    answers = math.ceil(rows / settings.answer_rows)
    return math.ceil(SPARE * max(answers, settings.least_requests))


def has_enough(hold: Hold) -> bool:
    """Whether a soak that has to leave time for more pairs has what a promotion needs."""
    is_long = hold.blocks >= LEAST_SOAKED and hold.seconds >= LEAST_HELD_S
    return 0 < hold.needed <= hold.answers_given and is_long


def leaked(blocks: Sequence[Block]) -> float:
    """Bytes by which memory grew over the second half of blocks, where it grows on and on; else 0."""
    memory = [block.figures[RESIDENT] for block in blocks if RESIDENT in block.figures]
    half = memory[len(memory) // 2 :]
    if len(half) < _LEAST_BLOCKS:
        return 0.0
    growth, before = half[-1] - half[0], half[0] - memory[0]
    if growth <= max(LEAK_BYTES, LEAK_SHARE * half[0]) or growth < GAIN_LEFT * before:
        return 0.0
    changes = [later - earlier for earlier, later in itertools.pairwise(half)]
    rises = sum(change > 0 for change in changes)
    return growth if rises >= LEAK_RISES * len(changes) or _is_in_steps(half, changes) else 0.0


def _is_in_steps(half: Sequence[float], changes: Sequence[float]) -> bool:
    """Whether memory grows by a step now and then: an allocator asks for much at once, and keeps it."""
    growth = half[-1] - half[0]
    falls = -math.fsum(change for change in changes if change < 0)
    first = half[len(half) // 2] - half[0]
    return falls <= STEPS_FALLS * growth and STEPS_LEAST * growth <= first <= (1 - STEPS_LEAST) * growth  # fmt: skip


_LEAST_BLOCKS: Final = 4
_MOST_PLACES: Final = 1000
"""Places that are looked at for one with known answers."""


def _deviation(values: Sequence[float]) -> float:
    if len(values) < 2:
        return 0.0
    mean = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))
