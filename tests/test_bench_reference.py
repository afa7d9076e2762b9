"""The generated benchmark pages match the stored results."""

import re
from pathlib import Path

import pytest

import generate_bench_reference


def test_pages_are_up_to_date(capsys: pytest.CaptureFixture[str]) -> None:
    assert generate_bench_reference.main(["--check"]) == 0, capsys.readouterr().err


def test_check_notices_a_change(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(generate_bench_reference, "COMMAND", "something else")
    assert generate_bench_reference.main(["--check"]) == 1
    assert "out of date" in capsys.readouterr().err


GENERATED = re.compile(r"(?s)<!-- [\w-]+: python scripts/[^>]*-->.*?<!-- end -->")
WRITTEN = re.compile(r"Written by `python scripts/")
"""Pages that a script writes as a whole say so."""
TABLE = re.compile(r"(?m)^\|[^\n]*\n\|[-:| ]+\|\n(?:\|[^\n]*(?:\n|\Z))+")
FIGURE = re.compile(
    r"\**[~+-]?[0-9][0-9.,e+]*\**(?: (?:/|to|-) [0-9][0-9.,]*)? ?"
    r"(?:%|x|[num]?s|min|h|[kKMGT]?i?B|[GT]B/s|tok/s|tokens/s|[GT]FLOP/s|W|K|us|L/kWh)?(?:$|[ ,;(].*)"
)
"""A cell that is a figure, or begins with one: a count, a ratio, a time, a rate or two of them."""
FIGURES = 3
"""Cells from which on a table is one of figures."""
DEFINITIONS = {
    "| `kv_format` | bytes of an element |",
    "| knob | default | meaning |",
    "| what happened | exit code | replicas |",
    "| exit code | verdict | when |",
    "| kind | code | what it does |",
    "| status | code | when |",
    "| name | requests | arrival | what is compared |",
}
"""Tables whose numbers nobody measured: codes, defaults and sizes of formats."""


def typed_tables(text: str) -> list[str]:
    """Headers of tables of figures that no script writes."""
    headers = []
    for table in TABLE.findall(GENERATED.sub("", text)):
        header, _, *rows = table.splitlines()
        cells = [cell.strip() for row in rows for cell in row.strip("|").split("|")]
        is_defined = any(header.startswith(known) for known in DEFINITIONS)
        if not is_defined and sum(bool(FIGURE.fullmatch(cell)) for cell in cells) >= FIGURES:
            headers.append(header)
    return headers


def test_no_table_of_figures_in_readme_and_docs_is_typed(root: Path) -> None:
    """Each stands between the comment of the script that writes it and its end."""
    typed = []
    for path in [root / "README.md", *(root / "docs").rglob("*.md")]:
        text = path.read_text("utf-8")
        if "examples" not in path.parts and not WRITTEN.search(text):
            typed += [f"{path.relative_to(root)}: {header}" for header in typed_tables(text)]
    assert typed == []


def test_a_typed_table_is_noticed() -> None:
    table = "| case | speed |\n|---|---|\n| a | 1.40x |\n| b | 3.54 ms |\n| c | 4.2 / 11.5 % |\n"
    assert typed_tables(table) == ["| case | speed |"]
    assert typed_tables(f"<!-- t: python scripts/s.py -->\n{table}<!-- end -->\n") == []
    assert typed_tables(table.replace("3.54 ms", "soon")) == []
    assert typed_tables(table.replace("3.54 ms", "**3.54** (3.1 to 4.0), 4 of 5")) != []
