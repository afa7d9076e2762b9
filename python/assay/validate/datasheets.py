"""Figures of data sheets: rates that follow from counts and clocks, and what stays an input."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from assay.catalog import accelerators, constants
from assay.errors import AssayError, InputError
from assay.stack import registry
from assay.validate.cases import Case
from assay.validate.kernel_operations import solved
from assay.validate.score import Row

INPUT = "an input, not a prediction"

_FORMATS = {"bf16": "1", "fp16": "1", "fp8": "gpu.rate_8bit", "int8": "gpu.rate_8bit"}
_FORMATS["fp4"] = "gpu.rate_4bit"
_INPUTS = (
    "mem_GB", "tdp_W", "pue", "industrial_cents_per_kWh", "commercial_cents_per_kWh",
)  # fmt: skip
# Pins run at whole steps and clocks are rounded: data sheets round to three digits.
_ROUNDING = 0.01


def predict_case(case: Case) -> list[Row]:
    """One row for every figure of a data sheet; what cannot be predicted says why."""
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
    """Observed figures one by one: those of a group or a list under names of their own."""
    found: dict[str, float] = {}
    for name, value in observed.items():
        if isinstance(value, Mapping):
            found |= {f"{name}.{key}": float(one) for key, one in value.items()}
        elif isinstance(value, list):
            found |= {f"{name}.{place}": float(one) for place, one in enumerate(value)}
        elif isinstance(value, int | float):
            found[name] = float(value)
    return found


def _row(case: Case, quantity: str, unit: str, observed: float) -> Row:
    if quantity in _INPUTS:
        raise InputError(INPUT)
    name = case.inputs.get("gpu") or case.inputs.get("system")
    if not name:
        raise InputError("the case names no accelerator and no shape")
    entry = accelerators.find(str(name))
    given = {**entry.given, **_constants(entry.name)}

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
    if quantity in ("hbm_TBps_measured", "hbm_efficiency_pct"):
        share = value("kernels.passes.share")
        reached = share * value("gpu.memory.bandwidth") / 1e12
        predicted, shown = (100 * share, "%") if quantity.endswith("pct") else (reached, "TB/s")
        return Row(
            case.id, case.suite, quantity, shown, observed, predicted,
            0.9 * predicted, 1.1 * predicted, notes=notes,
        )  # fmt: skip
    raise InputError(f'no relation predicts "{quantity}" of this case')


def _close(case: Case, quantity: str, unit: str, observed: float, predicted: float) -> Row:
    return Row(
        case.id, case.suite, quantity, unit, observed, predicted,
        predicted * (1 - _ROUNDING), predicted * (1 + _ROUNDING),
    )  # fmt: skip


def _constants(system: str) -> dict[str, str]:
    """Fitted constants as `resolve` takes them beside a catalogue entry."""
    variables = registry().variables
    return {
        name: f"{value!r} {variables[name].unit.text}"
        for name, value in constants.given(system).items()
        if name in variables
    }
