"""What each launch of the engine computes, in the names of `assay.observe.operations`.

The engine labels its operations as it queues them: `layers.3.attention.qkv`. Label, operation and
kernel say what a launch computes, by construction; nothing is recovered from order or shape.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from assay.engine.models.latent_attention import LatentAttention
from assay.engine.models.layers import Attention, Mlp

if TYPE_CHECKING:
    from assay.engine.models.model import Model
    from assay.engine.models.norms import Norm


class Meaning(NamedTuple):
    """What a launch computes."""

    operation: str | None
    layer: int | None
    carries: bool
    """Whether the bytes and FLOPs of its node are its own: true of one launch of a node."""


_STEP_LABELS: Final = {
    "embedding": "embedding",
    "embedding.scale": "embedding",
    "positions": "embedding",
    "add_positions": "embedding",
    "norm": "final_norm",
    "sampled_rows": "select_logits",
    "head.scale": "lm_head",
    "bias_logits": "sampling",
    "mask_logits": "sampling",
    "penalize": "sampling",
    "sample": "sampling",
    "copy_block": "kv_cache_write",
}

_EXPERT_LABELS: Final = {
    "mlp.norm": ["post_attention_norm"],
    "mlp.router": ["router"],
    "mlp.route": ["router_topk"],
    "mlp.shared_up": ["shared_gate_up", "shared_activation"],
    "mlp.shared_down": ["shared_down"],
    "mlp.shared_gate": ["shared_gate_up"],
    "mlp.combine": ["expert_combine"],
}
"""Labels of a mixture of experts, besides its grouped GEMMs."""

_STATE_SPACE_LABELS: Final = {
    "attention.in": ["input_norm", "ssm_in_proj"],
    "attention.convolution": ["ssm_conv"],
    "attention.scan": ["ssm_scan"],
    "attention.out": ["ssm_norm", "ssm_out_proj"],
}
"""Labels of state-space layers."""

_FUSED_KERNELS: Final = ("gemv", "gemv_hopper", "small_m_gemm")
"""Kernels of a linear layer that compute its norm and its activation too."""
_NORM_KERNELS: Final = ("normalize",)
_ACTIVATION_KERNELS: Final = ("swiglu", "activate")
_DEQUANTIZE: Final = "dequantize"


class OperationNames:
    """The operations of one model."""

    def __init__(self, model: Model) -> None:
        """Read off the model which operations are fused."""
        block = model.blocks[0]
        attention = block.attention
        self._latent_labels = (
            _latent_labels(attention) if isinstance(attention, LatentAttention) else {}
        )
        self._fuses_norm = _is_fused(block.attention_norm)
        self._fuses_mlp_norm = _is_fused(block.mlp_norm)
        self._fuses_final_norm = not model.norm.is_layer_norm
        self._cache_write = _cache_write(attention) if isinstance(attention, Attention) else []
        dense = [block.mlp for block in model.blocks if isinstance(block.mlp, Mlp)]
        self._activates = not dense or dense[0].up.activation is not None

    def meaning(self, label: str, operation: str | None, kernel: str | None) -> Meaning:
        """What a launch computes: `kernel` of the table's `operation` under the engine's label."""
        layer, name = _split(label)
        parts = self._parts(name, operation) if layer is not None else self._step_parts(name)
        if not parts:
            return Meaning(None, layer, True)
        if kernel is None or (len(parts) == 1 and not kernel.startswith(_DEQUANTIZE)):
            helper = kernel in (*_NORM_KERNELS, *_ACTIVATION_KERNELS) and operation == "linear"
            return Meaning("+".join(parts), layer, not helper)
        return _of_kernel(parts, layer, operation, kernel)

    def _parts(self, name: str, operation: str | None) -> list[str]:
        """The operations of a layer under a label, fused ones in the order of the graph."""
        if name == "attention.qkv":
            return ["input_norm", "qkv_proj"] if self._fuses_norm else ["qkv_proj"]
        if name in self._latent_labels:
            return self._latent_labels[name]
        if name == "attention.paged":
            fused = self._cache_write if operation == "decode_attention" else []
            return [*fused, "attention"]
        if operation == "router":
            return ["post_attention_norm", "router", "router_topk"]
        if operation == "combine_linear":
            return ["experts_down", "expert_combine"]
        if operation == "grouped_linear":
            up = ["experts_gate_up", "experts_activation"]
            return up if name == "mlp.gate_up" else ["experts_down"]
        if name in ("mlp.gate_up", "mlp.up"):
            norm = ["post_attention_norm"] if self._fuses_mlp_norm else []
            return [*norm, "gate_up_proj", *(["activation"] if self._activates else [])]
        return {
            "attention.qkv.norm": ["input_norm"],
            "attention.qk_norm": ["qk_norm"],
            "attention.rope_write": self._cache_write,
            "attention.output": ["o_proj"],
            "attention.output.add": ["post_attention_norm"],
            "mlp.gate_up.norm": ["post_attention_norm"],
            "mlp.up.norm": ["post_attention_norm"],
            "mlp.down": ["down_proj"],
            # The norm behind the MLP, where there is one, with the residual add.
            "mlp.down.add": ["input_norm"],
            **_EXPERT_LABELS,
            **_STATE_SPACE_LABELS,
        }.get(name, [])

    def _step_parts(self, name: str) -> list[str]:
        if name == "head":
            return ["final_norm", "lm_head"] if self._fuses_final_norm else ["lm_head"]
        return [_STEP_LABELS[name]] if name in _STEP_LABELS else []


def _cache_write(attention: Attention) -> list[str]:
    """What is done before attention, in one kernel or in that of attention itself."""
    before = [
        "qk_norm" if attention.query_norm is not None else None,
        "rope" if attention.rotation is not None else None,
        "kv_cache_write",
    ]
    return [name for name in before if name]


def _latent_labels(attention: LatentAttention) -> dict[str, list[str]]:
    """Labels of latent attention, whose linear layers norm what they read."""
    query_norm = "input_norm" if attention.query_down is None else "q_a_norm"
    return {
        "attention.query_down": ["input_norm", "q_a_proj"],
        "attention.query_nope": [query_norm, "q_b_proj"],
        "attention.query_rope": [query_norm, "q_b_proj"],
        "attention.kv_down": ["input_norm", "kv_a_proj"],
        "attention.latent_write": ["kv_a_norm", "rope", "kv_cache_write"],
        "attention.key_up": ["kv_b_proj"],
        "attention.value_up": ["kv_b_proj"],
    }


def _is_fused(norm: Norm | None) -> bool:
    """Whether a norm is part of the linear layer behind it."""
    return norm is not None and not norm.is_layer_norm


def _of_kernel(parts: list[str], layer: int | None, operation: str | None, kernel: str) -> Meaning:
    """The share of one kernel in a node of several operations."""
    if operation != "linear" or kernel in _FUSED_KERNELS:
        return Meaning("+".join(parts), layer, True)
    norms = [part for part in parts if part.endswith("norm")]
    activations = [part for part in parts if part.endswith("activation")]
    products = [part for part in parts if part not in (*norms, *activations)]
    if kernel in _NORM_KERNELS:
        return Meaning("+".join(norms) or None, layer, False)
    if kernel in _ACTIVATION_KERNELS:
        return Meaning("+".join(activations) or None, layer, False)
    return Meaning("+".join(products), layer, not kernel.startswith(_DEQUANTIZE))


def _split(label: str) -> tuple[int | None, str]:
    """The layer of a label, and the rest.

    >>> _split("layers.3.attention.qkv"), _split("head")
    ((3, 'attention.qkv'), (None, 'head'))
    """
    first, _, rest = label.partition(".")
    number, _, name = rest.partition(".")
    return (int(number), name) if first == "layers" and number.isdigit() else (None, label)
