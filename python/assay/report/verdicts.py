"""Whether the verdict of a claim is the one that its rows and the journal give."""

from __future__ import annotations

from assay.improve.experiments.verdict import decide
from assay.improve.loop.options import RunOptions
from assay.report.claim import Claim, Evidence
from assay.report.derivations import CHANGED, derive
from assay.report.run_files import JOURNAL, RunFiles


def verdict_problem(files: RunFiles, claim: Claim, threshold: float) -> str:
    """What is wrong with a verdict; empty where it holds."""
    if not claim.verdict:
        return ""
    if claim.details.get("role") == "kept" and claim.verdict != "improved":
        return f"kept although its verdict is {claim.verdict}"
    gates = all(gate["passed"] for gate in claim.details.get("gates", ()))
    if claim.verdict == "improved" and not gates:
        return "improved is claimed, and a gate did not pass"
    is_promoted = claim.details.get("role") == "confirmation" and claim.verdict == "improved"
    if is_promoted and (problem := _promotion_problem(files, claim)):
        return problem
    # Gates and failures decide whatever the ratio says; the journal has them.
    if claim.verdict != "invalid" and gates:
        if claim.figure is None:
            is_open = claim.verdict == "undecided"
            return "" if is_open else f"{claim.verdict} is claimed without a ratio"
        verdict = decide(claim.figure, threshold).verdict
        if verdict != claim.verdict:
            return f"{claim.verdict} is claimed, the ratio gives {verdict}"
    return _recorded(files, claim)


def _promotion_problem(files: RunFiles, claim: Claim) -> str:
    """Whether too many answers may be wrong for what the run asked; empty where not.

    Runs of builds that did not compare answers have no such option.
    """
    started = [
        record["data"].get("options") or {}
        for record in files.journal
        if record["kind"] in ("started", "resumed")
    ]
    if not started or "max_changed" not in started[-1]:
        return ""
    asked = {name: started[-1][name] for name in ("production", "max_changed")}
    options = RunOptions(**asked)
    name = str(claim.details.get("experiment"))
    rate = derive(
        files,
        Evidence(JOURNAL, CHANGED, {"experiment": name}, {"confidence": options.answer_confidence}),
    )
    if rate.hi > options.most_changed:
        return f"up to {rate.hi:.4f} of answers may be wrong, {options.most_changed:.4f} allowed"
    return ""


def changes_problem(files: RunFiles, claim: Claim) -> str:
    """Whether a claim is about the changes that the journal's experiment made; empty where it is."""
    changes = claim.details.get("changes")
    if not changes:
        return ""
    name = claim.details.get("trial") or claim.details.get("experiment")
    for record in files.journal:
        if record["kind"] == "experiment" and record["data"].get("name") == name:
            made = (record["data"].get("candidate") or {}).get("changes")
            return "" if made == changes else f"{name} changed {made}, not {changes}"
    return f"expected the experiment {name} in the journal, got none"


def _recorded(files: RunFiles, claim: Claim) -> str:
    """The journal's verdict on the same experiment, written when it ended."""
    name = claim.details.get("experiment")
    records = [
        record["data"]
        for record in files.journal
        if record["kind"] in ("verdict", "noise") and record["data"].get("experiment") == name
    ]
    if not records:
        if any(proof.rule == "verdict" for proof in claim.evidence):
            return f"expected a verdict of {name} in the journal, got none"
        return ""
    last = records[-1]
    if last.get("verdict") != claim.verdict:
        return f"the journal's verdict is {last.get('verdict')}, the claim's {claim.verdict}"
    for key in ("reason", "failure"):
        if key in last and (last[key] or "") != (claim.details.get(key) or ""):
            return f"the journal gives another {key}: {last[key]}"
    return ""
