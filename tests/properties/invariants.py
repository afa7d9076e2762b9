"""All invariants, by the files that state them."""

from __future__ import annotations

import price_invariants
import serving_invariants
from property_harness import Invariant

ALL: tuple[Invariant, ...] = (*serving_invariants.INVARIANTS, *price_invariants.INVARIANTS)
