"""Samples for tests of sinks."""

from typing import Any

from assay.observe.telemetry.sample import Reading, RunHeader, Sample

HEADER = RunHeader("run-1", "decode", "abc123", "host-1", 1.0, False)


def sample(tick: int, **values: Any) -> Sample:
    reading = Reading("nvidia", "GPU-1", 0, "NVIDIA H200", {"gpu_power_watts": 600.5, **values})
    return Sample(
        1_700_000_000_000_000_000 + tick * 1_000_000_000,
        tick * 1_000_000_000,
        tick,
        "run-1",
        "decode",
        "abc123",
        None,
        reading,
    )


def samples(count: int, first: int = 0) -> list[Sample]:
    return [sample(tick) for tick in range(first, first + count)]
