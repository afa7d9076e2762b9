"""gpt-oss: attention sinks, a window in every other layer, and experts in MXFP4 with biases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from assay.engine.architectures.decoder import Decoder, Experts, Linear, Routing, StackedLinear
from assay.engine.architectures.llama_layers import (
    MODEL,
    attention,
    decoder,
    pre_norm_block,
    rotary,
)
from assay.engine.architectures.schema import Architecture, Config, layer_windows, llama_schema
from assay.errors import UnsupportedError

_KERNEL: Final[Mapping[str, Any]] = {"swiglu_limit": 7.0, "swiglu_alpha": 1.702}
"""The bound of gates and ups, and the factor in the sigmoid, that the kernels have."""


def build(config: Config) -> Decoder:
    """Even layers have the window; every linear layer has a bias."""
    for key, value in _KERNEL.items():
        if config[key] != value:
            raise UnsupportedError(f"config.json: expected {key} {value}, got {config[key]!r}")
    rope, bias = rotary(config), config["attention_bias"]
    windows = layer_windows(config, lambda layer: layer % 2 == 0)
    blocks = [
        pre_norm_block(
            config,
            layer,
            attention(
                config,
                layer,
                rope,
                bias=bias,
                output_bias=bias,
                window=window,
                sinks=f"{MODEL}.layers.{layer}.self_attn.sinks",
            ),
            _experts(config, f"{MODEL}.layers.{layer}.mlp"),
        )
        for layer, window in enumerate(windows)
    ]
    return decoder(config, blocks)


def _experts(config: Config, base: str) -> Experts:
    count, hidden = config["num_local_experts"], config["hidden_size"]
    inner = config["intermediate_size"]
    packed = config["quantization_config"] is not None
    # GGUF files keep gates and ups apart.
    apart = bool(config.get("separate_gates"))
    gate, up, down = (f"{base}.experts.{name}_proj" for name in ("gate", "up", "down"))
    return Experts(
        routing=Routing(count, config["num_experts_per_tok"]),
        router=Linear((f"{base}.router",), (count,), hidden, bias=True),
        up=StackedLinear(
            f"{base}.experts.gate_up_proj",
            count,
            2 * inner,
            hidden,
            packed,
            interleaved=not apart,
            parts=(gate, up) if apart else (),
        ),
        down=StackedLinear(down, count, hidden, inner, packed, parts=(down,) if apart else ()),
        inner=inner,
        activation="swiglu_clamped",
    )


ARCHITECTURE = Architecture(
    models="gpt-oss 20B, 120B (MXFP4 as stored)",
    schema=llama_schema(
        "head_dim",
        "sliding_window",
        "num_local_experts",
        "num_experts_per_tok",
        rope_theta=150000.0,
        attention_bias=True,
        **_KERNEL,
        quantization_config=None,
    ),
    decoder=build,
    small={
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
        "sliding_window": 256,
        "attention_bias": True,
        **_KERNEL,
        "quantization_config": None,
    },
    gguf="gpt-oss",
)
