"""Graphs: what is captured, what a replay does, what raises, and the lifetime of memory."""

from __future__ import annotations

import gc
import threading
from typing import Any

import numpy as np
import pytest

import assay
from assay import ops, xp
from assay.errors import DeviceError, FreedError, InputError
from assay.runtime import Array, Device, Graph, capture_graph
from chosen_device import ON_GPU


def fill(array: Array, value: int) -> None:
    device = array.device
    stream = device.current_stream()._native
    device._context.fill("fill", array.buffer, 0, value, array.nbytes, stream)


def copy(source: Array, destination: Array, label: str = "copy") -> None:
    device = source.device
    stream = device.current_stream()._native
    device._context.copy(label, source.buffer, 0, destination.buffer, 0, source.nbytes, stream)


def bytes_of(device: Device, *values: int, count: int = 64) -> list[Array]:
    return [xp.full((count,), value, dtype=xp.uint8, device=device) for value in values]


def test_replay_reads_current_memory(fresh: Device) -> None:
    a, b, c = bytes_of(fresh, 1, 2, 3)
    fresh.synchronize()

    def step() -> None:
        copy(a, b, "first")
        copy(b, c, "second")
        fill(a, 9)

    graph = assay.capture_graph(step, device=fresh)
    assert [int(b[0]), int(c[0])] == [2, 3]  # nothing ran yet
    graph.replay()
    assert [int(one[63]) for one in (a, b, c)] == [9, 1, 1]
    a[...] = 5
    graph.replay()
    assert [int(one[0]) for one in (a, b, c)] == [9, 5, 5]
    labels = [(node.label, node.kind, node.bytes) for node in graph.nodes]
    assert labels == [
        ("first", "copy within device", 64),
        ("second", "copy within device", 64),
        ("fill", "fill", 64),
    ]
    assert graph.bytes == 192
    assert {node.operation for node in graph.nodes} == {None}


def test_one_replay_is_one_record_and_a_profile_times_every_node(fresh: Device) -> None:
    a, b = bytes_of(fresh, 1, 2, count=1 << 16)
    graph = capture_graph(lambda: [copy(a, b), fill(a, 3)], device=fresh, label="step")
    fresh.synchronize()
    fresh.take_records()
    graph.replay()
    fresh.synchronize()
    (record,) = fresh.take_records().records
    assert (record.kind, record.name, record.bytes) == ("graph", "step", 2 << 16)
    before = fresh.now_ns()
    times = graph.profile()
    assert [one.node.label for one in times] == ["copy", "fill"]
    assert before <= times[0].start_ns <= times[0].end_ns == times[1].start_ns
    assert times[1].end_ns <= fresh.now_ns()
    assert all(one.duration_ns > 0 for one in times)
    (record,) = fresh.take_records().records
    assert (record.kind, record.start_ns, record.end_ns) == (
        "graph",
        times[0].start_ns,
        times[1].end_ns,
    )
    assert fresh.totals()["graphs"] == 2


def test_operations_of_the_table_are_captured_under_their_labels(own: Device) -> None:
    generator = np.random.default_rng(1)
    matrix = generator.standard_normal((24, 16), dtype=np.float32)
    weights = ops.pack(matrix, "f32", (24, 16), own)
    x = xp.zeros((2, 16), dtype=xp.float32, device=own)
    out = xp.zeros((2, 24), dtype=xp.float32, device=own)
    graph = capture_graph(
        lambda: ops.linear(x, weights, out=out, label="layers.0.output"), device=own
    )
    (node,) = graph.nodes
    assert (node.label, node.kind) == ("layers.0.output", "launch")
    assert node.flops == 2 * 2 * 24 * 16
    for _ in range(3):
        rows = generator.standard_normal((2, 16), dtype=np.float32)
        x[...] = xp.asarray(rows, device=own)
        graph.replay()
        np.testing.assert_allclose(np.asarray(out), rows @ matrix.T, rtol=1e-5, atol=1e-5)
    with pytest.raises(DeviceError, match="allocate_device during capture"):
        capture_graph(lambda: ops.linear(x, weights), device=own)


def test_array_assignment_is_captured(fresh: Device) -> None:
    a, b = bytes_of(fresh, 6, 0)

    def step() -> None:
        b[...] = a

    capture_graph(step, device=fresh).replay()
    assert int(b[63]) == 6


def test_replays_are_ordered_by_data_dependencies(fresh: Device) -> None:
    a, b = bytes_of(fresh, 0, 0, count=1 << 16)
    graph = capture_graph(lambda: copy(a, b), device=fresh)
    side = fresh.stream()
    for value in range(20):
        fill(a, value)  # on the default stream
        graph.replay(side)
        fill(a, 255)  # must come after the replay has read
        assert int(xp.max(b)) == int(xp.min(b)) == value


def test_streams_join_a_capture_through_their_data(fresh: Device) -> None:
    a, b, c = bytes_of(fresh, 7, 0, 0)
    side = fresh.stream()

    def step() -> None:
        copy(a, b)
        with side:
            copy(b, c)
        fill(b, 1)

    graph = capture_graph(step, device=fresh)
    assert len({node.stream for node in graph.nodes}) == 2
    graph.replay()
    assert [int(one[0]) for one in (a, b, c)] == [7, 1, 7]
    d, e = bytes_of(fresh, 1, 2)

    def apart() -> None:
        fill(a, 0)
        with side:
            copy(d, e)

    with pytest.raises(DeviceError, match=r"copy: expected the captured stream \d+ or work"):
        capture_graph(apart, device=fresh)
    copy(d, e)
    assert int(e[0]) == 1


