"""One layer on one pass: its GEMMs, its passes over activations, forward and backward.

Layers of different kinds are averaged: a stage has some of each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from assay.model import (
    Expression,
    Variable,
    by_definition,
    cited,
    fitted,
    maximum,
    number,
    where,
)
from assay.stack import architecture, optimizer, parallelism, software
from assay.stack.kernels import experts as expert_kernels
from assay.stack.kernels import gemm, passes
from assay.stack.training.job import compute_bits, operand_bytes, scope

_COUNTED = cited(
    "Ivanov et al. 2021, Data movement is all you need: a case study on optimizing transformers"
)
_BACKWARD = cited(
    "Narayanan et al. 2021, Efficient Large-Scale Language Model Training on GPU Clusters "
    "Using Megatron-LM",
    "appendix, floating-point operations",
)
_SWITCH = cited(
    "Fedus, Zoph and Shazeer 2022, Switch Transformers: Scaling to Trillion Parameter Models with "
    "Simple and Efficient Sparsity",
    "sec. 2.1",
)
_FITTED = fitted("docs/design/training-model.md", "published steps")
_HALF = number("2 byte")
_BITS_16 = number("16")
_RANDOM = number("1")

tokens, tensor = parallelism.tokens, parallelism.tensor
is_gated = architecture.ffn_matrices > 2.5
is_mixture = architecture.experts > 0.5
is_low_precision = compute_bits < 15.5

narrow_share = scope.variable(
    "narrow_share", "r_8", "1",
    "rate of low-precision GEMMs with per-tensor scales over that of the engines' measured ones",
    bounds=("positive", None), reference=_FITTED, boundary="needs-source",
)  # fmt: skip
load_share = scope.variable(
    "load_share", "r_l", "1",
    "sustained kernel rate in training over short benchmarks",
    bounds=("positive", None), reference=_FITTED, boundary="needs-source",
)  # fmt: skip
wide_stretch = scope.variable(
    "kernel_stretch", "s_k", "1",
    "time of a 16-bit kernel in this job over its benchmark in current software",
    equals=1 / (software.maturity * load_share),
    reference=by_definition("both factors are rates over those of the benchmark"),
)  # fmt: skip
stretch = scope.variable(
    "product_stretch", "s_p", "1", "stretch of a GEMM with layer operands",
    equals=wide_stretch / where(is_low_precision, narrow_share, 1),
    reference=by_definition("the share is a rate over that of the benchmark"),
)  # fmt: skip
# An accumulated gradient is written in its own format and read while tiles compute; a gradient that
# a later pass accumulates is written in the format of the weights.
_gradient_output = where(
    software.fused_accumulation > 0.5, optimizer.gradient_bytes, optimizer.weight_bytes
)
_stage_weights = parallelism.shard_parameters * optimizer.weight_bytes


class Kernel(Protocol):
    """A declared kernel: its time, and the roofline's."""

    @property
    def time(self) -> Variable:
        """The predicted time."""
        ...

    @property
    def floor(self) -> Variable:
        """The least possible time."""
        ...


def stretched(factor: Expression, kernel: Kernel) -> Expression:
    """Time of a kernel in this job; a factor below one cannot take it below its roofline."""
    return maximum(factor * kernel.time, kernel.floor)


@dataclass(frozen=True)
class Weight:
    """A weight matrix in use: a GEMM forward, two backward."""

    forward: Variable
    backward: Variable
    flops: Variable
    size: Variable
    clock_bound: Expression


