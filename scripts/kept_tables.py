"""Tables of figures in guides and design pages, filled from bench/results and the calibrations."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from assay.bench.harness.result import Figure, load
from assay.bench.suites.tracing import overhead
from assay.catalog import constants
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
    yield "kernel-constants", "docs/design/kernel-model.md", list(_kernel_constants())
    yield "tracing-overhead", "docs/design/engine-tracing.md", list(_tracing_overhead(results))


TRACED = {
    "decode, batch 1, 200 steps a block": "decode, batch 1",
    "decode, batch 64, 200 steps a block": "decode, batch 64",
    "1000 small kernels, in a graph": "a kernel of {value:.2f} us in a graph",
    "1000 small kernels, one by one": "a launch from Python",
}
"""Figures of the overhead of tracing, by what the page calls them."""


def _tracing_overhead(results: Path) -> Iterator[str]:
    """The median overhead of capturing, and the bound that 90 % stay below."""
    figures = {figure.name: figure for figure in load(results / "tracing-h200.json").figures}
    rows = []
    for name, title in TRACED.items():
        own, plain = overhead(figures[name]), figures[name].rivals[0].median
        text = f"{_percent(own['median'])}, at most {_percent(own['upper_bound'])}"
        rows.append([title.format(value=plain), text])
    return _rows(["", "overhead"], rows)


def _percent(share: float) -> str:
    return f"{100 * share:#.2g} %"


GEMM_CONSTANTS = {
    "launch_time": ("time of an empty kernel in a CUDA graph (us)", 1e-6),
    "tile_share": ("rate on a tile whose operands are in shared memory, over the peak", 1.0),
    "sustained_share": ("sustained rate under the power limit, over the peak", 1.0),
    "step_work": (
        "FLOPs per unit of depth below which a tile takes no less time, at the peak (FLOP)",
        1.0,
    ),
    "ingest_intensity": ("peak over the rate at which an SM loads operands (FLOP/byte)", 1.0),
    "cache_intensity": ("peak over the aggregate L2 bandwidth to all SMs (FLOP/byte)", 1.0),
    "read_share": ("memory bandwidth in large GEMMs, over the data sheet's", 1.0),
    "overlap_exponent": ("overlap of loads with computation; higher hides more", 1.0),
    "block_time": ("time to launch one more CTA (ns)", 1e-9),
    "split_time": ("time of the split-K reduction (us)", 1e-6),
    "write_exposure": ("share of the epilogue's writes that computation does not hide", 1.0),
    "tail_cost": ("minimum cost of a partial last wave, in waves", 1.0),
    "throttle_depth": ("slowdown of kernels long enough to throttle the clock", 1.0),
    "reach_share": ("operand bytes that stay in L2, over its capacity", 1.0),
    "ramp": ("size at which a transfer reaches half its rate (kB)", 1e3),
}
"""Constants of a GEMM of 16 bits: what each is, and the unit that the page has it in."""
SYSTEMS = {"A100": "a100_sxm", "H100": "h100_sxm", "H200": "h200_sxm", "B200": "b200_sxm"}


def _kernel_constants() -> Iterator[str]:
    """Fitted constants of GEMMs, from the catalog's calibrations."""
    values = [constants.find(system).values for system in SYSTEMS.values()]
    rows = [
        [f"`{name}`", meaning, *(f"{own[f'kernels.gemm.{name}'] / unit:.3g}" for own in values)]
        for name, (meaning, unit) in GEMM_CONSTANTS.items()
    ]
    return _rows(["constant", "meaning", *SYSTEMS], rows)


def _is_step(figure: Figure) -> bool:
    return figure.name.startswith("batch ") and figure.unit == "ms"


def _rows(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(header)} |"
    yield f"|{'---|' * len(header)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"
