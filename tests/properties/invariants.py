"""All invariants, by the files that state them."""

from __future__ import annotations

import agreement_invariants
import estimate_invariants
import fit_invariants
import load_invariants
import price_invariants
import serving_invariants
import training_invariants
from property_harness import Invariant

ALL: tuple[Invariant, ...] = (
    *serving_invariants.INVARIANTS, *fit_invariants.INVARIANTS, *training_invariants.INVARIANTS,
    *price_invariants.INVARIANTS, *agreement_invariants.INVARIANTS, *load_invariants.INVARIANTS,
    *estimate_invariants.INVARIANTS,
)  # fmt: skip
