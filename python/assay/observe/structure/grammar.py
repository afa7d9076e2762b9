"""The grammar of a step: which operations follow which, and what each costs a kernel to be.

A step is a prologue, layers, and an epilogue. Each is a chain of slots; a slot is an operation with
the kind of kernel it takes. Costs are negative log-likelihoods up to a constant: 0 fits, 1 says
nothing, 5 contradicts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from assay.array_types import Floats
from assay.observe.structure.layout import Layout
from assay.observe.structure.names import CLASS_CODES, CLASSES

CONTRADICTS: Final = 5.0
"""The cost of a name that says another operation."""

_FITS: Final[dict[str, dict[str, float]]] = {
    "gemm": {"gemm": 0.0, "moe_gemm": 1.5, "unknown": 1.0, "elementwise": 4.0, "reduce": 4.0},
    "moe_gemm": {"moe_gemm": 0.0, "gemm": 0.8, "unknown": 1.0},
    "attention": {"attention": 0.0, "gemm": 3.0, "unknown": 1.0, "sampling": 3.0, "reduce": 3.0},
    # Kernels that come with attention: split scheduling, cleared semaphores, combine, gates.
    "by_attention": {
        "attention_aux": 0.0, "attention": 0.5, "fill": 0.4, "memset": 0.5, "unknown": 1.5,
        "elementwise": 1.2, "reduce": 1.2, "copy_device": 1.2, "sampling": 2.0, "splitk": 2.0,
    },
    "norm": {
        "norm": 0.0, "reduce": 0.6, "elementwise": 1.0, "unknown": 1.0, "copy_device": 2.0,
        "fill": 2.5,
    },
    "rope": {
        "rope": 0.0, "elementwise": 0.5, "unknown": 1.0, "reduce": 1.2, "norm": 1.8,
        "gather": 1.5, "copy_device": 1.5, "kv_cache": 2.5,
    },
    "kv_cache": {
        "kv_cache": 0.0, "unknown": 1.0, "elementwise": 1.2, "gather": 1.0, "rope": 1.5,
        "copy_device": 1.0, "reduce": 2.0,
    },
    "activation": {"activation": 0.0, "elementwise": 0.5, "unknown": 1.0, "reduce": 1.5},
    "route_topk": {
        "route_topk": 0.0, "sampling": 0.4, "reduce": 0.8, "elementwise": 0.8, "unknown": 1.0,
        "gather": 0.8, "norm": 2.0,
    },
    "moe_sort": {
        "moe_sort": 0.0, "sampling": 0.4, "gather": 0.6, "fill": 0.5, "memset": 0.4,
        "elementwise": 0.6, "reduce": 0.7, "unknown": 1.0, "copy_device": 0.7, "prepare": 1.0,
    },
    "moe_sum": {
        "moe_sum": 0.0, "reduce": 0.4, "elementwise": 0.5, "unknown": 1.0, "gather": 1.0,
        "memset": 1.5,
    },
    "quantize": {"quantize": 0.0, "unknown": 3.0, "elementwise": 2.5, "reduce": 3.0},
    "ssm_conv": {"ssm_conv": 0.0, "elementwise": 1.2, "unknown": 1.0},
    "ssm_scan": {
        "ssm_scan": 0.0, "elementwise": 1.2, "unknown": 1.0, "reduce": 1.2, "norm": 2.5,
        "gemm": 3.0, "sampling": 2.0, "gather": 1.5, "copy_device": 1.5, "fill": 1.5,
    },
    "embedding": {
        "embedding": 0.0, "gather": 0.3, "elementwise": 1.0, "unknown": 1.0, "norm": 1.5,
    },
    "gather": {
        "gather": 0.0, "elementwise": 0.8, "embedding": 0.5, "unknown": 1.0, "copy_device": 0.6,
        "reduce": 2.0,
    },
    "prepare": {
        "prepare": 0.0, "copy_in": 0.0, "elementwise": 0.4, "fill": 0.2, "memset": 0.3,
        "gather": 0.5, "unknown": 1.0, "copy_device": 0.4, "reduce": 0.8, "attention_aux": 0.8,
        "embedding": 1.5, "sampling": 1.0, "copy_out": 1.5, "collect": 1.2, "rope": 1.5,
        "kv_cache": 1.5,
    },
    "sampling": {
        "sampling": 0.0, "elementwise": 0.4, "reduce": 0.3, "gather": 0.4, "fill": 0.5,
        "memset": 0.6, "unknown": 1.0, "copy_device": 0.6, "embedding": 1.5, "prepare": 1.5,
        "copy_in": 1.5, "copy_out": 1.2, "route_topk": 0.5, "collect": 1.2,
    },
    "collect": {
        "copy_out": 0.0, "collect": 0.0, "sampling": 0.8, "elementwise": 0.6, "gather": 0.6,
        "fill": 0.5, "memset": 0.6, "copy_device": 0.4, "unknown": 1.0, "prepare": 1.2,
        "copy_in": 1.5, "reduce": 1.0,
    },
    # Kernels that come with a GEMM: its workspace, which the library clears by a memset (a fill is
    # a kernel of the framework), before; its split-K reduction after.
    "before_gemm": {"memset": 0.0, "fill": 1.2, "unknown": 2.5, "elementwise": 3.0},
    "after_gemm": {"splitk": 0.0, "reduce": 1.5, "unknown": 2.0, "elementwise": 2.2},
    **{
        collective: {collective: 0.0, "unknown": 3.5}
        for collective in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send_recv")
    },
}  # fmt: skip
"""Cost of a class of names in a kind of slot; what is not listed contradicts it."""

REPEATS: Final = {
    "attention": 2.0, "by_attention": 0.2, "norm": 0.8, "rope": 0.5, "kv_cache": 0.8, "activation": 1.2,
    "route_topk": 0.5, "moe_sort": 0.2, "moe_sum": 0.8, "quantize": 0.5, "ssm_conv": 0.5,
    "ssm_scan": 0.2, "embedding": 1.0, "gather": 0.3, "prepare": 0.0, "sampling": 0.0,
    "collect": 0.0, "all_reduce": 0.5, "all_gather": 0.5, "reduce_scatter": 0.5,
    "all_to_all": 0.3, "send_recv": 0.3, "before_gemm": 0.5, "after_gemm": 0.5,
}  # fmt: skip
"""Cost of one more kernel in the same slot; kinds that are missing take one."""

KINDS: Final = tuple(_FITS)
KIND_CODES: Final = {kind: code for code, kind in enumerate(KINDS)}


def name_costs() -> Floats:
    """Costs by class of name and kind of slot."""
    table = np.full((len(CLASSES), len(KINDS)), CONTRADICTS)
    for kind, fits in _FITS.items():
        for name, cost in fits.items():
            table[CLASS_CODES[name], KIND_CODES[kind]] = cost
    return table


@dataclass(frozen=True, slots=True)
class Slot:
    """An operation's place in a chain."""

    operation: str
    kind: str
    skip: float = 0.0
    """Cost of no kernel: the operation is optional, or fused into another."""
    least: float = 0.0
    most: float = 0.0
    """Parameters that are read, between these; 0 where unknown."""
    fused_into: tuple[str, ...] = ()
    """Operations whose kernel does this one's work when it has none, the likeliest first."""


