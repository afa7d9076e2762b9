"""Where a server was watched for long enough: effects of its states on inter-token latency."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Final

from assay.diagnose.hypothesis import Hypothesis
from assay.diagnose.live.watch import Window
from assay.diagnose.mechanisms.catalog import MECHANISMS
from assay.diagnose.statistics.observations import observe
from assay.diagnose.statistics.telemetry_claims import claims_of
from assay.errors import InputError

FEWEST: Final = 100
"""Scrapes from which on an effect is estimated."""


def with_claims(window: Window, causes: Sequence[Hypothesis]) -> tuple[list[Hypothesis], list[str]]:
    """The causes with what the watched time says of them; a refuted one is left out and said.

    A claim that is supported and that metrics alone did not show becomes a cause of its own.
    """
    if window.endpoint.height < FEWEST:
        return list(causes), [
            f"no effect of a state was estimated: expected {FEWEST} scrapes before the first probe, "
            f"got {window.endpoint.height}; --duration gives them more time"
        ]
    try:
        observed_claims = claims_of(observe(window.samples, clock="monotonic"))
    except InputError as error:
        return list(causes), [f"no effect of a state was estimated: {error.message}"]
    kept: list[Hypothesis] = []
    notes = list(observed_claims.degradations)
    claims = dict(observed_claims.claims)
    for cause in causes:
        claim = claims.pop(cause.name, None)
        if claim is not None and claim.status == "refuted":
            notes.append(f"not a cause: {claim}")
            continue
        if claim is not None:
            cause = dataclasses.replace(cause, evidence=(*cause.evidence, claim.evidence()))
        kept.append(cause)
    known = {mechanism.name: mechanism for mechanism in MECHANISMS}
    for name, claim in claims.items():
        effect = claim.effect
        added = (effect.attributable, effect.attributable_lo, effect.attributable_hi)
        if claim.status == "refuted":
            notes.append(f"not a cause: {claim}")
        elif claim.status == "supported" and name in known and None not in added:
            ns, lo, hi = (1e3 * max(microseconds or 0.0, 0.0) for microseconds in added)
            kept.append(
                Hypothesis(
                    name, known[name].sentence, ns, lo, hi, "supported", (claim.evidence(),),
                    known[name].fix, beyond_step=True,
                )
            )  # fmt: skip
    kept.sort(key=lambda cause: -cause.ns_per_token)
    return kept, notes
