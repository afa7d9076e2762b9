"""What a model's configuration says of its layers: their kinds, and the weights of each GEMM."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from assay.errors import InputError


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
    from assay.catalog import models

    text = str(source)
    path = Path(source)
    if path.is_dir() or path.suffix == ".json":
        model = models.from_config(path / "config.json" if path.is_dir() else path)
    elif path.suffix == ".gguf":
        from assay.engine.loading import open_model

        files = open_model(path)
        model = models.from_config({"model_type": files.architecture, **files.config}, files.name)
    elif path.is_file():
        raise InputError(
            f"{path}: expected config.json, a folder with one, or a .gguf file, got another file"
        )
    else:
        model = models.find(text.removeprefix("models/"))
    return from_shapes(model.name, model.shapes, model.config, model.notes)


def from_shapes(
    name: str,
    shapes: Mapping[str, float],
    config: Mapping[str, Any],
    notes: tuple[str, ...] = (),
) -> Layout:
    """The layout of a model whose shapes `assay.catalog.configs` has read."""
    text = config.get("text_config")
    config = text if isinstance(text, Mapping) else config
    layers = int(shapes["layers"])
    experts = int(shapes["experts"])
    mixers = _mixers(layers, shapes, config)
    mlps = _mlps(layers, experts, int(shapes["dense_layers"]), config)
    return Layout(
        name,
        tuple(LayerKind(*kinds) for kinds in zip(mixers, mlps, strict=True)),
        _parameters(shapes),
        experts,
        int(shapes["experts_per_token"]),
        shapes["shared_experts"] > 0,
        shapes["ffn_matrices"] > 2,
        shapes["norm.heads"] > 0,
        # Learned positions and ALiBi take the place of RoPE.
        not shapes["positions"] and config.get("model_type") not in ("bloom", "mpt"),
        shapes["norm.layer_count"] > 1,
        _period(list(zip(mixers, mlps, _windows(layers, config), strict=True))),
        tuple(notes),
    )


def _windows(layers: int, config: Mapping[str, Any]) -> list[str]:
    """Kinds of attention: windowed layers launch other grids."""
    kinds = config.get("layer_types")
    if isinstance(kinds, list) and len(kinds) == layers:
        return [str(kind) for kind in kinds]
    pattern = config.get("sliding_window_pattern")
    if isinstance(pattern, int) and pattern > 1:
        return ["windowed" if (i + 1) % pattern else "full" for i in range(layers)]
    return [""] * layers


def _period(kinds: list[tuple[str, ...]]) -> int:
    """Layers after which kinds repeat; dense first layers of a MoE are a prefix and do not count."""
    tail = kinds[len(kinds) // 2 :]
    for period in range(1, len(tail)):
        if all(tail[i] == tail[i - period] for i in range(period, len(tail))):
            return period
    return max(len(tail), 1)


def _mixers(layers: int, shapes: Mapping[str, float], config: Mapping[str, Any]) -> list[str]:
    full = "mla" if shapes["latent.width"] else "attention"
    kinds = config.get("layer_types")
    if isinstance(kinds, list) and len(kinds) == layers:
        return ["linear" if kind == "linear_attention" else full for kind in kinds]
    if shapes["linear_share"]:
        interval = round(1 / (1 - shapes["linear_share"]))
        return ["linear" if (i + 1) % interval else full for i in range(layers)]
    return [full] * layers


def _mlps(layers: int, experts: int, dense: int, config: Mapping[str, Any]) -> list[str]:
    if not experts:
        return ["dense"] * layers
    frequency = config.get("moe_layer_freq")
    if isinstance(frequency, list) and len(frequency) == layers:
        return ["moe" if entry else "dense" for entry in frequency]
    listed = config.get("mlp_only_layers")
    if isinstance(listed, list) and listed:
        return ["dense" if i in listed else "moe" for i in range(layers)]
    step = int(config.get("decoder_sparse_step") or config.get("interleave_moe_layer_step") or 1)
    if step > 1:
        return ["dense" if (i + 1) % step else "moe" for i in range(layers)]
    return ["dense" if i < dense else "moe" for i in range(layers)]


def _parameters(shapes: Mapping[str, float]) -> dict[str, float]:
    hidden, heads = shapes["hidden"], shapes["heads"]
    head, value = shapes["head_size"], shapes["value_size"]
    gate = 2.0 if shapes["attention.gate"] else 1.0
    matrices = shapes["ffn_matrices"] - 1
    found = {
        "o_proj": heads * value * hidden,
        "gate_up_proj": matrices * hidden * shapes["ffn"],
        "down_proj": hidden * shapes["ffn"],
        "lm_head": hidden * shapes["vocabulary"],
    }
    if latent := shapes["latent.width"]:
        rotary, query = shapes["latent.rotary_width"], shapes["latent.query_width"]
        found |= {
            "q_a_proj": hidden * query,
            "kv_a_proj": hidden * (latent + rotary),
            "q_b_proj": (query or hidden) * heads * head,
            "kv_b_proj": latent * heads * (head - rotary + value),
            "kv_b_keys": latent * heads * (head - rotary),
            "kv_b_values": latent * heads * value,
        }
    else:
        kv_heads = shapes["kv_heads"]
        found |= {
            "qkv_proj": hidden * (gate * heads * head + kv_heads * (head + value)),
            "q_proj": hidden * gate * heads * head,
            "k_proj": hidden * kv_heads * head,
            "v_proj": hidden * kv_heads * value,
        }
    if shapes["experts"]:
        width = shapes["expert_ffn"]
        found |= {
            "router": hidden * shapes["experts"],
            "experts_gate_up": matrices * hidden * width,
            "experts_down": hidden * width,
            "shared_gate_up": matrices * hidden * width * shapes["shared_experts"],
            "shared_down": hidden * width * shapes["shared_experts"],
        }
    if shapes["linear_share"]:
        keys = shapes["linear.key_heads"] * shapes["linear.key_size"]
        values = shapes["linear.value_heads"] * shapes["linear.value_size"]
        found |= {
            "ssm_in_proj": hidden * (2 * keys + 2 * values),
            "ssm_out_proj": values * hidden,
        }
    return found
