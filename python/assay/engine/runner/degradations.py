"""What an engine does less well than configured: listed by `describe`, and logged."""

from __future__ import annotations


class Degradations(list[str]):
    """One line each; each distinct reason is logged once."""

    def __init__(self) -> None:
        """Start empty."""
        super().__init__()
        self._reasons: set[str] = set()

    def note(self, what: str, reason: str) -> None:
        """Record what is degraded, and why."""
        line = f"{what}: {reason}"
        self.append(line)
        if reason not in self._reasons:
            self._reasons.add(reason)
            # Imported here: rarely needed, and slow to import.
            import logging

            logging.getLogger("assay.engine").warning("%s", line)
