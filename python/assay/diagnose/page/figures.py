"""The pictures of a diagnosis: waterfall, the step itself, operations, all steps, critical path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from assay.diagnose.page.svg import element, picture, text, titled
from assay.escaping import clipped
from assay.observe.timeline.palette import family

WIDTH: Final = 1000.0
LABELS: Final = 190.0
"""Width of the names at the left of bars."""
VALUES: Final = 150.0
"""Width of the figures at their right."""
ROW: Final = 26.0
MOST_SHAPES: Final = 4000
"""Intervals of a step beyond which a picture would not get clearer: neighbors are then joined."""
MOST_PARTS: Final = 12
SPACE: Final = LABELS, WIDTH - VALUES

Row = Mapping[str, Any]


def duration(ns: float) -> str:
    """A time for people.

    >>> duration(1234.5), duration(5_966_600.0), duration(48.0)
    ('1.23 us', '5,966.6 us', '0.05 us')
    """
    micros = ns / 1e3
    return f"{micros:,.1f} us" if abs(micros) >= 100 else f"{micros:.2f} us"


def waterfall(data: Row) -> str:
    """The terms, each beginning where the last one ended, and the prediction beside the sum."""
    terms = [term for term in data["waterfall"] if term["ns"] > 0]
    total = float(data["step_ns"])
    longest = max(total, float(data.get("hi") or 0.0))
    left, right = SPACE
    scale = (right - left) / longest
    shapes, begun, y = [], 0.0, 0.0
    for term in terms:
        x, width = left + begun * scale, max(term["ns"] * scale, 0.5)
        bar = element("rect", x=x, y=y + 4, width=width, height=ROW - 8, class_=f"t {term['name']}")
        spread = f"{duration(term['lo'])} to {duration(term['hi'])} over the steps"
        shapes += [
            text(term["name"].replace("_", " "), left - 10, y + 17, "label", "end"),
            titled(bar, f"{term['name']}: {duration(term['ns'])}, {spread}"),
            text(f"{duration(term['ns'])}  {term['ns'] / total:.1%}", right + 10, y + 17, "value"),
        ]
        begun += term["ns"]
        y += ROW
        shapes.append(
            element("line", x1=left + begun * scale, x2=left + begun * scale, y1=y - 4, y2=y + 4,
                    class_="joint")
        )  # fmt: skip
    shapes += [
        text("observed", left - 10, y + 17, "label strong", "end"),
        element("rect", x=left, y=y + 4, width=total * scale, height=ROW - 8, class_="observed"),
        text(duration(total), right + 10, y + 17, "value strong"),
    ]
    y += ROW
    if data.get("predicted_ns") is not None:
        shapes += _prediction(data, left, scale, y)
        y += ROW
    return picture("".join(shapes), WIDTH, y + 4, "waterfall of the step, from floor to observed")


def _prediction(data: Row, left: float, scale: float, y: float) -> list[str]:
    expected, low, high = (float(data[name]) for name in ("predicted_ns", "lo", "hi"))
    middle = y + ROW / 2
    return [
        text("predicted", left - 10, y + 17, "label strong", "end"),
        *_whisker(left + low * scale, left + high * scale, middle),
        element("circle", cx=left + expected * scale, cy=middle, r=4.5, class_="expected"),
        text(duration(expected), SPACE[1] + 10, y + 17, "value strong"),
    ]


def _whisker(low: float, high: float, y: float) -> list[str]:
    ends = [element("line", x1=x, x2=x, y1=y - 5, y2=y + 5, class_="whisker") for x in (low, high)]
    return [element("line", x1=low, x2=high, y1=y, y2=y, class_="whisker"), *ends]


def step(data: Row) -> str:
    """The step from its first to its last nanosecond: terms above, operations below."""
    intervals = joined(data["intervals"], data["step_ns"])
    if not intervals:
        return ""
    begin = min(interval["start_ns"] for interval in intervals)
    end = max(interval["start_ns"] + interval["dur_ns"] for interval in intervals)
    scale = WIDTH / max(end - begin, 1)
    shapes = []
    for interval in intervals:
        x, width = (interval["start_ns"] - begin) * scale, max(interval["dur_ns"] * scale, 0.2)
        where = "" if interval["layer"] is None else f", layer {interval['layer']}"
        words = f"{interval['term']}: {duration(interval['dur_ns'])}, {interval['operation'] or 'idle'}{where}"
        kind = "idle" if interval["row"] is None else f"f-{family(interval['operation'] or '')}"
        shapes.append(
            titled(
                element("rect", x=x, y=0, width=width, height=34, class_=f"t {interval['term']}")
                + element("rect", x=x, y=38, width=width, height=18, class_=f"t {kind}"),
                words,
            )
        )
    for share in range(5):
        at = "start" if share == 0 else "end" if share == 4 else "middle"
        words = duration((end - begin) * share / 4)
        shapes.append(text(words, WIDTH * share / 4, 74, "axis", at))
    return picture("".join(shapes), WIDTH, 80, "the step in time, by term and by operation")


def joined(intervals: Sequence[Row], total: float) -> list[dict[str, Any]]:
    """Intervals in order; where there are many, neighbors of one term and operation are joined."""
    ordered = sorted(intervals, key=lambda interval: int(interval["start_ns"]))
    if len(ordered) <= MOST_SHAPES:
        return [dict(interval) for interval in ordered]
    least = total / MOST_SHAPES
    bars: list[dict[str, Any]] = []
    for interval in ordered:
        last = bars[-1] if bars else None
        same = last is not None and last["term"] == interval["term"]
        if last is not None and (same or last["dur_ns"] < least):
            if interval["dur_ns"] > last["dur_ns"]:
                last |= {key: interval[key] for key in ("term", "operation", "layer", "row")}
            last["dur_ns"] = interval["start_ns"] + interval["dur_ns"] - last["start_ns"]
            continue
        bars.append(dict(interval))
    return bars


def operations(data: Row) -> str:
    """Observed time of each operation, its floor within, and what was expected."""
    rows = [operation for operation in data["operations"] if operation["observed_ns"]][:18]
    if not rows:
        return ""
    left, right = SPACE
    longest = max(max(row["observed_ns"], row["expected_ns"] or 0.0) for row in rows)
    scale = (right - left) / longest
    shapes = []
    for place, operation in enumerate(rows):
        y = place * ROW
        floor = min(operation["floor_ns"] or 0.0, operation["observed_ns"])
        bar = element("rect", x=left, y=y + 5, width=operation["observed_ns"] * scale, height=ROW - 10,
                      class_="t kernel_inefficiency")  # fmt: skip
        bar += element(
            "rect", x=left, y=y + 5, width=floor * scale, height=ROW - 10, class_="t floor"
        )
        shapes += [
            text(clipped(operation["operation"], 26), left - 10, y + 17, "label", "end"),
            titled(bar, f"{operation['operation']}: floor {duration(floor)}"),
            text(_beside(operation), right + 10, y + 17, "value"),
        ]
        if operation["expected_ns"] is not None:
            shapes.append(
                titled(
                    element("circle", cx=left + operation["expected_ns"] * scale, cy=y + ROW / 2, r=4,
                            class_="expected"),
                    f"expected {duration(operation['expected_ns'])}, "
                    f"{duration(operation['lo_ns'])} to {duration(operation['hi_ns'])}",
                )
            )  # fmt: skip
    return picture("".join(shapes), WIDTH, len(rows) * ROW + 4, "operations: observed and expected")


def _beside(operation: Row) -> str:
    if not operation["expected_ns"]:
        return duration(operation["observed_ns"])
    return f"{duration(operation['observed_ns'])}  {operation['observed_ns'] / operation['expected_ns']:.2f}x"


def steps(data: Row) -> str:
    """Every step of the trace; the band is the prediction's interval, the line the floor."""
    rows = data["steps"]
    usual = sorted(row["observed_ns"] for row in rows if row["phase"] == data["phase"])
    if not usual:
        return ""
    high: float = 1.25 * max(usual[len(usual) * 9 // 10], data.get("hi") or 0.0)
    tall, left = 170.0, 60.0
    across = (WIDTH - left - 10) / max(len(rows), 1)

    def up(ns: float) -> float:
        return tall - min(ns / high, 1.0) * (tall - 8)

    shapes = []
    if data.get("predicted_ns") is not None:
        top = up(data["hi"])
        shapes += [
            element("rect", x=left, y=top, width=WIDTH - left, height=up(data["lo"]) - top,
                    class_="band"),
            _level(up(data["predicted_ns"]), left, "expected-line", "predicted"),
            _level(up(data["floor_ns"]), left, "floor-line", "floor"),
        ]  # fmt: skip
    for place, row in enumerate(rows):
        x, y = left + (place + 0.5) * across, up(row["observed_ns"])
        kind = f"dot {row['phase'] or 'none'}"
        if row["observed_ns"] > high:
            dot = element("path", d=f"M{x - 4:.1f} 10L{x + 4:.1f} 10L{x:.1f} 2Z", class_=kind)
        else:
            dot = element("circle", cx=x, cy=y, r=min(3.5, max(across / 2.5, 0.8)), class_=kind)
        shapes.append(titled(dot, f"step {row['step']}, {row['phase']}: "
                                  f"{duration(row['observed_ns'])}"))  # fmt: skip
    shapes += [
        text("0", left - 8, tall + 4, "axis", "end"),
        text(f"{high / 1e6:.2f} ms", left - 8, 14, "axis", "end"),
        text("steps in order; a triangle lies above the scale", left, tall + 20, "axis"),
    ]
    return picture("".join(shapes), WIDTH, tall + 26, "time of every step")


def _level(y: float, left: float, class_: str, words: str) -> str:
    line = element("line", x1=left, x2=WIDTH, y1=y, y2=y, class_=class_)
    return line + text(words, WIDTH - 4, y - 4, "axis", "end")


def critical_path(data: Row) -> str:
    """What the critical path consists of, the largest part first."""
    parts = data["critical_path"]["parts"]
    if not parts:
        return ""
    left, right = SPACE
    shown = parts[:MOST_PARTS]
    total = sum(part["ns"] for part in parts)
    scale = (right - left) / max(part["ns"] for part in shown)
    shapes = []
    for place, part in enumerate(shown):
        y = place * ROW
        kind = f"f-{family(part['label'] or '')}" if part["part"] == "device" else "host"
        shapes += [
            text(clipped(part["label"] or part["part"], 26), left - 10, y + 17, "label", "end"),
            titled(
                element("rect", x=left, y=y + 5, width=max(part["ns"] * scale, 0.5),
                        height=ROW - 10, class_=f"t {kind}"),
                f"{part['part']}: {part['label'] or 'no event'}, {part['count']} segments",
            ),
            text(f"{duration(part['ns'])}  {part['ns'] / total:.1%}", right + 10, y + 17, "value"),
        ]  # fmt: skip
    return picture("".join(shapes), WIDTH, len(shown) * ROW + 4, "parts of the critical path")
