"""Numbers in a statement: each is the claim's figure or part of a name or setting."""

from __future__ import annotations

import re
from typing import Final

from assay.report import words
from assay.report.claim import Claim

_NUMBER: Final = re.compile(r"[0-9][0-9,.]*")


def unexplained(text: str, claim: Claim) -> list[str]:
    """Numbers of a text, its figure left out, that no name, setting or change of the claim has.

    >>> claim = Claim("lever.threads", "", None, "x", (), intervention="threads 1 -> 2")
    >>> unexplained("threads=2 is 5 times faster", claim)
    ['5']
    """
    known = " ".join(
        (
            claim.name,
            claim.intervention,
            words.settings(claim.details.get("changes") or {}),
            str(claim.details.get("failure") or ""),
            str(claim.details.get("lever") or ""),
            *(str(evidence.select.get("experiment") or "") for evidence in claim.evidence),
            *(str(evidence.parameters.get("cause") or "") for evidence in claim.evidence),
            "p50 p90 p95 p99" if claim.name.endswith(("level", "ratio")) else "",
        )
    )
    allowed = set(_tokens(known))
    return [token for token in _tokens(text) if token not in allowed]


def _tokens(text: str) -> list[str]:
    return [number.rstrip(".,") for number in _NUMBER.findall(text)]
