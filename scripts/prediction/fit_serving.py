"""Fit the serving constants and print every figure of the design page.

    PYTHONPATH=scripts python -m prediction.fit_serving published_cases.json decode_points.json \
        silicon_sample.csv [--write FILE]
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from prediction import fitting
from prediction.accelerators import Constants
from prediction.fitting import Prior, Vector
from prediction.serving_cases import (
    BATCH_LIMIT,
    Figure,
    capacity,
    decode_figures,
    predict,
    row_figures,
    tensorrt_figures,
)
from prediction.serving_model import kv_size, weight_size

FAMILIES = ("A100", "H100", "H200", "B200")
ENGINES = ("trtllm", "vllm", "sglang")
QUEUES = {"trtllm": 0.3, "vllm": 0.3, "sglang": 0.7}
PRIORS: list[tuple[str, Prior]] = [
    *(("rate16", Prior(0.72, 0.1, "sustained share of the 16-bit peak", f)) for f in FAMILIES),
    *(("rate8", Prior(0.6, 0.15, "sustained share of the 8-bit peak", f)) for f in FAMILIES),
    *(("rate4", Prior(0.45, 0.2, "sustained share of the 4-bit peak", f)) for f in FAMILIES),
    *(("bandwidth", Prior(0.88, 0.06, "share of memory bandwidth", f)) for f in FAMILIES),
    ("launch", Prior(3e-6, 0.3, "seconds a GEMM takes beyond its work, in a graph")),
    ("tile_edge", Prior(0.2, 0.4, "loss of a tile by its edge over its area")),
    ("kv_stream", Prior(0.95, 0.1, "bandwidth of reading keys and values over that of weights")),
    ("decode_attention", Prior(0.3, 0.3, "decode attention, share of the 16-bit peak")),
    ("prompt_attention", Prior(0.5, 0.2, "causal prompt attention, share of the 16-bit peak")),
    ("attention_start", Prior(5e-6, 0.4, "seconds an attention kernel takes beyond its work")),
    ("expert_rate", Prior(0.6, 0.3, "rate of grouped products over that of one product")),
    ("expert_rows", Prior(16, 0.5, "token rows that an expert with one token pays for")),
    ("reduce_start", Prior(7e-6, 0.4, "seconds of an empty all-reduce between two GPUs")),
    ("link", Prior(0.7, 0.2, "collective share of NVLink bandwidth")),
    ("cache_reuse", Prior(3, 0.3, "rereads of grouped keys that caches absorb, old kernels")),
    ("queue_power", Prior(0.8, 0.3, "growth of the queue before a first token with requests")),
    ("queue_apart", Prior(0.3, 1.0, "own prompt times waited, per request, separate prefill")),
]
ENGINE_PRIORS = {
    "layer_start": (8e-6, 0.5, "seconds of a layer's small kernels"),
    "expert_start": (25e-6, 0.5, "seconds of routing, sorting and gathering in a mixture layer"),
    "expert_stream": (0.7, 0.3, "bandwidth of reading experts over that of weights"),
    "request": (0.03, 0.7, "seconds of a request outside the model"),
    "host": (1e-3, 0.7, "seconds of the host between iterations"),
    "host_sequence": (1e-6, 1.0, "seconds of the host for each sequence"),
}
for _engine in ENGINES:
    for _name, (_value, _spread, _meaning) in ENGINE_PRIORS.items():
        PRIORS.append((f"{_name}/{_engine}", Prior(_value, _spread, _meaning)))
    _meaning = "own prompt times waited, per request in flight"
    PRIORS.append((f"queue/{_engine}", Prior(QUEUES[_engine], 0.7, _meaning)))

SCALES = {"trtllm0.5": 0.1, "trtllm0.6.1": 0.1, "trtllm1.0": 0.1, "vllm": 0.03}
ROW_SCALES = (0.15, 0.35)
ROWS_FITTED = 250


def constants(point: Vector) -> dict[tuple[str, str], Constants]:
    """Constants by accelerator family and engine."""
    found = {}
    for family in FAMILIES:
        everything = fitting.constants(PRIORS, point, family)
        for engine in ENGINES:
            own = {n.split("/")[0]: v for n, v in everything.items() if n.endswith(f"/{engine}")}
            found[family, engine] = {n: v for n, v in everything.items() if "/" not in n} | own
    return found


def log_ratios(point: Vector, figures: Sequence[Figure]) -> list[Vector]:
    """Logarithms of predicted over observed, one array a figure."""
    table = constants(point)
    return [
        np.log(np.array(predict(table[f.device.family, f.engine], f)) / f.observed)
        for f in figures
    ]  # fmt: skip


def sample(figures: Sequence[Figure]) -> list[Figure]:
    """Rows thinned so that no model rules the fit, everything else whole."""
    rows = [figure for figure in figures if figure.suite == "rows"]
    groups = [row.group for row in rows]
    chances = np.array([groups.count(group) ** -0.5 for group in groups])
    kept: list[Figure] = [figure for figure in figures if figure.suite != "rows"]
    if rows:
        draw = np.random.default_rng(0)
        size = min(ROWS_FITTED, len(rows))
        chosen = draw.choice(len(rows), size, replace=False, p=chances / chances.sum())
        kept += [rows[index] for index in chosen]
    return kept


def fit(figures: Sequence[Figure]) -> Vector:
    """Constants from a thinned set of figures."""
    used = sample(figures)
    scales = [
        scale for f in used for scale in (ROW_SCALES if f.suite == "rows" else (SCALES[f.suite],))
    ]  # fmt: skip

    def ratios(point: Vector) -> Vector:
        return np.concatenate(log_ratios(point, used))

    return fitting.fit(PRIORS, ratios, 1 / np.array(scales), 1.0, evaluations=6)


def naive(figure: Figure) -> tuple[float, ...]:
    """Peak rate and full bandwidth, nothing lost."""
    device, place, model = figure.device, figure.place, figure.model
    weights = weight_size(model, place)
    flops = 2 * (weights - 4 * model.vocabulary * model.hidden) / place.weight_bytes
    peak = device.peak[place.bits] * place.tensor
    bandwidth = device.bandwidth * place.tensor
    if figure.kind == "first token":
        return (max(flops * figure.prompt / peak, weights / bandwidth),)
    batch = figure.batch
    if figure.kind == "saturated":
        batch = max(1.0, min(BATCH_LIMIT, capacity(figure, 0.9, figure.prompt + figure.output)))
    context = figure.context or figure.prompt + figure.output / 2
    read = (weights + batch * context * kv_size(model, place)) / bandwidth
    tokens = batch * (1 + (figure.prompt / figure.output if figure.kind != "decode" else 0))
    seconds = max(read, flops * tokens / peak)
    if figure.kind == "decode":
        return (seconds,)
    if figure.kind == "concurrent":
        return seconds, max(flops * figure.prompt / peak, weights / bandwidth)
    return (batch / seconds / (place.tensor if figure.kind == "static" else 1),)


def print_errors(label: str, figures: Sequence[Figure], errors: Sequence[Vector]) -> None:
    """Errors by suite; rows by quantity."""
    for suite in dict.fromkeys(figure.suite for figure in figures):
        columns = np.array(
            [error for f, error in zip(figures, errors, strict=True) if f.suite == suite]
        )
        names = ("per token", "first token") if suite == "rows" else ("",)
        for name, column in zip(names, columns.T, strict=True):
            size = np.abs(column)
            row = (suite, name, len(size), np.median(size), size.mean(), np.quantile(size, 0.9))
            print(f"{label:22} %-12s %-12s %5d  median %.3f  mean %.3f  p90 %.3f" % row, end="")
            print(f"  max {size.max():.3f}  bias {np.median(column):+.3f}", flush=True)


def relative(point: Vector, figures: Sequence[Figure]) -> list[Vector]:
    """Predicted over observed, less one."""
    return [np.expm1(logs) for logs in log_ratios(point, figures)]


def held_out(
    label: str, figures: Sequence[Figure], key: Callable[[Figure], str | None]
) -> None:  # fmt: skip
    """Predict every group of `key` with constants fitted without it."""
    tested: list[Figure] = []
    errors: list[Vector] = []
    inside: list[float] = []
    for group in dict.fromkeys(name for name in map(key, figures) if name is not None):
        train = [figure for figure in figures if key(figure) != group]
        test = [figure for figure in figures if key(figure) == group]
        point = fit(train)
        missed = relative(point, test)
        print_errors(f"{label} {group}", test, missed)
        seen = np.concatenate([e[:1] for e in log_ratios(point, sample(train))])
        width = np.quantile(np.abs(seen), 0.9)
        inside += [float(abs(np.log1p(error[0])) <= width) for error in missed]
        tested += test
        errors += missed
    print_errors(f"{label} all", tested, errors)
    print(f"{label} 90 % interval covers {np.mean(inside):.3f}", flush=True)


def main() -> None:
    """Read the figures, fit, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", type=Path)
    parser.add_argument("points", type=Path)
    parser.add_argument("rows", type=Path)
    parser.add_argument("--write", type=Path, help="write the constants to this file")
    options = parser.parse_args()
    figures = tensorrt_figures(json.loads(options.cases.read_text()))
    figures += decode_figures(options.points) + row_figures(options.rows)
    naive_errors = [np.array(naive(f)) / f.observed - 1 for f in figures]
    print_errors("naive roofline", figures, naive_errors)
    print_errors("prior", figures, relative(fitting.starting_point(PRIORS), figures))
    point = fit(figures)
    errors = relative(point, figures)
    print_errors("fitted", figures, errors)
    for figure, error in zip(figures, errors, strict=True):
        if figure.suite == "vllm":
            print(f"point  {figure.name:16} {figure.observed[0] * 1e3:.3f} ms {error[0]:+.3f}")
    for (name, belief), value in zip(PRIORS, np.exp(point), strict=True):
        print(f"constant  {name:22} {belief.family:5} {value:.4g} (prior {belief.value:.4g})")
    if options.write:
        options.write.write_text(document(point, figures))
    held_out("held out", figures, lambda f: f.suite if f.suite != "rows" else None)
    held_out("held out", figures, lambda f: f.group if f.suite == "rows" else None)


def document(point: Vector, figures: Sequence[Figure]) -> str:
    """The fitted constants with their provenance, as JSON."""
    rows = [
        {"name": name, "family": belief.family, "value": float(f"{value:.6g}"),
         "prior": belief.value, "prior_log_spread": belief.spread, "meaning": belief.meaning}
        for (name, belief), value in zip(PRIORS, np.exp(point), strict=True)
    ]  # fmt: skip
    suites = [figure.suite for figure in sample(figures)]
    provenance = {
        "kind": "fitted",
        "method": "most probable constants, log residuals, prior spreads as given",
        "command": "python -m prediction.fit_serving",
        "figures": {suite: suites.count(suite) for suite in dict.fromkeys(suites)},
    }
    return json.dumps({"provenance": provenance, "constants": rows}, indent=1) + "\n"


if __name__ == "__main__":
    main()
