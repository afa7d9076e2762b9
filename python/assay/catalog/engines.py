"""Constants and settings of serving engines, keyed by the names of the graph's variables.

>>> given("vllm")["serving.memory_share"]
0.9
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from assay.errors import unknown_name

_FILE = Path(__file__).parent / "calibration" / "engines.json"


def names() -> list[str]:
    """Engines that have constants."""
    return sorted(_data()["engines"])


def clients() -> list[str]:
    """Names of the known client models: how requests arrive."""
    return sorted(_data()["clients"])


def given(engine: str, client: str = "closed_loop") -> dict[str, float]:
    """Values by full name for an engine and the client that sends it requests."""
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
    return {name: float(entry["value"]) for name, entry in entries.items()}


def interval90(quantity: str) -> float:
    """90th percentile of the absolute log error on held-out figures of a quantity."""
    found = _data()["intervals"].get(quantity)
    if found is None:
        raise unknown_name("quantity", quantity, sorted(_data()["intervals"]))
    return float(found["value"])


@cache
def _data() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(_FILE.read_text(encoding="utf-8"))
    return content
