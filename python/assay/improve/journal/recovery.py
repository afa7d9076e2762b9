"""Brings the engine of a run to the safe state from what the journal says, without its controller."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import urlsplit

from assay.errors import AssayError, InputError
from assay.http_client import FAILURES, answered, is_success, read_address
from assay.improve.engines import process as processes
from assay.improve.engines.process import ServerRecord
from assay.improve.journal import active, block_table, journal as journals
from assay.improve.journal.journal import Journal, JournalError, JournalReading
from assay.improve.journal.journaled_engine import RUN_VARIABLE, RollbackError, write_configuration
from assay.improve.journal.run_folder import RunFolder
from assay.improve.journal.undo import outstanding
from assay.load.workloads.measurement import Setting

LOCK_WAIT_S: Final = 30.0
"""How long the journal of a process that just died may stay locked."""
ANSWER_S: Final = 5.0
"""How long a healthy server may take to say so."""


@dataclass(frozen=True, slots=True)
class Recovery:
    """What was done to come to the safe state."""

    run: RunFolder
    action: str
    """nothing, restarted, kept, left, stopped or stored."""
    sentence: str
    """For people: what was found and done."""
    settings: Mapping[str, Setting] | None
    """The configuration that the engine has now or at its next start; None where that is unknown."""
    problems: tuple[str, ...] = ()
    """What could not be done or recorded."""


def recover(
    run: RunFolder,
    by: str,
    why: str,
    *,
    to_start: bool = False,
    progress: Callable[[str], None] = lambda text: None,
) -> Recovery:
    """Restore the configuration recorded as safe; nothing that was measured is lost.

    `to_start` goes back to the first configuration recorded, which undoes a run that has ended.
    The engine comes first: where the journal is damaged or the disk full, it is restored all the
    same, and `problems` says what was not recorded. A server that could not be started again is left
    as it runs; with `to_start`, which somebody asked for, that raises `RollbackError`.
    """
    problems: list[str] = []
    journal = _opened(run, problems)
    try:
        reading = journals.read(run.path)
        safe = _safe(reading, first=to_start)
        if safe is None:
            done = _stop_all(run, reading, journal, problems, by, why)
        elif (nothing := _nothing_to_do(run, reading, safe, to_start=to_start)) is not None:
            done = nothing
        elif (left := _left(run, reading, safe)) is not None:
            mended = f"once that is mended: assay rollback {run.id}"
            if to_start:
                raise RollbackError(left.sentence, mended)
            done = left
            problems.append(mended)
            _append(journal, problems, "degradation", text=left.sentence)
        else:
            numbers = [change.number for change in reversed(outstanding(reading.records))]
            _append(journal, problems, "reverting", changes=numbers, why=why, to=safe["hash"])
            done = _restore(run, reading, safe, journal, problems, progress)
            # A server that is stopped has no configuration.
            now = None if done.action == "stopped" else safe["hash"]
            _append(journal, problems, "reverted", changes=numbers, hash=now)
            if to_start:
                # From now on this is the configuration to come back to.
                _append(journal, problems, "safe", **{**safe, "why": "rolled back"})
            _store(run, safe["settings"], problems)
            _append(journal, problems, "recovered", by=by, why=why, action=done.action)
        if len(journals.read(run.path).records) > len(reading.records):
            _rebuild(run, problems)
    finally:
        if journal is not None:
            journal.close()
    active.unmark(run)
    return replace(done, problems=tuple(problems))


def _stop_all(
    run: RunFolder,
    reading: JournalReading,
    journal: Journal | None,
    problems: list[str],
    by: str,
    why: str,
) -> Recovery:
    """End servers of a run that died before it had recorded a configuration to come back to."""
    users = {
        record.data["server"]["pid"]
        for record in reading.of("engine")
        if record.data.get("found") is True
    }
    servers = [server for server in running_servers(run, reading) if server.pid not in users]
    for server in servers:
        processes.stop(server)
    action = "stopped" if servers else "nothing"
    _append(journal, problems, "recovered", by=by, why=why, action=action)
    text = "the server that the run had started is stopped" if servers else "no change was made"
    return Recovery(run, action, f"{run.id}: {text}", None)


def _nothing_to_do(
    run: RunFolder, reading: JournalReading, safe: Mapping[str, Any], *, to_start: bool
) -> Recovery | None:
    settings = safe["settings"]
    if reading.records[-1].kind == "recovered" and not to_start:
        return Recovery(run, "nothing", f"{run.id}: the safe state was restored before", settings)
    if outstanding(reading.records):
        return None
    latest = _safe(reading, first=False)
    if to_start and latest is not None and latest["hash"] == safe["hash"]:
        return Recovery(
            run, "nothing", f"{run.id}: nothing was kept that could be undone", settings
        )
    if not to_start and reading.is_finished:
        return Recovery(run, "nothing", f"{run.id}: the run had ended", settings)
    return None


def _safe(reading: JournalReading, *, first: bool) -> Mapping[str, Any] | None:
    records = reading.of("safe")
    if not records:
        return None
    return (records[0] if first else records[-1]).data


def _left(run: RunFolder, reading: JournalReading, safe: Mapping[str, Any]) -> Recovery | None:
    """A server that runs on with other settings, for the recorded one cannot be started in its place.

    None where it can, or where nothing is to be replaced.
    """
    if safe.get("server") is None or safe["on_death"] == "stop":
        return None
    wanted = ServerRecord.from_data(safe["server"])
    try:
        _check_startable(wanted)
    except InputError as error:
        servers = running_servers(run, reading, wanted)
        if not servers or _is_kept(reading, safe, wanted, servers):
            return None
        pids = ", ".join(str(server.pid) for server in servers)
        text = f"{run.id}: the server is left as it runs (process {pids}): {error.message}"
        return Recovery(run, "left", text, None)
    return None


def _check_startable(wanted: ServerRecord) -> None:
    """Refuse a server that nothing would run after another was stopped for it."""
    processes.check_startable(wanted)
    port = _local_port(wanted.health_url)
    # Only processes of this user are known by their ports, and only those are stopped. In this order a
    # server that begins to listen meanwhile is not taken for another's.
    if port is not None and _answers(wanted) and processes.listener(port) is None:
        raise InputError(
            f"port {port}: expected none or a process of this user to listen, got one of another user"
        )


def _is_kept(
    reading: JournalReading,
    safe: Mapping[str, Any],
    wanted: ServerRecord,
    servers: Sequence[ServerRecord],
) -> bool:
    """Whether the recorded configuration serves: nothing is changed then."""
    is_changed = bool(outstanding(reading.records)) or safe is not _safe(reading, first=False)
    return (
        safe["on_death"] == "restart" and not is_changed and len(servers) == 1 and _answers(wanted)
    )


def _restore(
    run: RunFolder,
    reading: JournalReading,
    safe: Mapping[str, Any],
    journal: Journal | None,
    problems: list[str],
    progress: Callable[[str], None],
) -> Recovery:
    settings = safe["settings"]
    if safe.get("server") is None:
        text = f"{run.id}: the engine ended with its process; the stored configuration is the recorded one"
        return Recovery(run, "stored", text, settings)
    wanted = ServerRecord.from_data(safe["server"])
    servers = running_servers(run, reading, wanted)
    if _is_kept(reading, safe, wanted, servers):
        text = (
            f"{run.id}: the server still runs the recorded configuration (process {servers[0].pid})"
        )
        return Recovery(run, "kept", text, settings)
    if not servers and reading.is_finished:
        text = f"{run.id}: the server does not run; its command is {shlex.join(wanted.argv)}"
        return Recovery(run, "stopped", text, settings)
    for server in servers:
        progress(f"stopping process {server.pid}")
        processes.stop(server)
    if safe["on_death"] == "stop":
        text = f"{run.id}: the server that the run had started is stopped"
        return Recovery(run, "stopped", text, settings)
    progress(f"starting the server with the recorded configuration: {' '.join(wanted.argv)}")
    started = _start(wanted, problems)
    if started is not None:
        _append(journal, problems, "engine", server=started.to_data())
        if _is_healthy(started):
            text = f"{run.id}: the server runs the recorded configuration (process {started.pid})"
            return Recovery(run, "restarted", text, settings)
        processes.stop(started)
        problems.append(
            f"the server did not answer within {wanted.start_timeout_s:g} s; its log is {wanted.log}"
        )
    text = f"{run.id}: the server did not start with the recorded configuration and is stopped"
    return Recovery(run, "stopped", text, settings)


def running_servers(
    run: RunFolder, reading: JournalReading, wanted: ServerRecord | None = None
) -> list[ServerRecord]:
    """Servers of a run that still run: recorded ones, those that carry its id, and on its port."""
    recorded = [
        ServerRecord.from_data(record.data["server"])
        for record in reading.of("engine")
        if record.data.get("server")
    ]
    running = {server.pid: server for server in recorded if processes.is_running(server)}
    # Started, but the controller died before it could record it; or started by the user.
    others = [
        pid
        for pid in processes.pids()
        if (processes.process_environment(pid) or {}).get(RUN_VARIABLE) == run.id
    ]
    if wanted is not None and (port := _local_port(wanted.health_url)) is not None:
        others.append(processes.listener(port) or 0)
    for pid in others:
        identified = None if pid in (0, os.getpid()) else processes.identify(pid)
        if identified is not None and pid not in running and processes.is_running(identified):
            running[pid] = identified
    return list(running.values())


def _local_port(url: str) -> int | None:
    parts = urlsplit(url)
    if parts.hostname not in ("127.0.0.1", "localhost", "::1", "0.0.0.0"):
        return None
    return parts.port


def _start(wanted: ServerRecord, problems: list[str]) -> ServerRecord | None:
    try:
        return processes.start(wanted)[0]
    except InputError as error:
        problems.append(error.message)
    if not wanted.log:
        return None
    try:
        # A full disk must not keep the server from starting.
        return processes.start(replace(wanted, log=""))[0]
    except InputError:
        return None


def _is_healthy(server: ServerRecord) -> bool:
    def check() -> bool:
        return _answers(server) or not processes.is_running(server)

    processes.wait_until(check, server.start_timeout_s)
    return processes.is_running(server) and _answers(server)


def _answers(server: ServerRecord) -> bool:
    if not server.health_url:
        return True
    try:
        address = read_address(server.health_url, InputError("the server's address is no URL"))
        with answered(address, "GET", address.target, timeout_s=ANSWER_S) as answer:
            return is_success(answer)
    except (*FAILURES, InputError):
        return False


def _opened(run: RunFolder, problems: list[str]) -> Journal | None:
    """The journal for writing; None where it is damaged, which is a problem and no obstacle."""
    deadline = time.monotonic() + LOCK_WAIT_S
    while True:
        try:
            return Journal.open(run.path)
        except JournalError as error:
            if "another process" not in error.message or time.monotonic() > deadline:
                problems.append(error.message)
                return None
            time.sleep(0.05)


def _append(journal: Journal | None, problems: list[str], kind: str, **data: Any) -> None:
    if journal is None:
        return
    try:
        journal.append(kind, **data)
    except JournalError as error:
        problems.append(error.message)


def _store(run: RunFolder, settings: Mapping[str, Setting], problems: list[str]) -> None:
    try:
        write_configuration(run, settings, "recorded as safe")
    except OSError as error:
        problems.append(f"{run.configuration} cannot be written: {error.strerror}")


def _rebuild(run: RunFolder, problems: list[str]) -> None:
    try:
        block_table.rebuild(run)
    except (OSError, AssayError) as error:
        problems.append(f"{run.experiments} cannot be written: {error}")
