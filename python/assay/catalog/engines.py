"""Constants and settings of serving engines, keyed by the names of the graph's variables.

>>> given("vllm")["serving.memory_share"]
0.9
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from assay.catalog.constants import read_correlations
from assay.errors import unknown_name

DEFAULT_CLIENT = "closed_loop"
_FILE = Path(__file__).parent / "calibration" / "engines.json"


_SPELLINGS = {"tensorrt-llm": "trtllm", "tensorrt_llm": "trtllm", "trt-llm": "trtllm"}


def canonical(name: str) -> str:
    """The name that the catalog has for an engine.

    >>> canonical("TensorRT-LLM")
    'trtllm'
    """
    return _SPELLINGS.get(name.lower(), name)


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


def find(engine: str, client: str = DEFAULT_CLIENT, release: Sequence[int] = ()) -> EngineConstants:
    """Constants of an engine, of the client that sends it requests, and of the release.

    Without a release, features are those of the newest.
    """
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
    features = _features(engine, tuple(release))
    return EngineConstants(
        {name: float(entry["value"]) for name, entry in entries.items()} | features,
        {
            name: float(entry["log_standard_error"])
            for name, entry in entries.items()
            if "log_standard_error" in entry
        },
        read_correlations(own.get("correlations", {}).get(client, ())),
        {name: str(entry["kind"]) for name, entry in entries.items() if "kind" in entry},
    )


def _features(engine: str, release: tuple[int, ...]) -> dict[str, float]:
    """What a release does by default: the newest entry that is not after it."""
    known = _data()["releases"].get(engine, ())
    picked = [entry for entry in known if not release or tuple(entry["since"]) <= release]
    return {name: float(value) for name, value in picked[-1]["values"].items()} if picked else {}


def given(
    engine: str, client: str = DEFAULT_CLIENT, release: Sequence[int] = ()
) -> dict[str, float]:
    """Values by full name for an engine, the client that sends it requests, and its release."""
    return find(engine, client, release).values


def sampler(engine: str, release: Sequence[int], *methods: str) -> dict[str, float]:
    """Constants of the ways in which a release samples tokens: `top-p`, `penalties`.

    Releases whose samplers run on the device without copies and sorts have none.
    """
    entry = _data()["samplers"].get(engine)
    if entry is None or not release or tuple(release) >= tuple(entry["before"]):
        return {}
    return {
        name: float(constant["value"])
        for method in methods
        for name, constant in entry.get(method, {}).items()
    }


@dataclass(frozen=True)
class Frontend:
    """Seconds of the API process of a server for a request, and for each token that it sends."""

    request: float = 0.0
    token: float = 0.0


NO_FRONTEND = Frontend()


def frontend(engine: str) -> Frontend | None:
    """What the API process of an engine takes; None where it was not measured as a limit."""
    entry = _data()["engines"].get(engine, {}).get("frontend")
    return entry and Frontend(*(float(entry[name]["value"]) for name in ("request", "token")))


def kernels(engine: str) -> dict[str, Any]:
    """Constants of an engine's own kernels by kind, for engines whose kernels were measured."""
    if engine not in _data()["engines"]:
        raise unknown_name("engine", engine, names())
    kernels_of_engine: dict[str, Any] = _data()["engines"][engine].get("kernels", {})
    return kernels_of_engine


@cache
def _data() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(_FILE.read_text(encoding="utf-8"))
    return content
