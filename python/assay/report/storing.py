"""Claims and provenance as data: report.json, from which the report is written again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from assay.errors import InputError
from assay.intervals import Interval
from assay.report.claim import Claim, Evidence, Provenance

FORMAT: Final = 1


def to_data(claims: Sequence[Claim], provenance: Provenance) -> dict[str, Any]:
    """A report as plain data."""
    return {
        "format": FORMAT,
        "provenance": asdict(provenance),
        "claims": [{**asdict(claim), "figure": _finite(claim.figure)} for claim in claims],
    }


def _finite(figure: Interval | None) -> dict[str, float | None] | None:
    """JSON has no infinity: the open end of an interval is null."""
    if figure is None:
        return None
    return {
        name: value if abs(value) != float("inf") else None
        for name, value in figure._asdict().items()
    }


def from_data(data: Any) -> tuple[list[Claim], Provenance]:
    """The claims and the provenance of a report.json."""
    if not isinstance(data, Mapping) or data.get("format") != FORMAT:
        got = data.get("format") if isinstance(data, Mapping) else type(data).__name__
        raise InputError(f"report: expected format {FORMAT}, got {got!r}")
    try:
        stated = data["provenance"]
        provenance = Provenance(
            run=stated["run"],
            created_at=float(stated["created_at"]),
            assay_version=stated["assay_version"],
            fingerprint=stated["fingerprint"],
            journal_head=stated["journal_head"],
            files=stated["files"],
            degradations=tuple(stated["degradations"]),
            details=stated["details"],
        )
        return [_read_claim(claim) for claim in data["claims"]], provenance
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"report: expected claims and provenance, got: {error!r}") from None


def _read_claim(data: Mapping[str, Any]) -> Claim:
    figure = data["figure"]
    return Claim(
        name=data["name"],
        statement=data["statement"],
        figure=None if figure is None else _read_figure(figure),
        unit=data["unit"],
        evidence=tuple(
            Evidence(proof["file"], proof["rule"], proof["select"], proof["parameters"])
            for proof in data["evidence"]
        ),
        intervention=data["intervention"],
        verdict=data["verdict"],
        details=data["details"],
    )


def _read_figure(data: Mapping[str, float | None]) -> Interval:
    low, high = data["lo"], data["hi"]
    value = data["value"]
    return Interval(
        float("nan") if value is None else float(value),
        float("-inf") if low is None else float(low),
        float("inf") if high is None else float(high),
    )
