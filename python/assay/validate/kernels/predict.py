"""Hardware cases: kernels, collectives and data sheets, predicted through the stack.

A kernel case is read as a row of the tables that the constants were fitted on. A case that names
an engine is predicted with operands rotated as that engine's collector does, inside a CUDA graph;
a case without one as calls launched one by one from the host on the same operands.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from assay.catalog import accelerators, constants
from assay.errors import AssayError, InputError
from assay.validate.cases import Case
from assay.validate.collectives import predict as collectives
from assay.validate.kernels import datasheets
from assay.validate.kernels.operations import OPERATION_RELATIONS, Prediction, constants_of, device
from assay.validate.kernels.tables import FRAMEWORKS, Table
from assay.validate.measured_package import is_package_row
from assay.validate.score import Row

QUANTILE_95 = 1.645
BORROWED_SPREAD = 0.15
"""Additional logarithmic spread of constants borrowed from another accelerator."""
UNSTATED_SPREAD = 0.07
"""Additional spread where a case does not state cache residency and content of operands."""

HOST_TIME = 20e-6
"""Overhead of a synchronous launch from PyTorch, in seconds."""
_ONE_BY_ONE = (
    "no engine stated: calls timed one by one from the host, 20 us each, same operands again, "
    "power between that of random and of constant ones"
)

_BYTES = {
    "bf16": 2.0, "bfloat16": 2.0, "fp16": 2.0, "float16": 2.0, "half": 2.0,
    "fp8": 1.0, "float8": 1.0, "e4m3": 1.0, "int8": 1.0,
}  # fmt: skip
_OPERATIONS = {
    "gemm": "gemm", "matmul": "gemm", "linear": "gemm",
    "context_attention": "prefill", "prefill_attention": "prefill",
    "generation_attention": "decode", "decode_attention": "decode",
}  # fmt: skip
_TIMES = {"latency_ms": 1e3, "latency_us": 1e6, "latency_s": 1.0, "time_ms": 1e3, "time_us": 1e6}
_RATES = {"tflops": 1e-12}


def predict(cases: Sequence[Case]) -> list[Row]:
    """One row for every observed figure, with the reason where there is no prediction."""
    return [row for case in cases for row in _predictor(case)(case)]


def _predictor(case: Case) -> Callable[[Case], list[Row]]:
    operation = str(case.inputs.get("op", "")).lower()
    if collectives.handles(case):
        return lambda one: collectives.predict([one])
    if operation in _OPERATIONS:
        return _predict_kernel
    return datasheets.predict_case


def _predict_kernel(case: Case) -> list[Row]:
    rows = []
    for quantity, value in case.observed.items():
        unit = quantity.rpartition("_")[2]
        if not isinstance(value, int | float):
            rows.append(gap(case, quantity, unit, math.nan, "not a single figure"))
            continue
        try:
            rows.append(_row(case, quantity, unit, float(value)))
        except AssayError as error:
            rows.append(gap(case, quantity, unit, float(value), error.message))
    return rows


def gap(case: Case, quantity: str, unit: str, observed: float, reason: str) -> Row:
    """A row without prediction, with the reason."""
    return Row(case.id, case.suite, quantity, unit, observed, None, gap=reason)


def _row(case: Case, quantity: str, unit: str, observed: float) -> Row:
    if quantity not in _TIMES and quantity not in _RATES:
        raise InputError(f'no kernel figure is called "{quantity}"')
    table, engine, notes = _as_table(case)
    facts = device(table.system)
    values = constants_of(table.operation, table.system, engine)
    names = tuple(name for name in values if not name.endswith("spread"))
    seconds = Prediction(table, names, facts)(np.array([values[name] for name in names]))
    time, flops, size = (float(figure[0]) for figure in seconds)
    host = HOST_TIME if engine is None else 0.0
    time += host
    multiple = facts["gpu.rate_8bit"] if OPERATION_RELATIONS[table.operation].element < 2 else 1.0
    roofline = max(
        flops / (multiple * facts["kernels.device.peak_flops"]),
        size / facts["kernels.device.memory_bandwidth"],
    )
    scope = OPERATION_RELATIONS[table.operation].scope
    spread = values[OPERATION_RELATIONS[table.operation].spread]
    known = constants.find(table.system, engine)
    if known.source_system != known.system:
        spread = math.hypot(spread, BORROWED_SPREAD)
    if engine is None:
        spread = math.hypot(spread, UNSTATED_SPREAD)
    launch = min(values[f"{scope}.launch_time"], time)
    in_sample = is_package_row(case) and not bool(table.held_out[0])
    if quantity in _RATES:
        scale = _RATES[quantity]
        rate = flops / time
        low, high = rate * math.exp(-QUANTILE_95 * spread), rate * math.exp(QUANTILE_95 * spread)
        return Row(
            case.id, case.suite, quantity, "TFLOP/s", observed, rate * scale,
            low * scale, high * scale, {}, {"roofline": flops / roofline * scale}, "",
            (*notes, *known.notes), in_sample,
        )  # fmt: skip
    scale = _TIMES[quantity]
    terms = {
        "floor": min(roofline, time) * scale,
        "launch": min(launch + host, max(time - roofline, 0.0)) * scale,
        "tiles, waves and reached rates": max(time - roofline - launch - host, 0.0) * scale,
    }
    return Row(
        case.id, case.suite, quantity, unit, observed, time * scale,
        time * math.exp(-QUANTILE_95 * spread) * scale,
        time * math.exp(QUANTILE_95 * spread) * scale,
        terms, {"roofline": roofline * scale}, "", (*notes, *known.notes), in_sample,
    )  # fmt: skip


def _as_table(case: Case) -> tuple[Table, str | None, list[str]]:
    """A case as a table of one row, its engine, and the defaults assumed."""
    notes: list[str] = []
    inputs = case.inputs
    operation = _OPERATIONS[str(inputs["op"]).lower()]
    system = accelerators.find(_text(inputs, "system", "gpu", "device")).name
    element = _element(inputs, notes)
    engine = _text(inputs, "framework", default="").partition("/")[0].lower()
    if engine not in FRAMEWORKS:
        notes.append(_ONE_BY_ONE)
    if operation == "gemm":
        operation = "gemm" if element == 2 else "gemm8"
        columns = {name: _number(inputs, name) for name in ("m", "n", "k")}
    else:
        columns = _attention_columns(inputs, operation)
    shape = {name: np.array([value]) for name, value in columns.items()}
    framework = engine if engine in FRAMEWORKS else ""
    table = Table(operation, system, shape, np.array([math.nan]), np.array([framework]))
    return table, framework or None, notes


def _attention_columns(inputs: dict[str, Any], operation: str) -> dict[str, float]:
    heads = _number(inputs, "heads", "num_heads")
    columns = {
        "batch_size": _number(inputs, "batch", "batch_size"),
        "num_heads": heads,
        "num_key_value_heads": _number(inputs, "kv_heads", "num_key_value_heads", default=heads),
        "head_dim": _number(inputs, "head_dim", "head_size"),
        "window_size": _number(inputs, "window", "window_size", default=0.0),
        "kv_element": _BYTES.get(str(inputs.get("kv_dtype", "bf16")).lower(), 2.0),
    }
    new = _number(inputs, "isl", "seq_len", default=1.0)
    before = _number(inputs, "kv_step", "step", "kv_len", default=0.0)
    if operation == "prefill":
        return {**columns, "isl": new, "prefix": before}
    return {**columns, "step": before + new - 1}


def _element(inputs: dict[str, Any], notes: list[str]) -> float:
    stated = inputs.get("dtype")
    if stated is None:
        notes.append("no format stated: 16 bits")
        return 2.0
    if str(stated).lower() not in _BYTES:
        raise InputError(f'no kernels of the format "{stated}"', f"formats: {', '.join(_BYTES)}")
    return _BYTES[str(stated).lower()]


def _text(inputs: dict[str, Any], *names: str, default: str | None = None) -> str:
    for name in names:
        if inputs.get(name):
            return str(inputs[name])
    if default is None:
        raise InputError(f"the case does not state its {names[0]}")
    return default


def _number(inputs: dict[str, Any], *names: str, default: float | None = None) -> float:
    for name in names:
        if inputs.get(name) is not None:
            try:
                value = float(inputs[name])
            except (TypeError, ValueError):
                raise InputError(f"{name}: expected a number, got {inputs[name]!r}") from None
            least = 0.0 if default == 0.0 else 1.0
            if not least <= value < math.inf:
                raise InputError(f"{name}: expected at least {least:g}, got {value:g}")
            return value
    if default is None:
        raise InputError(f"the case does not state {names[0]}")
    return default
