"""Operations of the ceilings compute the right result, at odd lengths too."""

import numpy as np
import pytest

from assay import xp
from assay.bench.harness import ceilings, counting, inputs
from assay.runtime.hardware import Device


@pytest.mark.parametrize("count", [1, 15, 16, 17, 1000, 70_001, 1 << 20])
def test_stream_read_sums_all_elements(count: int) -> None:
    device = Device("cpu")
    host = inputs.small_integers(count, 5)
    out = xp.empty((1,), dtype=xp.float32, device=device)
    inputs.fill_nan(out)
    ceilings.stream_read_into(inputs.upload(device, host), out)
    assert float(out[0]) == np.float32(host.sum(dtype=np.float64))


@pytest.mark.parametrize(("count", "repeats"), [(1, 1), (70_001, 1), (1 << 22, 9), (20_000_003, 2)])
def test_sums_are_exact_in_fp32_in_any_order(count: int, repeats: int) -> None:
    # A calibration of 960 MiB on one thread failed: its FP32 lanes exceeded 2^24.
    part = inputs.integers_with_exact_sum(count, 1, repeats)
    host = np.tile(part, repeats)
    exact = host.sum(dtype=np.float64)
    assert 0 < exact <= 2**24 or count == 1
    one_lane = np.add.accumulate(host, dtype=np.float32)[-1]
    backwards = np.add.accumulate(host[::-1], dtype=np.float32)[-1]
    assert one_lane == backwards == exact
    device = Device("cpu")
    out = xp.empty((1,), dtype=xp.float32, device=device)
    ceilings.stream_read_into(inputs.upload(device, host), out)
    assert float(out[0]) == exact


@pytest.mark.parametrize("count", [1, 17, 191, 193, 12_288])
def test_stream_copy_and_fma(count: int) -> None:
    device = Device("cpu")
    host = inputs.small_integers(count, 6)
    x = inputs.upload(device, host)
    out = xp.empty(x.shape, dtype=xp.float32, device=device)
    for call, expected in ((ceilings.stream_copy_into, host), (ceilings.fma_into, 1.0 - host)):
        inputs.fill_nan(out)
        call(x, out)
        assert np.array_equal(out.to_numpy(), expected)


def test_subject_amounts_match_launch_records() -> None:
    device = Device("cpu")
    for subject, what in (
        (ceilings.read(device, 1 << 16, 2), "bytes"),
        (ceilings.copy(device, 1 << 16), "bytes"),
        (ceilings.arithmetic(device), "flops"),
    ):
        counted = counting.count(device, subject.call)
        assert getattr(counted, what) == subject.amount


def test_copy_onto_itself_raises() -> None:
    from assay.errors import AssayError

    device = Device("cpu")
    x = inputs.upload(device, inputs.small_integers(64, 1))
    with pytest.raises(AssayError, match="copy: expected out apart from x"):
        ceilings.stream_copy_into(x, x)


def test_inputs_rotate_past_the_cache_unless_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    device = Device("cpu")
    monkeypatch.setattr(inputs, "cache_bytes", lambda _: 100)
    assert inputs.rotated_copies(device, 10, quick=False) == 20
    assert inputs.rotated_copies(device, 1000, quick=False) == 2
    assert inputs.rotated_copies(device, 10, quick=True) == 2
    monkeypatch.setattr(inputs, "cache_bytes", lambda _: None)
    assert inputs.rotated_copies(device, 1 << 20, quick=False) == 256
