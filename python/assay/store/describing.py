"""What a folder or file is to a store: its kind, its name, its files, and what it is found by."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from assay import paths
from assay.errors import AssayError, InputError
from assay.files import read_json
from assay.improve.journal import journal as journals, run_folder
from assay.improve.journal.chain import Record
from assay.improve.journal.journal import JournalReading
from assay.observe import store as traces
from assay.observe.header import TraceHeader
from assay.observe.telemetry.sinks import parquet as telemetry
from assay.report.run_files import REPORT_DATA, REPORTS
from assay.report.verify import verify
from assay.store.manifest import TAXONOMY, is_name
from assay.store.run_contents import strays_of

_NOT_IN_NAME: Final = re.compile(r"[^A-Za-z0-9._-]+")
_WANTED: Final = (
    "a run, a trace, a recording of telemetry, a result of assay bench or a calibration"
)


@dataclass(frozen=True, slots=True)
class Item:
    """Something to push."""

    kind: str
    name: str
    created_at: float
    files: Mapping[str, Path]
    """Where the files of the item are, by their names in it."""
    taxonomy: Mapping[str, str] = field(default_factory=dict)
    is_file: bool = False
    outcome: Mapping[str, Any] | None = None
    """What a run came to."""
    redaction: Mapping[str, Any] | None = None
    unverified: str | None = None
    """Why a run does not verify; None of what does, and of what has no claims to verify."""
    strays: Mapping[str, Path] = field(default_factory=dict)
    """Files in the folder of a run that are not the run's, and not among `files`."""

    def with_strays(self) -> Item:
        """The item with all files of its folder."""
        return replace(
            self, files=dict(sorted((*self.files.items(), *self.strays.items()))), strays={}
        )


def item_of(path: Path) -> Item:
    """What a folder or file is."""
    if path.is_dir():
        return _folder(path.resolve())
    if path.is_file():
        return _file(path)
    raise InputError(f"{path}: expected {_WANTED}, got nothing there")


def find_item(text: str) -> Item:
    """An item by its path, or a run, trace or recording of the scratch folder by its name."""
    path = Path(text).expanduser()
    if path.exists():
        return item_of(path)
    for folder in (traces.folder(), telemetry.folder()):
        if text and "/" not in text and (folder / text).is_dir():
            return item_of(folder / text)
    if "/" in text:
        raise InputError(f"{text}: expected {_WANTED}, got nothing there")
    return item_of(run_folder.find(text).path)


def stored_items() -> Iterator[Item]:
    """Everything of the scratch folder that a store takes, runs first."""
    for run in run_folder.stored():
        yield item_of(run.path)
    for trace in traces.stored():
        yield item_of(trace.path)
    if telemetry.folder().is_dir():
        for path in sorted(telemetry.folder().iterdir()):
            if (path / telemetry.HEADER).is_file():
                yield item_of(path)
    for path in sorted(paths.cache("calibration").glob("*.json")):
        yield item_of(path)


def _folder(path: Path) -> Item:
    if (path / journals.NAME).is_file():
        return _run(path)
    if (path / traces.HEADER).is_file():
        return _trace_or_telemetry(path)
    raise InputError(
        f"{path}: expected {_WANTED}, got a folder without {journals.NAME} and {traces.HEADER}"
    )


def _run(path: Path) -> Item:
    reading = journals.read(path)
    if not reading.records:
        raise InputError(f"run {path.name}: expected a journal, got: {reading.status()}")
    started, fingerprint = reading.last("started"), reading.last("fingerprint")
    said = {} if started is None else started.data
    seen = {} if fingerprint is None else fingerprint.data
    workload = said.get("workload") or seen.get("workload")
    report = _report(path)
    copied = reading.last("redacted")
    files = _files(path)
    strays = strays_of(files, reading)
    return Item(
        "run",
        _name(_run_id(report) or path.name),
        reading.records[0].at,
        {name: file for name, file in files.items() if name not in strays},
        _taxonomy(
            model=said.get("model") or seen.get("model"),
            engine=said.get("engine") or seen.get("engine"),
            accelerator=_machine(report) or said.get("device") or seen.get("device"),
            workload=workload if isinstance(workload, str) else None,
        ),
        outcome=_outcome(reading.last("finished")),
        redaction=None if copied is None else copied.data,
        unverified=_problem(path, reading),
        strays=strays,
    )