REFUSED = {
    # A GPU has a kernel for this; other devices run a NumPy loop.
    **({} if ON_GPU else {"a NumPy loop": lambda x: x.__iadd__(1)}),
    "an allocation": lambda x: x.device.allocate(64),
    "a copy from the host": lambda x: x.device.upload("upload", b"1234", x.buffer, 0),
    "a copy to the host": lambda x: x.device.download("download", x.buffer, 0, bytearray(4)),
    "an event": lambda x: x.device.current_stream().record(),
    "a wait": lambda x: x.device.current_stream().synchronize(),
    "a value of captured work": lambda x: (fill(x, 1), x.buffer.synchronize()),
    "a graph": lambda x: capture_graph(lambda: None, device=x.device),
}


@pytest.mark.parametrize("what", REFUSED)
def test_uncapturable_work_raises_and_the_device_survives(fresh: Device, what: str) -> None:
    (x,) = bytes_of(fresh, 1)
    fresh.synchronize()

    def step() -> Any:
        return REFUSED[what](x)

    with pytest.raises(DeviceError, match="expected") as caught:
        capture_graph(step, device=fresh)
    assert "captur" in str(caught.value)
    assert int((x + 1)[0]) == 2
    assert capture_graph(lambda: fill(x, 4), device=fresh).nodes[0].kind == "fill"


def test_capture_error_names_the_operation(cpu: Device) -> None:
    x = xp.ones(4, device=cpu)

    def step() -> None:
        x[...] = 2.0

    with pytest.raises(DeviceError) as caught:
        capture_graph(step, device=cpu)
    assert "a Python function under capture" in caught.value.message
    assert caught.value.hint is not None
    assert "assay.ops" in caught.value.hint


def test_exception_abandons_the_capture(fresh: Device) -> None:
    (x,) = bytes_of(fresh, 1)

    def step() -> None:
        fill(x, 2)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        capture_graph(step, device=fresh)
    assert int(x[0]) == 1
    x.free()  # nothing holds it
    fresh.verify()


def test_graph_keeps_its_memory_until_closed(fresh: Device) -> None:
    def captured() -> Graph:
        source, target = bytes_of(fresh, 5, 0)
        return capture_graph(lambda: copy(source, target), device=fresh)

    graph = captured()
    gc.collect()
    fresh.synchronize()
    assert fresh.pool_statistics()["allocated_bytes"] > 0
    keep = bytes_of(fresh, 1, 2, 3, 4)  # would get the memory if it were free
    graph.replay()
    assert [int(one[0]) for one in keep] == [1, 2, 3, 4]
    graph.close()
    graph.close()
    with pytest.raises(FreedError, match="replay: expected a live graph"):
        graph.replay()
    del keep
    fresh.synchronize()
    assert fresh.pool_statistics()["allocated_bytes"] == 0
    fresh.verify()


def test_freeing_memory_of_a_graph_raises(fresh: Device) -> None:
    (x,) = bytes_of(fresh, 1)
    with capture_graph(lambda: fill(x, 2), device=fresh):
        with pytest.raises(DeviceError, match="free: expected a buffer without views") as caught:
            x.free()
        assert "close the graphs" in (caught.value.hint or "")
    x.free()


def test_capture_excludes_other_threads(fresh: Device) -> None:
    a, b = bytes_of(fresh, 1, 2)
    stream = fresh.stream()
    raised: list[BaseException] = []

    def intrude() -> None:
        try:
            with stream:
                fill(b, 9)
        except DeviceError as error:
            raised.append(error)
        fill(b, 8)  # on the default stream, outside the capture

    def step() -> None:
        fill(a, 3)
        thread = threading.Thread(target=intrude)
        thread.start()
        thread.join()

    graph = capture_graph(step, stream=stream)
    assert len(graph.nodes) == 1
    assert "no other thread captures" in str(raised[0])
    assert int(b[0]) == 8


def test_stream_of_another_device_raises(cpu: Device, sim: Device) -> None:
    with pytest.raises(InputError, match="capture_graph: expected a stream of sim, got one of cpu"):
        capture_graph(lambda: None, device=sim, stream=cpu.stream())
    (x,) = bytes_of(cpu, 1)
    graph = capture_graph(lambda: fill(x, 2), device=cpu)
    with pytest.raises(DeviceError, match="replay: expected a stream of the device"):
        graph.replay(sim.default_stream)


def test_capture_uses_the_current_device(sim: Device) -> None:
    a, b = bytes_of(sim, 1, 2)
    sim.synchronize()
    with sim:
        graph = capture_graph(lambda: copy(a, b))
    assert graph.device is sim
    assert len(graph.nodes) == 1


def test_empty_graph_replays(fresh: Device) -> None:
    graph = capture_graph(lambda: None, device=fresh)
    graph.replay()
    assert graph.profile() == []


def test_replays_of_a_large_graph_allocate_nothing(own: Device) -> None:
    a, b = bytes_of(own, 1, 2)
    graph = capture_graph(lambda: [copy(a, b) for _ in range(500)], device=own)
    before = own.pool_statistics()["allocations"]
    for _ in range(100):
        graph.replay()
    own.synchronize()
    assert own.pool_statistics()["allocations"] == before
    assert own.totals()["graphs"] == 100
