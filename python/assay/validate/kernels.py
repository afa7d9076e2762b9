"""Kernel times: the relations of the stack against measurements that no fit has seen.

python -m assay.validate.kernels                    every system, from the installed tables
python -m assay.validate.kernels --sample FILE      the rows of a CSV file
python -m assay.validate.kernels --json
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from assay.catalog import constants
from assay.errors import AssayError
from assay.model.tapes.compile import Compiled
from assay.stack import registry
from assay.validate.tables import FRAMEWORKS, OPERATIONS, Column, Table, load, read_sample

_WEIGHT_COPIES = 6
_MOST_COPIES_BY_CACHE = 5
_BYTES = 2.0
_SPREAD_90 = 1.645

SCOPE = {"gemm": "kernels.gemm", "prefill": "kernels.prefill", "decode": "kernels.decode"}
DEVICE_INPUTS = (
    "kernels.device.multiprocessors", "kernels.device.cache_capacity", "kernels.device.peak_flops",
    "kernels.device.memory_bandwidth", "kernels.device.clock_ratio", "gpu.rate_8bit",
    "gpu.rate_4bit",
)  # fmt: skip
SHAPE_INPUTS = {
    "gemm": ("rows", "columns", "depth", "bits", "weight_element", "activation_element",
             "output_element", "weight_footprint", "activation_footprint", "toggling"),
    "prefill": ("batch", "length", "keys", "window", "heads", "kv_heads", "width", "value_width",
                "element", "kv_element", "caching", "bits"),
    "decode": ("batch", "context", "window", "heads", "kv_heads", "width", "value_width", "element",
               "kv_element", "footprint"),
}  # fmt: skip


@cache
def compiled(operation: str, names: tuple[str, ...]) -> Compiled:
    """Time, FLOPs and bytes of an operation by constants, device and shape."""
    scope = SCOPE[operation]
    inputs = [*names, *DEVICE_INPUTS]
    inputs += [f"{scope}.{name}" for name in SHAPE_INPUTS[operation]]
    return registry().compile(
        inputs=inputs, outputs=[f"{scope}.{name}" for name in ("time", "flops", "size")]
    )


def shape_values(table: Table, cache_capacity: float) -> dict[str, Column | float]:
    """A table's rows as the inputs of the relations, as they were measured."""
    if table.operation == "gemm":
        return _product_values(table, cache_capacity)
    raw = table.columns
    attention: dict[str, Column | float] = {
        "batch": raw["batch_size"], "heads": raw["num_heads"],
        "kv_heads": raw["num_key_value_heads"], "width": raw["head_dim"],
        "element": _BYTES, "kv_element": _BYTES,
    }  # fmt: skip
    attention["value_width"] = raw["head_dim"]
    attention["window"] = raw["window_size"]
    if table.operation == "prefill":
        return {**attention, "length": raw["isl"], "keys": raw["isl"], "caching": 1.0, "bits": 16.0}
    context = raw["step"] + 1
    keys = np.where(raw["window_size"] > 0, np.minimum(raw["window_size"], context), context)
    seen = 2 * raw["batch_size"] * raw["num_key_value_heads"] * raw["head_dim"] * keys * _BYTES
    return {**attention, "context": context, "footprint": seen}


def _product_values(table: Table, cache_capacity: float) -> dict[str, Column | float]:
    rows, columns, depth = (table.columns[name] for name in ("m", "n", "k"))
    weights, activations = columns * depth * _BYTES, rows * depth * _BYTES
    outputs = rows * columns * _BYTES
    copies = np.full(len(table), float(_WEIGHT_COPIES))
    by_cache = (table.framework == "trtllm") & (table.system != "a100_sxm")
    needed = np.clip(np.ceil(cache_capacity / weights), 1, _MOST_COPIES_BY_CACHE)
    copies = np.where(by_cache, needed, copies)
    own_activations = table.framework == "sglang"
    return {
        "rows": rows, "columns": columns, "depth": depth, "bits": 8 * _BYTES,
        "weight_element": _BYTES, "activation_element": _BYTES, "output_element": _BYTES,
        "weight_footprint": copies * (weights + np.where(own_activations, activations, 0.0))
        + np.where(own_activations, 0.0, activations) + outputs,
        "activation_footprint": np.where(own_activations, copies, 1.0) * (weights + activations)
        + outputs,
        "toggling": np.where(table.framework == "vllm", 0.0, 1.0),
    }  # fmt: skip


