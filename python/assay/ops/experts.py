"""Mixture of experts: routing, the grouped GEMM of the experts, and their weighted sum."""

from __future__ import annotations

from assay._native import ACTIVATIONS
from assay.errors import InputError, ShapeError
from assay.ops import counting
from assay.ops.counting import Count
from assay.ops.linear import GATED_ACTIVATIONS, activation_code
from assay.ops.operands import F32, I32, call, check, check_given, nbytes, result
from assay.ops.weights import Weights
from assay.runtime import allocation, dtypes
from assay.runtime.array import Array
from assay.runtime.hardware import Device


def route(
    logits: Array,
    top_k: int,
    *,
    bias: Array | None = None,
    slots: Array | None = None,
    sigmoid: bool = False,
    normalize: bool = True,
    groups: int = 1,
    top_groups: int = 1,
    top_two_groups: bool = False,
    factor: float = 1.0,
    experts_out: Array | None = None,
    weights_out: Array | None = None,
    label: str | None = None,
) -> tuple[Array, Array]:
    """The `top_k` experts of each row, best first, and their weights.

    Scores are the softmax of the logits, or their sigmoids. The bias is added for the choice only
    (auxiliary-loss-free balancing). With groups, only the experts of the best `top_groups` are
    considered; groups are ranked by their best expert, or by the sum of the best two. The weights
    are the scores, divided by their sum where `normalize`, times `factor`. A row whose slot in the KV
    cache is negative is padding: it has no experts, which are -1, with weights of 0.
    """
    check("route", "logits", logits, (None, None), F32)
    rows, count = logits.shape
    _check_choice("route", count, top_k, groups, top_groups)
    check_given("route", "bias", bias, (count,), F32)
    check_given("route", "slots", slots, (rows,), I32)
    device = logits.device
    shape = (rows, top_k)
    if experts_out is None:
        experts_out = allocation.empty(device, shape, dtypes.int32, "route")
    if weights_out is None:
        weights_out = allocation.empty(device, shape, dtypes.float32, "route")
    check("route", "experts_out", experts_out, shape, I32)
    check("route", "weights_out", weights_out, shape, F32)
    call(
        "route",
        [logits, bias, slots, experts_out, weights_out],
        (
            rows,
            count,
            top_k,
            int(sigmoid),
            int(normalize),
            groups,
            top_groups,
            int(top_two_groups),
            float(factor),
        ),
        device,
        counting.memory_traffic(nbytes(logits, bias, experts_out, weights_out)),
        label,
    )
    return experts_out, weights_out


def router(
    x: Array,
    gain: Array,
    weights: Weights,
    top_k: int,
    *,
    epsilon: float,
    router_bias: Array | None = None,
    choice_bias: Array | None = None,
    slots: Array | None = None,
    sigmoid: bool = False,
    normalize: bool = True,
    groups: int = 1,
    top_groups: int = 1,
    top_two_groups: bool = False,
    factor: float = 1.0,
    normed: Array,
    logits: Array,
    experts_out: Array,
    weights_out: Array,
    label: str | None = None,
    batch_invariant: bool = False,
) -> None:
    """RMSNorm of each row into `normed`, and the experts of its logits, as `route` chooses them.

    Few rows are one kernel, which leaves `logits` as they are, and may read gain and biases, as weights, before the
    previous kernel completes: what writes them must be synchronized with. Only devices whose capabilities have
    `fused_router_max_tokens` implement it.
    """
    name = "router"
    rows, inputs = check(name, "x", x, (None, weights.shape[1])).shape
    count = weights.shape[0]
    _check_choice(name, count, top_k, groups, top_groups)
    check(name, "gain", gain, (inputs,))
    check(name, "normed", normed, (rows, inputs))
    check(name, "logits", logits, (rows, count), F32)
    check(name, "experts_out", experts_out, (rows, top_k), I32)
    check(name, "weights_out", weights_out, (rows, top_k), F32)
    check_given(name, "router_bias", router_bias, (count,))
    check_given(name, "choice_bias", choice_bias, (count,), F32)
    check_given(name, "slots", slots, (rows,), I32)
    call(
        name,
        [
            x,
            gain,
            weights.operand(),
            router_bias,
            choice_bias,
            slots,
            normed,
            logits,
            experts_out,
            weights_out,
        ],
        (
            rows,
            inputs,
            count,
            float(epsilon),
            int(batch_invariant),
            x.device.capabilities.fused_router_max_tokens,
            top_k,
            int(sigmoid),
            int(normalize),
            groups,
            top_groups,
            int(top_two_groups),
            float(factor),
        ),
        x.device,
        counting.gemm(rows, count, inputs, weights.element_bytes)
        + counting.memory_traffic(nbytes(normed, experts_out, weights_out)),
        label,
    )


def _check_choice(name: str, count: int, top_k: int, groups: int, top_groups: int) -> None:
    if not 0 < top_k <= count:
        raise InputError(f"{name}: expected top_k from 1 to {count}, got {top_k}")
    if groups < 1 or count % groups or not 0 < top_groups <= groups:
        raise InputError(
            f"{name}: expected groups that divide {count} experts, got {groups} and {top_groups}"
        )


def _kernel_limits(device: Device) -> tuple[int, int, int]:
    """Up to and from which assignments, and mean rows of an expert, which kernels are faster; 0 turns one off."""
    known = device.capabilities
    return (
        known.grouped_gemv_max_assignments,
        known.grouped_small_m_max_rows,
        known.grouped_large_tile_min_rows,
    )


