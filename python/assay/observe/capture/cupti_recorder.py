"""What other libraries run on NVIDIA GPUs in this process, recorded by CUPTI."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from assay.errors import AssayError

if TYPE_CHECKING:
    from assay._native import CuptiSession


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