def declare_weight(
    name: str, columns: Expression, depth: Expression, bits: Expression, what: str, *,
    is_repeated: bool = True,
) -> Weight:  # fmt: skip
    """Declare the three GEMMs with a matrix of `columns` features out and `depth` in.

    `is_repeated`: full activation recomputation repeats the forward GEMM.
    """
    element = where(bits < 15.5, operand_bytes, _HALF)
    activations = tokens * (columns + depth) * _HALF

    def one(
        part: str, rows: Expression, out: Expression, into: Expression, *, is_gradient: bool
    ) -> gemm.Gemm:
        return gemm.declare(
            scope, f"{name}.{part}.",
            gemm.GemmShape(
                rows=rows, columns=out, depth=into, bits=bits, weight_element=element,
                activation_element=element,
                output_element=_gradient_output if is_gradient else _HALF,
                weight_footprint=activations if is_gradient else _stage_weights,
                activation_footprint=activations, toggling=_RANDOM,
                casting=number("0"),
            ),
            what=f"{part} GEMM of {what}",
        )  # fmt: skip

    forward = one("forward", tokens, columns, depth, is_gradient=False)
    inputs = one("inputs", tokens, depth, columns, is_gradient=False)
    weights = one("weights", columns, depth, tokens, is_gradient=True)
    slow = stretch if bits is compute_bits else wide_stretch
    forward_time = scope.variable(
        f"{name}.forward_time", "t_f", "s", f"forward GEMM of {what}", display="us",
        equals=stretched(slow, forward), reference=_BACKWARD,
    )  # fmt: skip
    backward_time = scope.variable(
        f"{name}.backward_time", "t_b", "s", f"GEMMs backward of {what}: inputs and weights",
        display="us", equals=stretched(slow, inputs) + stretched(slow, weights),
        reference=_BACKWARD,
    )  # fmt: skip
    forward_count = where(parallelism.recompute > 1.5, 2, 1) if is_repeated else 1
    flops = scope.variable(
        f"{name}.flops", "F", "FLOP", f"FLOPs of {what} in one pass, both directions",
        display="GFLOP", equals=forward_count * forward.flops + inputs.flops + weights.flops,
        reference=_BACKWARD,
    )  # fmt: skip
    size = scope.variable(
        f"{name}.size", "S", "byte", f"minimum bytes of {what} in one pass, both directions",
        display="MB", equals=forward_count * forward.size + inputs.size + weights.size,
        reference=_BACKWARD,
    )  # fmt: skip
    clock_bound = slow * (
        forward_count * forward.clock_bound + inputs.clock_bound + weights.clock_bound
    )
    return Weight(forward_time, backward_time, flops, size, clock_bound)


projection_columns = scope.variable(
    "projection_columns", "n_q", "1",
    "attention input features, mean over layers; latent projections by their FLOPs",
    equals=(
        architecture.attention_layers * architecture.attention_matrices
        + architecture.linear_layers * architecture.linear_matrices
    )
    / (architecture.layers * architecture.hidden)
    - architecture.output_size,
    reference=_BACKWARD,
)  # fmt: skip
projection = declare_weight(
    "projection", projection_columns / tensor, architecture.hidden, compute_bits,
    "queries, keys and values",
)  # fmt: skip
output = declare_weight(
    "output", architecture.hidden, architecture.output_size / tensor, compute_bits,
    "the attention's output",
)  # fmt: skip
# A mixture of experts without dense layers may have no dense width; its share is then zero.
_dense_width = where(architecture.ffn > 0, architecture.ffn, 1) / tensor
up = declare_weight(
    "up", (architecture.ffn_matrices - 1) * _dense_width, architecture.hidden, compute_bits,
    "the feed-forward up projection",
)  # fmt: skip
down = declare_weight(
    "down", architecture.hidden, _dense_width, compute_bits, "the feed-forward down projection"
)


def _declare_experts(
    name: str, columns: Expression, depth: Expression, what: str
) -> expert_kernels.Experts:
    """All experts of a rank: its own share of the experts, and tokens from all that share them."""
    local = (architecture.experts + architecture.shared_experts) / parallelism.expert
    chosen = (architecture.experts_per_token + architecture.shared_experts) / parallelism.expert
    return expert_kernels.declare(
        scope, f"{name}.",
        expert_kernels.ExpertsShape(
            tokens=tokens * parallelism.expert, experts=where(is_mixture, local, 1),
            chosen=where(is_mixture, chosen, 1), columns=columns, depth=depth, bits=compute_bits,
            weight_element=operand_bytes, activation_element=operand_bytes,
        ),
        what=what,
    )  # fmt: skip


