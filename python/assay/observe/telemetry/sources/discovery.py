"""Finds the sources that this machine has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from assay.observe.telemetry.gaps import Gaps
from assay.observe.telemetry.sources.host import Host
from assay.observe.telemetry.sources.nvidia import Nvidia
from assay.observe.telemetry.sources.source import Source


def find_sources(
    gaps: Gaps, *, endpoints: Sequence[str] | None = None, engine: Any = None
) -> list[Source]:
    """Every source that is there; why another one is not is listed in `gaps`."""
    del endpoints, engine
    found: list[Source | None] = [Nvidia.find(gaps), Host.find(gaps)]
    return [source for source in found if source is not None]
