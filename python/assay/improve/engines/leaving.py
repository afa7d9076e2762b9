"""A server that ran before the run: how it was started, and what it is left as."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from assay.errors import InputError
from assay.improve.engines.process import ServerRecord, process_environment
from assay.load.workloads.measurement import Setting


@dataclass(slots=True)
class FoundServer:
    """A server as somebody else started it."""

    record: ServerRecord
    """With all of its variables."""
    settings: Mapping[str, Setting]
    touched: set[str] = field(default_factory=set)
    """Knobs that were changed since, whatever they are now."""

    @classmethod
    def of(cls, record: ServerRecord | None, settings: Mapping[str, Setting]) -> FoundServer | None:
        """None for a server of another machine or user, which is never restarted.

        Refused where its variables cannot be read: it could not be started again as it was found.
        """
        if record is None or record.pid is None:
            return None
        environment = process_environment(record.pid)
        if environment is None:
            raise InputError(
                f"process {record.pid}: expected its variables in /proc/{record.pid}/environ, to start "
                "it again as it was found, got none that can be read",
                "run Assay as the user who started it, or stop it: the restart command starts it again",
            )
        return cls(replace(record, environment=environment), dict(settings))

    def is_like(self, settings: Mapping[str, Setting], now: Mapping[str, Setting]) -> bool:
        """Whether settings are those that it was found with.

        A server that a run started may state more of its values than one that was found: a knob that
        nobody changed is what it was, however it reads `now`.
        """
        return all(
            value == self.settings[name]
            or (name not in self.touched and value == now.get(name, value))
            for name, value in settings.items()
            if name in self.settings
        )

    def again(self, wanted: ServerRecord) -> ServerRecord:
        """The command that it was found with, to be watched like another; for a journal.

        Its variables may hold secrets: they are kept in memory only.
        """
        return replace(wanted, argv=self.record.argv, cwd=self.record.cwd, environment={})

    def exactly(self, wanted: ServerRecord) -> ServerRecord:
        """The same with the variables that it was found with, and no others."""
        environment = self.record.environment
        return replace(self.again(wanted), environment=environment, inherits=False)
