"""Writes the table of scores into README.md: every group of figures, with one source left out.

python scripts/generate_score_table.py          # write it
python scripts/generate_score_table.py --check  # exit with 1 if it is out of date
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from assay.errors import InputError
from assay.validate.groups import GroupScore, score_groups
from assay.validate.run import rows_of, validate
from generated_pages import write_or_check

PAGE = Path(__file__).resolve().parent.parent / "README.md"
COMMAND = "python scripts/generate_score_table.py"
START = "<!-- scores: python scripts/generate_score_table.py -->"
END = "<!-- end of scores -->"
HEADER = (
    "| figures | count | sources | in-sample median | source left out | bar | in 90 % interval |",
    "|---|---|---|---|---|---|---|",
)


def row(group: GroupScore) -> str:
    """One group as a row of the table; what misses its bar is bold."""
    in_sample = "-" if group.in_sample is None else f"{group.in_sample.median:.1%}"
    left_out = "-" if group.held_out is None else f"{group.held_out.median:.1%}"
    inside = "-"
    if group.coverage90 is not None and group.band is not None:
        inside = f"{group.coverage90:.0%} ({group.band[0]:.0%} to {group.band[1]:.0%})"
    if "median" in group.failures:
        left_out = f"**{left_out}**"
    if {"narrow", "wide"} & set(group.failures):
        inside = f"**{inside}**"
    cells = (
        group.name, str(len(group.rows)), str(len(group.by_source)), in_sample, left_out,
        f"{group.bar:.0%}", inside,
    )  # fmt: skip
    return f"| {' | '.join(cells)} |"


def table(groups: Sequence[GroupScore]) -> str:
    """The table as Markdown."""
    return "\n".join([*HEADER, *(row(group) for group in groups)])


def with_table(page: str, groups: Sequence[GroupScore]) -> str:
    """A page with the table between its two comments."""
    before, start, rest = page.partition(START)
    _, end, after = rest.partition(END)
    if not start or not end:
        raise InputError(f"{PAGE.name}: expected the comments {START} and {END}")
    return f"{before}{START}\n{table(groups)}\n{END}{after}"


def main(arguments: Sequence[str]) -> int:
    """Write or check the table."""
    groups = score_groups(rows_of(validate()))
    page = with_table(PAGE.read_text(encoding="utf-8"), groups)
    return write_or_check({PAGE: page}, COMMAND, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
