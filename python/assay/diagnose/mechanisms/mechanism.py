"""The shape of a mechanism: what it reads, what it claims, and what would fix it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from assay.diagnose.mechanisms.findings import Finding
from assay.diagnose.mechanisms.view import MechanismView


@dataclass(frozen=True, slots=True)
class Mechanism:
    """A way in which time is lost."""

    name: str
    """In the field's words."""
    sentence: str
    """How it takes the time."""
    reads: str
    """What it is told from."""
    fix: str
    """What would remove it, as a setting or a change."""
    find: Callable[[MechanismView], Finding]
