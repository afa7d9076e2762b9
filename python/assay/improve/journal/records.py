"""The kinds of journal records, and what each holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

KINDS: Final[Mapping[str, str]] = {
    "started": "a run began: command, budget, target, Assay's version, engine, workload, seed",
    "fingerprint": "model, hardware, engine release and workload shape",
    "phase": "a phase began: its name and its share of the budget in seconds",
    "engine": "a server process: pid, start time, how to start it again and how to stop it",
    "safe": "the configuration that the engine is brought back to: settings and their hash",
    "baseline": "figures of the starting configuration",
    "noise": "the A/A noise floor",
    "plan": "the prediction: floor, expected step time and the files that hold them",
    "candidates": "what will be tried in which order, and what was skipped and why",
    "ranking": "the candidates that are left, ranked again on top of what was kept",
    "intend": "a change will be made: the changes, their inverse and both configuration hashes",
    "applied": "a change was made: the configuration hash that was read back",
    "failed": "a change was not made or not read back: the reason",
    "reverting": "changes will be undone: their numbers, latest first, and why",
    "reverted": "changes were undone: the configuration hash that was read back",
    "block": "one measured block: a row of experiments.parquet",
    "experiment": "an experiment began: name, candidate, correctness class",
    "verdict": "an experiment ended: verdict, ratio, reason, gates",
    "kept": "a change stays: it is part of the stack of later experiments",
    "equivalence": "the metric after a rollback beside the baseline: TOST and its verdict",
    "replica": "a replica of a fleet: its address, the run of its agent on its node, what it is",
    "stage": "a window of a fleet: which replicas had the change, and what each measured",
    "watch": "a window of the guard after promotion: the ratio to the start, and what it says",
    "degradation": "something was missing or done in another way; it is shown in the report",
    "torn": "an unfinished write was cut off when the journal was opened again",
    "recovered": "the safe state was restored after a fault: by whom, and how",
    "resumed": "the run goes on in a new process",
    "report": "a report was written: SHA-256 of each of its files",
    "redacted": "names and prompts were taken out of this copy: head and SHA-256 of the originals",
    "finished": "the run ended: verdict, final settings and their hash",
}
"""Every kind of record and what it holds; a journal takes no other."""

SAFETY_KINDS: Final = frozenset(
    {"failed", "reverting", "reverted", "degradation", "torn", "recovered", "finished"}
)
"""Records of going back: for these a full disk gives up the journal's reserve."""
