"""A slice of a live server, recorded by the server's own profiler.

vLLM and SGLang have `/start_profile` and `/stop_profile`; both write PyTorch profiler traces into a
folder of theirs. vLLM counts its steps in `/metrics`; SGLang takes the number of steps itself. Assay's own
server has the same paths, and says where its trace is.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from assay.errors import InputError
from assay.http_client import ServerError
from assay.observe.telemetry.sources import exposition
from assay.openai_api.address import ServerAddress
from assay.openai_api.exchange import exchange

if TYPE_CHECKING:
    from assay.observe.trace import Trace

STEP_COUNTS: Final = {"vllm": "vllm:iteration_tokens_total_count"}
"""The metric that counts the steps of a server's engine."""

_HINTS: Final = {
    "vllm": 'start vLLM with --profiler-config \'{"profiler": "torch", "torch_profiler_dir": '
    "FOLDER}' (before 0.13: VLLM_TORCH_PROFILER_DIR=FOLDER)",
    "sglang": "start SGLang with SGLANG_TORCH_PROFILER_DIR=FOLDER",
    "assay": "start assay serve with --trace FOLDER",
}
_POLL_S: Final = 0.05
_SETTLE_S: Final = 0.5
"""A file that did not grow for so long is complete."""


@dataclass(frozen=True, slots=True)
class Slice:
    """What to record: steps, or a time."""

    delay_steps: int = 0
    steps: int | None = None
    delay_s: float = 0.0
    duration_s: float | None = None


@dataclass(slots=True)
class Recorded:
    """What came of it."""

    server: str
    """vllm, sglang, assay, or unknown."""
    steps: int | None = None
    """Steps between start and stop, where the server counts them."""
    files: list[str] = field(default_factory=list)
    trace: Trace | None = None
    notes: list[str] = field(default_factory=list)


def record(
    url: str,
    wanted: Slice,
    trace_folder: Path | None,
    timeout_s: float,
    *,
    progress: Callable[[str], None] = lambda text: None,
) -> Recorded:
    """Record a slice and import the trace that the server wrote, where this machine can read it."""
    # No key is sent: the profiler is beside the interface that one protects.
    address = ServerAddress(url, sends_key=False)
    client = _Client(address, time.monotonic() + timeout_s + (wanted.duration_s or 0.0))
    recorded = Recorded(client.kind())
    _check(wanted, recorded.server, client)
    before = _files(trace_folder)
    time.sleep(wanted.delay_s)
    if wanted.delay_steps:
        client.await_steps(wanted.delay_steps, progress)
    if recorded.server == "sglang" and wanted.steps is not None:
        body: dict[str, Any] = {"num_steps": wanted.steps}
        if trace_folder is not None:
            body["output_dir"] = str(trace_folder.resolve())
        client.profile("/start_profile", recorded.server, body)
        # It stops by itself.
        recorded.steps = wanted.steps
        return _collect(recorded, trace_folder, before, client.deadline, progress)
    client.profile("/start_profile", recorded.server)
    first = client.steps()
    try:
        if wanted.steps is not None:
            progress(f"recording {wanted.steps} steps")
            client.await_steps(wanted.steps, progress, first)
        else:
            time.sleep(wanted.duration_s or 0.0)
        last = client.steps()
    finally:
        # A server must not be left profiling, whatever happens here.
        said = client.profile("/stop_profile", recorded.server)
    if first is not None and last is not None:
        recorded.steps = last - first
    if recorded.server == "assay":
        return _own(recorded, said)
    return _collect(recorded, trace_folder, before, client.deadline, progress)


def _check(wanted: Slice, server: str, client: _Client) -> None:
    """Refuse what the server cannot do, before it is disturbed."""
    if server == "sglang" and wanted.delay_steps:
        raise InputError(
            "--delay-steps: SGLang does not tell its steps", "give --delay-s SECONDS instead"
        )
    counts = wanted.delay_steps or (wanted.steps is not None and server != "sglang")
    if counts and client.steps() is None:
        names = ", ".join(STEP_COUNTS.values())
        raise InputError(
            f"--steps: {client.url}/metrics does not count steps, expected {names}",
            "give --duration-s SECONDS instead",
        )


