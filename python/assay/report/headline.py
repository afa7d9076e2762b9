"""What a report says first: the result in a line, what it was measured on, and the verdict in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from assay.intervals import Interval
from assay.report import words
from assay.report.claim import Claim, Evidence, Provenance
from assay.report.gate_words import gate_headline, gate_summary, is_gate
from assay.report.grouping import by_role, named

_VERDICTS: Final[Mapping[str, str]] = {
    "nothing to gain": "nothing to gain: no candidate was proven better than the start",
    "undecided": "undecided: the budget ended before the intervals did",
    "diagnosed only": "diagnosed only: no experiment was made",
    "rolled back": "rolled back: the engine runs as it was found",
    "engine lost": "the engine was lost",
}


def headline(claims: Sequence[Claim], provenance: Provenance) -> str:
    """The result in one line."""
    if is_gate(provenance):
        return sentence(gate_headline(claims, provenance))
    verdict = str(provenance.details.get("verdict") or "")
    metric = words.metric_name(str(provenance.details.get("metric") or ""))
    ratio = named(claims).get("final.ratio")
    if verdict == "improved" and ratio is not None:
        return f"{sentence(metric)} {words.shown(ratio.figure, ratio.unit, 'the start')}"
    if verdict:
        return sentence(_VERDICTS.get(verdict, verdict))
    return f"Report of {provenance.run}"


def ran_on(provenance: Provenance) -> str:
    """Model, engine, hardware and workload in one line."""
    fingerprint = provenance.fingerprint
    workload = provenance.details.get("workload") or {}
    parts = [
        str(fingerprint.get("model") or ""),
        " ".join(str(fingerprint[key]) for key in ("engine", "release") if fingerprint.get(key)),
        _machine(provenance.details.get("machine") or {}) or str(fingerprint.get("device") or ""),
        f"workload {workload['name']}" if workload.get("name") else "",
    ]
    return ", ".join(part for part in parts if part)


def _machine(machine: Mapping[str, Any]) -> str:
    """A GPU by its name, else the processor and its cores."""
    device, processor = machine.get("device_description"), machine.get("processor")
    cores = machine.get("usable_cores")
    if str(machine.get("device") or "cpu").startswith("cpu") or not device:
        return f"{processor}, {cores} cores" if processor and cores else str(processor or "")
    return str(device)


def summary(claims: Sequence[Claim], provenance: Provenance) -> Iterator[str]:
    """A few sentences: start and end, target, what was kept, what is left."""
    if is_gate(provenance):
        yield from map(sentence, gate_summary(claims, provenance))
        return
    known = named(claims)
    for name in ("start.level", "start.own_unit", "final.level", "final.own_unit"):
        if name in known:
            yield f"{sentence(known[name].statement)}."
    yield from outcomes(claims, provenance)


def outcomes(claims: Sequence[Claim], provenance: Provenance) -> Iterator[str]:
    """The target, what was kept, what is undecided, what failed."""
    if is_gate(provenance):
        yield from map(sentence, gate_summary(claims, provenance))
        return
    details = provenance.details
    if details.get("target") is not None:
        yield f"Target +{100 * float(details['target']):g} %: {target_text(provenance)}."
    kept = [str(claim.details["candidate"]) for claim in by_role(claims, "kept")]
    yield f"Kept: {'; '.join(kept) or 'nothing'}."
    undecided = [str(claim.details["candidate"]) for claim in by_role(claims, "undecided")]
    if undecided:
        yield f"Undecided, and therefore not kept: {'; '.join(undecided)}."
    failed = [
        claim for claim in by_role(claims, "rejected", "not kept") if claim.details["failure"]
    ]
    if failed:
        listed = "; ".join(
            f"{claim.details['candidate']} ({claim.details['failure']})" for claim in failed
        )
        yield f"Failed trials: {listed}."
    if provenance.degradations:
        yield f"Degradations: {len(provenance.degradations)}, listed below."


def target_text(provenance: Provenance) -> str:
    """Whether the target was met."""
    met = provenance.details.get("target_met")
    return "not decided" if met is None else "met" if met else "not met"


def outcome_of(claim: Claim) -> str:
    """What became of a trial: how it failed, that it was kept, or its verdict."""
    if claim.details.get("failure"):
        return str(claim.details["failure"])
    return "kept" if claim.details.get("role") == "kept" else claim.verdict


def forecast_text(details: Mapping[str, Any]) -> str:
    """The forecast of a trial, or why there is none."""
    forecast = details["forecast"]
    if forecast is None:
        return f"none ({details['predicted_by'] or 'nothing predicts it'})"
    return f"{words.shown(Interval(**forecast), words.RATIO)}, by {details['predicted_by']}"


def evidence_text(evidence: Evidence) -> str:
    """Rows and rule in one line."""
    chosen = ", ".join(f"{name} {value}" for name, value in evidence.select.items())
    return f"{evidence.file}: {evidence.rule}{f' ({chosen})' if chosen else ''}"


def sentence(text: str) -> str:
    """A text that begins with a capital letter."""
    return text[:1].upper() + text[1:]
