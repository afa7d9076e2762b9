"""Results with given samples, so that the expected conclusions are known."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from assay.bench.harness.result import Figure, Result, Series, Verification

MACHINE = {
    "fingerprint": "0123456789abcdef",
    "processor": "a CPU",
    "usable_cores": 2,
    "device": "cpu",
    "device_description": "a device",
}


def figure(
    values: Sequence[float],
    *,
    name: str = "thing",
    unit: str = "GB/s",
    ceiling: Sequence[float] | None = None,
    rivals: Mapping[str, Sequence[float | None]] | None = None,
    error: float = 0.0,
    cold: bool | None = True,
) -> Figure:
    """A figure with these values, round by round."""
    return Figure(
        name=name,
        unit=unit,
        parameters={"bytes": 64},
        own=Series("assay", tuple(values), 3),
        ceiling=None if ceiling is None else Series("read", tuple(ceiling), 1),
        rivals=tuple(Series(who, tuple(row), 1) for who, row in (rivals or {}).items()),
        absent={"PyTorch": "not installed"},
        check=Verification("a reference", error, 1e-6),
        bytes=64.0,
        flops=None,
        working_set_bytes=1 << 30,
        cold=cold,
        note="",
    )


def result(*figures: Figure, suite: str = "gemm", quick: bool = False, **machine: Any) -> Result:
    """A result with these figures."""
    return Result(
        suite=suite,
        quick=quick,
        machine={**MACHINE, **machine},
        versions={"assay": "0.1.0", "torch": None},
        commit="0123456789ab",
        started="2026-01-01T00:00:00+00:00",
        seconds=1.5,
        load_average=((0.5, 0.5, 0.5), (0.6, 0.5, 0.5)),
        other_cores=0.05,
        figures=figures,
    )


@pytest.fixture
def make_figure() -> Callable[..., Figure]:
    return figure


@pytest.fixture
def make_result() -> Callable[..., Result]:
    return result
