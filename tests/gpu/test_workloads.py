"""Workloads that are no language models on a GPU: small ones, each held against its other implementation."""

import pytest

from assay.runtime import Device, cuda
from assay.workloads.contract import ArrayWorkload, start_of
from assay.workloads.order_book.workload import BatchedOrderBook
from assay.workloads.perception.workload import Perception
from assay.workloads.protein.trimul import Shape, TriMul
from small_detector import SMALL

if (missing := cuda.probe().missing) is not None:
    pytest.skip(missing.sentence, allow_module_level=True)

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def device() -> Device:
    return Device("cuda:0", pool_bytes=8 << 30)


@pytest.mark.parametrize(
    ("workload", "size"),
    [
        (BatchedOrderBook(5), 6_000),
        (Perception(SMALL), 1),
        # Two CTAs for each SM, one with four slices of weights, and tiles of 64 places.
        (TriMul(Shape(72, 2, 128, True, "cauchy")), 2),
        (TriMul(Shape(40, 1, 256, False, "normal")), 1),
        (TriMul(Shape(64, 1, 384, True, "normal")), 1),
        (TriMul(Shape(36, 1, 768, False, "normal")), 1),
    ],
)
def test_outputs_are_those_of_the_other_implementation(
    device: Device, workload: ArrayWorkload, size: int
) -> None:
    data, other = (workload.generate(seed, size) for seed in (1, 2))
    program = workload.prepare(data, device, start_of(workload, device, "default"))
    for one in (data, other):
        program.load(one)
        program.poison()
        program.run()
        verified = workload.verify(program.outputs(), one)
        assert verified.error <= verified.tolerance
    program.close()
