"""Attention of one layer and pass: unfused, FlashAttention-1, -2, or kernels made for the chip."""

from __future__ import annotations

from assay.model import Expression, cited, fitted, maximum, minimum, number, where
from assay.stack import arithmetic, parallelism, software, works
from assay.stack.architecture import operations, parameters, shapes
from assay.stack.kernels import attention_prefill, device, gemm, passes
from assay.stack.training.job import scope
from assay.stack.training.weights import stretched, wide_stretch

_FLASH = cited(works.FLASH_ATTENTION)
_FLASH2 = cited(works.FLASH_ATTENTION_2, "sec. 4.1")
_UNFUSED = cited(works.ACTIVATION_RECOMPUTATION, "sec. 4")
_FITTED = fitted("docs/design/training-model.md", "published steps")
_RING = cited(works.RING_ATTENTION)
_HALF = number("2 byte")

first_share = scope.declare(
    "first_attention_share, r_a: rate of FlashAttention-1 kernels over the peak",
    bounds=("positive", 1),
    reference=_FITTED,
    boundary="needs-source",
)
second_share = scope.declare(
    "second_attention_share, r_a2: rate of FlashAttention-2 kernels over the peak, where kernels made for the "
    "chip are faster",
    bounds=("positive", 1),
    reference=_FITTED,
    boundary="needs-source",
)
backward_share = scope.declare(
    "backward_attention_share, r_b: rate of fused attention backward over forward",
    bounds=("positive", None),
    reference=_FITTED,
    boundary="needs-source",
)

ring_cost = scope.declare(
    "ring_cost, k_r: time that ring attention adds for each block of keys that comes from another rank: merging "
    "of partial outputs, kernels of one block, waits",
    bounds=(0, None),
    reference=_FITTED,
    boundary="needs-source",
)
ring_stretch = scope.declare(
    "attention.ring_stretch, s_r: time of attention over blocks of context ranks over that of whole sequences",
    equals=1 + ring_cost * (1 - 1 / parallelism.context),
    reference=_RING,
)
# Fused backward runs five GEMMs for two forward. Megatron's selective recomputation is of attention
# alone; PyTorch's keeps it.
forwards = where(
    parallelism.recompute.is_("full"),
    2,
    where(parallelism.recompute.is_at_least("selective") & ~software.selective_products, 2, 1),
)
_length = number("1 1/token") * shapes.sequence
sequences = scope.declare(
    "sequences, n_s: sequences per rank and pass in attention",
    equals=parallelism.micro_batch / parallelism.context,
    reference=_RING,
)
_heads = shapes.heads / parallelism.tensor
# More ranks than KV heads replicate them.
_kv_heads = where(shapes.kv_heads > parallelism.tensor, shapes.kv_heads / parallelism.tensor, 1)


def _declare_fused(name: str, window: Expression, what: str) -> attention_prefill.Attention:
    return attention_prefill.declare(
        scope,
        f"attention.{name}.",
        attention_prefill.PrefillShape(
            batch=sequences,
            length=_length,
            keys=_length,
            window=window,
            heads=_heads,
            kv_heads=where(shapes.latent_width > 0, _heads, _kv_heads),
            width=shapes.head_size,
            value_width=shapes.value_size,
            element=_HALF,
            kv_element=_HALF,
            caching=number("0"),
        ),
        what=what,
    )


full = _declare_fused("full", number("0"), "attention of a full-attention layer, forward")
windowed = _declare_fused("windowed", shapes.window, "attention of a sliding-window layer, forward")


def mean(in_full: Expression, in_window: Expression) -> Expression:
    """The mean over layers; those with a state of fixed size do not attend."""
    return (parameters.full_layers * in_full + parameters.window_layers * in_window) / shapes.layers