def _problem(path: Path, reading: JournalReading) -> str | None:
    """Why a run does not verify; of one that was cut short before its report, what its journal lacks."""
    is_reported = any((path / name).is_file() for name in REPORTS)
    is_fleet = reading.last("replica") is not None and reading.last("finished") is not None
    if not is_reported and not is_fleet and reading.last("report") is None:
        return "; ".join(reading.problems) or None
    failures = verify(path).failures
    return f"{failures[0].name}: {failures[0].statement}" if failures else None


def _outcome(finished: Record | None) -> Mapping[str, Any] | None:
    """Verdict and ratio of a run that has ended; a ratio of which nothing is known is none."""
    if finished is None or not isinstance(finished.data.get("verdict"), str):
        return None
    ratio = finished.data.get("ratio")
    if isinstance(ratio, dict):
        known = {name: ratio.get(name) for name in ("value", "lo", "hi")}
        if all(isinstance(each, (int, float)) and math.isfinite(each) for each in known.values()):
            ratio = known
        else:
            ratio = None
    return {
        "verdict": finished.data["verdict"],
        "metric": str(finished.data.get("metric") or ""),
        "ratio": ratio if isinstance(ratio, dict) else None,
    }


def _report(path: Path) -> Any:
    """What the report of a run says as data; None of a run without one, which is stored all the same."""
    try:
        return read_json("report", path / REPORT_DATA)
    except AssayError:
        return None


def _run_id(report: Any) -> str | None:
    """The id of a run, whatever its folder is called now: another name would be another item."""
    try:
        own = report["provenance"]["run"]
    except (KeyError, TypeError):
        return None
    return own if isinstance(own, str) and is_name(own) else None


def _machine(report: Any) -> Any:
    """The device that the report of a run names."""
    try:
        return report["provenance"]["details"]["machine"]["device_description"]
    except (KeyError, TypeError):
        return None


def _trace_or_telemetry(path: Path) -> Item:
    name, files = _name(path.name), _files(path)
    made_at = (path / traces.HEADER).stat().st_mtime
    data = read_json("header", path / traces.HEADER)
    if not isinstance(data, dict):
        raise InputError(f"{path / traces.HEADER}: expected an object")
    if "rate_hz" in data:
        described = _taxonomy(workload=data.get("workload"), accelerator=_devices(data))
        return Item("telemetry", name, made_at, files, described)
    header = TraceHeader.from_json(
        (path / traces.HEADER).read_text(encoding="utf-8"), str(path / traces.HEADER)
    )
    described = _taxonomy(
        model=header.model,
        engine=header.engine,
        accelerator=header.hardware.get("device_description"),
    )
    return Item("trace", name, made_at, files, described)


def _devices(header: Mapping[str, Any]) -> Any:
    devices = header.get("devices")
    names = [device.get("name") for device in devices or () if isinstance(device, dict)]
    return next((name for name in names if name), None)


def _file(path: Path) -> Item:
    try:
        data = read_json("item", path)
    except InputError as error:
        raise InputError(
            f"{path}: expected {_WANTED}, got: {error.message}",
            "runs, traces and recordings are folders, results and calibrations JSON files",
        ) from None
    files, made_at = {path.name: path}, path.stat().st_mtime
    machine = data.get("machine") if isinstance(data, dict) else None
    if isinstance(machine, dict):
        described = _taxonomy(accelerator=machine.get("device_description"))
        if str(data.get("schema", "")).startswith("assay.bench/"):
            described |= _taxonomy(workload=data.get("suite"))
            begun_at = _seconds(data.get("started"), made_at)
            return Item("result", _name(path.name), begun_at, files, described, is_file=True)
        if "ceilings" in data:
            made_at = _seconds(data.get("date"), made_at)
            return Item("calibration", _name(path.name), made_at, files, described, is_file=True)
    raise InputError(f"{path}: expected {_WANTED}, got another JSON file")


def _seconds(text: Any, otherwise: float) -> float:
    try:
        return datetime.fromisoformat(str(text)).timestamp()
    except ValueError:
        return otherwise


def _files(folder: Path) -> dict[str, Path]:
    """Every file of a folder but locks and unfinished writes, which begin with a dot."""
    files = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        hidden = any(part.startswith(".") for part in name.parts)
        if path.is_file() and not path.is_symlink() and not hidden:
            files[name.as_posix()] = path
    return files


def _taxonomy(**values: Any) -> dict[str, str]:
    return {name: str(values[name]) for name in TAXONOMY if values.get(name)}


def _name(text: str) -> str:
    return _NOT_IN_NAME.sub("-", text).lstrip(".-")[:128] or "unnamed"
