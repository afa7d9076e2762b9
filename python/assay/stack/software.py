"""Features of training software, as numbers that a sweep may vary."""

from __future__ import annotations

from assay.model import POSITIVE, Reference, Scope, Variable, by_definition, cited, exp, fitted, number
from assay.stack import works
from assay.stack.fits import approximate

scope = Scope("software", "Features of training software")

_FITTED = fitted("docs/design/training-model.md", "published steps")
_FLASH = cited(works.FLASH_ATTENTION)
_FUSION = cited(works.DATA_MOVEMENT)
_OVERLAP = cited(works.FSDP)
_ZERO = cited(works.ZERO)
_ACCUMULATION = cited(works.MEGATRON_CODE, "gradient accumulation fusion")
_DROPOUT = cited(works.ACTIVATION_RECOMPUTATION, "sec. 4.1")
_ALIBI = cited("Press, Smith and Lewis 2022, Train Short, Test Long: Attention with Linear Biases", "sec. 3")
_TENSOR_OVERLAP = cited(
    "Wang et al. 2023, Overlap Communication with Dependent Computation via Decomposition in Large Deep Learning Models"
)
_SELECTIVE = cited(
    "Liang et al. 2024, TorchTitan: One-stop PyTorch native solution for production ready LLM pre-training",
    "sec. 2.2.1, activation checkpointing",
)
_EXPERT_FUSION = cited(works.MEGATRON_CODE, "MoE: fused permutation, padding, probabilities and quantization")


def _feature(heading: str, reference: Reference) -> Variable:
    return scope.flag(heading, reference=reference, boundary="scenario", family="software")


attention = scope.choice(
    "attention, u_a: attention kernels",
    {"unfused": "unfused", "flash1": "FlashAttention-1", "flash2": "FlashAttention-2", "native": "made for the chip"},
    reference=_FLASH,
    boundary="scenario",
    family="software",
)
fused_passes = _feature("fused_passes, u_f: 1: norms, biases and activations are fused with adjacent kernels", _FUSION)
overlap = _feature("overlap, u_o: 1: communication overlaps computation", _OVERLAP)
tensor_overlap = _feature(
    "tensor_overlap, u_t: 1: sums between tensor ranks overlap the GEMMs that need them", _TENSOR_OVERLAP
)
selective_products = _feature(
    "selective_products, u_r: 1: selective recomputation keeps attention and repeats every second GEMM; 0: only "
    "attention",
    _SELECTIVE,
)
fused_accumulation = _feature(
    "fused_accumulation, u_w: 1: GEMMs accumulate weight gradients; 0: a separate pass does", _ACCUMULATION
)
gradient_all_reduce = _feature(
    "gradient_all_reduce, u_g: 1: gradients of a sharded optimizer are reduced to every rank, not to their owner", _ZERO
)
owner_broadcast = _feature("owner_broadcast, u_b: 1: sharded weights are broadcast by their owner, not gathered", _ZERO)
dropout = _feature("dropout, u_p: 1: dropout is applied and its masks are kept for the backward pass", _DROPOUT)
score_bias = _feature("score_bias, u_l: 1: unfused attention adds a bias (ALiBi) to its logits in memory", _ALIBI)
expert_fusion = scope.declare(
    "expert_fusion, u_e: share of the passes over tokens of experts that are fused: 0 all separate, 1 all fused",
    bounds=(0, 1),
    reference=_EXPERT_FUSION,
    boundary="scenario",
    family="software",
)
age = scope.declare(
    "age, a_s [s as yr]: age of the accelerator at the software's release",
    reference=by_definition("difference of two dates"),
    boundary="scenario",
    family="software",
)
immaturity = scope.declare(
    "immaturity, i_0: missing share of library performance at an accelerator's launch",
    bounds=(0, 1),
    reference=_FITTED,
    boundary="needs-source",
)
maturing_time = scope.declare(
    "maturing_time, tau_m [s as yr]: time in which the missing share falls to a third",
    bounds=POSITIVE,
    reference=_FITTED,
    boundary="needs-source",
)
# Published steps run on accelerators up to four years old.
maturity = approximate(
    scope,
    "maturity, m_s: library performance at that age over today's",
    1 - immaturity * exp(-age / maturing_time),
    valid=age <= number("5 yr"),
    reference=_FITTED,
)
