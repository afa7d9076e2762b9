"""Tables of measured figures in guides, filled from what is kept in bench/results."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from assay.bench.harness.result import Figure, load
from generated_pages import filled

KEPT = "kept-tables.json"
"""Figures of studies that are over, with their origin: no command of today prints them."""
DECODE = "decode-h200.json"
WORKED_EXAMPLE = "docs/guides/worked-example.md"


def with_tables(root: Path, results: Path) -> dict[Path, str]:
    """Every page that has such tables, with them filled."""
    pages: dict[Path, str] = {}
    for name, document, lines in _tables(results):
        path = root / document
        page = pages.get(path) or path.read_text("utf-8")
        comment = f"<!-- {name}: python scripts/generate_bench_reference.py -->"
        pages[path] = filled(page, "\n".join(lines), comment)
    return pages


def _tables(results: Path) -> Iterator[tuple[str, str, list[str]]]:
    kept: dict[str, Any] = json.loads((results / KEPT).read_bytes())
    for name, table in kept["tables"].items():
        yield name, table["document"], list(_rows(table["header"], table["rows"]))
    figures = [figure for figure in load(results / DECODE).figures if _is_step(figure)]
    rows = [
        [figure.name.removeprefix("batch "), f"{figure.value:.2f}", f"{figure.share or 0:.0%}"]
        for figure in figures
    ]
    yield "decode-now", WORKED_EXAMPLE, list(_rows(["batch", "step, ms", "of the floor"], rows))


def _is_step(figure: Figure) -> bool:
    return figure.name.startswith("batch ") and figure.unit == "ms"


def _rows(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(header)} |"
    yield f"|{'---|' * len(header)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"
