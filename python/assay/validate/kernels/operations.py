"""Maps rows of the measured tables to inputs of the stack's relations, and predicts them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from assay.array_types import Floats
from assay.catalog import accelerators, constants
from assay.errors import InputError
from assay.model.tapes.compile import Compiled
from assay.stack import registry
from assay.validate.kernels.tables import FRAMEWORKS, Column, Table

Values = dict[str, Column | float]

_WEIGHT_COPIES = 6
_MOST_COPIES_BY_CACHE = 5

DEVICE_INPUTS = (
    "kernels.device.multiprocessors", "kernels.device.cache_capacity", "kernels.device.peak_flops",
    "kernels.device.memory_bandwidth", "kernels.device.clock_ratio", "gpu.rate_8bit",
    "gpu.rate_4bit",
)  # fmt: skip


def _gemm(table: Table, cache_capacity: float, element: float) -> list[Values]:
    rows, columns, depth = (table.columns[name] for name in ("m", "n", "k"))
    weights, activations = columns * depth * element, rows * depth * element
    outputs = rows * columns * 2.0
    copies = np.where(np.isin(table.framework, FRAMEWORKS), float(_WEIGHT_COPIES), 1.0)
    by_cache = (table.framework == "trtllm") & (table.system != "a100_sxm")
    needed = np.clip(np.ceil(cache_capacity / weights), 1, _MOST_COPIES_BY_CACHE)
    copies = np.where(by_cache, needed, copies)
    own_activations = table.framework == "sglang"
    return [{
        "rows": rows, "columns": columns, "depth": depth, "bits": 8 * element,
        "weight_element": element, "activation_element": element, "output_element": 2.0,
        "weight_footprint": copies * (weights + np.where(own_activations, activations, 0.0))
        + np.where(own_activations, 0.0, activations) + outputs,
        "activation_footprint": np.where(own_activations, copies, 1.0) * (weights + activations)
        + outputs,
        "toggling": _toggling(table), "casting": table.columns.get("casting", 1.0),
    }]  # fmt: skip


def _toggling(table: Table) -> Column:
    """Randomness of the operands: 0 for vLLM's collector, 1 for others, 0.5 if unknown."""
    unknown = ~np.isin(table.framework, FRAMEWORKS)
    return np.where(unknown, 0.5, np.where(table.framework == "vllm", 0.0, 1.0))


def _attention(table: Table) -> Values:
    raw = table.columns
    return {
        "batch": raw["batch_size"], "heads": raw["num_heads"],
        "kv_heads": raw["num_key_value_heads"], "width": raw["head_dim"],
        "value_width": raw["head_dim"], "window": raw["window_size"],
        "element": 2.0, "kv_element": raw.get("kv_element", 2.0),
    }  # fmt: skip


def _prefill(table: Table, cache_capacity: float, element: float) -> list[Values]:
    length = table.columns["isl"]
    keys = length + table.columns.get("prefix", 0.0)
    caching = table.columns.get("caching", 1.0)
    bits = table.columns.get("bits", 16.0)
    return [{**_attention(table), "length": length, "keys": keys, "caching": caching, "bits": bits}]


def _decode(table: Table, cache_capacity: float, element: float) -> list[Values]:
    raw = table.columns
    context, window = raw["step"] + 1, raw["window_size"]
    keys = np.where(window > 0, np.minimum(window, context), context)
    shape = _attention(table)
    per_key = 2 * raw["num_key_value_heads"] * raw["head_dim"] * shape["kv_element"]
    return [{**shape, "context": context, "footprint": raw["batch_size"] * per_key * keys}]


def touched_experts(
    tokens: Column, experts: Column, chosen: Column, balanced: Column | float
) -> Column:
    """Experts that a measured batch touches: spread evenly, or by the collector's power law.

    The collector draws a load for each expert, nearly log-uniform between 1 and 0.8 tokens, scales
    the loads to the rows of the batch and rounds them: experts below half a row stay idle.
    """
    rows = tokens * chosen
    evenly = np.minimum(experts, rows)
    high = np.maximum(0.8 * tokens, 1.1)
    mean_load = (high - 1) / np.log(high)
    half_a_row = np.maximum(0.5 * mean_load * experts / rows, 1.0)
    drawn = experts * np.clip(1 - np.log(half_a_row) / np.log(high), 0.0, 1.0)
    return np.where(np.asarray(balanced) > 0.5, evenly, np.clip(drawn, chosen, evenly))


