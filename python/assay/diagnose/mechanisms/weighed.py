"""A comparison of steps by state, replaced by an adjusted estimate where telemetry allows one."""

from __future__ import annotations

import dataclasses

from assay.diagnose.mechanisms.findings import Finding, MechanismEstimate, Refuted
from assay.diagnose.mechanisms.view import COMPARED, MechanismView


def weighed(view: MechanismView, name: str, finding: Finding) -> Finding:
    """The finding of mechanism `name`, adjusted for what else differed between its steps.

    Steps in a state and steps outside it differ in more than the state: the batch that heats the GPU
    is also what makes its steps long. A claim that a refuter brings down is no cause.
    """
    if not isinstance(finding, MechanismEstimate) or name not in COMPARED:
        return finding
    telemetry_claims = view.telemetry_claims
    claim = None if telemetry_claims is None else telemetry_claims.claims.get(name)
    if claim is None:
        reasons = () if telemetry_claims is None else telemetry_claims.degradations
        why = next((note for note in reasons if note.startswith(f"{name}:")), None)
        said = f"not adjusted for load: {why or 'too few intervals of telemetry'}"
        return dataclasses.replace(finding, statements=(*finding.statements, said))
    effect = claim.effect
    if claim.status == "refuted":
        return Refuted(str(claim))
    if claim.status != "supported" or effect.attributable is None or effect.attributable <= 0.0:
        return None
    assert telemetry_claims is not None
    assert effect.attributable_lo is not None
    assert effect.attributable_hi is not None
    moves = tuple(str(dependence) for dependence in telemetry_claims.dependences(name))
    return dataclasses.replace(
        finding,
        ns_per_token=1e3 * effect.attributable,
        lo=1e3 * max(effect.attributable_lo, 0.0),
        hi=1e3 * effect.attributable_hi,
        statements=(str(claim), *moves, *finding.statements),
    )
