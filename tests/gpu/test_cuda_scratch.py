"""Scratch memory of streams: freed with them, unless a graph that was captured there still needs it."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lora_folders import factors_of, write_adapter

from assay import ops, xp
from assay._native import NativeGraph
from assay.engine import Engine, SamplingParams
from assay.engine.loading.synthetic import synthetic_model
from assay.runtime import Device, Graph, cuda

if (missing := cuda.probe().missing) is not None:
    pytest.skip(missing.sentence, allow_module_level=True)

pytestmark = pytest.mark.gpu

WIDTH = 4096
FLAT_BYTES = 16 << 20
"""What may differ between two readings: a quarter of the scratch memory that one round of sorting takes."""


@pytest.fixture(scope="module")
def device() -> Device:
    return Device("cuda:0", pool_bytes=8 << 30)


def used_bytes(device: Device) -> int:
    """What this GPU has in use, when all work is done and everything freed."""
    gc.collect()
    device.synchronize()
    report = device.memory_report()
    return report.device_bytes - report.device_free_bytes


def growth_of(device: Device, work: Callable[[], object], rounds: int) -> int:
    """Bytes in use after so many rounds, beyond those after the first two, which compile kernels."""
    for _ in range(2):
        work()
    before = used_bytes(device)
    for _ in range(rounds):
        work()
    return used_bytes(device) - before


def test_a_stream_takes_its_scratch_memory_with_it(device: Device) -> None:
    values = np.random.default_rng(1).normal(size=1 << 24).astype(np.float32)
    unsorted = xp.asarray(values, device=device)
    device.synchronize()

    def sort_on_a_new_stream() -> None:
        with device.stream():
            ordered = xp.sort(unsorted)
        assert float(ordered[0]) == values.min()

    # The keys alone are 64 MiB: ten streams that left theirs behind would show 640 MiB.
    assert growth_of(device, sort_on_a_new_stream, 10) < FLAT_BYTES


def captured(device: Device, work: Callable[[], object]) -> Graph:
    """A graph that does not keep the stream it was captured on."""
    stream = device.stream()
    stream._native.begin_capture()
    with stream:
        work()
    return Graph(device, NativeGraph(stream._native, "work"), "work")


class Products:
    """Linear layers of few rows and of many, each with its output."""

    def __init__(self, device: Device, seed: int) -> None:
        random = np.random.default_rng(seed)
        shape = (WIDTH, WIDTH)
        weights = random.normal(size=shape).astype(np.float32) / 64
        self.weights = ops.pack(weights, "bf16", shape, device)
        self.inputs = [
            xp.asarray(
                random.normal(size=(rows, WIDTH)).astype(np.float32),
                dtype=xp.bfloat16,
                device=device,
            )
            for rows in (4, 512)
        ]
        self.outputs = [xp.zeros(x.shape, dtype=xp.bfloat16, device=device) for x in self.inputs]

    def multiply(self) -> None:
        for x, out in zip(self.inputs, self.outputs, strict=True):
            ops.linear(x, self.weights, out=out)

    def results(self) -> list[Any]:
        return [out.to_numpy() for out in self.outputs]


def test_a_graph_keeps_the_scratch_memory_of_its_stream(device: Device) -> None:
    own, other = Products(device, 2), Products(device, 3)
    own.multiply()
    device.synchronize()
    expected = own.results()

    def replay_without_the_stream() -> None:
        graph = captured(device, own.multiply)
        gc.collect()
        # Other streams take what memory is free, and write to it.
        for _ in range(4):
            with device.stream():
                other.multiply()
        device.synchronize()
        for out in own.outputs:
            out[...] = 0.0
        graph.replay()
        device.synchronize()
        for got, wanted in zip(own.results(), expected, strict=True):
            np.testing.assert_array_equal(got, wanted)
        graph.close()

    # A workspace of cuBLASLt alone is 32 MiB.
    assert growth_of(device, replay_without_the_stream, 8) < FLAT_BYTES


def test_engines_leave_no_memory_behind(device: Device, tmp_path: Path) -> None:
    """Adapters loaded and unloaded, sleeps, and engines that come and go."""
    files = synthetic_model(seed=5)
    folder = write_adapter(tmp_path / "adapter", factors_of(files, ("_proj",), rank=4, seed=1))
    greedy = SamplingParams(max_tokens=8, temperature=0.0, ignore_eos=True)
    prompt = [3, 17, 5, 90, 41, 8, 77, 2]

    with Engine.load(files, device, kv_tokens=4096) as engine:

        def rebuild() -> None:
            engine.load_adapter("tuned", folder)
            engine.generate([prompt], greedy, "tuned")
            engine.unload_adapter("tuned")
            engine.sleep()
            engine.wake_up()
            engine.generate([prompt], greedy)

        assert growth_of(device, rebuild, 20) < FLAT_BYTES

    def load_and_close() -> None:
        with Engine.load(files, device, kv_tokens=4096) as another:
            another.generate([prompt], greedy)

    assert growth_of(device, load_and_close, 10) < FLAT_BYTES
