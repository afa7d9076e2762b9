"""Stored runs: all of them in a few lines each, one in full, and two side by side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from assay.answers import Answer
from assay.errors import InputError
from assay.improve.journal import active, journal as journals, run_folder
from assay.improve.journal.journal import JournalError, JournalReading
from assay.improve.journal.resume import elapsed
from assay.improve.journal.run_folder import RunFolder
from assay.improve.journal.undo import TRIAL_OVER, outstanding

_FIGURES: Final = ("baseline", "final", "ratio")


@dataclass(frozen=True)
class StoredRuns(Answer):
    """The stored runs, the latest first: `assay runs list`."""

    path: str
    """Their folder."""
    runs: list[dict[str, Any]]


@dataclass(frozen=True)
class RunDetails(Answer):
    """One run from its journal: `assay runs show`."""

    details: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        """Its summary with fingerprint, configurations, verdicts and degradations."""
        return self.details


@dataclass(frozen=True)
class RunComparison(Answer):
    """Two runs side by side: `assay runs compare`."""

    differences: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        """What they have in common and where they differ."""
        return self.differences


def list_runs() -> StoredRuns:
    """Every stored run in a few lines."""
    runs = [summarize(run) for run in run_folder.stored()]
    return StoredRuns(str(run_folder.runs_folder()), runs)


def show_run(run: str) -> RunDetails:
    """A run by its folder, its id or the start of it, or latest; a damaged journal is a problem."""
    shown = details(run_folder.find(run))
    name = shown["run"]
    problem, notes = None, []
    if shown["status"] == "damaged":
        problem = JournalError(
            f"journal of {name} does not verify: {shown['journal']['status']}",
            "it was edited after it was written",
        )
    if shown["status"] == "interrupted":
        notes.append(
            f"assay run --resume {name} goes on with it, assay rollback {name} "
            "restores the recorded configuration"
        )
    return RunDetails(shown, problem=problem, notes=notes)


def compare_runs(first: str, second: str) -> RunComparison:
    """Two runs side by side; a note says where their figures are not comparable."""
    differences = compare(run_folder.find(first), run_folder.find(second))
    notes = []
    if not differences["same_fingerprint"]:
        notes.append(
            f"the runs differ in {', '.join(differences['fingerprint']) or 'what they recorded'}: "
            "their figures are not comparable"
        )
    return RunComparison(differences, notes=notes)


def summarize(run: RunFolder) -> dict[str, Any]:
    """What a run was about and came to; what its journal does not say is null."""
    return _summary(run, _reading(run))


def _reading(run: RunFolder) -> JournalReading:
    try:
        return journals.read(run.path)
    except InputError as error:
        return JournalReading((), (error.message,), 0, "")


def _summary(run: RunFolder, reading: JournalReading) -> dict[str, Any]:
    started = _data(reading, "started")
    ended = _data(reading, "finished")
    fingerprint = _data(reading, "fingerprint")
    return {
        "run": run.id,
        "path": str(run.path),
        "status": _status(run, reading),
        "started_at": reading.records[0].at if reading.records else None,
        "seconds": round(elapsed(reading), 3),
        "command": started.get("command"),
        "engine": started.get("engine") or fingerprint.get("engine"),
        "model": started.get("model") or fingerprint.get("model"),
        "device": started.get("device") or fingerprint.get("device"),
        "workload": started.get("workload") or fingerprint.get("workload"),
        "verdict": ended.get("verdict"),
        "metric": ended.get("metric"),
        **{name: ended.get(name) for name in _FIGURES},
        "kept": [changes(kept) for kept in ended.get("kept") or []],
        "experiments": len(reading.of("verdict")),
        "blocks": len(reading.of("block")),
        "changes_in_force": len(outstanding(reading.records)),
        "journal": {
            "records": len(reading.records),
            "intact": reading.is_intact,
            "status": reading.status(),
            "head": reading.head,
        },
    }


def details(run: RunFolder) -> dict[str, Any]:
    """A summary with fingerprint, configurations, verdicts and degradations."""
    reading = _reading(run)
    shown = _summary(run, reading)
    safe = [record.data for record in reading.of("safe")]
    shown["fingerprint"] = _data(reading, "fingerprint")
    shown["start"] = safe[0]["settings"] if safe else None
    # A rollback after the end of the run is a configuration recorded as safe.
    shown["settings"] = _data(reading, "finished", "safe").get("settings") or (
        safe[-1]["settings"] if safe else None
    )
    shown["verdicts"] = [
        {
            "experiment": record.data.get("experiment"),
            "verdict": record.data.get("verdict"),
            "ratio": record.data.get("ratio"),
            "reason": record.data.get("reason"),
        }
        for record in reading.of("verdict")
    ]
    shown["rollbacks"] = [
        {"why": record.data.get("why"), "automatic": bool(record.data.get("automatic"))}
        for record in reading.of("reverting")
        if record.data.get("why") != TRIAL_OVER
    ]
    shown["degradations"] = [record.data.get("text") for record in reading.of("degradation")]
    shown["files"] = sorted(
        str(path.relative_to(run.path)) for path in run.path.rglob("*") if path.is_file()
    )
    return shown


def compare(first: RunFolder, second: RunFolder) -> dict[str, Any]:
    """What two runs have in common and where they differ."""
    runs = details(first), details(second)

    def both(name: str) -> list[Any]:
        return [run[name] for run in runs]

    fingerprints = [_flat(fingerprint) for fingerprint in both("fingerprint")]
    metric, other_metric = both("metric")
    return {
        "runs": both("run"),
        "same_fingerprint": bool(fingerprints[0]) and fingerprints[0] == fingerprints[1],
        "fingerprint": _differences(*fingerprints),
        "start": _differences(*both("start")),
        "settings": _differences(*both("settings")),
        "metric": metric if metric == other_metric else None,
        "figures": {name: both(name) for name in _FIGURES},
        **{name: both(name) for name in ("verdict", "kept", "status")},
    }


def changes(kept: Mapping[str, Any]) -> str:
    """The changes of a kept experiment in words.

    >>> changes({"changes": {"threads": 2, "graphs": None}})
    'threads=2, graphs=null'
    """
    words = {True: "true", False: "false", None: "null"}
    values = dict(kept.get("changes") or {})
    return ", ".join(
        f"{name}={words[value] if value is None or isinstance(value, bool) else value}"
        for name, value in values.items()
    )


def _status(run: RunFolder, reading: JournalReading) -> str:
    if any(
        active_run.run.id == run.id and active_run.is_attended
        for active_run in active.active_runs()
    ):
        return "under way"
    if reading.problems:
        return "damaged"
    last = reading.last("finished", "recovered", "resumed")
    if last is None or last.kind == "resumed" or reading.torn_bytes:
        return "interrupted"
    return "finished" if last.kind == "finished" else "rolled back"


def _data(reading: JournalReading, *kinds: str) -> Mapping[str, Any]:
    record = reading.last(*kinds)
    return {} if record is None else record.data


def _flat(data: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in data.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{name}.")
        else:
            flat[f"{prefix}{name}"] = value
    return flat


def _differences(
    left: Mapping[str, Any] | None, right: Mapping[str, Any] | None
) -> dict[str, list[Any]]:
    left, right = left or {}, right or {}
    return {
        name: [left.get(name), right.get(name)]
        for name in dict.fromkeys((*left, *right))
        if left.get(name) != right.get(name)
    }
