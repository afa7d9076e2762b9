"""Attention of one layer and pass: unfused, FlashAttention-1, -2, or kernels made for the chip."""

from __future__ import annotations

from assay.model import Expression, cited, fitted, maximum, minimum, number, where
from assay.stack import architecture, parallelism, software
from assay.stack.kernels import attention_prefill, device, gemm, passes
from assay.stack.training.job import scope
from assay.stack.training.weights import stretched, wide_stretch

_FLASH = cited(
    "Dao et al. 2022, FlashAttention: Fast and Memory-Efficient Exact Attention with IO-Awareness"
)
_FLASH2 = cited(
    "Dao 2023, FlashAttention-2: faster attention with better parallelism and work partitioning",
    "sec. 4.1",
)
_UNFUSED = cited(
    "Korthikanti et al. 2022, Reducing Activation Recomputation in Large Transformer Models",
    "sec. 4",
)
_FITTED = fitted("docs/design/training-model.md", "published steps")
_RING = cited(
    "Liu, Zaharia and Abbeel 2023, Ring Attention with Blockwise Transformers for Near-Infinite "
    "Context"
)
_HALF = number("2 byte")

first_share = scope.variable(
    "first_attention_share", "r_a", "1", "rate of FlashAttention-1 kernels over the peak",
    bounds=("positive", 1), reference=_FITTED, boundary="needs-source",
)  # fmt: skip
second_share = scope.variable(
    "second_attention_share", "r_a2", "1",
    "rate of FlashAttention-2 kernels over the peak, where kernels made for the chip are faster",
    bounds=("positive", 1), reference=_FITTED, boundary="needs-source",
)  # fmt: skip
backward_share = scope.variable(
    "backward_attention_share", "r_b", "1", "rate of fused attention backward over forward",
    bounds=("positive", None), reference=_FITTED, boundary="needs-source",
)  # fmt: skip

ring_cost = scope.variable(
    "ring_cost", "k_r", "1",
    "time that ring attention adds for each block of keys that comes from another rank: merging of "
    "partial outputs, kernels of one block, waits",
    bounds=(0, None), reference=_FITTED, boundary="needs-source",
)  # fmt: skip
ring_stretch = scope.variable(
    "attention.ring_stretch", "s_r", "1",
    "time of attention over blocks of context ranks over that of whole sequences",
    equals=1 + ring_cost * (1 - 1 / parallelism.context), reference=_RING,
)  # fmt: skip
# Fused backward runs five GEMMs for two forward. Megatron's selective recomputation is of attention
# alone; PyTorch's keeps it.
forwards = where(
    parallelism.recompute > 1.5,
    2,
    where((parallelism.recompute > 0.5) & (software.selective_products < 0.5), 2, 1),
)
_length = number("1 1/token") * architecture.sequence
sequences = scope.variable(
    "sequences", "n_s", "1", "sequences per rank and pass in attention",
    equals=parallelism.micro_batch / parallelism.context,
    reference=_RING,
)  # fmt: skip
_heads = architecture.heads / parallelism.tensor
# More ranks than KV heads replicate them.
_kv_heads = where(
    architecture.kv_heads > parallelism.tensor, architecture.kv_heads / parallelism.tensor, 1
)


def _declare_fused(name: str, window: Expression, what: str) -> attention_prefill.Attention:
    return attention_prefill.declare(
        scope, f"attention.{name}.",
        attention_prefill.PrefillShape(
            batch=sequences, length=_length, keys=_length, window=window, heads=_heads,
            kv_heads=where(architecture.latent_width > 0, _heads, _kv_heads),
            width=architecture.head_size, value_width=architecture.value_size, element=_HALF,
            kv_element=_HALF, caching=number("0"),
        ),
        what=what,
    )  # fmt: skip


full = _declare_fused("full", number("0"), "attention of a full-attention layer, forward")
windowed = _declare_fused(
    "windowed", architecture.window, "attention of a sliding-window layer, forward"
)


