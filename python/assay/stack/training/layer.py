"""One layer on one pass: its GEMMs, its passes over activations, forward and backward.

Layers of different kinds are averaged: a stage has some of each.
"""

from __future__ import annotations

from assay.model import cited, fitted, number, where
from assay.stack import parallelism, software, works
from assay.stack.architecture import parameters, shapes
from assay.stack.kernels import passes
from assay.stack.training import experts
from assay.stack.training.experts import expert_share
from assay.stack.training.job import compute_bits, scope
from assay.stack.training.weights import declare_weight, is_low_precision, tensor, tokens

_COUNTED = cited(works.DATA_MOVEMENT)
_BACKWARD = cited(works.MEGATRON_CLUSTERS, "appendix, floating-point operations")
_FITTED = fitted("docs/design/training-model.md", "published steps")
_COMPACT = cited(works.DEEPSEEK_V3, "sec. 3.2.3")
_LORA = cited("Hu et al. 2022, LoRA: Low-Rank Adaptation of Large Language Models", "sec. 4.1")
_HALF = number("2 byte")

is_gated = shapes.ffn_matrices.is_("gated")

projection_columns = scope.declare(
    "projection_columns, n_q: attention input features, mean over layers; latent projections by their FLOPs",
    equals=(
        parameters.attention_layers * parameters.attention_matrices
        + parameters.linear_layers * parameters.linear_matrices
    )
    / (shapes.layers * shapes.hidden)
    - parameters.output_size,
    reference=_BACKWARD,
)
projection = declare_weight(
    "projection", projection_columns / tensor, shapes.hidden, compute_bits, "queries, keys and values"
)
output = declare_weight(
    "output", shapes.hidden, parameters.output_size / tensor, compute_bits, "the attention's output"
)
# A mixture of experts without dense layers may have no dense width; its share is then zero.
_dense_width = where(shapes.ffn > 0, shapes.ffn, 1) / tensor
up = declare_weight(
    "up", (shapes.ffn_matrices - 1) * _dense_width, shapes.hidden, compute_bits, "the feed-forward up projection"
)
down = declare_weight("down", shapes.hidden, _dense_width, compute_bits, "the feed-forward down projection")
products_forward = scope.declare(
    "layer.products_forward, t_pf [s as us]: GEMMs of a layer, forward",
    equals=projection.forward
    + output.forward
    + (1 - expert_share) * (up.forward + down.forward)
    + expert_share * (experts.up.forward + experts.down.forward),
    reference=_BACKWARD,
)
products_backward = scope.declare(
    "layer.products_backward, t_pb [s as us]: GEMMs of a layer, backward",
    equals=projection.backward
    + output.backward
    + (1 - expert_share) * (up.backward + down.backward)
    + expert_share * (experts.up.backward + experts.down.backward),
    reference=_BACKWARD,
)

rows = tokens / where(parallelism.sequence_parallel, tensor, 1)
_heads = parameters.query_size + parameters.kv_size
# Two norms (read, write) and two residual sums (two reads, a write); the activation; then what
# older kernels add (biases and dropout), or rotations of queries and keys in gated models.
_fused = rows * shapes.hidden * number("20 byte") + tokens * parallelism.ffn_width / tensor * (
    where(is_gated, number("6 byte"), number("4 byte"))
)
_older = rows * shapes.hidden * _HALF + tokens * shapes.hidden / tensor * number("8 byte")
_rotated = tokens * (parameters.query_size + parameters.kv_size / 2) / tensor * number("4 byte")
# Unfused: norms and residual sums; the activation; a copy of queries, keys and values.
_eager = rows * shapes.hidden * number("24 byte") + tokens * (parallelism.ffn_width + _heads) / tensor * number(
    "4 byte"
)
eager_multiple = scope.declare(
    "eager_multiple, k_e: bytes of unfused passes over those of fused ones",
    bounds=("positive", None),
    reference=_FITTED,
    boundary="needs-source",
)
elementwise_size = scope.declare(
    "layer.elementwise_size, S_e [byte as MB]: bytes of the passes of a layer, forward",
    equals=where(
        software.fused_passes,
        _fused + where(software.attention.is_("unfused"), _older, where(is_gated, _rotated, number("0 byte"))),
        eager_multiple * _eager,
    )
    + expert_share * experts.permuted_size,
    reference=_COUNTED,
)
# What selective recomputation computes again of norms and activations is in its GEMMs' inputs.
forward_pass_count = where(
    parallelism.recompute.is_("full"),
    2,
    where(parallelism.recompute.is_at_least("selective") & software.selective_products, 2, 1),
)
cast_elements = scope.declare(
    "layer.cast_elements, n_8: GEMM inputs quantized by separate passes",
    equals=where(
        is_low_precision,
        tokens * ((2 - expert_share) * shapes.hidden + (parameters.output_size + parallelism.ffn_width) / tensor)
        + expert_share * experts.pass_multiple * experts.rows * shapes.hidden,
        0,
    ),
    reference=_COUNTED,
)
_kernels = where(software.fused_passes, 8, 12)
# Forward, an element is read, written and written transposed for the gradient of the weights.
forward_passes = passes.declare(
    scope,
    "layer.forward_passes.",
    elementwise_size + cast_elements * number("4 byte"),
    _kernels,
    what="norms, sums, activations and casts of a layer, forward",
)
# Backward, the same passes read the gradient too: seven arrays for every four.
backward_passes = passes.declare(
    scope,
    "layer.backward_passes.",
    elementwise_size * 1.75 + cast_elements * number("6 byte"),
    _kernels * 1.5,
    what="norms, sums, activations and casts of a layer, backward",
)

# What compact activations leave out and the backward pass computes again.
expansion_share = scope.declare(
    "layer.expansion_share, s_x: share of the FLOPs of queries, keys and values that expand latents",
    bounds=(0, 1),
    equals=where(
        shapes.latent_width > 0,
        (
            shapes.query_width * parameters.query_size
            + shapes.latent_width * shapes.heads * (shapes.head_size - shapes.rotary_width + shapes.value_size)
        )
        / (projection_columns * shapes.hidden),
        0,
    ),
    reference=_COMPACT,
)
expansion_flops = scope.declare(
    "layer.expansion_flops, F_x [FLOP as GFLOP]: FLOPs of expanding latents once in a layer and pass",
    equals=number("2 FLOP") * tokens * expansion_share * projection_columns * shapes.hidden / tensor,
    reference=_COMPACT,
)
repeated_passes = passes.declare(
    scope,
    "layer.repeated_passes.",
    rows * shapes.hidden * number("8 byte") + tokens * parallelism.ffn_width / tensor * number("6 byte"),
    3,
    what="norms and activations of a layer, computed again",
)
repeated_time = scope.declare(
    "layer.repeated_time, t_r [s as us]: what a layer with compact activations computes again in one pass",
    equals=where(parallelism.compact, expansion_share * projection.forward + repeated_passes.time, number("0 s")),
    reference=_COMPACT,
)

# An adapter reads a matrix's input and its own few rows, and adds to the output; backward likewise, twice.
adapter_passes = passes.declare(
    scope,
    "layer.adapter_passes.",
    tokens * parallelism.adapter_width / tensor * number("9 byte"),
    42,
    what="adapters of a layer, both directions",
)
adapter_time = scope.declare(
    "layer.adapter_time, t_a [s as us]: adapters of a layer in one pass, both directions",
    equals=where(parallelism.is_frozen, adapter_passes.time, number("0 s")),
    reference=_LORA,
)
