"""What `assay telemetry watch` shows: a panel a device, with a spark line a field."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from assay.observe.telemetry import throttle
from assay.observe.telemetry.sample import Reading, Sample

BARS: Final = "\u2581\u2582\u2583\u2584\u2585\u2586\u2587\u2588"
PLAIN_BARS: Final = "_.-=+*%#"
"""Levels of a spark line where the terminal has ASCII only."""


def spark(values: Sequence[float | None], top: float | None, bars: str = BARS) -> str:
    """A spark line; a gap where there is no value.

    >>> spark([0.0, 0.5, None, 1.0], 1.0, PLAIN_BARS)
    '_+ #'
    """
    known = [value for value in values if value is not None and math.isfinite(value)]
    if not known:
        return ""
    highest = top if top else max(known)
    drawn = []
    for value in values:
        if value is None or not math.isfinite(value):
            drawn.append(" ")
            continue
        share = 0.0 if highest <= 0 else min(max(value / highest, 0.0), 1.0)
        drawn.append(bars[min(int(share * len(bars)), len(bars) - 1)])
    return "".join(drawn)


@dataclass(frozen=True, slots=True)
class Row:
    """A line of a panel."""

    label: str
    text: str
    history: tuple[float | None, ...] = ()
    top: float | None = None
    """The value that fills a spark line; None for the highest shown."""
    is_bad: bool = False


@dataclass(frozen=True, slots=True)
class Panel:
    """What is shown of one device."""

    title: str
    rows: tuple[Row, ...]


@dataclass(slots=True)
class _Device:
    """The last values of one device, and those of the fields that have a spark line."""

    sample: Sample
    values: dict[str, Any] = field(default_factory=dict)
    processes: list[dict[str, Any]] = field(default_factory=list)
    history: dict[str, deque[float | None]] = field(default_factory=dict)
    last_counters: dict[str, tuple[float, float]] = field(default_factory=dict)


class TelemetryView:
    """Collects samples; `panels` is what to draw now."""

    def __init__(self, width: int = 40) -> None:
        self._width = width
        self._devices: dict[tuple[str, int, str], _Device] = {}

    def add(self, samples: Sequence[Sample]) -> None:
        """Take in new samples."""
        for sample in samples:
            reading = sample.reading
            key = (reading.source, reading.index, reading.device)
            device = self._devices.setdefault(key, _Device(sample))
            device.sample = sample
            self._add_rates(device, sample)
            device.values.update(reading.values)
            if reading.processes is not None:
                device.processes = reading.processes
            for name in _DRAWN:
                value = device.values.get(name) if name in _RATES else reading.values.get(name)
                past = device.history.setdefault(name, deque(maxlen=self._width))
                past.append(float(value) if isinstance(value, (int, float)) else None)

    def latest(self) -> list[tuple[Reading, Mapping[str, Any]]]:
        """The last reading of each device, and its values with rates of counters."""
        return [(device.sample.reading, device.values) for device in self._devices.values()]

    def panels(self) -> list[Panel]:
        """A panel a device, GPUs first."""
        order = {"nvidia": 0, "amd": 0, "engine": 1, "endpoint": 1, "host": 2}
        keys = sorted(self._devices, key=lambda key: (order.get(key[0], 3), *key))
        return [_panel(self._devices[key]) for key in keys]

    def _add_rates(self, device: _Device, sample: Sample) -> None:
        """Differences of counters, per second."""
        now_s = sample.monotonic_ns / 1e9
        for name, (counter, other) in _RATES.items():
            value = sample.reading.values.get(counter)
            divisor = now_s if other is None else sample.reading.values.get(other)
            if not isinstance(value, (int, float)) or not isinstance(divisor, (int, float)):
                continue
            last = device.last_counters.get(name)
            device.last_counters[name] = (float(value), float(divisor))
            if last is None or divisor <= last[1] or value < last[0]:
                device.values.pop(name, None)
            else:
                device.values[name] = (value - last[0]) / (divisor - last[1])


_RATES: Final[dict[str, tuple[str, str | None]]] = {
    "tokens_per_second": ("engine_generation_tokens", None),
    "ttft_mean": ("engine_ttft_seconds_sum", "engine_ttft_seconds_count"),
    "itl_mean": ("engine_itl_seconds_sum", "engine_itl_seconds_count"),
    "throttled_share": ("cgroup_throttled_seconds", None),
    "package_watts": ("host_package_energy_joules", None),
}
"""What is shown of counters: the counter over time, or over another counter."""

_DRAWN: Final = (
    "gpu_utilization",
    "gpu_sm_active",
    "gpu_tensor_active",
    "gpu_dram_active",
    "gpu_memory_used_bytes",
    "gpu_power_watts",
    "gpu_sm_clock_hz",
    "gpu_temperature_celsius",
    "host_cpu_utilization",
    "host_cpu_busiest",
    "host_memory_used_bytes",
    "host_pressure_cpu",
    "engine_requests_running",
    "engine_requests_waiting",
    "engine_kv_cache_usage",
    "tokens_per_second",
)
"""Fields with a spark line."""


def _panel(device: _Device) -> Panel:
    reading = device.sample.reading
    if reading.source in ("nvidia", "amd"):
        title = f"GPU {reading.index}: {reading.name}"
        rows = _gpu_rows(device)
    elif reading.source == "host":
        title, rows = f"host {reading.device}", _host_rows(device)
    else:
        title, rows = f"{reading.name}: {reading.device}", _engine_rows(device)
    phase = f" ({device.sample.phase})" if device.sample.phase else ""
    return Panel(title + phase, tuple(rows))


class _Rows:
    """Builds the rows of a device; what it does not have is left out."""

    def __init__(self, device: _Device) -> None:
        self.values = device.values
        self.drawn: list[Row] = []
        self._history = device.history

    def add(
        self,
        label: str,
        name: str,
        text: Callable[[float], str],
        top: float | None = None,
        is_bad: Callable[[float], bool] = lambda value: False,
    ) -> None:
        """A row of one field."""
        value = self.values.get(name)
        if value is None:
            return
        past = tuple(self._history.get(name, ()))
        self.drawn.append(Row(label, text(value), past, top, is_bad(value)))


def _gpu_rows(device: _Device) -> list[Row]:
    values, rows = device.values, _Rows(device)
    rows.add("busy", "gpu_utilization", _percent, 1.0)
    rows.add("SMs", "gpu_sm_active", _percent, 1.0)
    rows.add("tensor cores", "gpu_tensor_active", _percent, 1.0)
    traffic = values.get("gpu_dram_bytes_per_second")
    rows.add(
        "DRAM",
        "gpu_dram_active",
        lambda share: _percent(share) + (f", {traffic / 1e12:.2f} TB/s" if traffic else ""),
        1.0,
    )
    total = values.get("gpu_memory_total_bytes")
    rows.add("memory", "gpu_memory_used_bytes", lambda used: _of(used, total, 1e9, "GB"), total)
    limit = values.get("gpu_power_limit_watts")
    rows.add("power", "gpu_power_watts", lambda watts: _of(watts, limit, 1.0, "W", 0), limit)
    highest = values.get("gpu_sm_clock_max_hz")
    rows.add("SM clock", "gpu_sm_clock_hz", lambda hz: _of(hz, highest, 1e6, "MHz", 0), highest)
    slowdown = values.get("gpu_slowdown_temperature_celsius")
    memory = values.get("gpu_memory_temperature_celsius")
    rows.add(
        "temperature",
        "gpu_temperature_celsius",
        lambda degrees: (
            _of(degrees, slowdown, 1.0, "C", 0)
            + (f", memory {memory:.0f} C" if memory is not None else "")
        ),
        slowdown,
    )
    mask = values.get("gpu_throttle")
    if mask is not None:
        reasons = ", ".join(throttle.words(mask)) or "nothing"
        rows.drawn.append(Row("clocks held by", reasons, is_bad=throttle.is_limited(mask)))
    for label, kind in (("PCIe", "pcie"), ("NVLink", "nvlink")):
        receive = values.get(f"gpu_{kind}_receive_bytes_per_second")
        transmit = values.get(f"gpu_{kind}_transmit_bytes_per_second")
        if receive is not None and transmit is not None:
            text = f"in {receive / 1e9:.2f}, out {transmit / 1e9:.2f} GB/s"
            rows.drawn.append(Row(label, text))
    errors = values.get("gpu_ecc_uncorrected")
    if errors:
        rows.drawn.append(Row("ECC", f"{errors:,} uncorrected errors", is_bad=True))
    if xid := values.get("gpu_xid_last"):
        rows.drawn.append(Row("XID", f"error {xid} of the driver", is_bad=True))
    for process in device.processes:
        rows.drawn.append(Row(f"pid {process['pid']}", _process(process)))
    return rows.drawn


def _process(process: dict[str, Any]) -> str:
    parts = [process["name"] or "name unknown"]
    if process["memory_bytes"] is not None:
        parts.append(f"{process['memory_bytes'] / 1e9:.1f} GB")
    if process["utilization"] is not None:
        parts.append(f"{process['utilization']:.0%} of the time")
    return ", ".join(parts)


def _host_rows(device: _Device) -> list[Row]:
    values, rows = device.values, _Rows(device)
    count = values.get("host_cpu_count")
    cores = f" of {count} cores" if count else ""
    rows.add("cores", "host_cpu_utilization", lambda share: _percent(share) + cores, 1.0)
    rows.add("busiest core", "host_cpu_busiest", _percent, 1.0)
    rows.add("stolen", "host_cpu_steal", _percent, 1.0, lambda share: share > 0.05)
    highest = values.get("host_cpu_clock_max_hz")
    rows.add("clock", "host_cpu_clock_hz", lambda hz: _of(hz, highest, 1e6, "MHz", 0))
    total = values.get("host_memory_total_bytes")
    rows.add("memory", "host_memory_used_bytes", lambda used: _of(used, total, 1e9, "GB"), total)
    rows.add("CPU pressure", "host_pressure_cpu", _percent, 1.0, lambda share: share > 0.2)
    rows.add("package power", "package_watts", lambda watts: f"{watts:.0f} W")
    limit = values.get("cgroup_cpu_limit")
    if limit is not None:
        held = values.get("throttled_share") or 0.0
        text = f"{limit:g} cores" + (f", held {held:.0%} of the time" if held else "")
        rows.drawn.append(Row("cgroup quota", text, is_bad=held > 0))
    return rows.drawn


def _engine_rows(device: _Device) -> list[Row]:
    values, rows = device.values, _Rows(device)
    if values.get("endpoint_up") == 0:
        return [Row("endpoint", "does not answer", is_bad=True)]
    rows.add("running", "engine_requests_running", lambda count: f"{count:,.0f} requests")
    rows.add("waiting", "engine_requests_waiting", lambda count: f"{count:,.0f} requests")
    rows.add("KV cache", "engine_kv_cache_usage", _percent, 1.0, lambda share: share > 0.95)
    rows.add("output", "tokens_per_second", lambda rate: f"{rate:,.0f} tokens/s")
    rows.add("TTFT, mean", "ttft_mean", lambda seconds: f"{seconds * 1e3:,.1f} ms")
    rows.add("ITL, mean", "itl_mean", lambda seconds: f"{seconds * 1e3:,.2f} ms")
    rows.add("preemptions", "engine_preemptions", lambda count: f"{count:,.0f}")
    if not rows.drawn and values.get("endpoint_up") == 1:
        rows.drawn.append(Row("endpoint", "answers; its metrics have names unknown here"))
    return rows.drawn


def _percent(share: float) -> str:
    return f"{share:.0%}"


def _of(value: float, top: float | None, scale: float, unit: str, digits: int = 1) -> str:
    limit = "" if top is None else f" of {top / scale:,.{digits}f}"
    return f"{value / scale:,.{digits}f}{limit} {unit}"
