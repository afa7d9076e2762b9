"""Server processes: started in a group of their own, found again by pid and start time, stopped whole."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from assay.errors import InputError

GRACE_S: Final = 10.0
"""Seconds between SIGTERM and SIGKILL."""

HEARD: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that a server hears whatever who starts it does with them."""

Process = subprocess.Popen[bytes]
"""A child of this process."""

_POLL_S: Final = 0.02
_PROC: Final = Path("/proc")
_START_TICKS: Final = 19
"""Place of `starttime` in /proc/PID/stat, counted after the command's closing parenthesis."""
_STATE: Final = 0
_CPU_TICKS: Final = slice(11, 15)
"""utime, stime, cutime and cstime."""
_PARENT: Final = 1
_GROUP: Final = 2


@dataclass(frozen=True, slots=True)
class ServerRecord:
    """A server as it was or can be started: all that another process needs to stop or restart it."""

    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables that are set besides the inherited ones."""
    cwd: str = ""
    health_url: str = ""
    start_timeout_s: float = 120.0
    log: str = ""
    pid: int | None = None
    """None before it is started."""
    start_ticks: int | None = None
    """Start time in clock ticks since boot: a later process with the same pid has another."""
    boot_id: str = ""
    inherits: bool = True
    """Whether the variables of the process that starts it are inherited. False only for a server that
    was found, whose own variables are all known; those are never written to a file."""

    def to_data(self) -> dict[str, Any]:
        """The record as JSON data."""
        return {**asdict(self), "argv": list(self.argv)}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> ServerRecord:
        """The record that `to_data` wrote."""
        return cls(**{**data, "argv": tuple(data["argv"])})


def start(record: ServerRecord) -> tuple[ServerRecord, subprocess.Popen[bytes]]:
    """Start a server in a session of its own; its output is appended to the log.

    The session outlives this process: only the loop, its watchdog or the user stop a server.
    """
    log = Path(record.log or os.devnull)
    try:
        if record.log:
            log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output, _hearing():
            process = subprocess.Popen(
                record.argv,
                env=_variables(record),
                cwd=record.cwd or None,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
    except OSError as error:
        raise _cannot_start(record, str(error.strerror)) from None
    return (
        replace(record, pid=process.pid, start_ticks=start_ticks(process.pid), boot_id=_boot_id()),
        process,
    )


@contextmanager
def _hearing() -> Iterator[None]:
    """What is started in the block ignores no signal because this process does for now.

    A handler ends with `exec`, an ignored signal stays so: a server that is brought back by who is
    about to end would not hear its own SIGTERM. Only the main thread may change what signals do.
    """
    ignored = []
    if threading.current_thread() is threading.main_thread():
        ignored = [number for number in HEARD if signal.getsignal(number) is signal.SIG_IGN]
    for number in ignored:
        signal.signal(number, lambda *_: None)
    try:
        yield
    finally:
        for number in ignored:
            signal.signal(number, signal.SIG_IGN)


def check_startable(record: ServerRecord) -> None:
    """Refuse a server whose program or folder is not there, before another is stopped for it."""
    if record.cwd and not os.path.isdir(record.cwd):
        raise _cannot_start(record, f"expected the folder {record.cwd} to start it in, got none")
    program = record.argv[0]
    # As `Popen` looks for it: along the PATH that the server gets, from the folder that it starts in.
    folders = [""] if os.path.dirname(program) else os.get_exec_path(_variables(record))
    places = [os.path.join(record.cwd, folder, program) for folder in folders]
    if not any(os.path.isfile(place) and os.access(place, os.X_OK) for place in places):
        where = program if os.path.dirname(program) else "PATH"
        raise _cannot_start(record, f"expected an executable file at {where}, got none")


def _cannot_start(record: ServerRecord, why: str) -> InputError:
    return InputError(
        f'server command "{record.argv[0]}" cannot be started: {why}',
        "the command is run without a shell; sh -c '...' gives it one",
    )


def _variables(record: ServerRecord) -> dict[str, str]:
    """All variables that a server is started with."""
    return {**(os.environ if record.inherits else {}), **record.environment}


@dataclass(frozen=True, slots=True)
class Output:
    """What a program that ended wrote, to both of its streams."""

    code: int
    text: str


def output_of(argv: Sequence[str], timeout_s: float) -> Output:
    """Run a program to its end."""
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise InputError(f"{argv[0]}: expected an end within {timeout_s:g} s, got none") from None
    except OSError as error:
        raise InputError(f'"{argv[0]}" cannot be started: {error.strerror}') from None
    return Output(done.returncode, done.stdout.decode("utf-8", "replace"))


def is_running(record: ServerRecord) -> bool:
    """Whether the recorded process still runs: same pid, same start, not a zombie."""
    if record.pid is None or record.start_ticks is None or record.boot_id != _boot_id():
        return False
    fields = _stat(record.pid)
    if fields is None or fields[_STATE] in ("Z", "X"):
        return False
    return int(fields[_START_TICKS]) == record.start_ticks


def identify(pid: int, **more: Any) -> ServerRecord | None:
    """The record of a process that runs already; None where there is none."""
    ticks = start_ticks(pid)
    argv = command_line(pid)
    if ticks is None or not argv:
        return None
    return ServerRecord(
        argv, cwd=_link(pid, "cwd"), pid=pid, start_ticks=ticks, boot_id=_boot_id(), **more
    )


def stop(
    record: ServerRecord, grace_s: float = GRACE_S, process: subprocess.Popen[bytes] | None = None
) -> bool:
    """Stop a server and the processes of its group; returns whether SIGKILL was needed.

    A server that we started leads its group, so that workers it left behind are ended too. One that
    somebody else started may share a group with a shell: only it and its descendants are ended.
    `process` is waited for where this process is the parent, so that no zombie is left.
    """
    members = _members(record)
    _signal(members, signal.SIGTERM)
    killed = False
    deadline = time.monotonic() + grace_s
    while members := _alive(members, process):
        if time.monotonic() > deadline:
            if killed:
                # SIGKILL cannot be refused; what is left waits for a device or a disk.
                break
            _signal(members, signal.SIGKILL)
            killed, deadline = True, time.monotonic() + grace_s
        time.sleep(_POLL_S)
        members = {**members, **_members(record)}
    if process is not None:
        process.wait(timeout=grace_s)
    return killed


def _members(record: ServerRecord) -> dict[int, int]:
    """Processes of the server with their start times: its group if it leads one, else descendants."""
    if record.pid is None or record.boot_id != _boot_id():
        return {}
    table = _table()
    leader = table.get(record.pid)
    is_same = leader is not None and int(leader[_START_TICKS]) == record.start_ticks
    if leader is not None and not is_same:
        # Another process has the pid now, and nothing of the server can be told from it.
        return {}
    if leader is None or int(leader[_GROUP]) == record.pid:
        started = record.start_ticks or 0
        members = [
            pid
            for pid, fields in table.items()
            if int(fields[_GROUP]) == record.pid and int(fields[_START_TICKS]) >= started
        ]
    else:
        members = _descendants(record.pid, table)
    return {
        pid: int(table[pid][_START_TICKS])
        for pid in members
        if table[pid][_STATE] not in ("Z", "X") and pid != os.getpid()
    }


def descendants(pid: int) -> list[int]:
    """A process and all that it started, as far as they run."""
    return _descendants(pid, _table())


def cpu_seconds(pid: int) -> float:
    """CPU time of a process and its descendants, ended children included."""
    ticks = 0
    for descendant in descendants(pid):
        if (fields := _stat(descendant)) is not None:
            ticks += sum(int(value) for value in fields[_CPU_TICKS])
    return ticks / os.sysconf("SC_CLK_TCK")


def resident_bytes(pid: int) -> int:
    """Memory that a process and its descendants hold; memory that they share counts for each."""
    pages = 0
    for descendant in descendants(pid):
        try:
            pages += int(Path(f"/proc/{descendant}/statm").read_text().split()[1])
        except (OSError, IndexError, ValueError):
            continue  # It ended meanwhile.
    return pages * os.sysconf("SC_PAGE_SIZE")


def _descendants(pid: int, table: Mapping[int, Sequence[str]]) -> list[int]:
    family, seen = [pid], {pid}
    for parent in family:
        children = [child for child, fields in table.items() if int(fields[_PARENT]) == parent]
        family += [child for child in children if child not in seen]
        seen.update(children)
    return family


def _alive(members: Mapping[int, int], process: subprocess.Popen[bytes] | None) -> dict[int, int]:
    if process is not None:
        process.poll()
    alive = {}
    for pid, ticks in members.items():
        fields = _stat(pid)
        if fields is None or fields[_STATE] in ("Z", "X"):
            continue
        if int(fields[_START_TICKS]) == ticks:
            alive[pid] = ticks
    return alive


def _signal(members: Mapping[int, int], number: signal.Signals) -> None:
    for pid, ticks in members.items():
        if start_ticks(pid) != ticks:
            continue
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue
        except PermissionError:
            raise InputError(
                f"process {pid}: expected a server of this user, got one of another user",
                "run as that user, or give a stop command",
            ) from None


def start_ticks(pid: int) -> int | None:
    """When a process started, in clock ticks since boot; None where there is no such process."""
    fields = _stat(pid)
    return None if fields is None else int(fields[_START_TICKS])


def is_alive(pid: int) -> bool:
    """Whether there is such a process, and it has not ended."""
    fields = _stat(pid)
    return fields is not None and fields[_STATE] not in ("Z", "X")


def command_line(pid: int) -> tuple[str, ...]:
    """The arguments that a process was started with; empty where they cannot be read."""
    try:
        data = (_PROC / str(pid) / "cmdline").read_bytes()
    except OSError:
        return ()
    return tuple(part.decode("utf-8", "surrogateescape") for part in data.split(b"\0")[:-1])


def process_environment(pid: int) -> dict[str, str] | None:
    """The environment that a process was started with; None where it cannot be read."""
    try:
        data = (_PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return None
    pairs = (part.decode("utf-8", "surrogateescape").partition("=") for part in data.split(b"\0"))
    return {name: value for name, is_set, value in pairs if is_set}


def listener(port: int) -> int | None:
    """The process of this user that listens on a TCP port of this machine; None where none does."""
    inodes = set()
    for name in ("tcp", "tcp6"):
        try:
            lines = (_PROC / "net" / name).read_text(encoding="ascii").splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            words = line.split()
            if words[3] == "0A" and int(words[1].rpartition(":")[2], 16) == port:
                inodes.add(f"socket:[{words[9]}]")
    if not inodes:
        return None
    owners = [pid for pid in pids() if inodes & _sockets(pid)]
    # Workers may inherit the socket: the one that started first owns it.
    return min(owners, key=lambda pid: start_ticks(pid) or 0, default=None)


def wait_until(check: Callable[[], bool], timeout_s: float, poll_s: float = 0.05) -> bool:
    """Wait until a check holds; False where it does not in time."""
    deadline = time.monotonic() + timeout_s
    while not check():
        if time.monotonic() > deadline:
            return False
        time.sleep(poll_s)
    return True


def _sockets(pid: int) -> set[str]:
    sockets = set()
    try:
        for path in (_PROC / str(pid) / "fd").iterdir():
            try:
                sockets.add(os.readlink(path))
            except OSError:
                continue
    except OSError:
        # A process of another user, or one that just ended.
        return set()
    return sockets


def _stat(pid: int) -> list[str] | None:
    """Fields of /proc/PID/stat after the command, which may hold spaces and parentheses."""
    try:
        text = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return text.rpartition(")")[2].split()


def _table() -> dict[int, list[str]]:
    """The fields of every process that runs."""
    return {pid: fields for pid in pids() if (fields := _stat(pid)) is not None}


def pids() -> list[int]:
    """Every process of this machine."""
    return [int(name) for name in os.listdir(_PROC) if name.isdecimal()]


def _link(pid: int, name: str) -> str:
    try:
        return os.readlink(_PROC / str(pid) / name)
    except OSError:
        return ""


def _boot_id() -> str:
    try:
        return (_PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""