def _grouped_count(assignments: int, outputs: int, experts_count: int, weights: Weights) -> Count:
    """FLOPs and bytes of a grouped GEMM.

    Which experts are read is known on the device only: each assignment at most reads one.
    """
    inputs, element = weights.shape[1], weights.element_bytes
    more = (min(assignments, experts_count) - 1) * outputs * inputs * element
    return counting.gemm(assignments, outputs, inputs, element) + Count(0.0, round(more))


def grouped_linear(
    x: Array,
    weights: Weights,
    experts: Array,
    *,
    experts_count: int,
    bias: Array | None = None,
    activation: str | None = None,
    out: Array | None = None,
    label: str | None = None,
    batch_invariant: bool = False,
) -> Array:
    """Grouped GEMM: a row of `x` times the weights of each of its experts.

    `weights` has the matrices of `experts_count` experts, one below the other, and `bias` their
    biases, one row for each expert. `experts` has one expert for each row of `x`, or several, row
    after row; the result has a row for each, which is not written where the expert is -1, none.
    """
    name = "grouped_linear"
    check(name, "experts", experts, None, I32)
    check(name, "x", x, (None, weights.shape[1]))
    assignments, (rows, inputs) = experts.size, x.shape
    if not rows or assignments % rows:
        raise ShapeError(f"{name}: expected experts in multiples of {rows} rows, got {assignments}")
    if experts_count < 1 or weights.shape[0] % experts_count:
        raise ShapeError(
            f"{name}: expected weights in multiples of {experts_count} experts, "
            f"got {weights.shape[0]} rows"
        )
    outputs = weights.shape[0] // experts_count
    gated = activation in GATED_ACTIVATIONS
    if gated and outputs % 2:
        raise ShapeError(f"{name}: expected an even number of outputs, got {outputs}")
    code = ACTIVATIONS[activation] if gated and activation else activation_code(name, activation)
    check_given(name, "bias", bias, (experts_count, outputs))
    width = outputs // 2 if gated else outputs
    out = result(name, x.device, out, (assignments, width), x.dtype)
    count = _grouped_count(assignments, outputs, experts_count, weights)
    call(
        name,
        [x, weights.operand(), bias, experts, out],
        (
            assignments,
            assignments // rows,
            inputs,
            outputs,
            experts_count,
            code,
            int(batch_invariant),
            *_kernel_limits(x.device),
        ),
        x.device,
        count + Count(0.0, nbytes(bias)),
        label,
    )
    return out


def combine_experts(
    outputs: Array,
    weights: Array,
    *,
    residual: Array | None = None,
    shared: Array | None = None,
    gates: Array | None = None,
    out: Array | None = None,
    label: str | None = None,
) -> Array:
    """The weighted sum of the outputs of each row's experts, plus residual and shared experts.

    `gates` are logits, one for each row, whose sigmoids multiply the shared output. Outputs whose
    weight is 0 are not added.
    """
    name = "combine_experts"
    rows, top_k = check(name, "weights", weights, (None, None), F32).shape
    columns = check(name, "outputs", outputs, (rows * top_k, None)).shape[1]
    for key, array in (("residual", residual), ("shared", shared)):
        check_given(name, key, array, (rows, columns))
    if gates is not None:
        check(name, "gates", gates, (rows, 1), F32)
        if shared is None:
            raise InputError(f"{name}: expected gates beside a shared output, got no shared output")
    out = result(name, outputs.device, out, (rows, columns), outputs.dtype)
    call(
        name,
        [outputs, weights, residual, shared, gates, out],
        (rows, columns, top_k),
        outputs.device,
        counting.memory_traffic(nbytes(outputs, weights, residual, shared, gates, out)),
        label,
    )
    return out


def combine_linear(
    x: Array,
    weights: Weights,
    experts: Array,
    factors: Array,
    *,
    experts_count: int,
    bias: Array | None = None,
    residual: Array | None = None,
    shared: Array | None = None,
    gates: Array | None = None,
    expert_outputs: Array,
    out: Array,
    experts_ready: bool = False,
    label: str | None = None,
    batch_invariant: bool = False,
) -> Array:
    """`grouped_linear` of the experts of each row, then `combine_experts` with these factors.

    Few rows are one kernel; otherwise `expert_outputs` has the rows in between. `experts_ready`
    states that the experts were there before the preceding operation began. Only devices whose
    capabilities have `fused_router_max_tokens` implement it.
    """
    name = "combine_linear"
    rows, top_k = check(name, "experts", experts, (None, None), I32).shape
    inputs = weights.shape[1]
    if experts_count < 1 or weights.shape[0] % experts_count:
        raise ShapeError(
            f"{name}: expected weights in multiples of {experts_count} experts, "
            f"got {weights.shape[0]} rows"
        )
    outputs = weights.shape[0] // experts_count
    check(name, "x", x, (rows * top_k, inputs))
    check(name, "factors", factors, (rows, top_k), F32)
    check_given(name, "bias", bias, (experts_count, outputs))
    for key, array in (("residual", residual), ("shared", shared)):
        check_given(name, key, array, (rows, outputs))
    check_given(name, "gates", gates, (rows, 1), F32)
    check(name, "expert_outputs", expert_outputs, (rows * top_k, outputs))
    out = result(name, x.device, out, (rows, outputs), x.dtype)
    call(
        name,
        [
            x,
            weights.operand(),
            bias,
            experts,
            factors,
            residual,
            shared,
            gates,
            expert_outputs,
            out,
        ],
        (
            rows,
            top_k,
            inputs,
            outputs,
            experts_count,
            int(batch_invariant),
            *_kernel_limits(x.device),
            int(experts_ready),
        ),
        x.device,
        _grouped_count(rows * top_k, outputs, experts_count, weights)
        + counting.memory_traffic(nbytes(bias, factors, residual, shared, gates, out)),
        label,
    )
    return out
