"""Writes docs/reference/gate.md and its picture: how often `assay gate` is right, over planted series.

python scripts/generate_gate_reference.py          # write it; some minutes
python scripts/generate_gate_reference.py --check  # exit with 1 if it is out of date

Series come from scripts/gate_series.py; what judges them is the code of the gate, look by look.
"""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import gate_series
from assay.gating.judging import judge
from assay.gating.settings import GateSettings
from assay.improve.experiments.confidence_sequence import ConfidenceSequence, Design
from assay.improve.experiments.pairs import as_ratios
from assay.improve.experiments.verdict import decide
from generated_pages import write_or_check

DOCS: Final = Path(__file__).resolve().parent.parent / "docs"
PAGE: Final = DOCS / "reference" / "gate.md"
PICTURE: Final = DOCS / "images" / "gate.svg"
COMMAND: Final = "python scripts/generate_gate_reference.py"

EQUAL_RUNS: Final = 10_000
LENGTHS: Final = (4, 8, 16, 40, 200)
"""Pairs up to which false alarms are counted."""
PLANTED_RUNS: Final = 2_000
MOST_PAIRS: Final = 60
EFFECTS: Final = (-0.02, -0.05, -0.10)
SPREADS: Final = (0.005, 0.01, 0.02, 0.04)
CURVE: Final = (4, 6, 8, 12, 16, 24, 40, 60)
POWER: Final = 0.9
BLOCK_S: Final = 5 * 2.0
"""Seconds of a visit: two blocks of warm-up and three that count."""
START_S: Final = {"2 s": 2.0, "20 s": 20.0, "85 s": 85.0}


class Equal(NamedTuple):
    """Equal sides, compared again and again."""

    alarms: Mapping[int, float]
    """Share of runs in which some look up to a number of pairs says improved or regressed."""
    after_two: float
    """The same up to the longest, where two pairs were enough for a verdict."""


def equal_sides(family: gate_series.Family, runs: int, seed: int = 0) -> Equal:
    """False alarms of a family of noise; every run goes on to the end, whatever a look says."""
    most = max(LENGTHS)
    ratios, _ = gate_series.log_ratios(family, 0.0, runs, most, seed)
    settings = GateSettings()
    first: list[float] = []
    early = 0
    for series in ratios.tolist():
        sequence = ConfidenceSequence(settings.alpha, Design(clips=False))
        alarm, is_early = math.inf, False
        for pairs, value in enumerate(series, 1):
            interval = sequence.add(value)
            if pairs < 2 or (interval.lo <= 0.0 <= interval.hi):
                continue
            ratio = as_ratios(interval)
            if decide(ratio, settings.threshold).verdict == "undecided":
                continue
            is_early = True
            if judge(ratio, pairs, settings).verdict != "undecided":
                alarm = pairs
                break
        first.append(alarm)
        early += is_early
    alarms = {length: sum(at <= length for at in first) / runs for length in LENGTHS}
    return Equal(alarms, early / runs)


class Planted(NamedTuple):
    """A planted slowdown, found or not."""

    regressed_after: list[float]
    """Pairs of each run; infinite where it was not found."""
    improved: float
    passed: float
    """Share of runs that ended with the margin excluded."""

    def found(self, pairs: int) -> float:
        """Share of runs that found it after so many pairs at most."""
        return sum(after <= pairs for after in self.regressed_after) / len(self.regressed_after)

    def pairs_for(self, power: float) -> float:
        """Pairs after which this share of the runs found it; infinite where fewer do."""
        return sorted(self.regressed_after)[math.ceil(power * len(self.regressed_after)) - 1]