_expert_width = where(is_mixture, architecture.expert_ffn, 1) / tensor
expert_up = _declare_experts(
    "expert_up", (architecture.ffn_matrices - 1) * _expert_width, architecture.hidden,
    "the experts' up projection, including shared experts",
)  # fmt: skip
expert_down = _declare_experts(
    "expert_down", architecture.hidden, _expert_width,
    "the experts' down projection, including shared experts",
)  # fmt: skip
expert_share = scope.variable(
    "expert_share", "s_e", "1", "share of layers with experts", bounds=(0, 1),
    equals=architecture.expert_layers / architecture.layers, reference=_SWITCH,
)  # fmt: skip
expert_time = scope.variable(
    "expert_time", "t_e", "s", "GEMMs of a layer's experts, forward", display="us",
    equals=stretched(stretch, expert_up) + stretched(stretch, expert_down), reference=_SWITCH,
)  # fmt: skip
products_forward = scope.variable(
    "layer.products_forward", "t_pf", "s", "GEMMs of a layer, forward", display="us",
    equals=projection.forward
    + output.forward
    + (1 - expert_share) * (up.forward + down.forward)
    + expert_share * expert_time,
    reference=_BACKWARD,
)  # fmt: skip
products_backward = scope.variable(
    "layer.products_backward", "t_pb", "s", "GEMMs of a layer, backward", display="us",
    equals=projection.backward
    + output.backward
    + (1 - expert_share) * (up.backward + down.backward)
    + expert_share * 2 * expert_time,
    reference=_BACKWARD,
)  # fmt: skip

rows = tokens / where(parallelism.sequence_parallel > 0.5, tensor, 1)
_heads = architecture.query_size + architecture.kv_size
# Two norms (read, write) and two residual sums (two reads, a write); the activation; then what
# older kernels add (biases and dropout), or rotations of queries and keys in gated models.
_fused = rows * architecture.hidden * number(
    "20 byte"
) + tokens * parallelism.ffn_width / tensor * (where(is_gated, number("6 byte"), number("4 byte")))
_older = rows * architecture.hidden * _HALF + tokens * architecture.hidden / tensor * number(
    "8 byte"
)
_rotated = tokens * (architecture.query_size + architecture.kv_size / 2) / tensor * number("4 byte")
# Unfused: norms and residual sums; the activation; a copy of queries, keys and values.
_eager = rows * architecture.hidden * number("24 byte") + tokens * (
    parallelism.ffn_width + _heads
) / tensor * number("4 byte")
# Tokens are permuted into the order of their experts and back.
_sorted = (
    expert_share * tokens * architecture.experts_per_token * architecture.hidden * number("8 byte")
)
eager_multiple = scope.variable(
    "eager_multiple", "k_e", "1", "bytes of unfused passes over those of fused ones",
    bounds=("positive", None), reference=_FITTED, boundary="needs-source",
)  # fmt: skip
elementwise_size = scope.variable(
    "layer.elementwise_size", "S_e", "byte", "bytes of the passes of a layer, forward",
    display="MB",
    equals=where(
        software.fused_passes > 0.5,
        _fused
        + where(
            software.attention < 0.5, _older, where(is_gated, _rotated, number("0 byte"))
        ),
        eager_multiple * _eager,
    )
    + _sorted,
    reference=_COUNTED,
)  # fmt: skip
cast_elements = scope.variable(
    "layer.cast_elements", "n_8", "1", "GEMM inputs quantized by separate passes",
    equals=where(
        is_low_precision,
        tokens
        * (
            2 * architecture.hidden
            + (architecture.output_size + parallelism.ffn_width) / tensor
        ),
        0,
    ),
    reference=_COUNTED,
)  # fmt: skip
_kernels = where(software.fused_passes > 0.5, 8, 12)
# Forward, an element is read, written and written transposed for the gradient of the weights.
forward_passes = passes.declare(
    scope, "layer.forward_passes.", elementwise_size + cast_elements * number("4 byte"), _kernels,
    what="norms, sums, activations and casts of a layer, forward",
)  # fmt: skip
# Backward, the same passes read the gradient too: seven arrays for every four.
backward_passes = passes.declare(
    scope, "layer.backward_passes.",
    elementwise_size * 1.75 + cast_elements * number("6 byte"), _kernels * 1.5,
    what="norms, sums, activations and casts of a layer, backward",
)  # fmt: skip
