"""The report of a gate: claims over its rows, Markdown for a comment, a page, and their hashes."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from assay._native import build_info
from assay.gating.bisection import Bisection
from assay.gating.claims import gate_claims
from assay.gating.servers import Servers
from assay.gating.session import GateSession
from assay.gating.sides import Side
from assay.improve.engines.protocol import EngineDescription
from assay.improve.policy.fingerprint import fingerprint
from assay.report.claim import Provenance
from assay.report.gate_words import KIND
from assay.report.run import portable, record_report
from assay.report.run_files import REPORT_TEXT, RunFiles
from assay.report.writer import writer_digest


def write_gate(
    session: GateSession, base: Side, head: Side, servers: Servers, bisection: Bisection | None
) -> Path:
    """Write report.md, report.html and report.json; the path of the text."""
    files = RunFiles(session.folder.path)
    described = servers.descriptions.get("treatment") or servers.descriptions.get("control")
    prints = {} if described is None else fingerprint(described, session.workload).to_data()
    session.journal.append("fingerprint", **prints)
    claims, gaps = gate_claims(session, base, head, files, bisection)
    notes = _notes(session, servers, described)
    provenance = Provenance(
        run=files.folder.name,
        created_at=time.time(),
        assay_version=build_info()["version"],
        fingerprint=prints,
        journal_head=session.journal.head,
        files=files.evidence_files(),
        degradations=tuple(
            portable(files.folder, () if described is None else described.degradations)
        ),
        details={
            **_details(session, base, head, described, bisection),
            "notes": portable(files.folder, notes),
            "gaps": portable(files.folder, gaps),
        },
    )
    record_report(files, claims, provenance, session.journal)
    return files.path(REPORT_TEXT)


def _details(
    session: GateSession,
    base: Side,
    head: Side,
    described: EngineDescription | None,
    bisection: Bisection | None,
) -> dict[str, Any]:
    result, settings, workload = session.results[0], session.settings, session.workload
    return {
        "kind": KIND,
        "verdict": result.verdict,
        "passed": session.passed(result),
        "reason": result.reason,
        "metric": workload.objective.metric,
        "better": workload.objective.better,
        "threshold": settings.threshold,
        "confidence": 1.0 - settings.alpha,
        "margin": settings.margin,
        "base": {"name": base.short, "subject": base.subject, "command": base.command},
        "head": {"name": head.short, "subject": head.subject, "command": head.command},
        "workload": {"name": workload.name, "description": workload.description},
        "machine": {} if described is None else dict(described.hardware),
        "budget_s": settings.budget_s,
        "seed": settings.seed,
        "bisection": None
        if bisection is None
        else {**bisection.to_data(), "sentence": bisection_sentence(bisection)},
        "writer": writer_digest(),
    }


def _notes(
    session: GateSession, servers: Servers, described: EngineDescription | None
) -> list[str]:
    notes = [*session.workload.notes, *session.results[0].notes]
    if session.noise is not None:
        noise = session.noise
        notes.append(
            f"{noise.statement(session.settings)}; autocorrelation of blocks "
            f"{noise.autocorrelation:+.2f}, drift {noise.drift:+.1%}"
        )
    else:
        notes.append("the base was not measured against itself: intervals rest on the pairs alone")
    starts = [seconds for arm in servers.start_s.values() for seconds in arm]
    if starts:
        notes.append(f"a start took {min(starts):.1f} to {max(starts):.1f} s until it answered")
    return notes


def bisection_sentence(bisection: Bisection) -> str:
    """What a bisection found, in words."""
    skipped = sum(step.half == "skipped" for step in bisection.steps)
    after = f"{len(bisection.steps)} of {bisection.commits} commits compared"
    if skipped:
        after = f"{len(bisection.steps) - skipped} of {bisection.commits} commits compared, {skipped} skipped"
    if bisection.culprit is None:
        first, last = bisection.suspects[0][:12], bisection.suspects[-1][:12]
        return (
            f"bisection: one of {len(bisection.suspects)} commits from {first} to {last} ({after})"
        )
    named = f"{bisection.culprit[:12]} {bisection.subject}".rstrip()
    confirmed = {
        True: "confirmed against its parent",
        False: "but against its parent it goes the other way",
        None: "but the comparison with its parent is undecided",
    }[bisection.confirmed]
    return f"bisection: {named}, {confirmed} ({after})"
