"""What a model's configuration says of its layers: their kinds, and the weights of each GEMM."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from assay.catalog import layer_kinds


@dataclass(frozen=True, slots=True)
class LayerKind:
    """The two halves of a layer."""

    mixer: str
    """attention, mla, or linear (state space, gated delta rule)."""
    mlp: str
    """dense or moe."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The layers of a model in order, and parameters by operation (0 or missing: unknown)."""

    name: str
    layers: tuple[LayerKind, ...]
    parameters: Mapping[str, float] = field(default_factory=dict)
    experts: int = 0
    experts_per_token: int = 0
    shared_experts: bool = False
    gated: bool = True
    qk_norm: bool = False
    rope: bool = True
    post_norm: bool = True
    period: int = 1
    """Layers after which their kinds repeat."""
    notes: tuple[str, ...] = ()

    @property
    def kinds(self) -> tuple[LayerKind, ...]:
        """The distinct kinds, in order of their first layer."""
        return tuple(dict.fromkeys(self.layers))


def read_layout(source: str | Path) -> Layout:
    """The layout of a model: a `config.json`, its folder, a GGUF file, or a catalog name."""
    from assay.engine.loading.description import describe_model

    model = describe_model(source).model
    return from_shapes(model.name, model.shapes, model.config, model.notes)


def from_shapes(
    name: str, shapes: Mapping[str, float], config: Mapping[str, Any], notes: tuple[str, ...] = ()
) -> Layout:
    """The layout of a model whose shapes `assay.catalog.configs` has read."""
    mixers, mlps = layer_kinds.mixers(shapes, config), layer_kinds.mlps(shapes, config)
    # Windowed layers launch other grids.
    windows = layer_kinds.attention_kinds(shapes, config)
    return Layout(
        name,
        tuple(LayerKind(*kinds) for kinds in zip(mixers, mlps, strict=True)),
        _parameters(shapes),
        int(shapes["experts"]),
        int(shapes["experts_per_token"]),
        shapes["shared_experts"] > 0,
        shapes["ffn_matrices"] > 2,
        shapes["norm.heads"] > 0,
        layer_kinds.has_rope(shapes, config),
        shapes["norm.layer_count"] > 1,
        _period(list(zip(mixers, mlps, windows, strict=True))),
        tuple(notes),
    )


def _period(kinds: list[tuple[str, ...]]) -> int:
    """Layers after which kinds repeat; dense first layers of a MoE are a prefix and do not count."""
    tail = kinds[len(kinds) // 2 :]
    for period in range(1, len(tail)):
        if all(tail[i] == tail[i - period] for i in range(period, len(tail))):
            return period
    return max(len(tail), 1)


def _parameters(shapes: Mapping[str, float]) -> dict[str, float]:
    hidden, heads = shapes["hidden"], shapes["heads"]
    head, value = shapes["head_size"], shapes["value_size"]
    gate = 2.0 if shapes["attention.gate"] else 1.0
    matrices = shapes["ffn_matrices"] - 1
    parameters = {
        "o_proj": heads * value * hidden,
        "gate_up_proj": matrices * hidden * shapes["ffn"],
        "down_proj": hidden * shapes["ffn"],
        "lm_head": hidden * shapes["vocabulary"],
    }
    if latent := shapes["latent.width"]:
        rotary, query = shapes["latent.rotary_width"], shapes["latent.query_width"]
        parameters |= {
            "q_a_proj": hidden * query,
            "kv_a_proj": hidden * (latent + rotary),
            "q_b_proj": (query or hidden) * heads * head,
            "kv_b_proj": latent * heads * (head - rotary + value),
            "kv_b_keys": latent * heads * (head - rotary),
            "kv_b_values": latent * heads * value,
        }
    else:
        kv_heads = shapes["kv_heads"]
        parameters |= {
            "qkv_proj": hidden * (gate * heads * head + kv_heads * (head + value)),
            "q_proj": hidden * gate * heads * head,
            "k_proj": hidden * kv_heads * head,
            "v_proj": hidden * kv_heads * value,
        }
    if shapes["experts"]:
        width = shapes["expert_ffn"]
        parameters |= {
            "router": hidden * shapes["experts"],
            "experts_gate_up": matrices * hidden * width,
            "experts_down": hidden * width,
            "shared_gate_up": matrices * hidden * width * shapes["shared_experts"],
            "shared_down": hidden * width * shapes["shared_experts"],
        }
    if shapes["linear_share"]:
        keys = shapes["linear.key_heads"] * shapes["linear.key_size"]
        values = shapes["linear.value_heads"] * shapes["linear.value_size"]
        parameters |= {
            "ssm_in_proj": hidden * (2 * keys + 2 * values),
            "ssm_out_proj": values * hidden,
        }
    return parameters