def evaluate(
    table: Table, values: Mapping[str, float], device: Mapping[str, float]
) -> NDArray[np.float64]:
    """Predicted time, FLOPs and bytes of every row; constants and device by full name."""
    function = compiled(table.operation, tuple(values))
    shape = shape_values(table, device["kernels.device.cache_capacity"])
    return function(
        *values.values(), *(device[name] for name in DEVICE_INPUTS),
        *(shape[name] for name in SHAPE_INPUTS[table.operation]),
    )  # fmt: skip


@dataclass(frozen=True)
class Score:
    """How predictions of one operation on one system compare with held-out measurements."""

    operation: str
    system: str
    framework: str
    cases: int
    median: float
    p90: float
    mape: float
    coverage90: float
    roofline_median: float


def score(table: Table) -> list[Score]:
    """Score the rows of a table: products at once, attention by the engine it was measured on."""
    scores = []
    device = {**constants.find(table.system).device, "kernels.device.clock_ratio": 1.0}
    for framework in ("all",) if table.operation == "gemm" else FRAMEWORKS:
        mask = np.full(len(table), True)
        if framework != "all":
            mask = table.framework == framework
        if not mask.any():
            continue
        part = table.where(mask)
        every = constants.given(table.system, None if framework == "all" else framework)
        scope = f"{SCOPE[table.operation]}."
        values = {name: value for name, value in every.items() if name.startswith(scope)}
        spread = values.pop(f"{scope}spread")
        time, flops, size = evaluate(part, values, device)
        peak, bandwidth = device[DEVICE_INPUTS[2]], device[DEVICE_INPUTS[3]]
        roofline = np.maximum(flops / peak, size / bandwidth)
        error = np.log(time / part.seconds)
        absolute = np.abs(np.expm1(error))
        scores.append(
            Score(
                table.operation,
                table.system,
                framework,
                len(part),
                float(np.median(absolute)),
                float(np.quantile(absolute, 0.9)),
                float(absolute.mean()),
                float(np.mean(np.abs(error) <= _SPREAD_90 * spread)),
                float(np.median(np.abs(roofline / part.seconds - 1))),
            )
        )
    return scores


def score_installed() -> list[Score]:
    """Score every calibrated system on the held-out rows of the installed tables."""
    scores = []
    for system in constants.calibrated():
        for operation in OPERATIONS:
            table = load(operation, system)
            scores += score(table.where(table.held_out))
    return scores


def score_sample(path: Path) -> list[Score]:
    """Score the rows of a CSV file."""
    return [line for table in read_sample(path) for line in score(table)]


def report(scores: list[Score]) -> str:
    """Scores as a table of text."""
    header = "operation system     tables  cases   median     p90    mean  in 90 %  roofline median"
    lines = [header]
    for s in scores:
        lines.append(
            f"{s.operation:9} {s.system:10} {s.framework:6} {s.cases:6}  {s.median:6.2%} {s.p90:7.2%} "
            f"{s.mape:7.2%} {s.coverage90:8.1%} {s.roofline_median:15.1%}"
        )
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Print the scores."""
    parser = argparse.ArgumentParser(prog="python -m assay.validate.kernels", description=__doc__)
    parser.add_argument("--sample", type=Path, help="score the rows of this CSV file")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)
    try:
        scores = score_sample(options.sample) if options.sample else score_installed()
    except AssayError as error:
        parser.exit(error.exit_code, f"error: {error.message}\nhint: {error.hint}\n")
    print(json.dumps([asdict(s) for s in scores], indent=1) if options.json else report(scores))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