Chain = tuple["Slot | Choice", ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """Alternative chains, each with a cost."""

    chains: tuple[tuple[float, Chain], ...]


NEVER: Final = 12.0
"""The cost of a GEMM without a kernel."""

_QUANTIZE: Final = Slot("quantize", "quantize")


def _gemm(layout: Layout, operation: str, parameters: str = "", skip: float = NEVER) -> Slot:
    weights = layout.parameters.get(parameters or operation, 0.0)
    return Slot(operation, "gemm", skip, weights, weights)


def _collective(*operations: str) -> Choice:
    return Choice(tuple((0.0, (Slot(operation, operation),)) for operation in operations))


def _attention(layout: Layout) -> Chain:
    joined = _gemm(layout, "qkv_proj")
    apart = tuple(_gemm(layout, "qkv_proj", part) for part in ("q_proj", "k_proj", "v_proj"))
    near = ("kv_cache_write", "rope", "qk_norm", "attention")
    norm = (Slot("qk_norm", "norm", 1.0, fused_into=("rope", "kv_cache_write", "attention")),)
    rope = (Slot("rope", "rope", 1.0, fused_into=("qk_norm", "kv_cache_write", "attention")),)
    return (
        Slot("input_norm", "norm", 2.5, fused_into=("qkv_proj",)),
        _QUANTIZE,
        Choice(((0.0, (joined,)), (1.0, apart))),
        *(norm if layout.qk_norm else ()),
        *(rope if layout.rope else ()),
        Slot("kv_cache_write", "kv_cache", 0.7, fused_into=near[1:]),
        Slot("attention", "attention", 8.0),
        _QUANTIZE,
        _gemm(layout, "o_proj"),
        _collective("all_reduce", "reduce_scatter"),
    )


def _latent_attention(layout: Layout) -> Chain:
    down = layout.parameters
    both = down.get("q_a_proj", 0.0) + down.get("kv_a_proj", 0.0)
    query_norm = Slot("q_a_norm", "norm", 1.0, fused_into=("kv_a_norm",))
    latent_norm = Slot("kv_a_norm", "norm", 1.0, fused_into=("q_a_norm", "rope", "kv_cache_write"))
    fused: Chain = (
        Slot("q_a_proj+kv_a_proj", "gemm", NEVER, both, both),
        query_norm, _QUANTIZE, _gemm(layout, "q_b_proj"), latent_norm,
    )  # fmt: skip
    apart: Chain = (
        _gemm(layout, "q_a_proj"), query_norm, _QUANTIZE, _gemm(layout, "q_b_proj"),
        _gemm(layout, "kv_a_proj"), latent_norm,
    )  # fmt: skip
    direct: Chain = (_gemm(layout, "q_b_proj"), _gemm(layout, "kv_a_proj"), latent_norm)
    has_query = down.get("q_a_proj", 1.0) > 0
    absorbed = _gemm(layout, "kv_b_proj", "kv_b_keys")
    write = Slot("kv_cache_write", "kv_cache", 0.4, fused_into=("rope", "attention"))
    rope = Slot("rope", "rope", 1.0, fused_into=("kv_cache_write", "attention"))
    return (
        Slot("input_norm", "norm", 2.5, fused_into=("q_a_proj+kv_a_proj", "q_a_proj")),
        _QUANTIZE,
        Choice(((0.0, fused), (0.5, apart)) if has_query else ((0.0, direct),)),
        Choice((
            (0.0, (rope, write, absorbed)),
            (0.0, (absorbed, rope, write)),
            (0.0, (rope, absorbed, write)),
            # Prefill expands the latent to keys and values.
            (0.0, (rope, write, _gemm(layout, "kv_b_proj"))),
            (0.0, (_gemm(layout, "kv_b_proj"), rope, write)),
            (2.0, (rope, write)),
        )),
        Slot("attention", "attention", 8.0),
        _gemm(layout, "kv_b_proj", "kv_b_values", skip=0.3),
        _QUANTIZE,
        _gemm(layout, "o_proj"),
        _collective("all_reduce", "reduce_scatter"),
    )  # fmt: skip


def _state_space(layout: Layout) -> Chain:
    first = _gemm(layout, "ssm_in_proj")
    small = replace(first, least=first.least * 0.001, most=first.most * 0.5)
    return (
        Slot("input_norm", "norm", 2.5, fused_into=("ssm_in_proj",)),
        _QUANTIZE,
        Choice(((0.0, (first,)), (0.5, (first, small)), (1.0, (first, small, small)))),
        Slot("ssm_conv", "ssm_conv", 1.0, fused_into=("ssm_scan",)),
        Slot("ssm_scan", "ssm_scan", 8.0),
        Slot("ssm_norm", "norm", 1.5, fused_into=("ssm_scan",)),
        _QUANTIZE,
        _gemm(layout, "ssm_out_proj"),
        _collective("all_reduce", "reduce_scatter"),
    )


def _second_norm(layout: Layout, into: str) -> Slot:
    skip = 2.5 if layout.post_norm else 0.0
    return Slot("post_attention_norm", "norm", skip, fused_into=(into,) if layout.post_norm else ())


def _dense(layout: Layout) -> Chain:
    joined = _gemm(layout, "gate_up_proj")
    half = replace(joined, least=joined.least / 2, most=joined.most / 2)
    up: Chain = (joined,)
    return (
        _second_norm(layout, "gate_up_proj"),
        _QUANTIZE,
        Choice(((0.0, up), (1.0, (half, half)))) if layout.gated else joined,
        Slot("activation", "activation", 2.0, fused_into=("gate_up_proj",)),
        _QUANTIZE,
        _gemm(layout, "down_proj"),
        _collective("all_reduce", "reduce_scatter"),
    )


def _moe(layout: Layout) -> Chain:
    shared = _shared(layout)
    return (
        _second_norm(layout, "router"),
        *shared,
        _gemm(layout, "router", skip=3.0),
        Slot("router_topk", "route_topk", 1.5, fused_into=("router", "expert_dispatch")),
        *shared,
        _collective("all_gather", "all_to_all"),
        Slot("expert_dispatch", "moe_sort", 0.3),
        _QUANTIZE,
        _experts(layout, "experts_gate_up"),
        Slot("experts_activation", "activation", 1.5, fused_into=("experts_gate_up",)),
        _QUANTIZE,
        _experts(layout, "experts_down"),
        _collective("all_to_all", "reduce_scatter"),
        Slot("expert_combine", "moe_sum", 1.0, fused_into=("experts_down",)),
        *shared,
        _collective("all_reduce", "reduce_scatter"),
    )


def _experts(layout: Layout, operation: str) -> Slot:
    expert = layout.parameters.get(operation, 0.0)
    least = expert * max(layout.experts_per_token, 1)
    return Slot(operation, "moe_gemm", NEVER, least, expert * max(layout.experts, 1))


def _shared(layout: Layout) -> Chain:
    if not layout.shared_experts:
        return ()
    chain: Chain = (
        _QUANTIZE,
        _gemm(layout, "shared_gate_up"),
        Slot("shared_activation", "activation", 2.0, fused_into=("shared_gate_up",)),
        _QUANTIZE,
        _gemm(layout, "shared_down"),
    )
    return (Choice(((0.0, ()), (0.0, chain))),)


_MIXERS: Final = {"attention": _attention, "mla": _latent_attention, "linear": _state_space}
_MLPS: Final = {"dense": _dense, "moe": _moe}


def layer_chain(layout: Layout) -> Chain:
    """The chain of one layer: any mixer of the model, then any MLP."""
    mixers = dict.fromkeys(kind.mixer for kind in layout.kinds)
    mlps = dict.fromkeys(kind.mlp for kind in layout.kinds)
    return (
        Choice(tuple((0.0, _MIXERS[mixer](layout)) for mixer in mixers)),
        Choice(tuple((0.0, _MLPS[mlp](layout)) for mlp in mlps)),
    )


PROLOGUE: Final[Chain] = (
    Slot("prepare_inputs", "prepare"),
    Slot("embedding", "embedding", 0.5),
    _collective("all_reduce"),
)


def epilogue_chain(layout: Layout) -> Chain:
    """What follows the last layer."""
    head = _gemm(layout, "lm_head", skip=6.0)
    return (
        _collective("all_gather"),
        Slot("final_norm", "norm", 1.5),
        Slot("select_logits", "gather", 0.3),
        # A prefill computes logits of its last rows only: less time than its GEMMs would say.
        replace(head, least=head.least * 0.05),
        _collective("all_gather"),
        Slot("sampling", "sampling", 1.0),
        Slot("collect_outputs", "collect", 0.3),
    )
