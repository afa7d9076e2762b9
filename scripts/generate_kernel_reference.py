"""Writes docs/reference/kernels.md from the figures kept in bench/results.

python scripts/generate_kernel_reference.py          # write it
python scripts/generate_kernel_reference.py --check  # exit with 1 if it is out of date
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FIGURES = ROOT / "bench" / "results" / "kernels-h200.json"
PAGE = ROOT / "docs" / "reference" / "kernels.md"
COMMAND = "python scripts/generate_kernel_reference.py"
WEIGHTS = {
    (16, 0): "bf16",
    (8, 0): "int8",
    (80, 0): "e4m3",
    (4, 128): "int4, groups of 128",
    (4, 32): "int4, groups of 32",
}
Figure = dict[str, Any]


def write_page(kept: dict[str, Any]) -> str:
    """The whole page as Markdown."""
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
    ]
    return "\n".join(lines)


def _linear(figures: list[Figure]) -> Iterator[str]:
    yield "## Linear of few rows"
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
        name = WEIGHTS[f["weight"], f["group"]] + (", norm and gate" if f["paired"] else "")
        other = theirs.get((f["outputs"], f["inputs"], f["rows"]))
        yield (
            f"| {f['outputs']} x {f['inputs']} | {name} | {f['rows']} | {f['us']:.1f} | "
            f"{100 * f['share']:.0f} % | {other:.1f} |"
        )
    yield ""


def _attention(figures: list[Figure]) -> Iterator[str]:
    yield "## Attention, 32/8 heads of 128, bf16"
    yield ""
    yield "| one token each | us | of the ceiling |"
    yield "|---|---|---|"
    for f in figures:
        if f["kind"] == "decode":
            yield f"| batch {f['batch']}, context {f['context']} | {f['us']:.1f} | {100 * f['share']:.0f} % |"
    yield ""
    yield "| whole prompt, causal | TFLOP/s, wgmma | TFLOP/s, mma.sync | TFLOP/s, PyTorch |"
    yield "|---|---|---|---|"
    prefill = {(f["tokens"], f["who"]): f["tflops"] for f in figures if f["kind"] == "prefill"}
    for tokens in sorted({tokens for tokens, _ in prefill}):
        files = ("attention_prefill_hopper.cu", "attention_prefill.cu", "torch")
        rates = [f"{prefill[tokens, who]:.0f}" for who in files]
        yield f"| {tokens} tokens | {' | '.join(rates)} |"
    yield ""


def _rows(figures: list[Figure]) -> Iterator[str]:
    yield "## Passes over rows, bf16"
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
    yield "## Sampling from 128,256 scores"
    yield ""
    yield "| how | rows | us |"
    yield "|---|---|---|"
    for f in figures:
        if f["kind"] == "sample":
            yield f"| {f['name'].replace('_', ' ')} | {f['rows']} | {f['us']:.1f} |"
    yield ""


def main(arguments: Sequence[str]) -> int:
    """Writes the page, or says whether it is up to date."""
    page = write_page(json.loads(FIGURES.read_text("utf-8")))
    if "--check" in arguments:
        if PAGE.is_file() and PAGE.read_text("utf-8") == page:
            return 0
        print(f"{PAGE.name} is out of date\nhint: run {COMMAND}", file=sys.stderr)
        return 1
    PAGE.write_text(page, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
