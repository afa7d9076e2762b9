"""What the page of peers says of speed: every stored result beside its rivals, a line each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from assay.bench.harness.result import Result
from assay.bench.harness.statistics import median
from generated_pages import filled

SPEED = "<!-- speed: python scripts/generate_bench_reference.py -->"
OWN_RIVALS = ("tracing", "order-book-latency")
"""Suites beside the same program without a tracer, or without a guarantee: no peers."""
SERVERS = "<!-- servers: python scripts/generate_bench_reference.py -->"


def with_rivals(
    page: str,
    results: Sequence[tuple[str, Result]],
    comparisons: Sequence[tuple[str, dict[str, Any]]],
) -> str:
    """The page with its two tables of speed."""
    page = filled(page, "\n".join(_speed(results)), SPEED)
    return filled(page, "\n".join(_servers(comparisons)), SERVERS)


def _speed(results: Sequence[tuple[str, Result]]) -> Iterator[str]:
    """For each suite and rival: in how many cases, the ratios, and where Assay is behind."""
    yield "| suite | on | beside | cases | median | least | most | behind in |"
    yield "|---|---|---|---|---|---|---|---|"
    for name, result in results:
        if result.suite in OWN_RIVALS:
            continue
        ratios: dict[str, list[float]] = {}
        for figure in result.figures:
            for rival in figure.rivals:
                if pairs := figure.paired(rival):
                    ratios.setdefault(rival.name, []).append(median(pairs))
        for rival_name, values in ratios.items():
            behind = sum(value < 1 for value in values)
            yield (
                f"| `{name.removesuffix('.json')}` | {result.machine['device_description']} | {rival_name} | "
                f"{len(values)} | {median(values):.2f} | {min(values):.2f} | {max(values):.2f} | {behind} |"
            )


def _servers(comparisons: Sequence[tuple[str, dict[str, Any]]]) -> Iterator[str]:
    """Output tokens a second of whole servers."""
    yield "| model | on | load | rival | output tokens/s | Assay is |"
    yield "|---|---|---|---|---|---|"
    for _, kept in comparisons:
        where = f"| {kept['model']} | {kept['machine']['device_description']} |"
        if "ratios" in kept:
            for ratio in kept["ratios"]:
                if ratio["server"] != "assay":
                    yield (
                        f"{where} 8 users | {ratio['server']} | {ratio['tokens_per_s']:,.0f} | "
                        f"{ratio['median']:.2f}x |"
                    )
            continue
        rates = {
            (point["scenario"], point["server"]): point["figures"]["output_throughput"]
            for point in kept["points"]
            if point["load"] == "saturated"
        }
        for (scenario, server), theirs in rates.items():
            ours = rates.get((scenario, "assay"))
            if server != "assay" and ours is not None:
                yield f"{where} {scenario}, saturated | {server} | {theirs:,.0f} | {ours / theirs:.2f}x |"
