"""Servers side by side as Markdown, from the files that `assay bench serving --save` leaves."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

Kept = dict[str, Any]
LATENCIES = ("p50_ttft_ms", "p99_ttft_ms", "p50_tpot_ms", "p99_tpot_ms")


def stored_comparisons(folder: Path) -> list[tuple[str, Kept]]:
    """The results of `assay bench serving` in a folder, by file."""
    files = [(path.name, json.loads(path.read_bytes())) for path in sorted(folder.glob("*.json"))]
    return [(name, kept) for name, kept in files if str(kept.get("suite")).startswith("serving")]


def serving_page(comparisons: Sequence[tuple[str, Kept]], command: str) -> str:
    """The whole page."""
    lines = [
        "# Servers side by side",
        "",
        f"Written by `{command}` from the files that `assay bench serving --rival NAME --save FILE` left in",
        "`bench/results`, or from what a note says; do not edit. Servers ran one after the other on one",
        "machine, each as its own command starts it, with the same weights and requests.",
    ]
    for name, kept in comparisons:
        lines += ["", *(_users(kept) if "ratios" in kept else _windows(kept))]
        lines += ["", f"Kept in `bench/results/{name}`."]
    return "\n".join(lines) + "\n"


def _title(kept: Kept) -> str:
    return f"## {kept['model']} on {kept['machine']['device_description']}"


def _users(kept: Kept) -> Iterator[str]:
    """Throughput with several users, in rounds that alternate."""
    yield f"{_title(kept)}, 8 users"
    yield ""
    yield "| rival | tokens/s | Assay is | from | to |"
    yield "|---|---|---|---|---|"
    for ratio in kept["ratios"]:
        if ratio["server"] != "assay":
            yield (
                f"| {ratio['server']} | {ratio['tokens_per_s']:.0f} | {ratio['median']:.2f}x | "
                f"{ratio['least']:.2f}x | {ratio['most']:.2f}x |"
            )


def _windows(kept: Kept) -> Iterator[str]:
    """Every load on every server, and what share of the floor a saturated one reached."""
    shares = {(row["scenario"], row["server"]): row["share_of_floor"] for row in kept["summary"]}
    points = {(p["scenario"], p["load"], p["server"]): p["figures"] for p in kept["points"]}
    rival = next(server["name"] for server in kept["servers"] if server["name"] != "assay")
    yield _title(kept)
    yield ""
    yield f"{rival} {kept['versions'].get(rival) or ''}, both at their defaults."
    for note in kept["notes"]:
        yield f"Note: {note}."
    yield ""
    yield f"| saturated | {rival}, output tokens/s | Assay | ratio | share of the floor, {rival} | Assay |"
    yield "|---|---|---|---|---|---|"
    for (scenario, load, server), theirs in points.items():
        ours = points.get((scenario, load, "assay"))
        if (load, server) == ("saturated", rival) and ours is not None:
            before, after = theirs["output_throughput"], ours["output_throughput"]
            floor = " | ".join(_percent(shares.get((scenario, who))) for who in (rival, "assay"))
            yield f"| {scenario} | {before:,.0f} | {after:,.0f} | {after / before:.3f}x | {floor} |"
    yield ""
    yield f"| requests/s | TTFT p50, {rival} / Assay, ms | p99 | TPOT p50 | p99 |"
    yield "|---|---|---|---|---|"
    for point in kept["points"]:
        ours = points.get((point["scenario"], point["load"], "assay"))
        if point["server"] == rival and point["rate"] is not None and ours is not None:
            pairs = [f"{point['figures'][name]:.1f} / {ours[name]:.1f}" for name in LATENCIES]
            yield f"| {point['scenario']} at {point['rate']:g} | {' | '.join(pairs)} |"


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.0f} %"
