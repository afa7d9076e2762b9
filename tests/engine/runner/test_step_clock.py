"""The step clock records on the default stream, and nothing on the stream of a task."""

from dataclasses import replace

import pytest

from assay.engine.core.device_sharing import DeviceSharing, shares_of
from assay.engine.runner.step_clock import StepClock
from assay.runtime import Device
from assay.runtime.hardware import Stream


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Device:
    device = Device("cpu", pool_bytes=1 << 20)
    monkeypatch.setattr(device, "capabilities", replace(device.capabilities, is_gpu=True))
    return device


def test_steps_on_the_default_stream_are_timed(device: Device) -> None:
    clock = StepClock(device)
    buffer = device.allocate(1 << 16)
    for follows in (False, True):
        clock.begin()
        device.fill("step", buffer, 0, 1, 1 << 16)
        clock.end(follows=follows)
    device.synchronize()
    times = clock.read()
    assert times.device_ns > 0
    assert times.idle_ns >= 0
    assert clock.read() == (0, 0)


def test_a_step_of_a_task_records_no_event(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would wait until all that waits for a grant has run: no step could be launched ahead."""
    sharing = DeviceSharing(device, shares_of(["a", "b"], {}, []))
    sharing.admit()
    clock = StepClock(device)
    recorded: list[Stream] = []
    monkeypatch.setattr(Stream, "record", recorded.append)
    with sharing.places["a"]:
        clock.begin()
        clock.end(follows=True)
    assert recorded == []
    assert clock.read() == (0, 0)
