"""Engines that share a device: quotas of memory, and guarantees that are measured."""

from __future__ import annotations

import pytest

from assay.engine import Engine, SamplingParams
from assay.engine.core import device_sharing
from assay.engine.core.device_sharing import DeviceSharing, engine_settings, shares_of
from assay.errors import OutOfMemoryError
from assay.runtime import Device

SECOND = 1_000_000_000


def test_a_model_that_does_not_fit_is_refused_with_numbers() -> None:
    device = Device("cpu", pool_bytes=24 << 20)
    sharing = DeviceSharing(device, shares_of(["a", "b"], {}, []))
    with sharing.loading("a"):
        engine = Engine.load("synthetic", device)
    with pytest.raises(OutOfMemoryError) as caught, sharing.loading("b"):
        Engine.load("synthetic", device, kv_tokens=1 << 16)
    assert 'model "b": expected to fit beside the others' in caught.value.message
    assert "bytes in use: a " in caught.value.message
    assert f"of {24 << 20:,}" in caught.value.message
    engine.close()


def test_the_kv_cache_grows_within_the_quota() -> None:
    device = Device("cpu", pool_bytes=32 << 20)
    shares = shares_of(["a", "b"], {"a": 90, "b": 10}, [])
    sharing = DeviceSharing(device, shares)
    engines = []
    for share in shares:
        with sharing.loading(share.name):
            engines.append(
                Engine.load("synthetic", device, kv_tokens=64, **engine_settings(share, shares))
            )
    sharing.admit()
    limits = [one.quota_bytes - one.used_bytes for one in sharing.statistics()]
    assert limits[0] == pytest.approx(9 * limits[1], rel=0.01)
    place = sharing.places["b"]
    with place, pytest.raises(OutOfMemoryError, match="b"), sharing.loading("b"):
        device.allocate(limits[1] + (1 << 20))
    for engine in engines:
        engine.close()


def test_a_model_that_is_not_admitted_is_refused_with_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # More memory than there is: the quota of the second model cannot be reserved.
    monkeypatch.setattr(device_sharing, "UNRESERVED_MEMORY", -0.5)
    sharing = DeviceSharing(Device("cpu", pool_bytes=1 << 20), shares_of(["a", "b"], {}, []))
    with pytest.raises(OutOfMemoryError) as caught:
        sharing.admit()
    assert 'model "b": expected to be admitted to cpu, got: 786432 bytes of memory requested' in (
        caught.value.message
    )


def test_steps_are_charged_to_the_model_that_takes_them() -> None:
    device = Device("cpu")
    shares = shares_of(["a", "b"], {}, [])
    sharing = DeviceSharing(device, shares)
    engines = []
    for share in shares:
        with sharing.loading(share.name):
            engines.append(Engine.load("synthetic", device, **engine_settings(share, shares)))
    sharing.admit()
    with sharing.places["a"]:
        engines[0].generate([[1, 2, 3]], SamplingParams(max_tokens=8, ignore_eos=True))
    first, second = sharing.statistics()
    assert first.device_seconds > 0
    assert second.device_seconds == 0
    assert (first.state, second.state) == ("done", "admitted")
    with sharing.places["b"]:
        pass
    for engine in engines:
        engine.close()


@pytest.mark.parametrize(
    ("own", "others", "misses"),
    [
        (0.70, 0.30, 0),
        (0.68, 0.32, 0),
        (0.60, 0.39, 1),
        # It waited for its own host work: the device was idle.
        (0.60, 0.20, 0),
        (0.30, 0.10, 0),
        (0.00, 1.00, 1),
    ],
)
def test_a_guarantee_is_missed_when_others_take_more(
    own: float, others: float, misses: int
) -> None:
    device = Device("cpu", pool_bytes=1 << 20)
    sharing = DeviceSharing(device, shares_of(["a", "b"], {"a": 70, "b": 30}, ["a"]))
    sharing.admit()
    for name, expected in (("a", misses), ("b", 0)):
        place = sharing.places[name]
        place._measure(int(own * SECOND), int((own + others) * SECOND), SECOND)
        assert (place.windows, place.misses) == (1, expected)
        assert place.achieved == pytest.approx(own / (own + others))