def mean(in_full: Expression, in_window: Expression) -> Expression:
    """The mean over layers; those with a state of fixed size do not attend."""
    return (
        architecture.full_layers * in_full + architecture.window_layers * in_window
    ) / architecture.layers


flops = scope.variable(
    "attention.flops", "F_a", "FLOP", "attention FLOPs per layer, forward, mean over layers",
    display="GFLOP", equals=mean(full.flops, windowed.flops), reference=_FLASH2,
)  # fmt: skip
size = scope.variable(
    "attention.size", "S_a", "byte", "bytes of fused attention per layer, forward, mean over layers",
    display="MB", equals=mean(full.size, windowed.size), reference=_FLASH,
)  # fmt: skip
present_time = scope.variable(
    "attention.present_time", "t_a2", "s", "attention of a layer in current kernels, forward",
    display="us",
    equals=mean(stretched(wide_stretch, full), stretched(wide_stretch, windowed)),
    reference=_FLASH2,
)  # fmt: skip
# FlashAttention-1 has no windows: it computes what a mask hides, but for the causal half.
first_time = scope.variable(
    "attention.first_time", "t_a1", "s", "attention of a layer in FlashAttention-1, forward",
    display="us",
    equals=mean(full.flops, full.flops) / (minimum(first_share, 1) * device.peak_flops),
    reference=_FLASH,
)  # fmt: skip
# Its mma instructions are the fastest of Ampere, and leave the tensor cores of later chips idle.
second_time = scope.variable(
    "attention.second_time", "t_a3", "s", "attention of a layer in FlashAttention-2, forward",
    display="us",
    equals=maximum(present_time, flops / (minimum(second_share, 1) * device.peak_flops)),
    reference=_FLASH2,
)  # fmt: skip
fused_time = scope.variable(
    "attention.fused_time", "t_af", "s", "attention of a layer in fused kernels, forward",
    display="us",
    equals=ring_stretch
    * where(
        software.attention > 2.5,
        present_time,
        where(software.attention > 1.5, second_time, first_time),
    ),
    reference=_FLASH,
)  # fmt: skip

_score_rows = sequences * _heads * _length
score_gemm = gemm.declare(
    scope, "attention.score_product.",
    gemm.GemmShape(
        rows=_score_rows, columns=_length, depth=architecture.head_size, bits=number("16"),
        weight_element=_HALF, activation_element=_HALF, output_element=_HALF,
        weight_footprint=_score_rows * _length * _HALF,
        activation_footprint=_score_rows * _length * _HALF, toggling=number("1"),
    ),
    what="unfused scores of a layer, masked ones too",
)  # fmt: skip
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
backward_scores = _declare_scores(
    "backward_scores", number("6 byte") + _dropped, "softmax and dropout, backward"
)
_unfused_gemm = stretched(wide_stretch, score_gemm)
unfused_forward = scope.variable(
    "attention.unfused_forward", "t_u", "s", "attention of a layer, unfused, forward", display="us",
    equals=2 * _unfused_gemm + forward_scores.time, reference=_UNFUSED,
)  # fmt: skip
unfused_backward = scope.variable(
    "attention.unfused_backward", "t_ub", "s", "attention of a layer, unfused, backward",
    display="us", equals=4 * _unfused_gemm + backward_scores.time, reference=_UNFUSED,
)  # fmt: skip
_is_unfused = software.attention < 0.5
forward_time = scope.variable(
    "attention.forward_time", "t_a", "s", "attention of a layer, forward", display="us",
    equals=where(_is_unfused, unfused_forward, fused_time), reference=_FLASH,
)  # fmt: skip
backward_time = scope.variable(
    "attention.backward_time", "t_ab", "s",
    "attention of a layer, backward: five GEMMs for two with recomputed logits",
    display="us",
    equals=where(
        _is_unfused,
        unfused_backward,
        maximum(2.5 * fused_time / backward_share, 2.5 * flops / device.peak_flops),
    ),
    reference=_FLASH2,
)  # fmt: skip
