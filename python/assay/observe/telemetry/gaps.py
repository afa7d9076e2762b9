"""What could not be read, listed once with its reason."""

from __future__ import annotations

import threading

from assay.observe.telemetry.sample import Missing


class Gaps:
    """Fields that are missing, in the order in which they were found; safe to share by threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._missing: dict[tuple[str, str, str], Missing] = {}

    def note(self, source: str, device: str, field: str, reason: str) -> None:
        """List a field, unless it is listed already."""
        key = (source, device, field)
        with self._lock:
            if key not in self._missing:
                text = " ".join(reason.split()) or "no reason was given"
                self._missing[key] = Missing(source, device, field, text)

    def listed(self) -> list[Missing]:
        """Everything that is missing."""
        with self._lock:
            return list(self._missing.values())