flops = scope.declare(
    "attention.flops, F_a [FLOP as GFLOP]: attention FLOPs per layer, forward, mean over layers",
    equals=mean(full.flops, windowed.flops),
    reference=_FLASH2,
)
size = scope.declare(
    "attention.size, S_a [byte as MB]: bytes of fused attention per layer, forward, mean over layers",
    equals=mean(full.size, windowed.size),
    reference=_FLASH,
)
present_time = scope.declare(
    "attention.present_time, t_a2 [s as us]: attention of a layer in current kernels, forward",
    equals=mean(stretched(wide_stretch, full), stretched(wide_stretch, windowed)),
    reference=_FLASH2,
)
# FlashAttention-1 has no windows: it computes what a mask hides, but for the causal half.
first_time = scope.declare(
    "attention.first_time, t_a1 [s as us]: attention of a layer in FlashAttention-1, forward",
    equals=mean(full.flops, full.flops) / (minimum(first_share, 1) * device.peak_flops),
    reference=_FLASH,
)
# Its mma instructions are the fastest of Ampere, and leave the tensor cores of later chips idle.
second_time = scope.declare(
    "attention.second_time, t_a3 [s as us]: attention of a layer in FlashAttention-2, forward",
    equals=maximum(present_time, flops / (minimum(second_share, 1) * device.peak_flops)),
    reference=_FLASH2,
)
fused_time = scope.declare(
    "attention.fused_time, t_af [s as us]: attention of a layer in fused kernels, forward",
    equals=ring_stretch
    * where(
        software.attention.is_("native"),
        present_time,
        where(software.attention.is_at_least("flash2"), second_time, first_time),
    ),
    reference=_FLASH,
)

_score_rows = sequences * _heads * _length
score_gemm = gemm.declare(
    scope,
    "attention.score_product.",
    gemm.GemmShape(
        rows=_score_rows,
        columns=_length,
        depth=shapes.head_size,
        bits=number("16"),
        weight_element=_HALF,
        activation_element=_HALF,
        output_element=_HALF,
        weight_footprint=_score_rows * _length * _HALF,
        activation_footprint=_score_rows * _length * _HALF,
        toggling=number("1"),
    ),
    what="unfused scores of a layer, masked ones too",
)
_scores = _score_rows * _length


# Dropout reads, writes, and writes or reads its mask.
_dropped = software.dropout * number("5 byte")


# A biased GEMM first copies the bias to its output (write), then reads it.
_biased = software.score_bias * number("4 byte")


def _declare_scores(name: str, each: Expression, what: str) -> passes.Pass:
    return passes.declare(scope, f"attention.{name}.", _scores * each, 3, what=what)


# Forward: masked softmax (read, write). Backward: softmax (two reads, write).
forward_scores = _declare_scores(
    "forward_scores", number("4 byte") + _dropped + _biased, "softmax and dropout, forward"
)
special_time = scope.declare(
    "attention.special_time, t_x [s*GPU/token as us*GPU/token]: time of a GPU's special-function units over the "
    "exponentials of a token, forward",
    equals=operations.exponentials / arithmetic.special_peak,
    reference=cited(
        "Shah et al. 2024, FlashAttention-3: Fast and Accurate Attention with Asynchrony and Low-precision",
        "sec. 3.1, exponentials beside products",
    ),
    target=True,
)
saved_share = scope.declare(
    "attention.saved_share, s_IO [1 as %]: bytes of memory that fused attention saves of those of unfused, forward",
    equals=1 - full.size / (2 * score_gemm.size + forward_scores.size),
    bounds=(None, 1),
    reference=_FLASH,
    target=True,
)
backward_scores = _declare_scores("backward_scores", number("6 byte") + _dropped, "softmax and dropout, backward")
_unfused_gemm = stretched(wide_stretch, score_gemm)
unfused_forward = scope.declare(
    "attention.unfused_forward, t_u [s as us]: attention of a layer, unfused, forward",
    equals=2 * _unfused_gemm + forward_scores.time,
    reference=_UNFUSED,
)
unfused_backward = scope.declare(
    "attention.unfused_backward, t_ub [s as us]: attention of a layer, unfused, backward",
    equals=4 * _unfused_gemm + backward_scores.time,
    reference=_UNFUSED,
)
_is_unfused = software.attention.is_("unfused")
forward_time = scope.declare(
    "attention.forward_time, t_a [s as us]: attention of a layer, forward",
    equals=where(_is_unfused, unfused_forward, fused_time),
    reference=_FLASH,
)
backward_time = scope.declare(
    "attention.backward_time, t_ab [s as us]: attention of a layer, backward: five GEMMs for two with "
    "recomputed logits",
    equals=where(
        _is_unfused, unfused_backward, maximum(2.5 * fused_time / backward_share, 2.5 * flops / device.peak_flops)
    ),
    reference=_FLASH2,
)
