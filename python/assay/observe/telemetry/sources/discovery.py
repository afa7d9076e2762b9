"""Finds the sources that this machine has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from assay.observe.telemetry.gaps import Gaps
from assay.observe.telemetry.sources.amd import Amd
from assay.observe.telemetry.sources.endpoint import Endpoint, bearer_token, find_endpoints
from assay.observe.telemetry.sources.engine import EngineCounters
from assay.observe.telemetry.sources.host import Host
from assay.observe.telemetry.sources.nvidia import Nvidia
from assay.observe.telemetry.sources.source import Source


def find_sources(
    gaps: Gaps, *, endpoints: Sequence[str] | None = None, engine: Any = None
) -> list[Source]:
    """Every source that is there; why another one is not is listed in `gaps`.

    `endpoints` are URLs; None looks for servers on this machine.
    """
    if endpoints is None:
        servers = find_endpoints(gaps)
    else:
        token = bearer_token()
        servers = [
            Endpoint(url, gaps, index=index, token=token) for index, url in enumerate(endpoints)
        ]
    sources: list[Source | None] = [Nvidia.find(gaps), Amd.find(gaps), Host.find(gaps), *servers]
    if engine is not None:
        sources.append(EngineCounters(engine))
    return [source for source in sources if source is not None]
