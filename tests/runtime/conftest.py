"""Devices for the tests: fresh ones, so that records and pools are a test's own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from assay.runtime import Device, device
from chosen_device import NAME, ON_GPU, own_device


@pytest.fixture(autouse=True)
def where_arrays_are_made() -> Iterator[None]:
    """Arrays for which no device is named are made on the chosen one."""
    if not ON_GPU:
        yield
        return
    with device(NAME):
        yield


@pytest.fixture(params=[NAME] if ON_GPU else ["cpu", "sim"])
def fresh(request: pytest.FixtureRequest) -> Device:
    """A device that nothing else uses, of each kind."""
    return Device(request.param)


@pytest.fixture
def own() -> Device:
    """A device of one's own that computes: a processor, or the chosen GPU."""
    return own_device()


@pytest.fixture
def cpu() -> Device:
    """A processor of one's own, for what is about processors."""
    if ON_GPU:
        pytest.skip("is about processors")
    return Device("cpu")


@pytest.fixture
def sim() -> Device:
    """A simulated device of one's own, for what is about virtual time."""
    if ON_GPU:
        pytest.skip("is about virtual time")
    return Device("sim")
