"""What an engine does less well than it was asked to: kept for `describe`, and logged."""

from __future__ import annotations


class Degradations(list[str]):
    """One line each; those with one reason are logged once."""

    def __init__(self) -> None:
        """None so far."""
        super().__init__()
        self._reasons: set[str] = set()

    def note(self, what: str, reason: str) -> None:
        """Remember what is done less well, and why."""
        line = f"{what}: {reason}"
        self.append(line)
        if reason not in self._reasons:
            self._reasons.add(reason)
            # Imported here, since it is seldom needed and takes its time.
            import logging

            logging.getLogger("assay.engine").warning("%s", line)
