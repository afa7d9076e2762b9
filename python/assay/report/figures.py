"""The pictures of a report: before and after, every trial, confidence sequences, the timeline."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from assay.diagnose.page import figures as diagnosis
from assay.diagnose.page.figures import LABELS, ROW, WIDTH
from assay.diagnose.page.svg import element, picture, text, titled
from assay.escaping import clipped
from assay.improve.experiments.levels import coverage
from assay.intervals import Interval
from assay.report import words
from assay.report.claim import Claim
from assay.report.grouping import named, starting
from assay.report.headline import outcome_of
from assay.report.run_files import Row, selected

VALUES: Final = 250.0
"""Width of the figures at the right of bars."""
LEFT, RIGHT = LABELS + 20, WIDTH - VALUES
WIDEST_RATIO: Final = 8.0
"""Intervals are drawn up to this ratio and its inverse; an arrow says that they go on."""


def before_after(claims: Sequence[Claim], blocks: Sequence[Row], labels: tuple[str, str]) -> str:
    """Both levels by their labels: every block a tick, the median a dot, its interval a line."""
    known = named(claims)
    rows = [
        (label, known[name], kind)
        for label, name, kind in (
            (labels[0], "start.level", "control"),
            (labels[1], "final.level", "treatment"),
        )
        if name in known and known[name].figure is not None
    ]
    if not rows:
        return ""
    ticks = {claim.name: _values(claim, blocks) for _, claim, _ in rows}
    most = max(
        max([*ticks[claim.name], claim.figure.hi])
        for _, claim, _ in rows
        if claim.figure is not None
    )
    scale = (RIGHT - LEFT) / (1.04 * most)
    shapes = []
    for place, (label, claim, kind) in enumerate(rows):
        figure = claim.figure
        assert figure is not None
        y = place * 46.0 + 24
        shapes += [
            text(label, LEFT - 14, y + 4, "label strong", "end"),
            element("rect", x=LEFT, y=y - 11, width=figure.value * scale, height=22,
                    class_=f"amount {kind}"),
        ]  # fmt: skip
        shapes += [
            element("line", x1=LEFT + tick * scale, x2=LEFT + tick * scale, y1=y - 11, y2=y + 11,
                    class_=f"tick {kind}")
            for tick in ticks[claim.name]
        ]  # fmt: skip
        shapes += [
            titled(_whisker(LEFT, scale, figure, y, kind), words.shown(figure, claim.unit)),
            text(words.amount(figure.value, claim.unit), RIGHT + 14, y, "value strong"),
            text(_interval(figure, len(ticks[claim.name])), RIGHT + 14, y + 15, "axis"),
        ]
    bottom = 46.0 * len(rows) + 6
    if len(rows) == 2 and (first := rows[0][1].figure) is not None:
        x = LEFT + first.value * scale
        shapes.append(element("line", x1=x, x2=x, y1=13, y2=bottom, class_="threshold"))
    shapes += _axis(LEFT, RIGHT, bottom, most * 1.04, rows[0][1].unit)
    return picture("".join(shapes), WIDTH, bottom + 24, "the metric before and after")


def _values(claim: Claim, blocks: Sequence[Row]) -> list[float]:
    chosen = selected(blocks, claim.evidence[0].select)
    return [float(row["value"]) for row in chosen if not row["dropped"]]


def _interval(figure: Interval, count: int) -> str:
    return f"{words.interval(figure, '')}, {coverage(count):.0%}, {count} blocks"


def _whisker(left: float, scale: float, figure: Interval, y: float, kind: str) -> str:
    low, high = left + figure.lo * scale, left + figure.hi * scale
    return (
        element("line", x1=low, x2=high, y1=y, y2=y, class_=f"range {kind}")
        + element("circle", cx=left + figure.value * scale, cy=y, r=5.5, class_=f"mark {kind}")
    )  # fmt: skip


def _axis(left: float, right: float, y: float, most: float, unit: str) -> list[str]:
    step = _nice(most / 5)
    shapes = [element("line", x1=left, x2=right, y1=y, y2=y, class_="rule")]
    for place in range(int(most / step) + 1):
        x = left + (right - left) * place * step / most
        words_here = words.number(place * step) if place else "0"
        shapes.append(text(_trimmed(words_here), x, y + 15, "axis", "middle"))
    shapes.append(text(unit, right + 34, y + 15, "axis"))
    return shapes


def _trimmed(number: str) -> str:
    return number.rstrip("0").rstrip(".") if "." in number else number


def _nice(value: float) -> float:
    """The next step that people count in: 1, 2 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(value)) if value > 0 else 1.0
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= value * 0.999)


