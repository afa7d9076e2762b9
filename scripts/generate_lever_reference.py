"""Writes docs/reference/levers.md from the library of levers.

python scripts/generate_lever_reference.py          # write it
python scripts/generate_lever_reference.py --check  # exit with 1 if it is out of date
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from assay.cli.levers import value
from assay.improve.levers import facts, schema
from assay.improve.levers.lever import Lever
from assay.improve.levers.loading import built_in
from generated_pages import write_or_check

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "levers.md"
COMMAND = "python scripts/generate_lever_reference.py"
FUNCTIONS = {
    'capability("NAME")': "whether the engine can do something: cuda-graphs, speculation",
    'has_knob("NAME")': "whether the engine has a knob",
    'cause("NAME")': "share of a step's time of a cause; null without a diagnosis",
    'term("NAME")': "share of a step's time of a term of the waterfall; null without a diagnosis",
    "min(A, B), max(A, B)": "the smaller, the larger",
}


def write_page() -> str:
    """The whole page as Markdown."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    levers = built_in()
    yield "# Levers"
    yield ""
    yield f"Written by `{COMMAND}` from the library; do not edit."
    yield ""
    yield (
        f"{len(levers)} levers that `assay run` may try. How to write your own: "
        "[levers](../guides/levers.md)."
    )
    yield ""
    for engine in dict.fromkeys(lever.engine for lever in levers):
        yield f"## {engine}"
        yield ""
        for lever in levers:
            if lever.engine == engine:
                yield from _lever(lever)
    yield from _table("Keys of a lever", ("key", "value"), schema.KEYS)
    yield from _table("Facts of a workload", ("workload.NAME", "meaning"), facts.WORKLOAD)
    yield from _table("Facts of the machine", ("hardware.NAME", "meaning"), facts.HARDWARE)
    yield from _table("Functions", ("function", "meaning"), FUNCTIONS)


def _lever(lever: Lever) -> Iterator[str]:
    change = "live" if lever.hot else "by a restart"
    yield f"### {lever.engine}/{lever.name}"
    yield ""
    yield lever.mechanism
    yield ""
    for knob in lever.knobs:
        values = ", ".join(f"`{value(setting)}`" for setting in knob.values)
        risk = f"; {knob.riskier} values need more memory" if knob.riskier else ""
        yield f"- `{knob.knob}`: {values}{risk}"
    yield f"- Changes {change}; risk: {lever.safety}; outputs: {lever.correctness}."
    if lever.memory:
        yield "- What it gains depends on how much memory there is."
    if lever.applies:
        yield f"- Applies where {' and '.join(f'`{condition}`' for condition in lever.applies)}."
    if lever.addresses:
        yield f"- Addresses {', '.join(lever.addresses)}."
    if lever.changes:
        yield f"- Replayed as {', '.join(f'`{change}`' for change in lever.changes)}."
    yield f"- {lever.reference}"
    yield ""


def _table(title: str, header: tuple[str, str], rows: Mapping[str, str]) -> Iterator[str]:
    yield f"## {title}"
    yield ""
    yield f"| {header[0]} | {header[1]} |"
    yield "|---|---|"
    for name, meaning in rows.items():
        yield f"| `{name}` | {meaning} |"
    yield ""


def main(arguments: Sequence[str]) -> int:
    """Write the page, or compare it."""
    return write_or_check({PAGE: write_page()}, COMMAND, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
