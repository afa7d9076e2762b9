"""Claims by name and by what became of an experiment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from assay.report.claim import Claim


def named(claims: Sequence[Claim]) -> Mapping[str, Claim]:
    """Claims by their names."""
    return {claim.name: claim for claim in claims}


def starting(claims: Sequence[Claim], prefix: str) -> list[Claim]:
    """Claims whose names start so."""
    return [claim for claim in claims if claim.name.startswith(prefix)]


def prices(claims: Sequence[Claim], trial: str | None = None) -> list[Claim]:
    """Cost and energy of the whole run, or before and after one trial."""
    priced = [*starting(claims, "cost."), *starting(claims, "energy.")]
    return [claim for claim in priced if claim.details.get("trial") == trial]


def by_role(claims: Sequence[Claim], *roles: str) -> list[Claim]:
    """Claims on experiments that ended in one of these ways."""
    return [claim for claim in claims if claim.details.get("role") in roles]
