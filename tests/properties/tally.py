"""What draws came to: checks, violations, refusals, and how often every entry of the catalog was drawn."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from property_harness import Draw
from strata import accelerators_with_kernels

from assay.catalog import accelerators, models

MOST_REFUSED = 0.3
LEAST_DRAWS = 50
"""Draws of every accelerator and model in a whole run."""
WHOLE_RUN = 20_000
_COUNTERS = ("kinds", "checks", "refused", "reasons", "entries", "answered", "violated")
_SPANS = {
    "requests per second": ("rates",),
    "GPUs": ("training.gpus", "gpus"),
    "tokens of a context": ("serving.prompt", "prompt", "architecture.sequence"),
}


@dataclass
class Tally:
    """What a part of the draws came to."""

    seconds: float = 0.0
    kinds: Counter[str] = field(default_factory=Counter)
    checks: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    """Refused draws by kind."""
    reasons: Counter[str] = field(default_factory=Counter)
    entries: Counter[str] = field(default_factory=Counter)
    answered: Counter[str] = field(default_factory=Counter)
    """Entries of draws that were not refused."""
    violated: Counter[str] = field(default_factory=Counter)
    violations: dict[str, str] = field(default_factory=dict)
    """The first violation of each invariant, shrunk."""
    spans: dict[str, list[float]] = field(default_factory=dict)
    """Least and most of what users choose."""

    @property
    def draws(self) -> int:
        return self.kinds.total()

    @property
    def refused_share(self) -> float:
        return self.refused.total() / max(self.draws, 1)

    def drawn(self, draw: Draw, reason: str | None) -> None:
        """Count a draw, and why it was refused."""
        names = [f"{group}/{name}" for group, name in draw.entries.items()]
        self.kinds[draw.kind.name] += 1
        self.entries.update(names)
        if reason is not None:
            self.refused[draw.kind.name] += 1
            self.reasons[f"{draw.kind.name}: {reason[:60]}"] += 1
            return
        self.answered.update(names)
        for name, keys in _SPANS.items():
            for key in keys:
                if key in draw.values:
                    self._widen(name, draw.values[key], draw.values[key])

    def _widen(self, name: str, low: float, high: float) -> None:
        known = self.spans.get(name, [low, high])
        self.spans[name] = [min(known[0], low), max(known[1], high)]

    def add(self, other: Tally) -> None:
        self.seconds += other.seconds
        for name in _COUNTERS:
            getattr(self, name).update(getattr(other, name))
        self.violations = {**other.violations, **self.violations}
        for name, (low, high) in other.spans.items():
            self._widen(name, low, high)

    def to_data(self) -> dict[str, Any]:
        counters = {name: dict(getattr(self, name)) for name in _COUNTERS}
        return {
            "seconds": self.seconds, **counters, "violations": self.violations, "spans": self.spans
        }  # fmt: skip

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> Tally:
        counters = {name: Counter(data[name]) for name in _COUNTERS}
        return cls(
            seconds=data["seconds"], violations=data["violations"], spans=data["spans"], **counters
        )


def all_entries() -> list[str]:
    """Every accelerator and model of the catalog."""
    own = [f"accelerators/{name}" for name in accelerators.names()]
    return own + [f"models/{name}" for name in models.names()]


def rarest(counts: Counter[str], group: str) -> tuple[str, int]:
    """The entry of a group that was drawn least often; accelerators without kernels are never answered."""
    names = [name for name in all_entries() if name.startswith(f"{group}/")]
    least = min(names, key=lambda name: counts[name])
    return least, counts[least]


def problems(tally: Tally) -> list[str]:
    """What keeps a run from being a success."""
    texts = [f"violated: {name}" for name in tally.violations]
    if tally.refused_share > MOST_REFUSED:
        texts.append(f"refused: {tally.refused_share:.1%} of draws, expected {MOST_REFUSED:.0%}")
    least = LEAST_DRAWS * tally.draws // WHOLE_RUN
    known = {f"accelerators/{name}" for name in accelerators_with_kernels()}
    for entry in all_entries():
        if tally.entries[entry] < min(least, LEAST_DRAWS):
            texts.append(f"{entry}: {tally.entries[entry]} draws, expected {least}")
        is_known = entry in known or entry.startswith("models/")
        if is_known and tally.answered[entry] < min(least, LEAST_DRAWS):
            texts.append(f"{entry}: {tally.answered[entry]} draws with answers, expected {least}")
    return texts


def report(tally: Tally) -> list[str]:
    """The run as lines of text."""
    lines = [
        f"{tally.violated[name]:6,} of {count:7,} violate: {name}"
        for name, count in tally.checks.items()
    ]
    lines += [f"\n{name}\n{text}" for name, text in tally.violations.items()]
    lines += ["", "refused draws by kind:"]
    lines += [
        f"{tally.refused[kind]:6,} of {count:7,} {kind}" for kind, count in tally.kinds.items()
    ]
    lines += [f"{count:6,} times {reason}" for reason, count in tally.reasons.most_common(8)]
    lines += ["", "coverage:"]
    for group in ("accelerators", "models"):
        name, count = rarest(tally.entries, group)
        counts = [tally.answered[e] for e in all_entries() if e.startswith(f"{group}/")]
        answered = min((count for count in counts if count), default=0)
        lines.append(f"{group}: least {count:,} draws ({name}), {answered:,} with answers")
    unanswered = [entry for entry in all_entries() if not tally.answered[entry]]
    lines.append(f"never with an answer: {', '.join(unanswered) or 'none'}")
    lines += [f"{name}: {low:g} to {high:g}" for name, (low, high) in tally.spans.items()]
    return lines
