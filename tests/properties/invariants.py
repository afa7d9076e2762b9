"""All invariants, by the files that state them."""

from __future__ import annotations

import fit_invariants
import price_invariants
import serving_invariants
import training_invariants
from property_harness import Invariant

ALL: tuple[Invariant, ...] = (
    *serving_invariants.INVARIANTS, *fit_invariants.INVARIANTS, *training_invariants.INVARIANTS,
    *price_invariants.INVARIANTS,
)  # fmt: skip
