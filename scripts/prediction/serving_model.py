"""Seconds of one engine iteration: decoding sequences together with prompt tokens."""

from __future__ import annotations

import math
from dataclasses import dataclass

from prediction.accelerators import Accelerator, Constants

TILES = (
    (256, 128), (128, 256), (128, 128), (64, 256), (128, 64), (64, 128), (64, 64), (64, 32),
)  # fmt: skip
LATENT = 512
ROPE = 64
HEAD = 128


@dataclass(frozen=True)
class Architecture:
    """Shapes of a decoder; `experts` of width `expert_ffn` after `dense_layers` dense ones."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_size: int
    ffn: int
    vocabulary: int
    gated: bool = True
    experts: int = 0
    experts_per_token: int = 0
    expert_ffn: int = 0
    shared_experts: int = 0
    dense_layers: int = 0
    latent: bool = False
    window: int = 0
    linear_share: float = 0.0
    """Share of layers whose attention keeps a state of fixed size."""

    @property
    def expert_layers(self) -> int:
        """Layers whose feed-forward is a mixture of experts."""
        return self.layers - self.dense_layers if self.experts else 0


@dataclass(frozen=True)
class Placement:
    """How weights are stored, multiplied and spread."""

    tensor: int = 1
    experts: int = 1
    attention_replicas: int = 1
    bits: int = 16
    weight_bytes: float = 2.0
    expert_bytes: float = 2.0
    kv_bytes: float = 2.0
    grouped_decode: bool = True
    """Whether decode attention reads keys and values once for all heads of a group."""


def gemm(
    constants: Constants, device: Accelerator, m: float, n: int, k: int, weight: float, bits: int
) -> float:
    """Seconds of m tokens times n x k weights of `weight` bytes each."""
    rate = device.peak[bits] * constants[f"rate{bits}"] / device.multiprocessors
    traffic = n * k * weight + m * k * bits / 8 + m * n * 2
    memory = traffic / (device.bandwidth * constants["bandwidth"])
    compute = math.inf
    for rows, columns in TILES:
        waves = math.ceil(m / rows) * math.ceil(n / columns) / device.multiprocessors
        whole = math.floor(waves)
        if waves > whole:
            waves = whole + 0.5 + 0.5 * (waves - whole)
        # Splitting along k gives idle multiprocessors work, up to a factor of four.
        waves = max(0.25, waves)
        efficiency = 1 - constants["tile_edge"] * 32 * (1 / rows + 1 / columns)
        compute = min(compute, waves * 2 * rows * columns * k / (rate * max(0.15, efficiency)))
    return math.cbrt(compute**3 + memory**3) + constants["launch"]


def attention_time(
    constants: Constants, device: Accelerator, model: Architecture, place: Placement,
    decoding: float, context: float, prompt_tokens: float, prompt: float,
) -> float:  # fmt: skip
    """Attention cores of all layers for one attention replica."""
    stream = device.bandwidth * constants["bandwidth"]
    ranks = max(1, place.tensor // place.attention_replicas)
    heads = model.heads / ranks
    if model.latent:
        stored = (LATENT + ROPE) * place.kv_bytes
        decode_flops = 2 * heads * (2 * LATENT + ROPE)
        prompt_flops = 2 * heads * (2 * HEAD + ROPE)
    else:
        stored = 2 * max(model.kv_heads / ranks, 1) * model.head_size * place.kv_bytes
        decode_flops = prompt_flops = 4 * heads * model.head_size
    if not place.grouped_decode:
        stored *= max(1.0, model.heads / model.kv_heads / constants["cache_reuse"])
    full = model.layers * (1 - model.linear_share)
    windowed = model.layers / 2 if model.window else 0.0
    total = 0.0
    kinds = [(full - windowed, math.inf)] + ([(windowed, model.window)] if windowed else [])
    for layers, reach in kinds:
        if decoding:
            seen = decoding * min(context, reach)
            read = seen * stored / (stream * constants["kv_stream"])
            multiply = seen * decode_flops / (device.peak[16] * constants["decode_attention"])
            total += layers * (math.hypot(read, multiply) + constants["attention_start"])
        if prompt_tokens:
            pairs = prompt_tokens * min(prompt / 2, reach)
            rate = device.peak[16] * constants["prompt_attention"]
            total += layers * (pairs * prompt_flops / rate + constants["attention_start"])
    if model.linear_share:
        state = decoding * model.hidden * 2048 / ranks / stream
        total += model.layers * model.linear_share * (state + constants["attention_start"])
    return total


def expert_time(
    constants: Constants, device: Accelerator, model: Architecture, place: Placement, tokens: float
) -> float:
    """One mixture layer: the experts that some token asks for, then the shared ones."""
    stream = device.bandwidth * constants["bandwidth"]
    here = model.experts / place.experts
    width = model.expert_ffn * place.experts / place.tensor
    wanted = model.experts_per_token / model.experts
    touched = here * (1 - (1 - wanted) ** tokens)
    weights = touched * 3 * model.hidden * width * place.expert_bytes
    read = weights / (stream * constants["expert_stream"])
    # An expert with one token costs as much as one with a tile's rows.
    rows = max(tokens * wanted, touched / here * constants["expert_rows"])
    bits = place.bits if place.expert_bytes >= 1 else 16
    rate = device.peak[bits] * constants[f"rate{bits}"] * constants["expert_rate"]
    multiply = 6 * model.hidden * width * here * rows / rate
    routed = tokens * model.experts_per_token * model.hidden * 6 / stream
    total = math.cbrt(read**3 + multiply**3) + constants["expert_start"] + routed
    if model.shared_experts:
        n = model.expert_ffn * model.shared_experts // place.tensor
        weight, bits = place.weight_bytes, place.bits
        total += gemm(constants, device, tokens, 2 * n, model.hidden, weight, bits)
        total += gemm(constants, device, tokens, model.hidden, n, weight, bits)
    return total


def iteration_time(
    constants: Constants, device: Accelerator, model: Architecture, place: Placement,
    decoding: float, context: float, prompt_tokens: float = 0.0, prompt: float = 1.0,
) -> float:  # fmt: skip
    """One iteration of `decoding` sequences at mean `context` with some tokens of prompts."""
    stream = device.bandwidth * constants["bandwidth"]
    tokens = decoding + prompt_tokens
    replicas = place.attention_replicas
    ranks = max(1, place.tensor // replicas)
    own = tokens / replicas
    weight, bits, hidden = place.weight_bytes, place.bits, model.hidden
    heads = model.heads / ranks
    if model.latent:
        shapes = [
            (1536 + LATENT + ROPE, hidden, weight, bits),
            (int(heads * (HEAD + ROPE)), 1536, weight, bits),
            (int(heads * LATENT), HEAD, 2.0, 16),
            (int(heads * LATENT), HEAD, 2.0, 16),
            (hidden, int(heads * HEAD), weight, bits),
        ]
    else:
        query = heads * model.head_size
        keys = max(model.kv_heads / ranks, 1) * model.head_size
        shapes = [
            (int(query + 2 * keys), hidden, weight, bits),
            (hidden, int(query), weight, bits),
        ]
    projections = sum(gemm(constants, device, own, n, k, w, b) for n, k, w, b in shapes)
    total = model.layers * projections
    total += attention_time(
        constants, device, model, place, decoding / replicas, context,
        prompt_tokens / replicas, prompt,
    )  # fmt: skip
    dense = model.layers - model.expert_layers
    if model.ffn and dense:
        n = model.ffn // place.tensor
        up = gemm(constants, device, tokens, (1 + model.gated) * n, hidden, weight, bits)
        total += dense * (up + gemm(constants, device, tokens, hidden, n, weight, bits))
    if model.expert_layers:
        total += model.expert_layers * expert_time(constants, device, model, place, tokens)
    moved = tokens * (24 * hidden + 6 * model.ffn / place.tensor)
    total += model.layers * (constants["layer_start"] + moved / stream)
    if place.tensor > 1:
        link = device.link * constants["link"]
        volume = 2 * (place.tensor - 1) / place.tensor * tokens * hidden * 2 / link
        latency = constants["reduce_start"] * (1 + math.log2(place.tensor) / 3)
        total += 2 * model.layers * (latency + volume)
    sampled = decoding + prompt_tokens / max(prompt, 1.0)
    total += gemm(constants, device, sampled, model.vocabulary // place.tensor, hidden, 2.0, 16)
    return total + constants["host"] + constants["host_sequence"] * decoding


def weight_size(model: Architecture, place: Placement) -> float:
    """Bytes of all weights, embeddings in 16 bits."""
    if model.latent:
        attention = model.hidden * (1536 + LATENT + ROPE + model.heads * HEAD)
        attention += model.heads * ((HEAD + ROPE) * 1536 + 2 * LATENT * HEAD)
    else:
        attention = model.hidden * model.head_size * 2 * (model.heads + model.kv_heads)
    dense = (model.layers - model.expert_layers) * 3 * model.hidden * model.ffn
    experts = (model.experts + model.shared_experts) * 3 * model.hidden * model.expert_ffn
    size = (model.layers * attention + dense) * place.weight_bytes
    size += model.expert_layers * experts * place.expert_bytes
    return size + 4 * model.vocabulary * model.hidden


def kv_size(model: Architecture, place: Placement) -> float:
    """Bytes of keys and values that one token leaves in all layers."""
    width = LATENT + ROPE if model.latent else 2 * model.kv_heads * model.head_size
    return model.layers * width * place.kv_bytes
