"""From a Hugging Face `config.json` to the shapes of the graph's `architecture` scope."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from assay.catalog.families import FAMILIES, STANDARD, UNSUPPORTED, Family
from assay.errors import InputError

Config = Mapping[str, Any]

_MAMBA_2 = {
    "linear.key_heads": ("mamba_n_groups", "n_groups"),
    "linear.key_size": ("mamba_d_state", "state_size"),
    "linear.value_heads": ("mamba_n_heads", "num_heads"),
    "linear.value_size": ("mamba_d_head", "head_dim"),
    "linear.convolution": ("mamba_d_conv", "conv_kernel"),
}
"""Mamba-2 as linear attention: groups of B and C are keys and queries, heads of x are values."""
_DELTA = {
    "linear.key_heads": ("linear_num_key_heads",),
    "linear.key_size": ("linear_key_head_dim",),
    "linear.value_heads": ("linear_num_value_heads",),
    "linear.value_size": ("linear_value_head_dim",),
    "linear.convolution": ("linear_conv_kernel_dim",),
}
LINEAR_KINDS = ("linear_attention", "mamba")
"""Kinds of layers in `layer_types` that keep a state of fixed size."""
_LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
_HIDDEN = ("hidden_size", "n_embd", "d_model")
_HEADS = ("num_attention_heads", "n_head", "n_heads")
_KV_HEADS = ("num_key_value_heads", "num_kv_heads", "n_head_kv")
_FFN = ("intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size")
_SHARED_FFN = ("shared_expert_intermediate_size", "shared_intermediate_size")
_EXPERT_FFN = ("moe_intermediate_size",)
_VOCABULARY = ("vocab_size", "padded_vocab_size")
_EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts")
_EXPERTS_PER_TOKEN = (
    "num_experts_per_tok",
    "experts_per_token",
    "num_experts_per_token",
    "moe_top_k",
)
_LARGEST_NUMBER = 1e15
"""Far above any width or count; more is a damaged file."""
_UNSUPPORTED_FIELDS = {
    "block_configs": "layers that differ from each other",
    "hybrid_override_pattern": "layers of a state-space model",
    "swa_num_key_value_heads": "windowed layers with other heads",
    "compress_ratios": "layers that compress their cache by different ratios",
    "global_head_dim": "layers with heads of different width",
    "is_encoder_decoder": "an encoder",
}


@dataclass(frozen=True, slots=True)
class Shapes:
    """Values by name within the `architecture` scope, and notes on what was assumed."""

    values: dict[str, float]
    notes: tuple[str, ...]


def read_shapes(config: Config, name: str = "config") -> Shapes:
    """Read the shapes of a configuration; fields that are missing are named in the error."""
    notes: list[str] = []
    text = config.get("text_config")
    if isinstance(text, Mapping):
        config = {**{key: config[key] for key in ("tie_word_embeddings",) if key in config}, **text}
        notes.append("only the text part of the configuration is used")
    return _Reader(config, name, notes).read()


class _Reader:
    def __init__(self, config: Config, name: str, notes: list[str]) -> None:
        self.config = config
        self.name = name
        self.notes = notes
        self.family = self._family()

    def _family(self) -> Family:
        kind = str(self.config.get("model_type", ""))
        if kind in FAMILIES:
            return FAMILIES[kind]
        if kind in UNSUPPORTED:
            raise InputError(
                f'{self.name}: models of type "{kind}" are not covered',
                "give the values of the architecture scope yourself with --assign",
            )
        stated = f'model_type "{kind}" is not known' if kind else "no model_type is stated"
        self.notes.append(f"{stated}: read as a gated decoder with RMS norms and no biases")
        return STANDARD

    def read(self) -> Shapes:
        for field, description in _UNSUPPORTED_FIELDS.items():
            if self.config.get(field):
                raise InputError(
                    f"{self.name}: {field} describes {description}, which the model does not cover",
                    "give the values of the architecture scope yourself with --assign",
                )
        values = self._widths()
        values |= self._attention(values)
        values |= self._experts(values)
        values |= self._windows(values)
        values |= self._vectors(values)
        return Shapes(values, tuple(self.notes))

    def _widths(self) -> dict[str, float]:
        # The mixer of a state-space model is all that its layers have.
        heads = ("num_heads",) if self.family.is_state_space else _HEADS
        needed = (_LAYERS, _HIDDEN, heads, _VOCABULARY)
        missing = [group[0] for group in needed if self._first(group) is None]
        ratio = self._expansion() or self.family.ffn_ratio
        ffn = 0.0 if self.family.is_state_space else self._first(self._ffn_fields())
        if ffn is None and not ratio and self._first(_EXPERT_FFN) is None:
            missing.append(_FFN[0])
        if missing:
            raise InputError(
                f"{self.name}: the configuration lacks {', '.join(missing)}",
                "it needs the fields of a Hugging Face config.json",
            )
        for group in needed:
            if not self._required(group):
                raise InputError(f"{self.name}: expected {group[0]} above 0, got 0")
        hidden = self._required(_HIDDEN)
        return {
            "layers": self._required(_LAYERS),
            "hidden": hidden,
            "heads": self._required(heads),
            "ffn": ratio * hidden if ffn is None else ffn,
            "ffn_matrices": 3.0 if self.family.gated else 2.0,
            "vocabulary": self._required(_VOCABULARY),
            "counts_lookup": float(self.family.counts_lookup),
            "embedding_tables": 1.0 if self._flag("tie_word_embeddings", self.family.tied) else 2.0,
            "positions": self._positions(),
        }

    def _ffn_fields(self) -> tuple[str, ...]:
        """Without routed experts the shared one of a hybrid is its feed-forward."""
        is_shared = self.family.is_mamba and not self._first(_EXPERTS)
        return (*_SHARED_FFN, *_FFN) if is_shared else _FFN

    def _expansion(self) -> float:
        return self._first(("expansion_ratio",)) or 0.0

    def _positions(self) -> float:
        if self.family.position_field is None:
            return 0.0
        return self._required((self.family.position_field,)) + self.family.position_offset

    def _attention(self, values: dict[str, float]) -> dict[str, float]:
        hidden, heads = values["hidden"], values["heads"]
        head_size = self._first(("head_dim", "kv_channels")) or hidden / heads
        shapes = {
            "kv_heads": self._kv_heads(heads),
            "head_size": head_size,
            "value_size": self._first(("v_head_dim",)) or head_size,
            "latent.width": self._first(("kv_lora_rank",)) or 0.0,
            "latent.rotary_width": 0.0,
            "latent.query_width": 0.0,
            "index.heads": self._first(("index_n_heads",)) or 0.0,
            "index.size": self._first(("index_head_dim",)) or 0.0,
            "index.tokens": self._first(("index_topk",)) or 0.0,
        }
        if shapes["latent.width"]:
            rotary = self._required(("qk_rope_head_dim",))
            shapes["latent.rotary_width"] = rotary
            shapes["latent.query_width"] = self._first(("q_lora_rank",)) or 0.0
            shapes["head_size"] = self._required(("qk_nope_head_dim",)) + rotary
            shapes["value_size"] = self._required(("v_head_dim",))
        return shapes

    def _kv_heads(self, heads: float) -> float:
        nested = self.config.get("attn_config")
        if isinstance(nested, Mapping) and "kv_n_heads" in nested:
            return self._number("attn_config.kv_n_heads", nested["kv_n_heads"])
        if self.family.multi_query_flag and not self.config.get("new_decoder_architecture"):
            return 1.0 if self._flag("multi_query", True) else heads
        return self._first(_KV_HEADS) or heads

    def _experts(self, values: dict[str, float]) -> dict[str, float]:
        experts = self._first(_EXPERTS) or 0.0
        if experts <= 1:
            return dict.fromkeys(
                ("experts", "experts_per_token", "expert_ffn", "shared_experts", "dense_layers",
                 "router_bias", "shared_gate"), 0.0,
            )  # fmt: skip
        width = self._first(_EXPERT_FFN) or values["ffn"]
        shared = self._first(("n_shared_experts", "num_shared_experts")) or 0.0
        if (stated := self._first(_SHARED_FFN)) is not None:
            shared = stated / width
        if self.family.shared_expert:
            shared = max(shared, 1.0)
        dense = self._dense_layers(values["layers"])
        noise_free = self.config.get("topk_method") == "noaux_tc"
        bias = self.family.router_bias or noise_free or self._flag("use_routing_bias", False)
        shapes = {
            "experts": experts,
            "experts_per_token": self._required(_EXPERTS_PER_TOKEN),
            "expert_ffn": width,
            "shared_experts": shared,
            "dense_layers": dense,
            "router_bias": float(bias),
            "shared_gate": float(self.family.shared_gate and shared > 0),
        }
        if (wide := self._first(("intermediate_size_mlp",))) is not None:
            shapes["ffn"] = wide
        return shapes

    def _dense_layers(self, layers: float) -> float:
        first = self._first(("first_k_dense_replace",)) or 0.0
        listed = self.config.get("mlp_only_layers")
        dense = max(first, float(len(listed)) if isinstance(listed, list) else 0.0)
        step = self._first(("decoder_sparse_step", "interleave_moe_layer_step")) or 1.0
        if step > 1:
            dense = layers - math.floor(layers / step)
        frequency = self.config.get("moe_layer_freq")
        if isinstance(frequency, list):
            dense = layers - float(sum(bool(entry) for entry in frequency))
        return dense

    def _windows(self, values: dict[str, float]) -> dict[str, float]:
        kinds = self.config.get("layer_types")
        layers = values["layers"]
        if isinstance(kinds, list) and kinds:
            windowed = sum(kind in ("sliding_attention", "chunked_attention") for kind in kinds)
            linear = sum(kind in LINEAR_KINDS for kind in kinds)
            shares = (windowed / len(kinds), linear / len(kinds))
        else:
            shares = (self._window_share(layers), self._linear_share())
        window = self._first(("sliding_window", "attention_chunk_size")) or 0.0
        if not self._flag("use_sliding_window", True) or not shares[0]:
            window, shares = 0.0, (0.0, shares[1])
        elif not window:
            shares = (0.0, shares[1])
        state = _MAMBA_2 if self.family.is_mamba else _DELTA
        if self.family.is_mamba and shares[1]:
            self.notes.append("Mamba-2 layers: their rates count as two for each head, not one")
        return {
            "window": window,
            "window_share": shares[0],
            "linear_share": shares[1],
            **{
                name: self._required(fields) if shares[1] else 0.0 for name, fields in state.items()
            },
        }

    def _window_share(self, layers: float) -> float:
        pattern = self._first(("sliding_window_pattern",)) or self.family.window_pattern
        if pattern > 1:
            return (layers - math.floor(layers / pattern)) / layers
        return 1.0

    def _linear_share(self) -> float:
        if self.family.is_state_space:
            return 1.0
        attended = self.config.get("attn_layer_indices")
        if self.family.is_mamba and isinstance(attended, list):
            return 1.0 - len(attended) / self._required(_LAYERS)
        interval = self._first(("full_attention_interval",))
        if interval is None or "linear_num_value_heads" not in self.config:
            return 0.0
        return 1.0 - 1.0 / interval

    def _vectors(self, values: dict[str, float]) -> dict[str, float]:
        family = self.family
        biases = self._flag("bias", self._flag("use_bias", family.biases))
        if "no_bias" in self.config:
            biases = not self._flag("no_bias", False)
        attention = self._flag("attention_bias", biases and family.attention_biases)
        head_norms = family.head_norms
        if head_norms == 0 and self._flag("use_qk_norm", False):
            head_norms = 2 if self.config.get("qk_norm_type") == "per_layer" else 1
        layer_norms = family.layer_norms
        if family.multi_query_flag:  # Falcon
            parallel = self._flag("parallel_attn", True)
            single = self._first(("num_ln_in_parallel_attn",)) == 1
            two = self._flag("new_decoder_architecture", False) and not single
            layer_norms = 2.0 if two or not parallel else 1.0
        return {
            "attention.gate": float(self._flag("attn_output_gate", family.gated_attention)),
            "attention.sinks": float(family.sinks),
            "bias.qkv": float(attention or self._flag("qkv_bias", family.qkv_bias)),
            "bias.output": float(attention and not values["latent.width"]),
            "bias.ffn": float(self._flag("mlp_bias", biases)),
            "bias.logits": float(family.logit_bias),
            "norm.layer_count": layer_norms,
            "norm.outer_count": family.outer_norms,
            "norm.vectors": family.norm_vectors,
            "norm.heads": float(head_norms),
        }

    def _first(self, fields: tuple[str, ...]) -> float | None:
        for field in fields:
            if self.config.get(field) is not None:
                return self._number(field, self.config[field])
        return None

    def _required(self, fields: tuple[str, ...]) -> float:
        value = self._first(fields)
        if value is None:
            raise InputError(f"{self.name}: the configuration lacks {fields[0]}")
        return value

    def _flag(self, field: str, default: bool) -> bool:
        stated = self.config.get(field)
        return default if stated is None else bool(stated)

    def _number(self, field: str, value: Any) -> float:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not 0 <= value < _LARGEST_NUMBER:
            shown = repr(value)[:60]
            raise InputError(f"{self.name}: expected a number as {field}, got {shown}")
        return float(value)
