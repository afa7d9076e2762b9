"""Writes docs/reference/catalog.md from the catalog itself.

python scripts/generate_catalog_reference.py          # write it
python scripts/generate_catalog_reference.py --check  # exit with 1 if it is out of date
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from assay import stack
from assay.catalog import accelerators, entries, models
from assay.catalog.entries import CatalogEntry
from assay.model import Registry
from generated_pages import write_or_check

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "catalog.md"
COMMAND = "python scripts/generate_catalog_reference.py"
_TABLES = ("accelerators", "models")


def write_page() -> str:
    """The whole page as Markdown."""
    registry = stack.registry()
    lines = [
        "# Catalog",
        "",
        f"Written by `{COMMAND}` from the data files; do not edit. `assay catalog show group/name`",
        "prints an entry with the source, kind, date and uncertainty of every value;",
        "[the guide](../guides/catalog.md) says how entries are used.",
        "",
        *_accelerators(registry),
        *_models(registry),
    ]
    for group in entries.groups():
        if group not in _TABLES:
            lines += _group(group, list(entries.entries(group)))
    return "\n".join(lines)


def _accelerators(registry: Registry) -> Iterator[str]:
    yield "## accelerators"
    yield ""
    yield (
        "Rates are dense ones of 16 bits; links count one direction. A dash: what is stated "
        "does not give it."
    )
    yield ""
    names = ("gpu.peak_flops", "gpu.memory.bandwidth", "gpu.memory.capacity", "gpu.link.bandwidth",
             "gpu.power.limit")  # fmt: skip
    yield "| name | accelerator | launched | TFLOP/s | memory TB/s | memory GB | links GB/s | W |"
    yield "|---|---|---|---|---|---|---|---|"
    for entry in accelerators.all_accelerators():
        shown = []
        for name in names:
            resolution = registry.resolve(name, entry.given)
            shown.append(
                "-" if resolution.value is None else f"{_scaled(name, resolution.value):.4g}"
            )
        launched = str(entry.facts.get("launched", ""))
        yield f"| {entry.name} | {entry.title} | {launched} | {' | '.join(shown)} |"
    yield ""


def _scaled(name: str, value: float) -> float:
    scales = {"gpu.peak_flops": 1e12, "gpu.memory.bandwidth": 1e12, "gpu.power.limit": 1.0}
    return value / scales.get(name, 1e9)


def _models(registry: Registry) -> Iterator[str]:
    yield "## models"
    yield ""
    yield (
        "Parameters and those a token meets, in billions; elements of the cache that a token "
        "leaves in all layers."
    )
    yield ""
    yield "| name | model | parameters | active | cache elements |"
    yield "|---|---|---|---|---|"
    for model in models.all_models():
        whole, active, kept = (
            registry.resolve(f"architecture.{name}", model.given).require_value()
            for name in ("parameters", "active_parameters", "kv.elements_per_token")
        )
        shown = f"{whole / 1e9:.4g} | {active / 1e9:.4g} | {kept:.0f}"
        yield f"| {model.name} | {model.title} | {shown} |"
    yield ""


def _group(group: str, members: Sequence[CatalogEntry]) -> Iterator[str]:
    yield f"## {group}"
    yield ""
    yield "| name | what | values | assumed |"
    yield "|---|---|---|---|"
    for entry in members:
        assumed = sum(value.kind == "assumed" for value in entry.values.values())
        yield f"| {entry.name} | {entry.title} | {len(entry.values)} | {assumed} |"
    yield ""


def main(arguments: Sequence[str]) -> int:
    """Write the page, or compare it."""
    return write_or_check({PAGE: write_page()}, COMMAND, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
