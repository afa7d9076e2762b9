"""Which mechanism a kernel's time above its floor belongs to: operations by what they are."""

from __future__ import annotations

from collections.abc import Set
from typing import Final

from assay.observe.operations import LAYER_OPERATIONS, STEP_OPERATIONS
from assay.observe.structure.collectives import OPERATIONS as COLLECTIVES

EXPERTS: Final[Set[str]] = {"experts_gate_up", "experts_down"}
"""Grouped GEMMs over the chosen experts."""

GEMMS: Final[Set[str]] = {
    name for name in (*LAYER_OPERATIONS, *STEP_OPERATIONS) if name.endswith("_proj")
} | {"lm_head", "router", "shared_gate_up", "shared_down"}
"""Linear layers: one GEMM, or a GEMV and its split-K reduction."""

ATTENTION: Final[Set[str]] = {"attention"}

SAMPLING: Final[Set[str]] = {"select_logits", "sampling", "collect_outputs"}
"""From the logits to the token that the host sees."""

COLLECTIVE: Final[Set[str]] = set(COLLECTIVES)

HEAVY: Final[Set[str]] = GEMMS | EXPERTS | ATTENTION | SAMPLING | COLLECTIVE
"""Operations with a mechanism of their own; the others are element-wise, or move little."""

SMALL_KERNEL_NS: Final = 5_000
"""Below this a kernel lasts about as long as its launch, prologue and drain."""