def planted(
    family: gate_series.Family, effect: float, runs: int, margin: float, seed: int = 1
) -> Planted:
    """Comparisons as the gate makes them: A/A of four starts first, and an end at the first verdict."""
    ratios, before = gate_series.log_ratios(family, effect, runs, MOST_PAIRS, seed)
    settings = GateSettings(margin=margin)
    after, improved, passed = [], 0, 0
    for series, starts in zip(ratios.tolist(), before.tolist(), strict=True):
        # Half of the spread, as few starts tell it.
        least_sd = 0.5 * math.sqrt(2.0) * statistics.stdev(starts)
        sequence = ConfidenceSequence(settings.alpha, Design(least_sd=least_sd, clips=False))
        end = math.inf
        for pairs, value in enumerate(series, 1):
            interval = sequence.add(value)
            if not math.isfinite(interval.hi):
                continue
            judgment = judge(as_ratios(interval), pairs, settings)
            if judgment.final:
                end = pairs if judgment.verdict == "regressed" else math.inf
                improved += judgment.verdict == "improved"
                passed += judgment.passed
                break
        after.append(end)
    return Planted(after, improved / runs, passed / runs)


def write_page() -> dict[Path, str]:
    """The page and its picture."""
    curves = {
        (spread, effect): planted(gate_series.normal(spread), effect, PLANTED_RUNS, abs(effect))
        for spread in SPREADS
        for effect in EFFECTS
    }
    return {PAGE: "\n".join(_lines(curves)) + "\n", PICTURE: _picture(curves)}


def _lines(curves: Mapping[tuple[float, float], Planted]) -> Iterator[str]:
    yield "# How often a gate is right"
    yield ""
    yield f"Written by `{COMMAND}`; do not edit. What is compared, and why so: [the gate](../design/gate.md)."
    yield ""
    yield "Series are planted (`scripts/gate_series.py`) and judged by the gate's own code after every pair."
    yield ""
    yield "## False alarms"
    yield ""
    yield (
        f"Equal sides, {EQUAL_RUNS:,} runs for each kind of noise: share that improved or regressed at any look "
        f"up to a number of pairs. The last column is that of {LENGTHS[-1]} pairs where two may be enough, "
        "which is why four are needed."
    )
    yield ""
    header = ["noise of starts", *(f"{length} pairs" for length in LENGTHS), "two are enough"]
    yield from _head(header)
    for name, family in gate_series.FAMILIES.items():
        equal = equal_sides(family, EQUAL_RUNS)
        cells = [*(equal.alarms[length] for length in LENGTHS), equal.after_two]
        yield f"| {name} | {' | '.join(_percent(cell) for cell in cells)} |"
    yield ""
    yield "## Detection"
    yield ""
    yield (
        f"Planted slowdowns, {PLANTED_RUNS:,} runs each: share of runs that say regressed after at most so many "
        "pairs. Noise is the standard deviation from start to start; the margin of the gate is the planted slowdown."
    )
    yield ""
    yield "![share of runs that find a slowdown, by pairs](../images/gate.svg)"
    yield ""
    yield from _head(["noise", "slowdown", *map(str, CURVE), "said improved"])
    for (spread, effect), done in curves.items():
        cells = [*(done.found(pairs) for pairs in CURVE), done.improved]
        yield (
            f"| {_percent(spread)} | {_percent(-effect)} | "
            f"{' | '.join(_percent(cell) for cell in cells)} |"
        )
    yield ""
    yield "Other noise, a slowdown of 5 %:"
    yield ""
    yield from _head(["noise of starts", *map(str, CURVE), "said improved"])
    for name, family in gate_series.FAMILIES.items():
        done = planted(family, -0.05, PLANTED_RUNS, 0.05)
        cells = [*(done.found(pairs) for pairs in CURVE), done.improved]
        yield f"| {name} | {' | '.join(_percent(cell) for cell in cells)} |"
    yield ""
    yield "## Time"
    yield ""
    yield (
        f"Pairs after which {POWER:.0%} of the runs have found a slowdown, and the minutes that they take where a "
        f"start takes so long and is measured for {BLOCK_S:.0f} s, warm-up included. The A/A before adds two pairs."
    )
    yield ""
    yield from _head(["noise", "slowdown", "pairs", *(f"start {name}" for name in START_S)])
    for (spread, effect), done in curves.items():
        pairs = done.pairs_for(POWER)
        if math.isfinite(pairs):
            times = (2.0 * pairs * (start + BLOCK_S) / 60.0 for start in START_S.values())
            texts = [f"{pairs:.0f}", *(f"{minutes:.0f} min" for minutes in times)]
        else:
            texts = [f"more than {MOST_PAIRS}", *("" for _ in START_S)]
        yield f"| {_percent(spread)} | {_percent(-effect)} | {' | '.join(texts)} |"
    yield ""
    yield (
        "`assay gate` prints the same for the server at hand after its A/A pairs: what its starts differ by, and how "
        "long the margin will take."
    )


