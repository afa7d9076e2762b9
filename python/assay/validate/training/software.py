"""Software of a published training case, inferred from its fields and its source.

Rules read words and dates, never the id of a case; each default assumed is a note.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from assay.validate.cases import Case

UNDATED = 2023.5
"""Date assumed for software without one."""

FLASH_ATTENTION = 2022.6
"""FlashAttention was published in May 2022."""

FLASH_ATTENTION_2 = 2023.9
"""FlashAttention-2 was published in July 2023 and took some months to spread."""

FLASH_ATTENTION_3 = 2024.55
"""FlashAttention-3, for Hopper, was published in July 2024. Before, kernels made for the chip were
cuDNN's, which Transformer Engine calls."""

HOPPER = 2022.2
"""Since Hopper, GEMMs that overlap the sums between tensor ranks are Transformer Engine's; PyTorch's
came in September 2024. Before, streams overlapped them (Touvron et al. 2023, LLaMA, sec. 2.4)."""

_TRANSFORMER_ENGINE = ("megatron", "nemo", "nvidia", "transformer engine")
"""Words of software that runs on Transformer Engine."""

COMMUNICATION_OVERLAP = 2022.6
"""Megatron-LM overlapped no communication before 2022."""

SHARDED_OPTIMIZER = 2022.9
"""Optimizer states are sharded (ZeRO-1) by default since then."""

FUSED_ACCUMULATION = 2022.2
"""Megatron-LM fused gradient accumulation into GEMMs at the start of 2022."""

INTERLEAVED_PIPELINE = 2021.2
"""Interleaved pipeline stages were published in April 2021."""

SELECTIVE_RECOMPUTATION = 2022.6
"""Full activation recomputation was the rule before; then came selective recomputation."""

DROPOUT = 2022.6
"""Megatron-LM and OPT apply dropout by default; large models trained since then do not."""

PERMUTATION_FUSION = (2025.0, 2025.5)
"""Megatron-Core fused router and permutation of tokens with Transformer Engine 2.1 and 2.2."""

EXPERT_FUSION = (2025.5, 2026.4)
"""Then padding, quantization and activation were fused into the GEMMs of experts, in kernels for
tensor cores with block-scaled formats only."""

PARALLEL_FOLDING = 2025.25
"""Since MoE parallel folding (Liu et al., April 2025) experts are not split over the tensor ranks of
attention unless stated."""

_MONTHS = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september",
    "october", "november", "december",
)  # fmt: skip
_ARXIV = re.compile(r"arxiv\.org/\w+/(\d{2})(\d{2})\.\d{4,5}")
_MONTH_YEAR = re.compile(rf"({'|'.join(_MONTHS)})\s+(20\d{{2}})", re.IGNORECASE)
_RELEASE = re.compile(r"(?:\b|ngc)(2[0-9])\.(0[1-9]|1[0-2])(?:\.(0[1-9]))?(?!\d)")
_YEAR = re.compile(r"\b(20[12]\d)\b")

KNOWN_DATES = (
    ("llama 3", 2024.4),
    ("llama 2", 2023.3),
    ("opt-175", 2021.9),
    ("bloom", 2022.2),
    ("bigscience", 2022.2),
)
"""When well-known models were trained: sources may cite them later, or state no date."""


_SPLIT_FIELDS = ("framework", "scheme", "parallel", "sharding")


@dataclass(frozen=True)
class Software:
    """Software features as inputs of the graph, and the defaults assumed."""

    date: float
    values: dict[str, float]
    notes: tuple[str, ...]
    interleaves: bool
    recompute: float | None
    zero_stage: float
    sequence_parallel: bool
    passes_equal_stages: bool = False
    """Whether the engine splits a batch into as many micro-batches as there are stages."""


def text_of(case: Case) -> str:
    """All text of a case, in lower case, without its id."""
    fields = ("framework", "scheme", "schedule", "parallel", "sharding", "precision", "model")
    parts = [str(case.inputs.get(name, "")) for name in fields]
    parts += [str(value) for name, value in case.source.items() if name != "provenance"]
    return " ".join(parts).lower()


def stated_date(case: Case) -> float | None:
    """Date of the software in years: as the case states it, or as its source implies."""
    if (stated := case.inputs.get("stated_date")) is not None:
        return float(stated)
    source = " ".join(str(case.source.get(name, "")) for name in ("where", "url", "title"))
    return _date_in(source, text_of(case))


