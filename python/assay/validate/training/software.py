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

_MONTHS = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september",
    "october", "november", "december",
)  # fmt: skip
_ARXIV = re.compile(r"arxiv\.org/\w+/(\d{2})(\d{2})\.\d{4,5}")
_MONTH_YEAR = re.compile(rf"({'|'.join(_MONTHS)})\s+(20\d{{2}})", re.IGNORECASE)
_RELEASE = re.compile(r"\b(2[0-9])\.(0[1-9]|1[0-2])\b")
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
    source = " ".join(str(case.source.get(name, "")) for name in ("url", "title", "where"))
    return _date_in(source, text_of(case))


@cache
def _date_in(source: str, words: str) -> float | None:
    for word, date in KNOWN_DATES:
        if word in words:
            return date
    if found := _ARXIV.search(source):
        return 2000 + int(found[1]) + (int(found[2]) - 1) / 12
    if found := _MONTH_YEAR.search(source):
        return int(found[2]) + _MONTHS.index(found[1].lower()) / 12
    if found := _RELEASE.search(source):
        return 2000 + int(found[1]) + (int(found[2]) - 1) / 12
    if found := _YEAR.search(source):
        return int(found[1]) + 0.5
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


def software_of(case: Case, siblings: Sequence[Case], launched: float) -> Software:
    """Software features of a case, by its text and its date."""
    date, notes = date_of(case, siblings)
    words, inputs = text_of(case), case.inputs
    found = list(notes)
    eager = "fsdp" in words or "shard" in str(inputs.get("sharding", "")).lower()
    deepspeed = any(word in words for word in ("deepspeed", "bigscience", "gpt-neox"))
    deepspeed |= "zero" in str(inputs.get("scheme", "")).lower()
    attention = _attention(words, date)
    stage = _zero_stage(inputs, words)
    if stage is None:
        stage = 1.0 if date >= SHARDED_OPTIMIZER else 0.0
        found.append(f"sharding not stated: stage {stage:.0f} by its date")
    overlaps = date >= COMMUNICATION_OVERLAP or eager or stage > 1
    values = {
        "software.attention": attention,
        "software.fused_passes": 0.0 if eager else 1.0,
        "software.overlap": 1.0 if overlaps else 0.0,
        "software.fused_accumulation": 1.0 if date >= FUSED_ACCUMULATION and not deepspeed else 0.0,
        "software.gradient_all_reduce": 1.0 if deepspeed and stage == 1 else 0.0,
        "software.owner_broadcast": 1.0 if deepspeed and stage == 3 and date < 2022.0 else 0.0,
        # BLOOM's configuration sets hidden_dropout and attention_dropout to 0.
        "software.dropout": 1.0 if date < DROPOUT and "bigscience" not in words else 0.0,
        "software.score_bias": 1.0 if "bloom" in words or "alibi" in words else 0.0,
        "software.age": max(0.0, date - launched) * 31557600.0,
        "optimizer.weight_bytes": 2.0,
        "optimizer.gradient_bytes": _gradient_bytes(inputs, date),
        "optimizer.master_bytes": 4.0,
        "optimizer.moment_bytes": 4.0,
        "optimizer.moments": 2.0,
    }
    stated = str(inputs.get("activation_recompute", "")).lower()
    return Software(
        date, values, tuple(found),
        interleaves=date >= INTERLEAVED_PIPELINE and not deepspeed,
        recompute=_recompute(inputs, stated, date),
        zero_stage=stage,
        sequence_parallel="sequence-parallel" in stated or date >= SELECTIVE_RECOMPUTATION,
    )  # fmt: skip


def _attention(words: str, date: float) -> float:
    if "flashattention-3" in words or "flashattention-2" in words or date >= FLASH_ATTENTION_2:
        return 2.0
    if "flash" in words or date >= FLASH_ATTENTION:
        return 1.0
    return 0.0


def _zero_stage(inputs: dict[str, Any], words: str) -> float | None:
    if inputs.get("zero_stage") is not None:
        return float(inputs["zero_stage"])
    named = " ".join(str(inputs.get(name, "")) for name in _SPLIT_FIELDS).lower()
    if found := re.search(r"zero[- ]?([0-3])\b", named):
        return float(found[1])
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
    return 2.0 if date < SELECTIVE_RECOMPUTATION else None
