"""Attention of an iteration: the GEMMs around it, new tokens, prompts, fixed states."""

from __future__ import annotations

from assay.model import Expression, maximum, minimum, number, where
from assay.stack.architecture import cache, parameters, shapes
from assay.stack.kernels import attention_decode, attention_prefill, device, gemm_constants, passes
from assay.stack.serving import deployment as d, engine
from assay.stack.serving.deployment import ONE_TOKEN, scope
from assay.stack.serving.load import BYTE, BYTES_16_BIT, COLD, NO_WORK, Step, Work, only_where

_IS_LATENT = shapes.latent_width > 0
_HEADS = maximum(shapes.heads / d.attention_ranks, 1)
_KV_HEADS = maximum(shapes.kv_heads / d.attention_ranks, 1)
_INDEX_COLUMNS = shapes.index_size + shapes.index_heads
"""Columns of the indexer's keys, and of the weights of its heads."""
_INDEX_KERNELS = number("3")
"""Scores, selection, and the quantization of queries and keys."""
_SCORE_BYTES = number("4 byte")


def projections(step: Step) -> Work:
    """GEMMs around the attention of all layers."""
    query = where(shapes.query_width > 0, shapes.query_width, _HEADS * shapes.head_size)
    grouped = (1 + shapes.attention_gate) * _HEADS * shapes.head_size + _KV_HEADS * (
        shapes.head_size + shapes.value_size
    )
    into = step.gemm(
        "qkv",
        "queries, keys and values",
        step.own,
        where(_IS_LATENT, query + shapes.latent_width + shapes.rotary_width + _INDEX_COLUMNS, grouped),
        shapes.hidden,
    )
    queries = step.gemm(
        "latent_query",
        "queries from their latent",
        step.own,
        _HEADS * shapes.head_size + shapes.index_heads * shapes.index_size,
        shapes.query_width,
    )
    expanded = step.gemm(
        "latent_values",
        "keys and values from their latent",
        step.own,
        _HEADS * (shapes.head_size - shapes.rotary_width + shapes.value_size),
        shapes.latent_width,
        in_16_bits=True,
    )
    out = step.gemm("out", "attention outputs", step.own, shapes.hidden, _HEADS * shapes.value_size)
    into = step.item("qkv", "queries, keys and values of a layer", into)
    out = step.item("out", "the output projection of a layer", out)
    expanded = step.item("latent_values", "keys and values from their latent", only_where(_IS_LATENT, expanded))
    queries = step.item(
        "latent_query", "queries from their latent", only_where(_IS_LATENT & (shapes.query_width > 0), queries)
    )
    latent = expanded + queries
    # Linear-attention (SSM) layers have GEMMs of other shapes; their time scales with their weights.
    linear = parameters.linear_layers * parameters.linear_matrices / parameters.attention_matrices
    return (into + latent + out).times(parameters.attention_layers) + (into + out).times(linear)


def attention(step: Step) -> Work:
    """Attention of all layers, decoding and prompts."""
    total = NO_WORK
    for layers, name, reach in (
        (parameters.full_layers, "full", shapes.index_tokens),
        (parameters.window_layers, "window", shapes.window),
    ):
        if step.load.decoding is not None:
            decoding = _new_tokens(step, name, reach)
            if name == "full":
                requests = maximum(step.own_decoding, 1)
                decoding = decoding + _index_scores(
                    step, "decode", requests * step.queries, step.load.context / ONE_TOKEN, requests
                )
            if step.load.optional:
                decoding = only_where(step.decoding > 0, decoding)
            decoding = step.item(f"decode_{name}", f"{name} attention of new tokens", decoding)
            total = total + decoding.times(layers)
        if step.load.prompt_tokens is not None:
            prompts = _prompts(step, name, reach)
            if name == "full":
                shape = _prompt_shape(step, reach)
                prompts = prompts + _index_scores(step, "prompt", shape.batch * shape.length, shape.keys, shape.batch)
            if step.load.optional:
                prompts = only_where(step.prompt_tokens > 0, prompts)
            prompts = step.item(f"prompt_{name}", f"{name} attention of prompts", prompts)
            total = total + prompts.times(layers)
    moved = 2 * step.own * cache.state_elements / maximum(parameters.linear_layers, 1)
    state = passes.declare(
        scope,
        f"{step.prefix}state.",
        size=moved / d.attention_ranks * BYTES_16_BIT,
        kernels=number("3"),
        what=f"fixed states in {step.what}",
    )
    fixed = Work(state.time, state.size, NO_WORK.flops, NO_WORK.floor)
    fixed = step.item("state", "the fixed state of a layer", fixed)
    return total + fixed.times(parameters.linear_layers)


