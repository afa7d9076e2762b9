"""The counters of an engine in this process: `Engine.statistics`."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from assay.observe.telemetry.sample import Reading, Value

_FIELDS: Final = {
    "running": "engine_requests_running",
    "waiting": "engine_requests_waiting",
    "preemptions": "engine_preemptions",
    "queried_tokens": "engine_prefix_cache_queries",
    "hit_tokens": "engine_prefix_cache_hits",
    "prompt_tokens": "engine_prompt_tokens",
    "generated_tokens": "engine_generation_tokens",
}


class EngineCounters:
    """Asks an engine between two of its steps; the wait is in the thread of this source."""

    name = "engine"
    least_period_s = 1.0

    def __init__(self, engine: Any) -> None:
        self._statistics: Callable[[], Mapping[str, Any]] = (
            engine.statistics if hasattr(engine, "statistics") else engine
        )
        device = getattr(engine, "device", None)
        self._device = str(getattr(device, "name", None) or "engine")
        self._cpu_s = 0.0

    def read(self, *, fast_only: bool) -> Sequence[Reading]:
        """One reading: our fields, and every count under its own name as a series."""
        begun_s = time.thread_time()
        counts = self._statistics()
        values: dict[str, Value] = {
            field: float(counts[name]) for name, field in _FIELDS.items() if name in counts
        }
        if counts.get("blocks"):
            values["engine_kv_cache_usage"] = counts["used"] / counts["blocks"]
        series = {
            f"assay_engine_{name}": float(value)
            for name, value in counts.items()
            if isinstance(value, (int, float))
        }
        self._cpu_s += time.thread_time() - begun_s
        return [Reading(self.name, self._device, 0, "assay engine", values, series=series)]

    def costs(self) -> Mapping[str, float]:
        """CPU seconds of asking."""
        return {"statistics": self._cpu_s}

    def close(self) -> None:
        """Nothing is held."""