def _experts(table: Table, cache_capacity: float, element: float) -> list[Values]:
    raw = table.columns
    hidden, inner = raw["hidden_size"], raw["inter_size"] / raw["moe_tp_size"]
    touched = touched_experts(
        raw["num_tokens"], raw["num_experts"], raw["topk"], raw.get("balanced", 0.0)
    )
    common: Values = {
        "tokens": raw["num_tokens"], "experts": raw["num_experts"], "chosen": raw["topk"],
        "touched": touched,
        "bits": 8 * element, "weight_element": element, "activation_element": element,
    }  # fmt: skip
    return [
        {**common, "columns": 2 * inner, "depth": hidden},
        {**common, "columns": hidden, "depth": inner},
    ]


def _passes(table: Table, cache_capacity: float, element: float) -> list[Values]:
    return [{"moved": table.columns["m"] * table.columns["k"] * 3.0}]


@dataclass(frozen=True)
class OperationRelations:
    """The relations that predict a table's rows, and the mapping of its columns to inputs.

    `by_engine`: each engine has its own kernels and constants; `engines`: whose rows are used.
    A row of several launches is the sum over their inputs.
    """

    scope: str
    inputs: Callable[[Table, float, float], list[Values]]
    element: float = 2.0
    by_engine: bool = False
    engines: tuple[str, ...] = FRAMEWORKS

    @property
    def spread(self) -> str:
        """The constant for the logarithmic spread of measured over predicted times."""
        return f"{self.scope}.{'eight_bit_' if self.element < 2 else ''}spread"


# SGLang casts with unfused array operations, ten times slower than a fused kernel.
_FUSED = ("vllm", "trtllm")
OPERATION_RELATIONS = {
    "gemm": OperationRelations("kernels.gemm", _gemm),
    "gemm8": OperationRelations("kernels.gemm", _gemm, element=1.0, by_engine=True),
    "prefill": OperationRelations("kernels.prefill", _prefill, by_engine=True),
    "decode": OperationRelations("kernels.decode", _decode, by_engine=True),
    "experts": OperationRelations("kernels.experts", _experts, by_engine=True),
    "experts8": OperationRelations("kernels.experts", _experts, element=1.0, by_engine=True),
    "passes": OperationRelations("kernels.passes", _passes, engines=_FUSED),
}


@cache
def device(system: str) -> dict[str, float]:
    """Device inputs of the kernel relations for an accelerator, at the measured clock."""
    entry = accelerators.find(system)
    known = entry.given
    facts = {"kernels.device.clock_ratio": 1.0, **accelerators.low_precision_rates(entry)}
    for name in DEVICE_INPUTS:
        if name not in facts:
            facts[name] = solved(name, known)
    return facts


def solved(name: str, given: Mapping[str, Any]) -> float:
    """The value of a variable; raises if the given ones do not determine it."""
    value = registry().value(name, given)
    if value is None:
        raise InputError(f"{name} cannot be resolved from what the catalog gives")
    return value


@cache
def compiled(scope: str, names: tuple[str, ...], shape: tuple[str, ...]) -> Compiled:
    """Time, FLOPs and bytes of an operation by constants, device and shape."""
    outputs = [f"{scope}.{name}" for name in ("time", "flops", "size")]
    known = [name for name in outputs if name in registry().variables]
    inputs = [*names, *DEVICE_INPUTS, *(f"{scope}.{name}" for name in shape)]
    return registry().compile(inputs=inputs, outputs=known)


class Prediction:
    """The relations of an operation bound to the rows of a table."""

    def __init__(self, table: Table, names: tuple[str, ...], facts: Mapping[str, float]) -> None:
        """Bind the table; `names` are the constants passed to each call."""
        kind = OPERATION_RELATIONS[table.operation]
        launches = kind.inputs(table, facts["kernels.device.cache_capacity"], kind.element)
        self.function = compiled(kind.scope, names, tuple(launches[0]))
        self.rest = [
            [*(facts[name] for name in DEVICE_INPUTS), *shape.values()] for shape in launches
        ]

    def __call__(self, values: Floats) -> Floats:
        """Time, FLOPs and bytes of every row."""
        times = [self.function(*values, *rest) for rest in self.rest]
        return np.asarray(sum(times[1:], times[0]))

    def slopes(self, values: Floats, wrt: list[str]) -> Floats:
        """Derivatives of the time by constants, one row per constant."""
        slopes = [self.function.jacobian(*values, *rest, wrt=wrt)[0] for rest in self.rest]
        return np.asarray(sum(slopes[1:], slopes[0]))


def constants_of(operation: str, system: str, engine: str | None = None) -> dict[str, float]:
    """The constants that an operation's time depends on, its spread among them."""
    scopes = {OPERATION_RELATIONS[operation].scope}
    if operation.startswith("experts"):
        scopes.add("kernels.gemm")
    return {
        name: value
        for name, value in constants.given(system, engine).items()
        if name.rpartition(".")[0] in scopes
    }
