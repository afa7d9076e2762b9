"""Devices for the tests: new ones, so that each test has its own records and pools."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from assay.runtime import Device, device
from chosen_device import NAME, ON_GPU, new_device


@pytest.fixture(autouse=True)
def default_to_chosen_device() -> Iterator[None]:
    """Make the chosen device the default for new arrays."""
    if not ON_GPU:
        yield
        return
    with device(NAME):
        yield


@pytest.fixture(params=[NAME] if ON_GPU else ["cpu", "sim"])
def fresh(request: pytest.FixtureRequest) -> Device:
    """A private device of each kind."""
    return Device(request.param)


@pytest.fixture
def own() -> Device:
    """A private device that computes: the CPU, or the chosen GPU."""
    return new_device()


@pytest.fixture
def cpu() -> Device:
    """A private CPU device, for tests specific to the CPU."""
    if ON_GPU:
        pytest.skip("tests the CPU")
    return Device("cpu")


@pytest.fixture
def sim() -> Device:
    """A private simulated device, for tests of virtual time."""
    if ON_GPU:
        pytest.skip("tests virtual time")
    return Device("sim")