def trials(claims: Sequence[Claim], threshold: float) -> str:
    """Every trial's ratio and interval, the forecast behind it, and the lines it must clear."""
    rows = starting(claims, "experiment.")
    if not rows:
        return ""
    low, high = _limits(rows, threshold)
    span = math.log(high / low)

    def across(ratio: float) -> float:
        return LEFT + (RIGHT - LEFT) * math.log(min(max(ratio, low), high) / low) / span

    shapes = []
    tall = ROW * len(rows) + 10
    for ratio, kind in ((1.0, "unity"), (1 + threshold, "threshold")):
        x = across(ratio)
        shapes.append(element("line", x1=x, x2=x, y1=0, y2=tall, class_=kind))
    for place, claim in enumerate(rows):
        shapes += _trial(claim, place, across, (low, high))
    for ratio_tick in _ratio_ticks(low, high):
        shapes.append(text(f"{ratio_tick:g}x", across(ratio_tick), tall + 15, "axis", "middle"))
    note = f"dashed: the practical threshold, {words.amount(1 + threshold, 'x')}"
    shapes.append(text(note, LEFT, tall + 34, "axis"))
    return picture("".join(shapes), WIDTH, tall + 40, "ratio of every trial with its interval")


def _limits(rows: Sequence[Claim], threshold: float) -> tuple[float, float]:
    seen = [1 - threshold, 1 + 2 * threshold]
    for claim in rows:
        forecast = claim.details.get("forecast")
        for interval in (claim.figure, Interval(**forecast) if forecast else None):
            if interval is not None:
                seen += [ratio for ratio in interval if math.isfinite(ratio) and ratio > 0]
    room = 1.03
    return (max(min(seen) / room, 1 / WIDEST_RATIO), min(max(seen) * room, WIDEST_RATIO))


def _ratio_ticks(low: float, high: float) -> list[float]:
    for ticks in (
        (0.98, 0.99, 1.0, 1.01, 1.02, 1.03, 1.04),
        (0.9, 0.95, 1.0, 1.05, 1.1, 1.15, 1.2),
        (0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.2, 1.4, 1.6, 1.8, 2.0),
        (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0),
    ):
        if ticks[0] <= low * 1.05 and ticks[-1] >= high / 1.1:
            break
    return [tick for tick in ticks if low <= tick <= high]


def _trial(claim: Claim, place: int, across: Any, limits: tuple[float, float]) -> list[str]:
    y = place * ROW + ROW / 2 + 4
    details = claim.details
    kind = outcome_class(claim)
    label = f"{place + 1}  {words.settings(details['changes']) or details['candidate']}"
    shapes = [text(clipped(label, 28), LEFT - 14, y + 4, "label", "end")]
    if forecast := details.get("forecast"):
        expected = Interval(**forecast)
        bar = element(
            "rect", x=across(expected.lo), y=y - 7, height=14, class_="forecast",
            width=max(across(expected.hi) - across(expected.lo), 2.0), rx=3,
        )  # fmt: skip
        bar += element("circle", cx=across(expected.value), cy=y, r=3, class_="forecast-mark")
        shapes.append(titled(bar, f"forecast {words.shown(expected, words.RATIO)}"))
    if claim.figure is not None:
        shapes.append(titled(_ratio_mark(claim.figure, across, y, kind, limits), claim.statement))
    value = "-" if claim.figure is None else words.amount(claim.figure.value, words.RATIO)
    shapes += [
        text(value, RIGHT + 14, y + 4, "value strong"),
        text(clipped(outcome_of(claim), 26), RIGHT + 84, y + 4, f"value {kind}"),
    ]
    return shapes


def _ratio_mark(
    figure: Interval, across: Any, y: float, kind: str, limits: tuple[float, float]
) -> str:
    shapes = element(
        "line", x1=across(figure.lo), x2=across(figure.hi), y1=y, y2=y, class_=f"range {kind}"
    )
    for end, inside, turn in (
        (figure.lo, figure.lo >= limits[0], -6),
        (figure.hi, figure.hi <= limits[1], 6),
    ):
        if not inside:
            x = across(end)
            arrow = f"M{x:.1f} {y - 4:.1f}L{x + turn:.1f} {y:.1f}L{x:.1f} {y + 4:.1f}Z"
            shapes += element("path", d=arrow, class_=f"mark {kind}")
    return shapes + element("circle", cx=across(figure.value), cy=y, r=5, class_=f"mark {kind}")


