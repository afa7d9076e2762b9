"""Figures of data sheets and headline rates of kernels.

A headline rate states no shape: a GEMM is assumed to be a cube of 8192, attention one sequence of
16384 tokens in eight heads of 256 without a KV cache, as in the FlashAttention-3 paper.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from assay.catalog import accelerators, constants
from assay.errors import AssayError, InputError
from assay.stack import registry
from assay.validate.cases import Case
from assay.validate.kernels.operations import (
    OPERATION_RELATIONS,
    Prediction,
    constants_of,
    device,
    solved,
)
from assay.validate.kernels.tables import Table
from assay.validate.score import Row
from assay.validate.sites import predict_pue

INPUT = "{} is an input of the graph, not a prediction"

_FORMATS = {"bf16": "1", "fp16": "1", "fp8": "gpu.rate_fp8", "int8": "gpu.rate_int8"}
_FORMATS |= {"fp4": "gpu.rate_fp4", "int4": "gpu.rate_int4"}
_INPUTS = {
    "mem_GB": "gpu.memory.capacity", "tdp_W": "gpu.power.limit",
    "industrial_cents_per_kWh": "econ.electricity.energy_price",
    "commercial_cents_per_kWh": "econ.electricity.energy_price",
}  # fmt: skip
_CUBE = {"m": 8192.0, "n": 8192.0, "k": 8192.0, "casting": 0.0}
_LONG = {
    "batch_size": 1.0, "isl": 16384.0, "num_heads": 8.0, "num_key_value_heads": 8.0,
    "head_dim": 256.0, "window_size": 0.0, "caching": 0.0,
}  # fmt: skip
_HEADLINE_SPREAD = 0.1
# Pins run at whole steps and clocks are rounded: data sheets round to three digits.
_ROUNDING = 0.01


def predict_case(case: Case) -> list[Row]:
    """One row for every figure of a data sheet, with the reason where there is no prediction."""
    rows = []
    for quantity, value in _figures(case.observed).items():
        unit = quantity.rpartition("_")[2] if "_" in quantity else ""
        try:
            rows.append(_row(case, quantity, unit, value))
        except AssayError as error:
            gap = error.message
            rows.append(Row(case.id, case.suite, quantity, unit, value, None, gap=gap))
    return rows


def _figures(observed: Mapping[str, Any]) -> dict[str, float]:
    """Observed figures, with nested ones under dotted names."""
    figures: dict[str, float] = {}
    for name, value in observed.items():
        if isinstance(value, Mapping):
            figures |= {f"{name}.{key}": float(figure) for key, figure in value.items()}
        elif isinstance(value, list):
            figures |= {f"{name}.{index}": float(figure) for index, figure in enumerate(value)}
        elif isinstance(value, int | float):
            figures[name] = float(value)
    return figures


def _row(case: Case, quantity: str, unit: str, observed: float) -> Row:
    if quantity == "pue":
        return predict_pue(case, observed)
    if quantity in _INPUTS:
        raise InputError(INPUT.format(_INPUTS[quantity]))
    if quantity in ("tflops", "pct_of_peak") and "kernel" in case.inputs:
        return _attention_headline(case, quantity, observed)
    name = case.inputs.get("gpu") or case.inputs.get("system")
    if not name:
        raise InputError("the case names no accelerator and no shape")
    entry = accelerators.find(str(name))
    known = registry().variables
    fitted = constants.given(entry.name)
    given = {**entry.given, **{name: fitted[name] for name in fitted if name in known}}

    def value(variable: str) -> float:
        return solved(variable, given)

    notes = (*constants.find(entry.name).notes, "data sheets round to three digits")
    group, _, key = quantity.partition(".")
    if group == "dense_tflops":
        if key not in _FORMATS:
            raise InputError(f"the stack has no peak rate of {key}")
        multiple = 1.0 if _FORMATS[key] == "1" else value(_FORMATS[key])
        return _close(
            case, quantity, "TFLOP/s", observed, value("gpu.peak_flops") * multiple / 1e12
        )
    if quantity == "hbm_GBps":
        return _close(case, quantity, "GB/s", observed, value("gpu.memory.bandwidth") / 1e9)
    if quantity == "nvlink_GBps_total_bidirectional":
        if observed == 0:
            raise InputError("no NVLink to predict a rate of")
        both = 2 * value("gpu.link.bandwidth") / 1e9
        return _close(case, quantity, "GB/s", observed, both)
    if quantity.endswith("_gemm_tflops_sustained"):
        operation = "gemm" if quantity.startswith(("bf16", "fp16")) else "gemm8"
        return _headline(case, quantity, observed, operation, entry.name, _CUBE)
    if quantity in ("hbm_TBps_measured", "hbm_efficiency_pct"):
        share = value("kernels.gemm.read_share")
        reached = share * value("gpu.memory.bandwidth") / 1e12
        predicted, shown = (100 * share, "%") if quantity.endswith("pct") else (reached, "TB/s")
        return Row(
            case.id, case.suite, quantity, shown, observed, predicted,
            0.9 * predicted, 1.1 * predicted, notes=notes,
        )  # fmt: skip
    raise InputError(f'no relation predicts "{quantity}" of this case')


def _attention_headline(case: Case, quantity: str, observed: float) -> Row:
    """The best rate of a forward attention kernel, such as FlashAttention-3's."""
    words = str(case.inputs["kernel"]).split()
    if "fwd" not in words or words[0] != "FlashAttention-3":
        raise InputError("no such kernel among the measured ones")
    system = next((word for word in words if word.startswith(("H1", "H2", "B2"))), "")
    bits = 8.0 if "fp8" in words else 16.0
    entry = accelerators.find(system)
    return _headline(case, quantity, observed, "prefill", entry.name, {**_LONG, "bits": bits})


def _headline(
    case: Case, quantity: str, observed: float, operation: str, system: str, shape: dict[str, float]
) -> Row:
    columns = {name: np.array([side]) for name, side in shape.items()}
    table = Table(operation, system, columns, np.array([math.nan]), np.array([""]))
    values = constants_of(operation, system)
    names = tuple(name for name in values if not name.endswith("spread"))
    seconds = Prediction(table, names, device(system))(np.array([values[name] for name in names]))
    facts = device(system)
    if quantity == "pct_of_peak":
        unit, scale = "%", 100 / facts["kernels.device.peak_flops"]
    else:
        unit, scale = "TFLOP/s", 1e-12
    rate = float(seconds[1][0] / seconds[0][0]) * scale
    spread = math.hypot(values[OPERATION_RELATIONS[operation].spread], _HEADLINE_SPREAD)
    low, high = rate * math.exp(-1.645 * spread), rate * math.exp(1.645 * spread)
    shown = ", ".join(f"{name} {side:g}" for name, side in shape.items())
    notes = (f"no shape stated: {shown}", *constants.find(system).notes)
    return Row(
        case.id, case.suite, quantity, unit, observed, rate, low, high, notes=notes
    )  # fmt: skip


def _close(case: Case, quantity: str, unit: str, observed: float, predicted: float) -> Row:
    return Row(
        case.id, case.suite, quantity, unit, observed, predicted,
        predicted * (1 - _ROUNDING), predicted * (1 + _ROUNDING),
    )  # fmt: skip