def _new_tokens(step: Step, name: str, reach: Expression) -> Work:
    grouped = maximum(_KV_HEADS, _HEADS / engine.group_limit)
    # The queries of a sequence share its keys, as the heads of a group do.
    heads = _HEADS if step.load.queries is None else _HEADS * step.load.queries
    width = where(_IS_LATENT, shapes.latent_width + shapes.rotary_width, shapes.head_size)
    value = where(_IS_LATENT, shapes.latent_width, shapes.value_size)
    shape = attention_decode.DecodeShape(
        batch=maximum(step.own_decoding, 1),
        context=step.load.context / ONE_TOKEN,
        window=reach if name == "full" else where(engine.skips_window, reach, 0),
        heads=heads,
        kv_heads=where(_IS_LATENT, 1, grouped),
        width=width,
        value_width=value,
        # The values of a latent are part of its keys.
        element=BYTES_16_BIT,
        kv_element=BYTES_16_BIT * where(_IS_LATENT, width / (width + value), 1),
        footprint=COLD,
    )
    kernel = attention_decode.declare(
        scope, f"{step.prefix}decode_{name}.", shape, what=f"attention of new tokens in {step.what}"
    )
    # The template is fitted on 16-bit KV; `engine.narrow_key_time` scales it to 8-bit KV.
    kv_ratio = where(d.kv_bytes < BYTES_16_BIT, engine.narrow_key_time, 1)
    size = kernel.size * (d.kv_bytes / BYTES_16_BIT)
    streamed = size / (gemm_constants.read_share * device.memory_bandwidth)
    time = maximum(engine.decode_slowdown * kv_ratio * kernel.time, streamed)
    floor = maximum(size / device.memory_bandwidth, kernel.flops / device.peak_flops)
    padding = kernel.padded - kernel.flops
    return Work(maximum(time, floor), size, kernel.flops, floor, padding=padding)


def _index_scores(step: Step, name: str, queries: Expression, keys: Expression, sequences: Expression) -> Work:
    """Scores of every token in the cache, by which sparse attention selects some; in 8 bits.

    The indexer is not divided among tensor-parallel ranks. Scores are written and read once, in FP32.
    """
    flops = number("2 FLOP") * queries * keys * shapes.index_heads * shapes.index_size
    size = sequences * keys * shapes.index_size * BYTE + 2 * queries * keys * _SCORE_BYTES
    streamed = passes.declare(
        scope,
        f"{step.prefix}index_{name}.",
        size=size,
        kernels=_INDEX_KERNELS,
        what=f"scores of the sparse-attention indexer, {name} part of {step.what}",
    )
    peak = maximum(device.rate_multiple(number("8")), 1) * device.peak_flops
    computed = flops / (gemm_constants.sustained_share * peak)
    floor = maximum(streamed.size / device.memory_bandwidth, flops / peak)
    time = maximum(streamed.time, computed, floor)
    work = Work(time, streamed.size, flops, floor, computed)
    return only_where(shapes.index_tokens > 0, work)


def _prompts(step: Step, name: str, reach: Expression) -> Work:
    kernel = attention_prefill.declare(
        scope, f"{step.prefix}prompt_{name}.", _prompt_shape(step, reach), what=f"attention of prompts in {step.what}"
    )
    return Work(kernel.time, kernel.size, kernel.flops, kernel.floor, kernel.clock_bound)


def _prompt_shape(step: Step, reach: Expression) -> attention_prefill.PrefillShape:
    whole = step.load.prompt / ONE_TOKEN
    length = minimum(whole, step.own_prompts)
    if step.load.optional:
        length = maximum(length, 1)
    # Sparse attention reads the latent of selected tokens; dense attention expands it to K and V.
    is_chosen = shapes.index_tokens > 0
    return attention_prefill.PrefillShape(
        batch=maximum(step.own_prompts / length, 1),
        length=length,
        keys=(whole + length) / 2,
        window=reach,
        heads=_HEADS,
        kv_heads=where(_IS_LATENT, _HEADS, _KV_HEADS),
        width=where(is_chosen, shapes.latent_width + shapes.rotary_width, shapes.head_size),
        value_width=where(is_chosen, shapes.latent_width, shapes.value_size),
        element=BYTES_16_BIT,
        kv_element=BYTES_16_BIT,
    )
