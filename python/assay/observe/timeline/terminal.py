"""Draws a view of a trace as text: an axis, the steps, a row for each lane."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from assay.escaping import clipped
from assay.observe.timeline.durations import duration, tick_step
from assay.observe.timeline.palette import label_color

if TYPE_CHECKING:
    from assay.observe.timeline.lanes import Lane
    from assay.observe.timeline.usage import Columns
    from assay.observe.timeline.view import TimelineView

Part = str | tuple[str, str]
Line = str | tuple[Part, ...]

BLOCKS: Final = " \u2581\u2582\u2583\u2584\u2585\u2586\u2587\u2588"
"""How busy a column is, in eighths; what is not idle is never blank."""

_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz"
_OTHER: Final = "*"
_LABEL_WIDTH: Final = 24


@dataclass(frozen=True, slots=True)
class Style:
    """What the terminal can show."""

    width: int
    is_unicode: bool
    is_colorful: bool
    theme: str = "dark"


def chart_columns(width: int) -> int:
    """Columns of time in a terminal of so many columns: beside names and shares."""
    return max(width - _LABEL_WIDTH - 8, 16)


def chart(view: TimelineView, style: Style, most_lanes: int) -> Iterator[Line]:
    """The axis, the steps and the lanes; labels are colored, or named by letters."""
    count = len(view.lanes[0][1].coverage) if view.lanes else chart_columns(style.width)
    keys = legend_keys(view)
    yield from _axis(view, count)
    if view.steps:
        yield _steps(view, style, count)
    group = None
    for lane, cells in view.lanes[: most_lanes or None]:
        if lane.group != group:
            group = lane.group
            yield ((clipped(group, style.width), "bold"),)
        yield from _lane(view, style, lane, cells, keys)


def legend_keys(view: TimelineView) -> dict[str, str]:
    """A letter for each label, those with the most device time first."""
    shown = [total.name for total in view.sums]
    seen = dict.fromkeys(shown)
    for _, cells in view.lanes:
        seen.update(dict.fromkeys(view.words[code] for code in np.unique(cells.label) if code >= 0))
    letters = list(_LETTERS) + [_OTHER] * len(seen)
    return dict(zip(seen, letters, strict=False))


def host_keys(view: TimelineView, style: Style, keys: dict[str, str]) -> Iterator[Line]:
    """The labels of threads, which no table of device time explains."""
    on_device = {total.name for total in view.sums}
    others = [(key, word) for word, key in keys.items() if word not in on_device and key != _OTHER]
    if not others:
        return
    parts: list[Part] = [("threads".ljust(_LABEL_WIDTH), "dim")]
    room = style.width - _LABEL_WIDTH
    for key, word in others:
        sign = "\u25a0" if style.is_unicode and style.is_colorful else key
        text = f" {clipped(word, 30)}  "
        room -= len(text) + 1
        if room < 0:
            parts.append("..")
            break
        parts += [(sign, view.color(word, style.theme)), text]
    yield tuple(parts)


def _lane(
    view: TimelineView, style: Style, lane: Lane, cells: Columns, keys: dict[str, str]
) -> Iterator[Line]:
    label: Part = f"  {clipped(lane.name, _LABEL_WIDTH - 3)} ".ljust(_LABEL_WIDTH)
    share = f" {cells.busy_ns / view.window.dur_ns:6.1%}"
    letters = [_letter(view, keys, cells, column) for column in range(len(cells.label))]
    if not style.is_unicode:
        yield (label, *_colored(view, style, cells, letters), share)
        return
    levels = np.ceil(cells.coverage * 8 - 1e-9).astype(int)
    blocks = [
        BLOCKS[max(level, 1) if code >= 0 else 0]
        for level, code in zip(levels.tolist(), cells.label.tolist(), strict=True)
    ]
    yield (label, *_colored(view, style, cells, blocks), share)
    if not style.is_colorful:
        yield (" " * _LABEL_WIDTH, "".join(letters).lower())


def _letter(view: TimelineView, keys: dict[str, str], cells: Columns, column: int) -> str:
    """The key of a column's label, as a capital where the lane is busy for half of it or more."""
    code = int(cells.label[column])
    if code < 0:
        return " "
    letter = keys[view.words[code]]
    return letter.upper() if cells.coverage[column] >= 0.5 else letter


def _colored(view: TimelineView, style: Style, cells: Columns, signs: list[str]) -> list[Part]:
    """Columns as text, in runs of one label."""
    parts: list[Part] = []
    labels = cells.label.tolist()
    low = 0
    for column in range(1, len(labels) + 1):
        if column < len(labels) and labels[column] == labels[low]:
            continue
        text = "".join(signs[low:column])
        color = view.color(view.words[labels[low]], style.theme) if labels[low] >= 0 else ""
        parts.append((text, color))
        low = column
    return parts


def _axis(view: TimelineView, count: int) -> Iterator[Line]:
    """Times from the start of the trace, above their ticks."""
    window = view.window
    since = window.from_ns - view.drawn.origin_ns
    step = tick_step(window.dur_ns, max(count // 14, 1))
    names, ticks = [" "] * (count + 14), [" "] * (count + 14)
    tick = math.ceil(since / step) * step
    while tick < since + window.dur_ns:
        column = int((tick - since) / window.dur_ns * count)
        text = duration(tick)
        names[column : column + len(text)] = text
        ticks[column] = "|"
        tick += step
    edge = " " * _LABEL_WIDTH
    yield (edge, ("".join(names).rstrip(), "dim"))
    yield (edge, ("".join(ticks)[:count], "dim"), ("   busy", "dim"))


def _steps(view: TimelineView, style: Style, count: int) -> Line:
    """A row in which each step starts with a bar, its phase and its number where they fit."""
    window = view.window
    row: list[str] = [" "] * count
    phases: list[str] = [""] * count
    for step in view.steps:
        low = int((step["start_ns"] - window.from_ns) / window.dur_ns * count)
        end = step["start_ns"] + (step["dur_ns"] or 0)
        high = min(int((end - window.from_ns) / window.dur_ns * count), count - 1)
        first = max(low, 0)
        room = high - first
        words = f"{step['phase'] or 'step'} {step['step']}"
        text = words if len(words) < room else str(step["step"])
        text = "|" + (text if len(text) < room else "")
        row[first : first + len(text)] = text[: count - first]
        phases[first : high + 1] = [step["phase"] or "no phase"] * (high + 1 - first)
    parts: list[Part] = ["steps".ljust(_LABEL_WIDTH)]
    low = 0
    for column in range(1, count + 1):
        if column == count or phases[column] != phases[low]:
            color = label_color(phases[low], "phase", style.theme) if phases[low] else ""
            parts.append(("".join(row[low:column]), color))
            low = column
    return tuple(parts)
