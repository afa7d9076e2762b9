"""Short operations batched into graphs."""

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
def test_every_operation_runs_once_per_rotation(nbytes: int, times: int) -> None:
    device = Device("cpu")
    sources = [inputs.upload(device, np.full(16, number, np.float32)) for number in range(7)]
    targets = [xp.empty((16,), dtype=xp.float32, device=device) for _ in sources]

    def copy(source: Array, target: Array) -> Callable[[], None]:
        return lambda: ceilings.stream_copy_into(source, target)

    operations = [copy(*pair) for pair in zip(sources, targets, strict=True)]
    call, found = batch_into_graphs(device, operations, nbytes)
    assert found == times
    for target in targets:
        inputs.fill_nan(target)
    for number in range(7 // times):
        call(number)
    ran = 7 // times * times
    for number, target in enumerate(targets[:ran]):
        assert target.to_numpy().tolist() == [number] * 16
    assert all(np.isnan(target.to_numpy()).all() for target in targets[ran:])
