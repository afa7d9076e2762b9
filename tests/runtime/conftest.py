"""Devices for the tests: fresh ones, so that records and pools are a test's own."""

from __future__ import annotations

import pytest

from assay.runtime import Device


@pytest.fixture(params=["cpu", "sim"])
def fresh(request: pytest.FixtureRequest) -> Device:
    """A device that nothing else uses."""
    return Device(request.param)


@pytest.fixture
def cpu() -> Device:
    """A processor of one's own."""
    return Device("cpu")


@pytest.fixture
def sim() -> Device:
    """A simulated device of one's own."""
    return Device("sim")
