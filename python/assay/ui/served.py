"""What the servers of this machine do now, beside the floor of the model that each serves.

A server is asked once what it serves and on which device; the planner then gives the floor of a
decode step of as many sequences as run. What cannot be known is said in words.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from assay.catalog import accelerators
from assay.diagnose.live.expectation import Expectation
from assay.errors import AssayError
from assay.observe.telemetry.sample import Reading
from assay.openai_api.address import ServerAddress
from assay.openai_api.answers import MODELS, served_model
from assay.openai_api.exchange import exchange_json
from assay.planner import HardwareSpec, hardware_spec, model_spec
from assay.ui.api.reports import alone

ENDPOINT: Final = "endpoint"
_ENGINES: Final = {"vLLM": "vllm", "assay": "assay"}
"""Engines whose steps can be predicted, by the kind of server."""
_AVERAGED: Final = 5
"""Samples over which requests and tokens are averaged: a gauge and a counter differ in time."""
_ASK_SECONDS: Final = 5.0
_NEAR: Final = 1.25
"""Contexts are rounded down to powers of this, so that few steps are predicted."""
_GPUS: Final = ("nvidia", "amd")
_ASK_AGAIN_SECONDS: Final = 30.0
"""After this time a server without a floor is asked again: it may have been loading."""


@dataclass(slots=True)
class _Server:
    """One server: what it serves, and its last figures."""

    model: str | None = None
    device: str | None = None
    expectation: Expectation | None = None
    gap: str | None = None
    """Why there is no floor."""
    asked_s: float = field(default_factory=time.monotonic)
    running: deque[float] = field(default_factory=lambda: deque(maxlen=_AVERAGED))
    rates: deque[float] = field(default_factory=lambda: deque(maxlen=_AVERAGED))

    @property
    def is_to_be_asked_again(self) -> bool:
        """Whether the reason for having no floor may have passed."""
        return self.expectation is None and time.monotonic() - self.asked_s > _ASK_AGAIN_SECONDS


class ServedModels:
    """Compares what servers do with their floor; `compare` may block and belongs in a thread."""

    def __init__(self) -> None:
        self._servers: dict[str, _Server] = {}

    def compare(self, latest: Sequence[tuple[Reading, Mapping[str, Any]]]) -> list[dict[str, Any]]:
        """One entry for each server that answers."""
        gpus = [reading.name for reading, _ in latest if reading.source in _GPUS]
        entries = []
        for reading, values in latest:
            if reading.source != ENDPOINT:
                continue
            if values.get("endpoint_up") != 1:
                # What comes back may serve another model.
                self._servers.pop(reading.device, None)
                continue
            server = self._servers.get(reading.device)
            if server is None or server.is_to_be_asked_again:
                server = self._servers[reading.device] = _ask(reading, gpus)
            entries.append(_entry(reading, values, server))
        return entries


class _Said(NamedTuple):
    """What `assay serve` says of itself under /server_info."""

    weights: str | None = None
    weight_format: str | None = None
    device: str | None = None
    kv_format: str = "bf16"

    @classmethod
    def read(cls, data: Any) -> Self:
        """Texts of an answer; what is not one is left out."""
        facts = data if isinstance(data, dict) else {}
        settings = facts.get("settings")
        kv_format = settings.get("kv_format") if isinstance(settings, dict) else None
        weights = _text(facts.get("weights"))
        # Only files and folders are opened: a server may name anything.
        if weights is not None and not (Path(weights).is_file() or Path(weights).is_dir()):
            weights = None
        return cls(
            weights,
            _text(facts.get("weight_format")),
            _text(facts.get("device")),
            _text(kv_format) or "bf16",
        )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _ask(reading: Reading, gpus: Sequence[str]) -> _Server:
    """What a server says of itself, and the expectation that follows."""
    server = _Server()
    engine = _ENGINES.get(reading.name)
    try:
        url = reading.device.removesuffix("/metrics")
        address = ServerAddress(url, "endpoint", sends_key=False)
        served = served_model(address.url, exchange_json(address, MODELS, timeout_s=_ASK_SECONDS))
        server.model = served.name
        if engine is None:
            server.gap = f"no floor: steps of {reading.name} are not predicted"
            return server
        said = _Said()
        if engine == "assay":
            said = _Said.read(exchange_json(address, "/server_info", timeout_s=_ASK_SECONDS))
        server.device = said.device or (gpus[0] if gpus else None)
        with alone():
            model = model_spec(said.weights or served.root)
            hardware = _hardware(said.device, gpus)
            server.expectation = Expectation.of(
                model, hardware, engine, dtype=said.weight_format, kv_dtype=said.kv_format
            )
    except AssayError as error:
        # A server that is not what it says, an unknown model, a machine that was never calibrated.
        server.gap = f"no floor: {error.message}" + (f"; {error.hint}" if error.hint else "")
    return server


def _hardware(device: str | None, gpus: Sequence[str]) -> HardwareSpec:
    """The server's device: as this machine was calibrated, else its GPU in the catalog."""
    if device is None or device.startswith("cuda"):
        try:
            return hardware_spec(device or "cuda:0")
        except AssayError:
            if not gpus:
                raise
            return hardware_spec(accelerators.find(gpus[0]).name)
    return hardware_spec(device)


def _entry(reading: Reading, values: Mapping[str, Any], server: _Server) -> dict[str, Any]:
    running = float(values.get("engine_requests_running") or 0.0)
    rate = values.get("tokens_per_second")
    server.running.append(running)
    if isinstance(rate, int | float):
        server.rates.append(float(rate))
    mean = sum(server.running) / len(server.running)
    sequences = max(1, round(mean))
    context = _context(values)
    entry: dict[str, Any] = {
        "url": reading.device.removesuffix("/metrics"),
        "server": reading.name,
        "model": server.model,
        "device": server.device,
        "requests": mean,
        "sequences": sequences,
        "context": context,
        "tokens_per_second": sum(server.rates) / len(server.rates) if server.rates else None,
        "step_seconds": values.get("itl_mean"),
        "floor": None,
        "gap": server.gap,
    }
    if server.expectation is not None:
        rounded = 1 if context is None else _rounded(context)
        with alone():
            step = server.expectation.step(sequences, rounded)
        if step is None:
            entry["gap"] = "; ".join(server.expectation.failures())
        else:
            entry["floor"] = _floor(step, sequences, rounded)
    return entry


def _context(values: Mapping[str, Any]) -> float | None:
    """The mean length of a request halfway through its answer; None before any has finished."""
    counters = ("engine_requests_finished", "engine_prompt_tokens", "engine_generation_tokens")
    finished, prompt, made = (values.get(name) for name in counters)
    if not finished or prompt is None or made is None:
        return None
    return float((prompt + made / 2) / finished)


def _rounded(context: float) -> int:
    """Rounded down: a shorter context never has a longer floor."""
    if context < 1:
        return 1
    return int(_NEAR ** math.floor(math.log(context, _NEAR) + 1e-9))


def _floor(step: Mapping[str, float], sequences: int, context: int) -> dict[str, Any]:
    """The step as times and as the tokens a second that it allows."""
    rate = 1e9 * sequences
    return {
        "context": context,
        "step_ns": step["floor_ns"],
        "expected_ns": step["expected"],
        "lo_ns": step["lo"],
        "hi_ns": step["hi"],
        "tokens_per_second": rate / step["floor_ns"] if step["floor_ns"] else None,
        "expected_tokens_per_second": rate / step["expected"],
    }
