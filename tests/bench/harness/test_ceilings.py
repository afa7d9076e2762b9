"""The ceilings' own operations give what they promise, at every odd length."""

import numpy as np
import pytest

from assay import xp
from assay.bench.harness import ceilings, counting, inputs
from assay.runtime.hardware import Device


@pytest.mark.parametrize("count", [1, 15, 16, 17, 1000, 70_001, 1 << 20])
def test_reading_adds_everything_up(count: int) -> None:
    device = Device("cpu")
    host = inputs.counts(count, 5)
    out = xp.empty((1,), dtype=xp.float32, device=device)
    inputs.spoil(out)
    ceilings.read_into(inputs.place(device, host), out)
    assert float(out[0]) == np.float32(host.sum(dtype=np.float64))


@pytest.mark.parametrize("count", [1, 17, 191, 193, 12_288])
def test_copies_and_arithmetic(count: int) -> None:
    device = Device("cpu")
    host = inputs.counts(count, 6)
    x = inputs.place(device, host)
    out = xp.empty(x.shape, dtype=xp.float32, device=device)
    for call, wanted in (
        (ceilings.copy_into, host),
        (ceilings.alternate_into, 1.0 - host),
    ):
        inputs.spoil(out)
        call(x, out)
        assert np.array_equal(out.to_numpy(), wanted)


def test_contestants_count_what_they_do() -> None:
    device = Device("cpu")
    for contestant, what in (
        (ceilings.read(device, 1 << 16, 2), "bytes"),
        (ceilings.copy(device, 1 << 16), "bytes"),
        (ceilings.arithmetic(device), "flops"),
    ):
        counted = counting.count(device, contestant.call)
        assert getattr(counted, what) == contestant.amount


def test_memory_of_two_calls_may_not_be_one() -> None:
    from assay.errors import AssayError

    device = Device("cpu")
    x = inputs.place(device, inputs.counts(64, 1))
    with pytest.raises(AssayError, match="copy: expected out apart from x"):
        ceilings.copy_into(x, x)


def test_inputs_rotate_past_the_cache_unless_in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    device = Device("cpu")
    monkeypatch.setattr(inputs, "cache_bytes", lambda _: 100)
    assert inputs.copies(device, 10, quick=False) == 20
    assert inputs.copies(device, 1000, quick=False) == 2
    assert inputs.copies(device, 10, quick=True) == 2
    monkeypatch.setattr(inputs, "cache_bytes", lambda _: None)
    assert inputs.copies(device, 1 << 20, quick=False) == 256
