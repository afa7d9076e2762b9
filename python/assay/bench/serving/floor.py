"""The floor of a whole run: products at the GEMM ceiling, caches at the read ceiling, nothing idle."""

from __future__ import annotations

from dataclasses import dataclass

from assay.bench.serving.scenarios import Scenario
from assay.planner.specs import ModelSpec


@dataclass(frozen=True, slots=True)
class Ceilings:
    """What the device was measured to do at most."""

    gemm: float
    """FLOP/s of a large product in the format of the weights."""
    read: float
    """Bytes per second."""


def request_floor_s(
    model: ModelSpec, scenario: Scenario, ceilings: Ceilings, kv_item_bytes: float = 2.0
) -> float:
    """Device seconds of a request at least, in a server that always has enough of them.

    Every new token of prompt and answer goes through the products, beside so many others that weights
    are read for free; every token of the answer reads the keys and values before it.
    """
    shape = model.architecture
    queries = shape["heads"] * shape["head_size"]
    keys = shape["kv_heads"] * (shape["head_size"] + shape["value_size"])
    inner = (
        shape["ffn"] if not shape["experts"] else shape["expert_ffn"] * shape["experts_per_token"]
    )
    layer = shape["hidden"] * (2 * queries + keys + 3 * inner)
    prompt = scenario.prompt if scenario.new_prompt is None else scenario.new_prompt
    before = scenario.prompt - prompt
    # Causal attention of the prompt's new tokens; that of the answer is bound by reading the cache.
    attention = 4 * queries * prompt * (before + (prompt + 1) / 2)
    tokens = prompt + scenario.output
    flops = shape["layers"] * (2 * layer * tokens + attention)
    flops += 2 * shape["hidden"] * shape["vocabulary"] * scenario.output
    context = scenario.prompt + scenario.output / 2
    cache = scenario.output * context * shape["layers"] * keys * kv_item_bytes
    return float(flops / ceilings.gemm + cache / ceilings.read)
