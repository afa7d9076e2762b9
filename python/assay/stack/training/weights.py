"""GEMMs with a weight matrix in one pass: one forward, two backward, at the rates of this job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from assay.model import Expression, Variable, below, by_definition, cited, fitted, maximum, number, where
from assay.stack import optimizer, parallelism, software, works
from assay.stack.kernels import gemm
from assay.stack.training.job import compute_bits, operand_bytes, scope

_BACKWARD = cited(works.MEGATRON_CLUSTERS, "appendix, floating-point operations")
_FITTED = fitted("docs/design/training-model.md", "published steps")
_HALF = number("2 byte")
_RANDOM = number("1")
_ONE = number("1")

tokens, tensor = parallelism.tokens, parallelism.tensor
is_low_precision = below(compute_bits, 16)

narrow_share = scope.declare(
    "narrow_share, r_8: rate of low-precision GEMMs with per-tensor scales over that of the engines' measured ones",
    bounds=("positive", None),
    reference=_FITTED,
    boundary="needs-source",
)
four_bit_share = scope.declare(
    "four_bit_share, r_4: rate of 4-bit GEMMs over that of 8-bit ones, less what their peaks differ by",
    bounds=("positive", None),
    reference=_FITTED,
    boundary="needs-source",
)
load_share = scope.declare(
    "load_share, r_l: sustained kernel rate in training over short benchmarks",
    bounds=("positive", None),
    reference=_FITTED,
    boundary="needs-source",
)
wide_stretch = scope.declare(
    "kernel_stretch, s_k: time of a 16-bit kernel in this job over its benchmark in current software",
    equals=1 / (software.maturity * load_share),
    reference=by_definition("both factors are rates over those of the benchmark"),
)
stretch = scope.declare(
    "product_stretch, s_p: stretch of a GEMM with layer operands",
    equals=wide_stretch / where(is_low_precision, narrow_share * where(below(compute_bits, 8), four_bit_share, 1), 1),
    reference=by_definition("the share is a rate over that of the benchmark"),
)
# An accumulated gradient is written in its own format and read while tiles compute; a gradient that
# a later pass accumulates is written in the format of the weights.
_gradient_output = where(software.fused_accumulation, optimizer.gradient_bytes, optimizer.weight_bytes)
_stage_weights = parallelism.shard_parameters * optimizer.weight_bytes


# Frozen weights have no gradient.
_trained = where(parallelism.is_frozen, 0, 1)

# Full recomputation repeats every forward GEMM; PyTorch's selective one every second.
_KEPT_HALF = 1.5


def forward_passes_of(recompute: Variable) -> Expression:
    """How often a GEMM of a layer runs forward in one pass, its recomputation included."""
    selective = where(software.selective_products, _KEPT_HALF, 1)
    return where(recompute.is_("full"), 2, where(recompute.is_at_least("selective"), selective, 1))


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


@dataclass(frozen=True)
class Group:
    """Several matrices of one shape, each with an equal part of the rows (grouped GEMM).

    `rows` counts those of all matrices. `times` is the work over that of the group alone.
    """

    rows: Expression
    count: Expression
    times: Expression


def declare_weight(
    name: str,
    columns: Expression,
    depth: Expression,
    bits: Expression,
    what: str,
    *,
    is_repeated: bool = True,
    group: Group | None = None,
) -> Weight:
    """Declare the three GEMMs with a matrix of `columns` features out and `depth` in.

    `is_repeated`: full activation recomputation repeats the forward GEMM. `group`: of several such
    matrices, where it is not one matrix for all tokens.
    """
    element = where(below(bits, 16), operand_bytes, _HALF)
    rows = tokens if group is None else group.rows
    activations = rows * (columns + depth) * _HALF

    def one(part: str, rows: Expression, out: Expression, into: Expression, *, is_gradient: bool) -> gemm.Gemm:
        return gemm.declare(
            scope,
            f"{name}.{part}.",
            gemm.GemmShape(
                rows=rows,
                columns=out,
                depth=into,
                bits=bits,
                weight_element=element,
                activation_element=element,
                output_element=_gradient_output if is_gradient else _HALF,
                weight_footprint=activations if is_gradient else _stage_weights,
                activation_footprint=activations,
                toggling=_RANDOM,
                casting=number("0"),
                groups=None if group is None else group.count,
            ),
            what=f"{part} GEMM of {what}",
        )

    forward = one("forward", rows, columns, depth, is_gradient=False)
    inputs = one("inputs", rows, depth, columns, is_gradient=False)
    if group is None:
        weights = one("weights", columns, depth, rows, is_gradient=True)
    else:
        each = rows / group.count
        weights = one("weights", group.count * columns, depth, each, is_gradient=True)
    times = _ONE if group is None else group.times
    slow = stretch if bits is compute_bits else wide_stretch
    forward_time = scope.declare(
        f"{name}.forward_time, t_f [s as us]: forward GEMM of {what}",
        equals=times * stretched(slow, forward),
        reference=_BACKWARD,
    )
    backward_time = scope.declare(
        f"{name}.backward_time, t_b [s as us]: GEMMs backward of {what}: inputs and weights",
        equals=times * (stretched(slow, inputs) + _trained * stretched(slow, weights)),
        reference=_BACKWARD,
    )
    forward_count = forward_passes_of(parallelism.recompute) if is_repeated else _ONE
    flops = scope.declare(
        f"{name}.flops, F [FLOP as GFLOP]: FLOPs of {what} in one pass, both directions",
        equals=times * (forward_count * forward.flops + inputs.flops + _trained * weights.flops),
        reference=_BACKWARD,
    )
    size = scope.declare(
        f"{name}.size, S [byte as MB]: minimum bytes of {what} in one pass, both directions",
        equals=times * (forward_count * forward.size + inputs.size + _trained * weights.size),
        reference=_BACKWARD,
    )
    clock_bound = (
        times * slow * (forward_count * forward.clock_bound + inputs.clock_bound + _trained * weights.clock_bound)
    )
    return Weight(forward_time, backward_time, flops, size, clock_bound)
