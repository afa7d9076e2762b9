"""Constants and settings of serving engines, keyed by the names of the graph's variables.

>>> given("vllm")["serving.memory_share"]
0.9
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from assay.catalog.constants import read_correlations
from assay.errors import unknown_name

DEFAULT_CLIENT = "closed_loop"
_FILE = Path(__file__).parent / "calibration" / "engines.json"


def names() -> list[str]:
    """Engines that have constants."""
    return sorted(_data()["engines"])


def clients() -> list[str]:
    """Names of the known client models: how requests arrive."""
    return sorted(_data()["clients"])


@dataclass(frozen=True)
class EngineConstants:
    """Constants of an engine in base units, with the spread of their logarithms."""

    values: dict[str, float]
    log_standard_errors: dict[str, float]
    correlations: dict[tuple[str, str], float]
    kinds: dict[str, str]


def find(engine: str, client: str = DEFAULT_CLIENT) -> EngineConstants:
    """Constants of an engine and of the client that sends it requests."""
    data = _data()
    if engine not in data["engines"]:
        raise unknown_name("engine", engine, names())
    if client not in data["clients"]:
        raise unknown_name("client", client, clients())
    own = data["engines"][engine]
    entries: dict[str, Any] = {
        **data["common"], **own["constants"], **data["clients"][client],
        **own.get("clients", {}).get(client, {}),
    }  # fmt: skip
    return EngineConstants(
        {name: float(entry["value"]) for name, entry in entries.items()},
        {
            name: float(entry["log_standard_error"])
            for name, entry in entries.items()
            if "log_standard_error" in entry
        },
        read_correlations(own.get("correlations", {}).get(client, ())),
        {name: str(entry["kind"]) for name, entry in entries.items() if "kind" in entry},
    )


def given(engine: str, client: str = DEFAULT_CLIENT) -> dict[str, float]:
    """Values by full name for an engine and the client that sends it requests."""
    return find(engine, client).values


def kernels(engine: str) -> dict[str, Any]:
    """Constants of an engine's own kernels by kind, for engines whose kernels were measured."""
    if engine not in _data()["engines"]:
        raise unknown_name("engine", engine, names())
    found: dict[str, Any] = _data()["engines"][engine].get("kernels", {})
    return found


@cache
def _data() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(_FILE.read_text(encoding="utf-8"))
    return content
