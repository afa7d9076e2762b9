"""Feed-forwards of an iteration: dense ones, shared and routed experts, and the passes between."""

from __future__ import annotations

from dataclasses import replace

from assay.model import Expression, cited, maximum, where
from assay.stack.architecture import parameters, shapes
from assay.stack.kernels import experts, passes
from assay.stack.order_statistics import expected_largest
from assay.stack.serving import deployment as d, engine
from assay.stack.serving.deployment import scope
from assay.stack.serving.load import BYTE, BYTES_16_BIT, NO_WORK, Step, Work

_WIDTH = maximum(shapes.expert_ffn * d.expert / d.tensor, 1)
_FEWEST = 0.01
"""Kernels that an engine without any is taken to have, where a number of them divides."""
_EXPERTS_PER_TOKEN = where(shapes.experts > 0, shapes.experts_per_token / d.expert, 1)
_largest = scope.declare(
    "largest_rank, z_b: standard deviations by which the busiest of the expert ranks is above their mean",
    equals=expected_largest(d.expert),
    reference=cited("David and Nagaraja 2003, Order Statistics", "sec. 3.1"),
)


def feed_forward(step: Step) -> Work:
    """Dense feed-forwards, shared experts and routed experts of all layers."""
    has_shared = (shapes.experts > 0) & (shapes.shared_experts > 0)
    shared = shapes.shared_experts * shapes.expert_ffn
    # Where tokens travel to experts, replicas keep what is not routed, for their own tokens.
    is_own = d.exchanges.is_("on")
    rows = where(is_own, step.own, step.tokens)
    width = where(has_shared, shared, shapes.ffn) / where(is_own, d.attention_ranks, d.tensor)
    # A dense layer among layers of experts counts by its width.
    layers = where(
        has_shared,
        parameters.expert_layers + parameters.plain_layers * shapes.ffn / maximum(shared, 1),
        # Layers of a state-space model have none.
        where(shapes.ffn > 0, parameters.plain_layers, 0),
    )
    gates = shapes.ffn_matrices - 1
    up = step.gemm("ffn_up", "feed-forwards, up", rows, gates * width, shapes.hidden)
    down = step.gemm("ffn_down", "feed-forwards, down", rows, shapes.hidden, width)
    up = step.item("ffn_up", "the up projection of a layer", up)
    down = step.item("ffn_down", "the down projection of a layer", down)
    slowdown = _slowdown(step)
    experts_up = _experts(step, "experts_up", gates * _WIDTH, shapes.hidden, slowdown)
    experts_down = _experts(step, "experts_down", shapes.hidden, _WIDTH, slowdown)
    routed = step.item("experts_up", "the up projection of a layer's experts", experts_up)
    routed = routed + step.item("experts_down", "the down projection of a layer's experts", experts_down)
    return (up + down).times(layers) + routed.times(parameters.expert_layers)


def _slowdown(step: Step) -> Expression:
    """Time of expert GEMMs above their roofline; in iterations with prefill it is longer."""
    if step.load.optional:
        return where(step.prompt_tokens > 0, engine.prompt_expert_slowdown, engine.expert_slowdown)
    is_prompt = step.load.prompt_tokens is not None
    return engine.prompt_expert_slowdown if is_prompt else engine.expert_slowdown


def _experts(step: Step, name: str, columns: Expression, depth: Expression, slowdown: Expression) -> Work:
    shape = experts.ExpertsShape(
        tokens=maximum(step.tokens, 1),
        experts=maximum(shapes.experts / d.expert, 1),
        chosen=_EXPERTS_PER_TOKEN,
        columns=columns,
        depth=depth,
        bits=d.expert_bits,
        weight_element=d.expert_bytes,
        activation_element=maximum(d.expert_bits / 8, 1) * BYTE,
        ranks=d.expert,
        largest=_largest,
        # Where tokens travel, a rank has the rows of its own experts alone.
        passed=where(d.exchanges, 0, step.tokens * _EXPERTS_PER_TOKEN * (d.expert - 1)),
    )
    kernel = experts.declare(scope, f"{step.prefix}{name}.", shape, what=f"experts in {step.what}")
    padding = kernel.padded - kernel.flops
    # What slows engines was fitted where experts are not spread: other ranks' rows cost what tables say.
    own = kernel.time - kernel.passing
    work = Work(own, kernel.size, kernel.flops, kernel.waited, kernel.clock_bound, padding).slowed(slowdown)
    return replace(work, time=work.time + kernel.passing, floor=kernel.floor)


def small(step: Step) -> Work:
    """Norms, rotations, activations, casts; routing and gathering of experts."""
    attended = (parameters.query_size + parameters.kv_size) / d.attention_ranks
    dense = where(parameters.plain_layers > 0, shapes.ffn / d.tensor, 0)
    size = BYTES_16_BIT * (step.own * (6 * shapes.hidden + 2 * attended) + 3 * step.tokens * dense)
    kernels: Expression = engine.layer_kernels
    if step.load.optional:
        kernels = maximum(kernels, _FEWEST)
    layer = passes.declare(
        scope, f"{step.prefix}layer_passes.", size=size, kernels=kernels, what=f"passes of a layer in {step.what}"
    )
    routed = BYTES_16_BIT * step.tokens * _EXPERTS_PER_TOKEN * (3 * shapes.hidden + 3 * _WIDTH)
    routing = passes.declare(
        scope,
        f"{step.prefix}routing.",
        size=routed,
        kernels=engine.expert_kernels,
        what=f"routing of a layer in {step.what}",
    )
    per_layer = Work(layer.time, layer.size, NO_WORK.flops, NO_WORK.floor)
    if step.load.optional:
        # An engine may fuse all of them into its GEMMs and attention.
        is_run = engine.layer_kernels > 0
        per_layer = replace(
            per_layer, time=where(is_run, layer.time, NO_WORK.time), size=where(is_run, layer.size, NO_WORK.size)
        )
    per_layer = step.item("passes", "the passes of a layer", per_layer)
    per_mixture = step.item(
        "routing", "the routing of a layer", Work(routing.time, routing.size, NO_WORK.flops, NO_WORK.floor)
    )
    return per_layer.times(shapes.layers) + per_mixture.times(parameters.expert_layers)
