"""Equal work: both arms answered the same requests, at the same length."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final

from assay.improve.experiments.result import GateResult
from assay.improve.levers.lever import Correctness
from assay.load.workloads.measurement import STOPPED, Measurement, RequestRecord

GATE = "equal work"
LENGTH_TOLERANCE: Final = 0.01
"""Share by which output tokens may differ where a lever may change tokens and the engine cannot
be told to ignore the end of a sequence; a bitwise lever has none."""
FREE_ENDS_Z: Final = 4.0
"""Standard errors by which answers that end by themselves may be longer or shorter in sum. A near tie
sends an answer another way, where it meets its end sooner or later: as often either of them."""


@dataclass(slots=True)
class WorkLedger:
    """Adds up what the arms did, pair by pair."""

    correctness: Correctness
    greedy: bool
    """Whether equal requests have equal outputs: no sampling."""
    repeats: bool = False
    """Whether the baseline's outputs equal those of its own repetitions (A/A)."""
    pairs: int = 0
    requests: int = 0
    tokens: dict[str, int] = field(default_factory=lambda: {"control": 0, "treatment": 0})
    prompt_tokens: dict[str, int] = field(default_factory=lambda: {"control": 0, "treatment": 0})
    digests_compared: int = 0
    digests_differ: int = 0
    problem: str = ""
    _free: list[int] = field(default_factory=list)
    """Tokens more in the treatment, of answers that differ and end by themselves."""

    def add(self, control: Measurement, treatment: Measurement) -> None:
        """Count a pair that asked for the same requests."""
        self.pairs += 1
        self.requests += len(control.records)
        for arm, measurement in (("control", control), ("treatment", treatment)):
            self.tokens[arm] += measurement.output_tokens
            self.prompt_tokens[arm] += sum(record.prompt_tokens for record in measurement.records)
        if not self.problem:
            self.problem = self._compare(control, treatment)

    def gate(self) -> GateResult:
        """The verdict over all pairs."""
        evidence = {
            "pairs": self.pairs,
            "requests": self.requests,
            "output_tokens": dict(self.tokens),
            "prompt_tokens": dict(self.prompt_tokens),
            "digests_compared": self.digests_compared,
            "digests_differ": self.digests_differ,
        }
        if self.problem:
            return GateResult(GATE, False, self.problem, evidence)
        control, treatment = self.tokens["control"], self.tokens["treatment"]
        statement = f"{self.requests} requests on both sides, {control} and {treatment} tokens"
        if self.digests_differ:
            statement += f"; {self.digests_differ} of {self.digests_compared} outputs differ"
        return GateResult(GATE, True, statement, evidence)

    def _compare(self, control: Measurement, treatment: Measurement) -> str:
        before, after = _ordered(control), _ordered(treatment)
        if [record.number for record in before] != [record.number for record in after]:
            return f"{len(before)} requests in the control, {len(after)} in the treatment"
        if treatment.errors > control.errors:
            message = next(record.error for record in treatment.records if record.error is not None)
            return (
                f"{treatment.errors} of {len(after)} requests fail in the treatment, "
                f"{control.errors} in the control: {message}"
            )
        done = [
            (old, new)
            for old, new in zip(before, after, strict=True)
            if old.error is None and new.error is None
        ]
        return self._compare_outputs(done)

    def _ends_freely(self, control: RequestRecord, treatment: RequestRecord) -> bool:
        if self.correctness == "bitwise" and self.repeats:
            return False
        return (
            control.digest != treatment.digest
            and STOPPED in (control.finish_reason, treatment.finish_reason)
        )  # fmt: skip

    def _compare_outputs(self, done: list[tuple[RequestRecord, RequestRecord]]) -> str:
        wrong = next(
            (pair for pair in done if pair[0].prompt_tokens != pair[1].prompt_tokens), None
        )
        if wrong is not None:
            return (
                f"request {wrong[0].number}: {wrong[0].prompt_tokens} prompt tokens in the control, "
                f"{wrong[1].prompt_tokens} in the treatment"
            )
        free = [pair for pair in done if self._ends_freely(*pair)]
        self._free += [new.output_tokens - old.output_tokens for old, new in free]
        if abs(sum(self._free)) > FREE_ENDS_Z * math.hypot(*self._free):
            return (
                f"{len(self._free)} answers that end by themselves are {abs(sum(self._free))} tokens "
                f"{'longer' if sum(self._free) > 0 else 'shorter'} in the treatment"
            )
        old = sum(pair[0].output_tokens for pair in done if pair not in free)
        new = sum(pair[1].output_tokens for pair in done if pair not in free)
        allowed = 0.0 if self.correctness == "bitwise" else LENGTH_TOLERANCE * old
        if abs(new - old) > allowed:
            return (
                f"{old} output tokens in the control, {new} in the treatment, for the same requests"
            )
        if self.greedy:
            both = [
                (control, treatment)
                for control, treatment in done
                if control.digest and treatment.digest
            ]
            differ = [
                control.number for control, treatment in both if control.digest != treatment.digest
            ]
            self.digests_compared += len(both)
            self.digests_differ += len(differ)
            if differ and self.repeats and self.correctness == "bitwise":
                return f"request {differ[0]}: another output, though the lever is bitwise"
        return ""


def _ordered(measurement: Measurement) -> list[RequestRecord]:
    # A window may go through the requests more than once.
    return sorted(measurement.records, key=lambda record: (record.number, record.sent_s))
