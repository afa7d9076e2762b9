"""Tool calls: the formats of model families, parsed from outputs as they arrive."""

from assay.engine.server.tools.events import CallArguments, CallStart, Content, Event, ToolParser
from assay.engine.server.tools.families import FAMILIES, Family, family_named, recognized

__all__ = [
    "FAMILIES",
    "CallArguments",
    "CallStart",
    "Content",
    "Event",
    "Family",
    "ToolParser",
    "family_named",
    "recognized",
]
