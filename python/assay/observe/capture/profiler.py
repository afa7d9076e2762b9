"""Traces of a server, begun and ended by its clients."""

from __future__ import annotations

import itertools
import threading
from pathlib import Path

from assay.errors import InputError
from assay.observe.capture.session import Capture


class TraceProfiler:
    """Stores traces in a folder, one for each pair of `start` and `stop`."""

    def __init__(self, folder: Path) -> None:
        """Store in this folder, which is created with the first trace."""
        self._folder = folder
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._capture: Capture | None = None

    def start(self) -> str:
        """Begin a trace; returns where it will be stored."""
        with self._lock:
            if self._capture is not None:
                raise InputError(
                    "start_profile: expected no trace under way, got one", "stop it first"
                )
            capture = Capture(self._new_path())
            capture.start()
            self._capture = capture
            return str(capture.path)

    def stop(self) -> str:
        """End the trace and store it; returns where."""
        with self._lock:
            if self._capture is None:
                raise InputError("stop_profile: expected a trace under way, got none")
            capture, self._capture = self._capture, None
            capture.stop()
            return str(capture.path)

    def _new_path(self) -> Path:
        paths = (self._folder / f"trace-{number}" for number in self._numbers)
        return next(path for path in paths if not path.exists())
