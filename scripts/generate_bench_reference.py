"""Writes docs/reference/kernels.md, benchmarks.md, serving.md, and tables of other pages, from bench/results.

python scripts/generate_bench_reference.py          # write them
python scripts/generate_bench_reference.py --check  # exit with 1 if one is out of date
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from assay.bench.harness.result import SCHEMA, Result, load
from assay.bench.harness.table import markdown
from generated_pages import write_or_check
from kept_tables import with_tables
from peers_page import with_rivals
from serving_page import serving_page, stored_comparisons

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results"
FIGURES = RESULTS / "kernels-h200.json"
REFERENCE = ROOT / "docs" / "reference"
COMMAND = "python scripts/generate_bench_reference.py"
WEIGHTS = {
    ("Float16", 0): "bf16",
    ("Int8", 0): "int8",
    ("E4m3", 0): "e4m3",
    ("Uint4", 128): "int4, groups of 128",
    ("Uint4", 32): "int4, groups of 32",
}
Figure = dict[str, Any]


def benchmarks_page(results: Sequence[tuple[str, Result]]) -> str:
    """All results of `assay bench` as Markdown."""
    lines = [
        "# Benchmarks",
        "",
        f"Written by `{COMMAND}` from the files that `assay bench SUITE --save FILE` left in",
        "`bench/results`; do not edit. What the columns mean: [benchmarking](../guides/benchmarking.md).",
    ]
    for name, result in results:
        title, _, table = markdown(result).partition("\n")
        lines += ["", f"{title}, {result.machine['device_description']}", table.rstrip()]
        lines.append(f"- measured {result.started[:10]}, kept in `bench/results/{name}`")
    return "\n".join(lines) + "\n"


def stored_results(folder: Path) -> list[tuple[str, Result]]:
    """The results of `assay bench` in a folder; other files have another schema."""
    paths = sorted(folder.glob("*.json"))
    is_ours = [path for path in paths if json.loads(path.read_bytes()).get("schema") == SCHEMA]
    return [(path.name, load(path)) for path in is_ours]


def stored_checks(folder: Path) -> list[tuple[str, dict[str, Any]]]:
    """The results of `scripts/sanitize_kernels.py` in a folder, by file."""
    files = [(path.name, json.loads(path.read_bytes())) for path in sorted(folder.glob("*.json"))]
    return [(name, stored) for name, stored in files if "runs" in stored]


def kernels_page(kept: dict[str, Any], checks: Sequence[tuple[str, dict[str, Any]]]) -> str:
    """The whole page of single kernels as Markdown."""
    figures: list[Figure] = kept["figures"]
    machine = kept["machine"]
    ceiling = max(f["tb_per_s"] for f in figures if f["kind"] == "ceiling")
    lines = [
        "# Kernels in figures",
        "",
        f"Written by `{COMMAND}` from `bench/results/{FIGURES.name}`; do not edit.",
        f"Measured {kept['date']} by `{kept['command']}` at {kept['commit']} on one {machine['gpu']},",
        f"driver {machine['driver']}, beside PyTorch {machine['torch']}. Times are medians of 15 replays of a",
        "graph over data rotated past the cache; shares are of the read ceiling of the same run,",
        f"{ceiling:.2f} TB/s.",
        "",
        *_linear(figures),
        *_attention(figures),
        *_rows(figures),
        *_sampling(figures),
        *_checks(checks),
    ]
    return "\n".join(lines)


def _linear(figures: list[Figure]) -> Iterator[str]:
    yield "## GEMV: linear layers of few rows"
    yield ""
    yield "| outputs x inputs | weights | rows | us | of the ceiling | PyTorch, bf16, us |"
    yield "|---|---|---|---|---|---|"
    linear = [f for f in figures if f["kind"] == "linear"]
    theirs = {
        (f["outputs"], f["inputs"], f["rows"]): f["us"] for f in linear if f["who"] == "torch"
    }
    for f in linear:
        if f["who"] == "torch":
            continue
        name = WEIGHTS[f["weight"], f["group"]] + (", norm and gate" if f["gated"] else "")
        other = theirs.get((f["outputs"], f["inputs"], f["rows"]))
        yield (
            f"| {f['outputs']} x {f['inputs']} | {name} | {f['rows']} | {f['us']:.1f} | "
            f"{100 * f['share']:.0f} % | {other:.1f} |"
        )
    yield ""


def _attention(figures: list[Figure]) -> Iterator[str]:
    yield "## Attention, 32/8 heads of 128, bf16"
    yield ""
    yield "| decode, one token each | us | of the ceiling |"
    yield "|---|---|---|"
    for f in figures:
        if f["kind"] == "decode":
            yield f"| batch {f['batch']}, context {f['context']} | {f['us']:.1f} | {100 * f['share']:.0f} % |"
    yield ""
    yield "| prefill, causal | TFLOP/s, wgmma | TFLOP/s, mma.sync | TFLOP/s, PyTorch |"
    yield "|---|---|---|---|"
    prefill = {(f["tokens"], f["who"]): f["tflops"] for f in figures if f["kind"] == "prefill"}
    for tokens in sorted({tokens for tokens, _ in prefill}):
        files = ("attention_prefill_hopper.cu", "attention_prefill.cu", "torch")
        rates = [f"{prefill[tokens, who]:.0f}" for who in files]
        yield f"| {tokens} tokens | {' | '.join(rates)} |"
    yield ""


def _rows(figures: list[Figure]) -> Iterator[str]:
    yield "## Row-wise layers, bf16"
    yield ""
    yield "| operation | rows x width | us | PyTorch, us | of the ceiling |"
    yield "|---|---|---|---|---|"
    for f in figures:
        if f["kind"] == "rows":
            yield (
                f"| {f['name']} | {f['rows']} x {f['width']} | {f['us']:.1f} | {f['torch_us']:.1f} | "
                f"{100 * f['share']:.0f} % |"
            )
    yield ""


def _sampling(figures: list[Figure]) -> Iterator[str]:
    yield "## Sampling from 128,256 logits"
    yield ""
    yield "| how | rows | us |"
    yield "|---|---|---|"
    for f in figures:
        if f["kind"] == "sample":
            yield f"| {f['name'].replace('_', ' ')} | {f['rows']} | {f['us']:.1f} |"
    yield ""


def _checks(checks: Sequence[tuple[str, dict[str, Any]]]) -> Iterator[str]:
    yield "## Under compute-sanitizer"
    yield ""
    yield "| tool | findings | cases | kernels | on | commit | kept in |"
    yield "|---|---|---|---|---|---|---|"
    for name, kept in checks:
        machine = kept["machine"]
        for run in kept["runs"]:
            yield (
                f"| {run['tool']} | {run['findings']} | {run['cases']} | {len(run['kernels'])} | "
                f"{machine['gpu']} | {machine['commit'][:12]} | `bench/results/{name}` |"
            )
    yield ""


def main(arguments: Sequence[str]) -> int:
    """Write the pages, or compare them."""
    kernels = kernels_page(json.loads(FIGURES.read_text("utf-8")), stored_checks(RESULTS))
    results, comparisons = stored_results(RESULTS), stored_comparisons(RESULTS)
    peers = REFERENCE / "peers.md"
    pages = {
        REFERENCE / "kernels.md": kernels,
        REFERENCE / "benchmarks.md": benchmarks_page(results),
        REFERENCE / "serving.md": serving_page(comparisons, COMMAND),
        peers: with_rivals(peers.read_text("utf-8"), results, comparisons),
        **with_tables(ROOT, RESULTS),
    }
    return write_or_check(pages, COMMAND, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
