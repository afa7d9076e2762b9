"""`assay.capture`: record what runs in this process, and store it as a trace."""

from __future__ import annotations

import itertools
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from assay.engine.runner import recording
from assay.errors import AssayError, InputError
from assay.observe.capture import writing
from assay.observe.capture.engine_recorder import EngineRecorder
from assay.observe.header import TraceHeader

if TYPE_CHECKING:
    import polars as pl

    from assay._native import CuptiSession, WorkTrace
    from assay.engine import Engine
    from assay.observe.trace import Trace
    from assay.runtime import Device


class CuptiRecorder:
    """One session of CUPTI; where there can be none, the reason."""

    def __init__(self) -> None:
        """Not started."""
        self._session: CuptiSession | None = None
        self._notes: list[str] = []

    def start(self) -> None:
        """Begin to record."""
        from assay._native import CuptiSession
        from assay.runtime import cuda

        try:
            self._session = CuptiSession(folders=cuda.library_folders())
        except AssayError as error:
            self._notes.append(f"work of other libraries is not recorded: {error.message}")

    def stop(self) -> dict[str, Any]:
        """End; returns tables on the monotonic clock, notes, and how many records were lost."""
        session, self._session = self._session, None
        if session is None:
            return {"others": [], "notes": self._notes, "dropped": 0}
        table = session.stop()
        if session.clock == "realtime":
            table = table.shifted(time.monotonic_ns() - time.time_ns())
        notes = [*self._notes, *session.degradations]
        return {"others": [table], "notes": notes, "dropped": session.dropped}


MAX_LAUNCHES: Final = 1 << 22
"""Launches that are kept of each device unless told otherwise; those beyond are counted."""
SECTIONS_PER_LAUNCH: Final = 0.125

_lock: Final = threading.Lock()


class Capture:
    """A capture under way, and afterwards the trace that it stored.

    Reading the tables needs Polars (extra `loop`); capturing does not.
    """

    def __init__(
        self, path: str | Path, *, max_launches: int = MAX_LAUNCHES, cupti: bool = False
    ) -> None:
        """Store at `path`, which must not exist; see `capture`."""
        if isinstance(max_launches, bool) or max_launches < 1:
            raise InputError(f"capture: expected max_launches of at least 1, got {max_launches!r}")
        self.path: Final = Path(path)
        if self.path.exists():
            raise InputError(f"{self.path}: exists already", "name another folder, or remove it")
        self.header: TraceHeader | None = None
        """The header of the stored trace; None before the end."""
        self.launches: dict[int, int] = {}
        """Launches of each step that were recorded, by the number of the step."""
        self._max_launches = max_launches
        self._numbers = itertools.count()
        self._engines: list[EngineRecorder] = []
        self._devices: dict[Device, bool] = {}
        """Devices that are traced; False where the device has no tracer."""
        self._cupti: CuptiRecorder | None = CuptiRecorder() if cupti else None
        self._trace: Trace | None = None

    def start(self) -> None:
        """Begin: every engine of the process is recorded from its next step on."""
        with _lock:
            if recording.active is not None:
                raise InputError(
                    "capture: expected one capture at a time in a process, got a second",
                    "end the first one",
                )
            recording.set_active(self)
        if self._cupti is not None:
            self._cupti.start()

    def stop(self, failure: BaseException | None = None) -> None:
        """End, and store the trace; `failure` is what ended it early."""
        with _lock:
            if recording.active is not self:
                raise InputError("capture: expected a capture under way, got one that has ended")
            recording.set_active(None)
        works: dict[Device, WorkTrace] = {}
        try:
            for recorder in self._engines:
                recorder.engine.release_recorder()
        finally:
            for device, is_traced in self._devices.items():
                if is_traced:
                    works[device] = device.stop_trace()
        self.header, self.launches = writing.store(
            self.path,
            self._engines,
            works,
            untraced=[device.name for device, traced in self._devices.items() if not traced],
            failure=failure,
            **(self._cupti.stop() if self._cupti is not None else {}),
        )

    def attach(self, engine: Engine) -> EngineRecorder:
        """Begin to record an engine, which is between two steps; the engine calls it."""
        device = engine.device
        with _lock:
            if device not in self._devices:
                self._devices[device] = device.start_trace(self._max_launches)
            capacity = max(int(self._max_launches * SECTIONS_PER_LAUNCH), 1)
            recorder = EngineRecorder(engine, capacity, self._numbers.__next__)
            self._engines.append(recorder)
        return recorder

    @property
    def trace(self) -> Trace:
        """The stored trace, read when it is first asked for."""
        if self._trace is None:
            from assay.observe.trace import Trace

            if self.header is None:
                raise InputError(
                    f"{self.path}: expected a capture that has ended, got one under way",
                    "read it after the `with` block",
                )
            self._trace = Trace.open(self.path)
        return self._trace

    @property
    def events(self) -> pl.DataFrame:
        """The events of the stored trace."""
        return self.trace.events

    @property
    def steps(self) -> pl.DataFrame:
        """The steps of the stored trace."""
        return self.trace.steps

    def __enter__(self) -> Capture:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop(error)

    def __repr__(self) -> str:
        return f"Capture({str(self.path)!r})"


def capture(path: str | Path, *, max_launches: int = MAX_LAUNCHES, cupti: bool = False) -> Capture:
    """Record every engine of this process inside the `with` block, and store the trace at `path`.

    `path` becomes a folder of `header.json`, `events.shard` and `steps.json`. `max_launches` is how
    many launches are kept of each device; those beyond are counted as dropped. With `cupti` what
    other libraries run on NVIDIA GPUs in this process is recorded too, at a higher overhead; where
    CUPTI cannot be used the header says why. An exception inside the block ends the trace there; it
    is stored, and says so.

    >>> import assay, tempfile
    >>> with assay.Engine.load("synthetic") as engine, tempfile.TemporaryDirectory() as folder:
    ...     with assay.capture(f"{folder}/trace") as capture:
    ...         answer = engine.generate("Once", assay.SamplingParams(max_tokens=3))
    ...     capture.header.source
    'assay'
    """
    return Capture(path, max_launches=max_launches, cupti=cupti)
