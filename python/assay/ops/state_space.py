"""State-space layers: a causal convolution and a selective scan, with a state for each sequence."""

from __future__ import annotations

from assay.errors import ShapeError
from assay.ops import counting
from assay.ops.counting import Count
from assay.ops.operands import F32, I32, call, check, check_given, nbytes, result
from assay.runtime.array import Array


def causal_convolution(
    x: Array,
    weight: Array,
    bias: Array | None,
    slots: Array,
    query_start_loc: Array,
    seq_lens: Array,
    state: Array,
    *,
    first: int = 0,
    out: Array | None = None,
    label: str | None = None,
) -> Array:
    """Causal depthwise convolution of some columns of `x` over the rows of each sequence, then SiLU.

    `weight` has the shape (taps, channels), its last row for the token itself; the convolved columns
    are those from `first` on. `state` has the shape (slots, taps - 1, channels), in float32: the
    inputs before a sequence's rows, which are zero before its first token. It is updated.
    """
    name = "causal_convolution"
    taps, channels = check(name, "weight", weight, (None, None)).shape
    rows, columns = check(name, "x", x, (None, None)).shape
    if taps < 2 or first < 0 or first + channels > columns:
        raise ShapeError(
            f"{name}: expected 2 taps or more of channels within {columns} columns, "
            f"got {taps} of {channels} from {first} on"
        )
    check_given(name, "bias", bias, (channels,))
    states = check(name, "state", state, (None, taps - 1, channels), F32).shape[0]
    sequences = _check_sequences(name, slots, query_start_loc, seq_lens)
    out = result(name, x.device, out, (rows, channels), x.dtype)
    call(
        name,
        [x, weight, bias, slots, query_start_loc, seq_lens, state, out],
        (rows, sequences, columns, first, channels, taps, states),
        x.device,
        # Sequences that have rows read and write their state.
        counting.memory_traffic(
            2 * nbytes(out), nbytes(weight), 8 * min(rows, sequences) * (taps - 1) * channels
        ),
        label,
    )
    return out


def selective_scan(
    projected: Array,
    convolved: Array,
    a_log: Array,
    d: Array,
    dt_bias: Array,
    slots: Array,
    query_start_loc: Array,
    seq_lens: Array,
    state: Array,
    *,
    groups: int,
    dt_limit: tuple[float, float],
    batch_invariant: bool = False,
    out: Array | None = None,
    label: str | None = None,
) -> Array:
    """The recurrence of Mamba-2 over the rows of each sequence, times SiLU of the gate.

    state = exp(-exp(a_log) dt) state + dt x B^T and y = state C + d x, for every head, with dt =
    softplus(raw + dt_bias) within `dt_limit`. A row of `projected` is the gate, what was convolved,
    and the raw dt of every head; a row of `convolved` is x, then B and C of each group of heads.
    `state` has the shape (slots, heads, head_dim, state_size), in float32; it is zero before a
    sequence's first token, and is updated. Many rows may be computed in chunks (GPUs), where the
    last bits of a row depend on the chunk that it is in, unless `batch_invariant`.
    """
    name = "selective_scan"
    states, heads, head_dim, state_size = check(
        name, "state", state, (None, None, None, None), F32
    ).shape
    inner = heads * head_dim
    channels = inner + 2 * groups * state_size
    if groups < 1 or heads % groups:
        raise ShapeError(f"{name}: expected heads in groups, got {heads} and {groups}")
    rows = check(name, "convolved", convolved, (None, channels)).shape[0]
    check(name, "projected", projected, (rows, inner + channels + heads), (convolved.dtype,))
    for key, array in (("a_log", a_log), ("d", d), ("dt_bias", dt_bias)):
        check(name, key, array, (heads,), F32)
    sequences = _check_sequences(name, slots, query_start_loc, seq_lens)
    out = result(name, convolved.device, out, (rows, inner), convolved.dtype)
    steps = rows * inner * state_size
    moved = 8 * min(rows, sequences) * inner * state_size
    call(
        name,
        [projected, convolved, a_log, d, dt_bias, slots, query_start_loc, seq_lens, state, out],
        (
            *(rows, sequences, heads, head_dim, groups, state_size, states, int(batch_invariant)),
            *map(float, dt_limit),
        ),
        convolved.device,
        # A multiplication and two multiply-adds for each element of the state.
        Count(5.0 * steps, nbytes(projected, convolved, out) + moved),
        label,
    )
    return out


def _check_sequences(name: str, slots: Array, query_start_loc: Array, seq_lens: Array) -> int:
    sequences = check(name, "seq_lens", seq_lens, (None,), I32).shape[0]
    check(name, "query_start_loc", query_start_loc, (sequences + 1,), I32)
    check(name, "slots", slots, (sequences,), I32)
    return sequences