@cache
def _date_in(source: str, words: str) -> float | None:
    for word, date in KNOWN_DATES:
        if word in words:
            return date
    if match := _ARXIV.search(source):
        return 2000 + int(match[1]) + (int(match[2]) - 1) / 12
    if match := _RELEASE.search(source):
        # A patch release comes about a month after the one that it repairs.
        return 2000 + int(match[1]) + (int(match[2]) - 1 + int(match[3] or 0)) / 12
    if match := _MONTH_YEAR.search(source):
        return int(match[2]) + _MONTHS.index(match[1].lower()) / 12
    if match := _YEAR.search(source):
        return int(match[1]) + 0.5
    return None


def date_of(case: Case, siblings: Sequence[Case]) -> tuple[float, tuple[str, ...]]:
    """Date of a case: its own, that of cases of the same source, or the default."""
    if (own := stated_date(case)) is not None:
        return own, ()
    url = case.source.get("url")
    dates = [
        date
        for other in siblings
        if url and other.source.get("url") == url and (date := stated_date(other)) is not None
    ]
    if dates:
        return sorted(dates)[len(dates) // 2], ("dated by other cases of its source",)
    return UNDATED, (f"undated source: software of {UNDATED:.1f} assumed",)


def software_of(
    case: Case, siblings: Sequence[Case], launched: float, *, has_block_formats: bool = False
) -> Software:
    """Software features of a case, by its text and its date, and its accelerator's formats."""
    date, notes = date_of(case, siblings)
    words, inputs = text_of(case), case.inputs
    said = list(notes)
    native = _is_native(inputs, words)
    eager = native and "compile" not in str(inputs.get("compiler", "")).lower()
    deepspeed = any(word in words for word in ("deepspeed", "bigscience", "gpt-neox"))
    deepspeed |= "zero" in str(inputs.get("scheme", "")).lower()
    has_engine = not native and any(word in words for word in _TRANSFORMER_ENGINE)
    attention = _attention(words, date, has_engine or (date >= FLASH_ATTENTION_3 and not native))
    stage = _zero_stage(inputs, words)
    if stage is None:
        stage = 1.0 if date >= SHARDED_OPTIMIZER else 0.0
        said.append(f"sharding not stated: stage {stage:.0f} by its date")
    overlaps = date >= COMMUNICATION_OVERLAP or native or stage > 1
    selective = native and str(inputs.get("activation_recompute", "")).lower() == "selective"
    if selective:
        said.append("selective recomputation of PyTorch: every second GEMM, not attention")
    schedule = str(inputs.get("schedule") or "").lower()
    values = {
        "software.attention": attention,
        "software.fused_passes": 0.0 if eager else 1.0,
        "software.overlap": 1.0 if overlaps else 0.0,
        "software.tensor_overlap": _tensor_overlap(
            inputs, overlaps and not native and (has_engine or launched < HOPPER)
        ),
        "software.selective_products": float(selective),
        "software.fused_accumulation": 1.0 if date >= FUSED_ACCUMULATION and not deepspeed else 0.0,
        "software.gradient_all_reduce": 1.0 if deepspeed and stage == 1 else 0.0,
        "software.owner_broadcast": 1.0 if deepspeed and stage == 3 and date < 2022.0 else 0.0,
        # BLOOM's configuration sets hidden_dropout and attention_dropout to 0.
        "software.dropout": 1.0 if date < DROPOUT and "bigscience" not in words else 0.0,
        "software.score_bias": 1.0 if "bloom" in words or "alibi" in words else 0.0,
        "software.expert_fusion": (
            1.0 if _has_own_dispatch(inputs) else _expert_fusion(date, has_block_formats)
        ),
        "parallelism.schedule": _schedule(schedule),
        "software.age": max(0.0, date - launched) * 31557600.0,
        "optimizer.weight_bytes": 2.0,
        "optimizer.gradient_bytes": _gradient_bytes(inputs, date),
        "optimizer.master_bytes": 4.0,
        "optimizer.moment_bytes": 4.0,
        "optimizer.moments": 2.0,
    }
    stated = str(inputs.get("activation_recompute", "")).lower()
    return Software(
        date, values, tuple(said),
        interleaves=date >= INTERLEAVED_PIPELINE and not deepspeed and schedule != "1f1b",
        recompute=_recompute(inputs, stated, date),
        zero_stage=stage,
        sequence_parallel="sequence-parallel" in stated or date >= SELECTIVE_RECOMPUTATION,
        passes_equal_stages="torchtitan" in words,
    )  # fmt: skip


_SCHEDULES = (
    (("dualpipe",), 3.0),
    (("zb-h2", "zb2p", "zb-v", "zbv"), 2.0),
    (("zb-h1", "zb1p", "zero bubble", "zero-bubble"), 1.0),
)
"""Pipeline schedules by their names in publications; without any of these words it is 1F1B."""


def _schedule(stated: str) -> float:
    return next((code for words, code in _SCHEDULES if any(w in stated for w in words)), 0.0)


def _is_native(inputs: dict[str, Any], words: str) -> bool:
    """Whether the job runs PyTorch's own modules and sharding, not Megatron's or DeepSpeed's."""
    sharding = str(inputs.get("sharding", "")).lower()
    return "fsdp" in words or "torchtitan" in words or "shard" in sharding


def _tensor_overlap(inputs: dict[str, Any], default: bool) -> float:
    stated = str(inputs.get("tp_overlap") or "").lower()
    return float(default if not stated else stated not in ("none", "no", "false"))


def _attention(words: str, date: float, has_own_kernels: bool) -> float:
    """Kernels by what is stated and by date; PyTorch's own fused ones are FlashAttention-2.

    `has_own_kernels` is whether the software has kernels made for the chip.
    """
    if "flashattention-3" in words:
        return 3.0
    if "flashattention-2" in words:
        return 2.0
    if date >= FLASH_ATTENTION_2:
        return 3.0 if has_own_kernels else 2.0
    if "flash" in words or date >= FLASH_ATTENTION:
        return 1.0
    return 0.0


def _has_own_dispatch(inputs: dict[str, Any]) -> bool:
    """Whether tokens go to experts by the engine's own kernels, as under DualPipe.

    DeepSeek-V3 Technical Report, sec. 3.2.2 and 3.3: they dispatch, quantize and activate.
    """
    return "dualpipe" in str(inputs.get("schedule") or "").lower()


def _expert_fusion(date: float, has_block_formats: bool) -> float:
    """Share of the passes over tokens of experts that software of a date has fused."""

    def progress(first: float, last: float) -> float:
        return min(1.0, max(0.0, (date - first) / (last - first)))

    kernels = progress(*EXPERT_FUSION) if has_block_formats else 0.0
    return 0.5 * progress(*PERMUTATION_FUSION) + 0.5 * kernels


def _zero_stage(inputs: dict[str, Any], words: str) -> float | None:
    if inputs.get("zero_stage") is not None:
        return float(inputs["zero_stage"])
    named = " ".join(str(inputs.get(name, "")) for name in _SPLIT_FIELDS).lower()
    if match := re.search(r"zero[- ]?([0-3])\b", named):
        return float(match[1])
    if "shard_grad_op" in named:
        return 2.0
    if "full_shard" in named or "fsdp" in named:
        return 3.0
    if "bigscience" in words:
        return 1.0
    return None


def _gradient_bytes(inputs: dict[str, Any], date: float) -> float:
    """Bytes of a gradient: FP32, unless everything is FP16, as before fused accumulation."""
    if inputs.get("mp_mode"):
        return 2.0 if inputs["mp_mode"] == "PURE" else 4.0
    is_half = str(inputs.get("precision", "")).lower() == "fp16"
    return 2.0 if is_half and date < FUSED_ACCUMULATION else 4.0


def _recompute(inputs: dict[str, Any], stated: str, date: float) -> float | None:
    if "activation_checkpointing" in inputs:
        return 2.0 if inputs["activation_checkpointing"] else 0.0
    if stated.startswith("full"):
        return 2.0
    if stated.startswith("selective"):
        return 1.0
    if stated.startswith("none"):
        return 0.0
    if modules := str(inputs.get("recompute") or "").lower():
        # Megatron's names of recomputed modules; those without a large GEMM cost little.
        return 2.0 if "full" in modules else float("attn" in modules)
    return 2.0 if date < SELECTIVE_RECOMPUTATION else None
