"""Provenance as text: a tree of names with equations, values to the right, sources below."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import wrap
from typing import Final

from assay.model.resolving.provenance import Provenance, ProvenanceEntry

Part = tuple[str, str]
"""A piece of text and its role: name, value, guide, equation, mark, good, bad, or plain."""

DEEPEST_INDENT: Final = 20
"""Levels that are indented; deeper ones state their level instead."""

MARGIN: Final = 7
"""Columns at the right edge that hold the number of the source."""


def print_tree(
    provenance: Provenance, width: int = 80, guides: tuple[str, str, str] = ("|- ", "`- ", "|  ")
) -> Iterator[tuple[Part, ...]]:
    """Lines of the tree; `guides` are drawn at an entry, at the last entry, and margin others."""
    sources = number_sources(provenance)
    entries = provenance.entries
    is_last = _last_flags(entries)
    open_levels: list[bool] = []
    for position, entry in enumerate(entries):
        del open_levels[max(entry.depth - 1, 0) :]
        rails = _rails(open_levels, guides)
        branch = ""
        if entry.depth:
            branch = guides[1] if is_last[position] else guides[0]
            open_levels.append(not is_last[position])
        yield _headline(entry, _drawn(rails + branch, entry.depth), width, sources)
        margin = _rails(open_levels, guides)
        margin += guides[2] if entry.parts == "listed" else "   "
        yield from _equation(entry, _drawn(margin, entry.depth), width)


def number_sources(provenance: Provenance) -> dict[str, int]:
    """Sources in the order of their first use, numbered from one."""
    numbers: dict[str, int] = {}
    for entry in provenance.entries:
        if entry.source:
            numbers.setdefault(entry.source, len(numbers) + 1)
    return numbers


def print_sources(provenance: Provenance, width: int = 80) -> Iterator[tuple[Part, ...]]:
    """Lines of the list of sources."""
    for source, number in number_sources(provenance).items():
        mark = f"[{number}]"
        first, *others = wrap(source, width - 6, break_long_words=False) or [""]
        yield ((mark.ljust(6), "mark"), (first, "plain"))
        for other in others:
            yield ((" " * 6 + other, "plain"),)


def _last_flags(entries: tuple[ProvenanceEntry, ...]) -> list[bool]:
    """Whether each entry is the last input of its parent."""
    flags = [True] * len(entries)
    next_at_level: dict[int, bool] = {}
    for position in reversed(range(len(entries))):
        depth = entries[position].depth
        flags[position] = not next_at_level.get(depth, False)
        next_at_level[depth] = True
        next_at_level[depth + 1] = False
    return flags


def _rails(open_levels: list[bool], guides: tuple[str, str, str]) -> str:
    return "".join(guides[2] if is_open else "   " for is_open in open_levels[:DEEPEST_INDENT])


def _drawn(indent: str, depth: int) -> str:
    return indent if depth <= DEEPEST_INDENT else f"({depth}) "


def _headline(
    entry: ProvenanceEntry, indent: str, width: int, sources: dict[str, int]
) -> tuple[Part, ...]:
    name = entry.variable.name
    if entry.value is not None:
        value, role = entry.variable.figure(entry.value).text, "value"
    elif entry.status == "missing":
        value, role = f"missing, in {entry.variable.display}", "bad"
    else:
        value, role = "unknown", "bad"
    mark = f"[{sources[entry.source]}]" if entry.source else ""
    if entry.parts == "above":
        mark = "above"
    gap = width - MARGIN - len(indent) - len(name) - len(value) - 2
    leader = " " + "." * gap + " " if gap > 1 else "  "
    return (
        (indent, "guide"), (name, "name"), (leader, "guide"), (value, role),
        (f"  {mark}", "mark"),
    )  # fmt: skip


def _equation(entry: ProvenanceEntry, indent: str, width: int) -> Iterator[tuple[Part, ...]]:
    if entry.relation is None or entry.parts == "above":
        return
    text = entry.relation.text.removeprefix(f"{entry.relation.variable} ")
    room = max(width - len(indent), 30)
    lines = wrap(text, room, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    for line in lines:
        yield ((indent, "guide"), (line, "equation"))
    if entry.relation.kind != "equation":
        yield ((indent, "guide"), (f"{entry.relation.kind} {entry.relation.name}", "mark"))
    if entry.block:
        yield ((indent, "guide"), (f"solved together in {entry.block}", "mark"))
    if entry.parts == "cut":
        yield ((indent, "guide"), ("...", "mark"))
