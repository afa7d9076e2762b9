"""Answers with the change beside those of the control, request by request, and replicas beside themselves."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from assay.improve.fleet.protocol import Sample

SURE: Final = 0.001
"""Chance of calling answers changed that differ as often as those of equal replicas."""


@dataclass(slots=True)
class ComparedAnswers:
    """Greedy answers to the same requests in the same window."""

    without: int = 0
    """Compared between replicas that are alike."""
    differ_without: int = 0
    with_change: int = 0
    differ_with_change: int = 0

    def add_baseline(self, samples: Mapping[str, Sample]) -> None:
        """Replicas without the change: each beside the first that answered the request."""
        known: dict[str, str] = {}
        for sample in samples.values():
            for number, answer in sample.answers.items():
                if number in known:
                    self.without += 1
                    self.differ_without += answer != known[number]
                known.setdefault(number, answer)

    def add(self, samples: Mapping[str, Sample], changed: Mapping[str, bool]) -> None:
        """Replicas with the change beside the control: equal is what any replica of it answered."""
        known: dict[str, set[str]] = {}
        for name, sample in samples.items():
            if not changed[name]:
                for number, answer in sample.answers.items():
                    known.setdefault(number, set()).add(answer)
        for name, sample in samples.items():
            for number, answer in sample.answers.items() if changed[name] else ():
                if number in known:
                    self.with_change += 1
                    self.differ_with_change += answer not in known[number]

    def changed(self) -> str:
        """That answers changed, in words; empty where they differ as equal replicas do."""
        if not self.with_change or self._chance() >= SURE:
            return ""
        return f"answers changed: {self.statement()}"

    def statement(self) -> str:
        """What was compared."""
        return (
            f"{self.differ_with_change:,} of {self.with_change:,} answers with the change differ from "
            f"the control's, {self.differ_without:,} of {self.without:,} between equal replicas"
        )

    def _chance(self) -> float:
        """Fisher's exact test: so many or more among those with the change, were both alike."""
        total = self.without + self.with_change
        differ = self.differ_without + self.differ_with_change
        if not differ or not self.without:
            return 1.0
        return math.fsum(
            math.exp(
                _log_choose(self.with_change, count)
                + _log_choose(self.without, differ - count)
                - _log_choose(total, differ)
            )
            for count in range(self.differ_with_change, min(differ, self.with_change) + 1)
            if differ - count <= self.without
        )


def _log_choose(of: int, count: int) -> float:
    return math.lgamma(of + 1) - math.lgamma(count + 1) - math.lgamma(of - count + 1)