def outcome_class(claim: Claim) -> str:
    """How a trial is colored."""
    if claim.details.get("failure"):
        return "failed"
    if claim.details.get("role") == "kept":
        return "kept"
    return {"improved": "better", "regressed": "worse"}.get(claim.verdict, "open")


MOST_BLOCKS: Final = 2000
"""Blocks of a timeline beyond which none says its value when pointed at: pages stay small."""
ACROSS: Final = 4
"""Confidence sequences in a row."""
CELL: Final = 250.0, 150.0


def sequences(
    looks: Mapping[str, Sequence[Interval]], claims: Sequence[Claim], threshold: float
) -> str:
    """The confidence sequence of each experiment, look by look."""
    drawn = [claim for claim in claims if len(looks.get(claim.name, ())) >= 2]
    if not drawn:
        return ""
    shapes = []
    for place, claim in enumerate(drawn):
        x, y = (place % ACROSS) * CELL[0], (place // ACROSS) * CELL[1]
        sequence = _sequence(claim, looks[claim.name], threshold)
        shapes.append(element("g", sequence, transform=f"translate({x:g} {y:g})"))
    rows = (len(drawn) + ACROSS - 1) // ACROSS
    return picture(
        "".join(shapes), WIDTH, rows * CELL[1], "confidence sequences of the experiments"
    )


def _sequence(claim: Claim, looks: Sequence[Interval], threshold: float) -> str:
    wide, top, bottom = CELL[0] - 62, 30.0, CELL[1] - 28
    last = looks[-1]
    # The scale is that of the last look and of the lines it must clear; early looks are cut.
    low = min(1 / (1 + threshold), last.lo)
    high = max(1 + threshold, last.hi)
    room = 0.35 * math.log(high / low)
    low, high = math.log(max(low, 1 / WIDEST_RATIO)) - room, math.log(min(high, 99.0)) + room

    def up(ratio: float) -> float:
        level = math.log(ratio) if ratio > 0 else low
        return top + (bottom - top) * (high - min(max(level, low), high)) / (high - low)

    def across(look: int) -> float:
        return 6 + wide * look / (len(looks) - 1)

    kind = _sequence_class(claim)
    upper = [f"{across(place):.1f} {up(look.hi):.1f}" for place, look in enumerate(looks)]
    lower = [f"{across(place):.1f} {up(look.lo):.1f}" for place, look in enumerate(looks)]
    middle = [f"{across(place):.1f} {up(look.value):.1f}" for place, look in enumerate(looks)]
    shapes = [
        text(clipped(_sequence_name(claim), 29), 6, 16, "label strong"),
        element("path", d=f"M{'L'.join([*upper, *reversed(lower)])}Z", class_=f"band {kind}"),
        element("line", x1=6, x2=6 + wide, y1=up(1.0), y2=up(1.0), class_="unity"),
        element("line", x1=6, x2=6 + wide, y1=up(1 + threshold), y2=up(1 + threshold),
                class_="threshold"),
        element("path", d=f"M{'L'.join(middle)}", class_=f"path {kind}"),
        text(words.amount(last.value, words.RATIO), 10 + wide, up(last.value) + 4, "value strong"),
        text(f"{len(looks) + 1} pairs", 6, CELL[1] - 12, "axis"),
    ]  # fmt: skip
    if abs(up(1.0) - up(last.value)) > 14:
        shapes.append(text("1x", 10 + wide, up(1.0) + 4, "axis"))
    return titled("".join(shapes), f"{claim.statement}; {len(looks)} looks")


def _sequence_name(claim: Claim) -> str:
    role = claim.details.get("role")
    if role == "left out":
        return f"with over without {claim.details['lever']}"
    changes = words.settings(claim.details.get("changes") or {})
    return {"noise": "A/A: start over start", "confirmation": "all together over the start"}.get(
        str(role), changes or str(claim.details.get("candidate"))
    )


def _sequence_class(claim: Claim) -> str:
    is_check = claim.details.get("role") in ("left out", "confirmation")
    return "kept" if is_check and claim.verdict == "improved" else outcome_class(claim)


def timeline(claims: Sequence[Claim], blocks: Sequence[Row], unit: str) -> str:
    """Every block over time, by arm; a cross is a block that was dropped."""
    rows = [row for row in blocks if row["value"] is not None and math.isfinite(row["value"])]
    if not rows:
        return ""
    begin = min(row["started_at"] for row in rows)
    end = max(row["started_at"] + row["seconds"] for row in rows)
    most = 1.08 * max(float(row["value"]) for row in rows)
    left, tall, top = 60.0, 200.0, 26.0
    scale = (WIDTH - left - 10) / max(end - begin, 1e-9)

    def up(value: float) -> float:
        return top + (tall - top) * (1 - max(value, 0.0) / most)

    shapes = _bands(claims, rows, lambda at: left + (at - begin) * scale, tall)
    many = len(rows) > MOST_BLOCKS
    for row in rows:
        shapes.append(_block(row, left + (row["started_at"] - begin) * scale, scale, up, many))
    step = _nice(most / 5)
    for place in range(int(most / step) + 1):
        level = _trimmed(words.number(place * step)) if place else "0"
        shapes.append(text(level, left - 8, up(place * step) + 4, "axis", "end"))
        shapes.append(
            element("line", x1=left, x2=WIDTH - 10, y1=up(place * step), y2=up(place * step),
                    class_="grid")
        )  # fmt: skip
    for share in range(5):
        at = "start" if share == 0 else "end" if share == 4 else "middle"
        x = left + (WIDTH - 10 - left) * share / 4
        shapes.append(text(words.seconds((end - begin) * share / 4), x, tall + 18, "axis", at))
    shapes.append(text(unit, 0, 14, "axis"))
    return picture("".join(shapes), WIDTH, tall + 24, "every block over time, by arm")


def _bands(claims: Sequence[Claim], rows: Sequence[Row], across: Any, tall: float) -> list[str]:
    numbers = {
        claim.details["experiment"]: str(place + 1)
        for place, claim in enumerate(starting(claims, "experiment."))
    }
    others = {"noise": "A/A", "confirmation": "confirm", "left out": "without"}
    for claim in claims:
        if (role := claim.details.get("role")) in others:
            numbers.setdefault(claim.details["experiment"], others[role])
    spans: dict[str, tuple[float, float]] = {}
    for row in rows:
        low, high = spans.get(row["experiment"], (math.inf, -math.inf))
        spans[row["experiment"]] = (
            min(low, row["started_at"]),
            max(high, row["started_at"] + row["seconds"]),
        )
    shapes, last = [], -math.inf
    for place, (name, (low, high)) in enumerate(sorted(spans.items(), key=lambda span: span[1])):
        x, width = across(low), max(across(high) - across(low), 1.0)
        band = element("rect", x=x, y=20, width=width, height=tall - 20,
                       class_="span odd" if place % 2 else "span")  # fmt: skip
        shapes.append(titled(band, f"experiment {name}"))
        label = numbers.get(name, name)
        if x - last >= 7.0 * len(label) + 6:
            shapes.append(text(clipped(label, 14), x + 2, 14, "axis"))
            last = x
    return shapes


def _block(row: Row, x: float, scale: float, up: Any, is_plain: bool) -> str:
    width = max(row["seconds"] * scale - 0.5, 1.5)
    y = up(row["value"])
    what = f"{row['experiment']}, pair {row['pair']}, {row['arm']}: {words.number(row['value'])}"
    if row["dropped"]:
        middle = x + width / 2
        cross = f"M{middle - 4:.1f} {y - 4:.1f}l8 8m0 -8l-8 8"
        kind = "dropped warm-up" if row["dropped"] == "warm-up" else "dropped"
        return titled(element("path", d=cross, class_=kind), f"{what}, dropped: {row['dropped']}")
    bar = element("rect", x=x, y=y - 2, width=width, height=4, class_=f"block {row['arm']}")
    return bar if is_plain else titled(bar, what)


def waterfall(claims: Sequence[Claim], prediction: Mapping[str, Any] | None) -> str:
    """The median step from its floor to what was observed, as `assay diagnose` draws it."""
    terms = [
        term
        for term in starting(claims, "waterfall.")
        if term.unit == "us" and term.figure is not None
    ]
    observed = named(claims).get("waterfall.observed")
    if observed is None or observed.figure is None:
        return ""
    data = {
        "waterfall": [
            {
                "name": term.name.removeprefix("waterfall."),
                "ns": 1e3 * term.figure.value,
                "lo": 1e3 * term.figure.lo,
                "hi": 1e3 * term.figure.hi,
            }
            for term in terms
            if term.figure is not None and term.name != "waterfall.observed"
        ],
        "step_ns": 1e3 * observed.figure.value,
        "predicted_ns": None,
        "lo": None,
        "hi": None,
    }
    if prediction and prediction.get("expected_ns"):
        data |= {
            "predicted_ns": prediction["expected_ns"],
            "lo": prediction["lo_ns"],
            "hi": prediction["hi_ns"],
        }
    return diagnosis.waterfall(data)