def _head(cells: Sequence[str]) -> Iterator[str]:
    yield f"| {' | '.join(cells)} |"
    yield f"|{'---|' * len(cells)}"


def _percent(value: float) -> str:
    return f"{100.0 * value:.1f} %" if value < 0.0995 else f"{100.0 * value:.0f} %"


_COLORS: Final = {-0.02: "#b45309", -0.05: "#2563eb", -0.10: "#15803d"}
_DASHES: Final = dict(zip(SPREADS, ("none", "8 3", "4 3", "1 3"), strict=True))


def _picture(curves: Mapping[tuple[float, float], Planted]) -> str:
    """Detection by pairs: a color for each slowdown, a dash for each noise."""
    left, top, wide, tall = 50.0, 16.0, 560.0, 260.0

    def across(pairs: float) -> str:
        return f"{left + wide * math.log(pairs / 4.0) / math.log(MOST_PAIRS / 4.0):.1f}"

    def height(share: float) -> str:
        return f"{top + tall * (1.0 - share):.1f}"

    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" width="760" height="330" '
        'font-family="sans-serif" font-size="12">',
        '<rect width="760" height="330" fill="#fff"/>',
    ]
    for share in (0.0, 0.25, 0.5, 0.75, 0.9, 1.0):
        place, ends = height(share), (across(4), across(MOST_PAIRS))
        parts.append(
            f'<line x1="{ends[0]}" x2="{ends[1]}" y1="{place}" y2="{place}" stroke="#ddd"/>'
        )
        parts.append(f'<text x="{left - 8}" y="{place}" text-anchor="end">{share:.0%}</text>')
    for pairs in CURVE:
        parts.append(
            f'<text x="{across(pairs)}" y="{top + tall + 18}" text-anchor="middle">{pairs}</text>'
        )
    parts.append(
        f'<text x="{left + wide / 2}" y="{top + tall + 38}" text-anchor="middle">pairs</text>'
    )
    for (spread, effect), done in curves.items():
        points = " ".join(
            f"{across(pairs)},{height(done.found(pairs))}" for pairs in range(4, MOST_PAIRS + 1)
        )
        parts.append(
            f'<polyline points="{points}" fill="none" stroke="{_COLORS[effect]}" '
            f'stroke-width="2" stroke-dasharray="{_DASHES[spread]}"/>'
        )
    y = top + 10.0
    for effect, color in _COLORS.items():
        parts.append(f'<text x="630" y="{y}" fill="{color}">{-effect:.0%} slower</text>')
        y += 18.0
    for spread, dash in _DASHES.items():
        parts.append(
            f'<line x1="630" x2="660" y1="{y - 4}" y2="{y - 4}" stroke="#333" stroke-width="2" '
            f'stroke-dasharray="{dash}"/><text x="668" y="{y}">noise {spread:.1%}</text>'
        )
        y += 18.0
    return "\n".join([*parts, "</svg>"]) + "\n"


if __name__ == "__main__":
    sys.exit(write_or_check(write_page(), COMMAND, sys.argv[1:]))
