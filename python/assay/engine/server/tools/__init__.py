"""Tool calls: the formats of model families, parsed from outputs as they arrive."""

from assay.engine.server.tools.events import (
    CallArguments as CallArguments,
    CallStart as CallStart,
    Content as Content,
    Event as Event,
    ToolParser as ToolParser,
)
from assay.engine.server.tools.families import (
    FAMILIES as FAMILIES,
    HARMONY as HARMONY,
    Family as Family,
    family_named as family_named,
    recognized as recognized,
)
