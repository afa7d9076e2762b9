"""Short operations in groups."""

from collections.abc import Callable

import numpy as np
import pytest

from assay import xp
from assay.bench.harness import ceilings, inputs
from assay.bench.harness.graph_batches import GROUP_BYTES, batch_into_graphs
from assay.runtime.array import Array
from assay.runtime.hardware import Device


@pytest.mark.parametrize(
    ("nbytes", "times"), [(GROUP_BYTES, 1), (GROUP_BYTES // 2, 2), (GROUP_BYTES // 3, 3), (1, 7)]
)
def test_everything_has_its_turn(nbytes: int, times: int) -> None:
    device = Device("cpu")
    sources = [inputs.place(device, np.full(16, number, np.float32)) for number in range(7)]
    targets = [xp.empty((16,), dtype=xp.float32, device=device) for _ in sources]

    def copy(source: Array, target: Array) -> Callable[[], None]:
        return lambda: ceilings.copy_into(source, target)

    operations = [copy(*pair) for pair in zip(sources, targets, strict=True)]
    call, found = batch_into_graphs(device, operations, nbytes)
    assert found == times
    for target in targets:
        inputs.spoil(target)
    for number in range(7 // times):
        call(number)
    done = 7 // times * times
    for number, target in enumerate(targets[:done]):
        assert target.to_numpy().tolist() == [number] * 16
    assert all(np.isnan(target.to_numpy()).all() for target in targets[done:])
