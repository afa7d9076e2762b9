"""The diagnosed step as kept levers have made it: what is left of each cause, and how much kernels take.

The trace is one of the start. A lever that was kept since has changed the step, whose time is measured;
where the time went follows from what the lever addresses.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from assay.improve.policy.known import Known

if TYPE_CHECKING:
    from assay.diagnose.diagnosis import Diagnosis

KERNEL_TERMS: Final = frozenset({"floor", "kernel_inefficiency"})
"""Terms of a waterfall in which kernels run."""


def step_ns(known: Known) -> float:
    """The diagnosed step times what kept levers have made of it; 0 without a diagnosis."""
    if known.diagnosis is None:
        return 0.0
    return float(known.diagnosis.residuals.waterfall.observed_ns) * known.step_scale


def kernel_share(known: Known) -> float | None:
    """The share of a step that kernels take; None without a diagnosis."""
    whole = step_ns(known)
    if known.diagnosis is None or not whole:
        return None
    waterfall = known.diagnosis.residuals.waterfall
    busy = sum(term.ns for term in waterfall.terms if term.name in KERNEL_TERMS)
    grown = whole - waterfall.observed_ns
    if grown > 0 or related(known.diagnosis, KERNEL_TERMS) & _kept_names(known):
        # More rows lengthen kernels; what shortens them shortens the step by as much.
        busy = max(busy + grown, 0.0)
    return min(busy / whole, 1.0)


def addressed(known: Known, names: Collection[str]) -> dict[str, float]:
    """What is left in a step of each cause and term, in nanoseconds; nothing is counted twice."""
    if known.diagnosis is None:
        return {}
    whole = _diagnosed(known.diagnosis, names)
    kept = _kept_names(known)
    before = sum(_diagnosed(known.diagnosis, kept).values())
    saved = known.diagnosis.residuals.waterfall.observed_ns - step_ns(known)
    left = min(max(1.0 - saved / before, 0.0), 1.0) if before > 0 else 1.0
    # What kept levers saved came out of the causes that they address, in proportion.
    touched = related(known.diagnosis, kept)
    return {name: left * ns if name in touched else ns for name, ns in whole.items()}


def related(diagnosis: Diagnosis, names: Collection[str]) -> frozenset[str]:
    """Causes and terms that share time with the named ones: themselves, their wholes, their parts."""
    related_names = set(names)
    for cause in diagnosis.causes:
        around = {*cause.part_of, *([cause.within] if cause.within else [])}
        if cause.name in names:
            related_names |= around
        elif around & set(names):
            related_names.add(cause.name)
    return frozenset(related_names)


def _diagnosed(diagnosis: Diagnosis, names: Collection[str]) -> dict[str, float]:
    """The diagnosed time of causes, and of terms that none of those causes explains."""
    causes = [cause for cause in diagnosis.causes if cause.name in names]
    counted = {cause.name for cause in causes}
    explained = {term for cause in causes for term in cause.part_of}
    diagnosed = {
        cause.name: 0.0 if cause.within in counted else cause.ns_per_token for cause in causes
    }
    for term in diagnosis.residuals.waterfall.terms:
        if term.name in names and term.name not in explained:
            diagnosed[term.name] = term.ns
    return diagnosed


def _kept_names(known: Known) -> frozenset[str]:
    """Causes and terms that the kept levers address."""
    levers = [known.levers.get(name) for candidate in known.kept for name in candidate.levers]
    return frozenset(name for lever in levers if lever is not None for name in lever.addresses)