class _Client:
    """A server's own profiler over HTTP."""

    def __init__(self, address: ServerAddress, deadline: float) -> None:
        self._address, self.url = address, address.url
        self.deadline = deadline

    def kind(self) -> str:
        """What server it is, by the names of its metrics; Assay's has vLLM's beside its own."""
        if self._is_own():
            return "assay"
        text = self._metrics()
        if text is None:
            # An unreachable server is an error; one without metrics is not.
            self._request("/health")
            return "unknown"
        return next((name for name in ("vllm", "sglang") if f"{name}:" in text), "unknown")

    def _is_own(self) -> bool:
        """Whether the server states settings as `assay serve` does."""
        try:
            stated = json.loads(self._request("/server_info") or "null")
        except ValueError:
            return False
        return isinstance(stated, dict) and {"release", "settings", "synthetic"} <= stated.keys()

    def steps(self) -> int | None:
        """Steps of the engine so far; None where the server does not count them."""
        text = self._metrics()
        if text is None:
            return None
        for name in STEP_COUNTS.values():
            if values := _values(text, name):
                return int(sum(values))
        return None

    def await_steps(
        self, wanted: int, progress: Callable[[str], None], first: int | None = None
    ) -> None:
        """Wait until the engine has made so many steps, from now on or since `first`."""
        first = self.steps() if first is None else first
        while True:
            now = self.steps()
            if now is None or first is None:
                raise ServerError(f"{self.url}/metrics: expected the count of steps, got none")
            if now - first >= wanted:
                return
            if time.monotonic() > self.deadline:
                raise ServerError(
                    f"{self.url}: expected {wanted} steps in time, got {now - first}",
                    "a server without requests makes no steps; send some, or raise --timeout-s",
                )
            progress(f"{now - first} of {wanted} steps")
            time.sleep(_POLL_S)

    def profile(self, path: str, server: str, body: dict[str, Any] | None = None) -> str:
        """Start or stop the profiler; what it answers."""
        answer = self._request(path, body or {})
        if answer is None:
            raise ServerError(
                f"{self.url}{path}: expected the server's profiler, got no such path",
                _HINTS.get(
                    server,
                    "the server has no profiler of its own; start it with "
                    "assay trace attach -- COMMAND",
                ),
            )
        return answer

    def _metrics(self) -> str | None:
        return self._request("/metrics")

    def _request(self, path: str, body: dict[str, Any] | None = None) -> str | None:
        """The answer's text; None where the server knows no such path. A body makes it a POST."""
        try:
            return exchange(self._address, path, body).decode("utf-8", "replace")
        except ServerError as error:
            if error.status in (404, 405):
                return None
            raise


def _values(text: str, name: str) -> list[float]:
    """Samples of a metric in the Prometheus text format, whatever their labels."""
    series = exposition.Parser().parse(text).series
    return [value for key, value in series.items() if exposition.split(key)[0] == name]


def _files(folder: Path | None) -> dict[Path, int]:
    """Trace files of a folder, and when they were written."""
    if folder is None:
        return {}
    if not folder.is_dir():
        raise InputError(f"--trace-folder {folder}: expected a folder, got none")
    paths = [path for path in folder.rglob("*") if path.name.endswith((".json", ".json.gz"))]
    return {path: path.stat().st_mtime_ns for path in paths if path.is_file()}


def _collect(
    recorded: Recorded,
    folder: Path | None,
    before: dict[Path, int],
    deadline: float,
    progress: Callable[[str], None],
) -> Recorded:
    """Import the files that the server wrote since, one of each rank."""
    if folder is None:
        recorded.notes.append(
            "the server wrote its trace into a folder of its own; copy it here and "
            "assay trace import it, or name the folder with --trace-folder"
        )
        return recorded
    progress("waiting for the server's trace")
    sizes: dict[Path, int] = {}
    while True:
        new = {path for path, time_ns in _files(folder).items() if before.get(path) != time_ns}
        now = {path: path.stat().st_size for path in new}
        if now and now == sizes:
            break
        if time.monotonic() > deadline:
            recorded.notes.append(f"the server wrote no trace into {folder} in time")
            return recorded
        sizes = now
        time.sleep(_SETTLE_S)
    recorded.files = [str(path) for path in sorted(now)]
    recorded.trace = _import([Path(name) for name in recorded.files])
    return recorded


def _own(recorded: Recorded, said: str) -> Recorded:
    """The trace that `assay serve` wrote, where it says."""
    try:
        path = Path(str(json.loads(said)["trace"]))
    except (ValueError, KeyError, TypeError):
        recorded.notes.append(f"expected the folder of the trace, got {said[:80]!r}")
        return recorded
    if not path.is_dir():
        recorded.notes.append(f"the server wrote its trace to {path}, which is not on this machine")
        return recorded
    recorded.files = [str(path)]
    recorded.trace = _import([path])
    return recorded


def _import(paths: list[Path]) -> Trace:
    """The files as one trace."""
    from assay.observe.importers import ranks
    from assay.observe.importers.detect import open_trace

    traces = [open_trace(path) for path in paths]
    if len(traces) == 1:
        return traces[0]
    return ranks.merge(traces, [path.name for path in paths])
