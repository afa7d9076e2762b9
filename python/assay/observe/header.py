"""The header of a trace: where it comes from, and how far it can be trusted."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from assay.errors import InputError

FORMAT = 1
"""The version of the stored layout; a reader refuses a later one."""

CASE = "case"
"""The field of the metadata of `assay bench profile` with the work of a call, where all steps are calls
of one case."""

_TEXTS = ("run", "engine", "model")
"""Fields that are a text, or unknown."""


@dataclass(slots=True)
class TraceHeader:
    """What is known of a trace as a whole; what is not known is None or empty."""

    run: str | None = None
    source: str = "assay"
    """What wrote the events: assay, kineto, nsys, rocprofv3, chakra, cupti."""
    engine: str | None = None
    model: str | None = None
    versions: dict[str, str] = field(default_factory=dict)
    hardware: dict[str, Any] = field(default_factory=dict)
    """The fingerprint of the machine, and the devices by number."""
    clock: str = "unknown"
    """The clock of start_ns: realtime, monotonic, boottime, or unknown."""
    processes: dict[str, str] = field(default_factory=dict)
    """Names by pid; keys `pid/tid` name threads and streams."""
    dropped: int = 0
    """Records that were lost before they were written."""
    overhead: dict[str, Any] = field(default_factory=dict)
    """The tracer's own measured overhead, with the command that measured it."""
    repairs: dict[str, int] = field(default_factory=dict)
    """What an importer mended, and how often."""
    degradations: list[str] = field(default_factory=list)
    """What the trace lacks, and why."""
    metadata: dict[str, Any] = field(default_factory=dict)
    """Top-level fields of an imported file that have no place above."""

    def to_json(self) -> str:
        """One JSON object."""
        return json.dumps({"format": FORMAT, **dataclasses.asdict(self)}, indent=2)

    def write(self, path: Path) -> None:
        """Write it to a file."""
        path.write_text(self.to_json(), encoding="utf-8")

    @classmethod
    def from_json(cls, text: str, where: str) -> Self:
        """Read what `to_json` wrote; `where` names the file in errors."""
        try:
            fields = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{where}: expected a JSON object, got: {error}") from error
        if not isinstance(fields, dict) or not isinstance(fields.get("format"), int):
            raise InputError(f"{where}: expected the header of a trace")
        if fields.pop("format") > FORMAT:
            raise InputError(
                f"{where}: expected format {FORMAT} or earlier", "upgrade assay to read it"
            )
        known = {member.name for member in dataclasses.fields(cls)}
        if unknown := sorted(set(fields) - known):
            raise InputError(f'{where}: unknown field "{unknown[0]}" of a trace header')
        header = cls(**fields)
        plain = cls()
        for name in fields:
            kind = str if name in _TEXTS else type(getattr(plain, name))
            value = getattr(header, name)
            if not isinstance(value, kind) and not (value is None and name in _TEXTS):
                raise InputError(
                    f'{where}: expected "{name}" of a trace header as {kind.__name__}, '
                    f"got {type(value).__name__}"
                )
        return header
