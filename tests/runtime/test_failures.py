"""Asynchronous failures: which error is raised, where, and what keeps working."""

import numpy as np
import numpy.typing as npt
import pytest

import assay
from assay import ops, xp
from assay.engine import SamplingParams
from assay.errors import DeviceError
from assay.runtime import Array, Device, Stream
from assay.runtime.graphs import Graph, capture_graph
from chosen_device import ON_GPU

pytestmark = pytest.mark.skipif(
    ON_GPU,
    reason="a kernel of a GPU has no errors of its own: a fault there ends the process's work",
)

WORDS = "index out of range in embedding: expected tokens from 0 to below 11, got 99"


def table(device: Device) -> Array:
    return xp.ones((11, 4), dtype=xp.float32, device=device)


def integers(device: Device, *values: int) -> Array:
    return xp.asarray(values, dtype=xp.int32, device=device)


def test_poisoned_outputs_raise_when_read() -> None:
    device = Device("cpu")
    stream, rows = device.stream(), table(device)
    good_ids, bad_ids = integers(device, 0, 2), integers(device, 1, 99)
    with stream:
        poisoned = ops.embedding(bad_ids, rows, label="layers.0.embedding")
    for _ in range(3):
        with pytest.raises(
            DeviceError, match=rf'"layers.0.embedding" failed on stream [0-9]+: {WORDS}'
        ) as caught:
            poisoned.to_numpy()
        assert caught.value.code == "stream_failed"
        assert caught.value.hint is not None
        assert "recompute" in caught.value.hint
    with pytest.raises(
        DeviceError, match=rf'"sum" depends on work that failed: .*{WORDS}'
    ) as caught:
        xp.sum(poisoned)
    assert caught.value.code == "dependency_failed"
    out = xp.full((2, 4), 8.0, dtype=xp.float32, device=device)
    with pytest.raises(DeviceError, match="depends on work that failed"):
        ops.rms_norm(poisoned, xp.ones(4, dtype=xp.float32, device=device), 1e-5, out=out)
    # The operation was rejected and wrote nothing.
    assert float(xp.sum(out)) == 64.0
    # Its inputs and its stream stay usable.
    assert float(xp.sum(rows)) == 44.0
    rows[0, 0] = 5.0
    with stream:
        good = ops.embedding(good_ids, rows)
    np.testing.assert_array_equal(good.to_numpy(), [[5, 1, 1, 1], [1, 1, 1, 1]])
    stream.synchronize()


def test_failure_is_reported_after_its_stream_is_gone() -> None:
    device = Device("cpu")
    stream, rows, bad_ids = device.stream(), table(device), integers(device, 99)
    with stream:
        poisoned = ops.embedding(bad_ids, rows)
    del stream
    for _ in range(2):
        with pytest.raises(DeviceError, match=WORDS):
            poisoned.to_numpy()


def test_work_after_a_failure_is_skipped_and_reported() -> None:
    device = Device("cpu")
    stream, other, rows = device.stream(), device.stream(), table(device)
    large = xp.ones((4096, 4096), dtype=xp.float32, device=device)
    gain = xp.ones(4096, dtype=xp.float32, device=device)
    bad_ids, one, three = (integers(device, value) for value in (99, 1, 3))
    with stream:
        # Long enough to queue the rest before anything fails.
        before = ops.rms_norm(large, gain, 1e-5)
        ops.embedding(bad_ids, rows, label="culprit")
        behind = ops.embedding(one, rows)
    with other:
        free = ops.embedding(three, rows)
    np.testing.assert_array_equal(free.to_numpy(), np.ones((1, 4)))
    with pytest.raises(DeviceError, match=f'"culprit" failed on stream [0-9]+: {WORDS}'):
        behind.to_numpy()
    np.testing.assert_allclose(before.to_numpy()[::512, ::512], 1.0, rtol=1e-4)


def test_synchronize_reports_a_failure_once() -> None:
    device = Device("cpu")
    stream, rows, bad_ids = device.stream(), table(device), integers(device, 99)
    with stream:
        ops.embedding(bad_ids, rows)
    with pytest.raises(DeviceError, match=WORDS):
        stream.synchronize()
    stream.synchronize()
    with stream:
        assert ops.embedding(integers(device, 3), rows).to_numpy().tolist() == [[1.0] * 4]


def test_dependent_work_of_other_streams_fails_without_failing_them() -> None:
    device = Device("cpu")
    stream, other, rows = device.stream(), device.stream(), table(device)
    gain = xp.ones(4, dtype=xp.float32, device=device)
    bad_ids = integers(device, 99)
    for _ in range(100):
        with stream:
            poisoned = ops.embedding(bad_ids, rows)

        with other, pytest.raises(DeviceError, match="got 99"):
            ops.rms_norm(poisoned, gain, 1e-5).to_numpy()
        with other:
            good = ops.rms_norm(rows, gain, 1e-5)
        np.testing.assert_allclose(good.to_numpy(), np.ones((11, 4)), rtol=1e-4)


def replay_and_wait(graph: Graph, stream: Stream) -> None:
    graph.replay(stream)
    stream.synchronize()


def test_failed_graph_operation_is_named() -> None:
    device = Device("cpu")
    rows, ids = table(device), xp.asarray([1, 2], dtype=xp.int32, device=device, copy=True)
    out = xp.zeros((2, 4), dtype=xp.float32, device=device)
    gain = xp.ones(4, dtype=xp.float32, device=device)

    normed = xp.zeros((11, 4), dtype=xp.float32, device=device)

    def step() -> None:
        ops.rms_norm(rows, gain, 1e-5, out=normed, label="norm")
        ops.embedding(ids, rows, out=out, label="layers.3.embedding")

    for stream in (device.default_stream, device.stream()):
        with capture_graph(step, device=device, label="step") as graph:
            graph.replay(stream)
            stream.synchronize()
            ids[1] = 99
            with pytest.raises(DeviceError, match=f'"step: layers.3.embedding" failed .*{WORDS}'):
                replay_and_wait(graph, stream)
            ids[1] = 3
            if stream is device.default_stream:
                # The call raised synchronously, so nothing is poisoned.
                graph.replay(stream)


def test_host_function_error_poisons_its_outputs_on_sim() -> None:
    device = Device("sim")

    def refuse(x: npt.NDArray[np.float32], out: npt.NDArray[np.float32]) -> None:
        raise RuntimeError(f"no root of {x[0]}")

    root = assay.jit.kernel(
        "__global__ void root(const float* x, float* out) { out[0] = sqrtf(x[0]); }", cpu=refuse
    )
    x = xp.asarray([-4.0], dtype=xp.float32, device=device)
    out = xp.zeros(1, dtype=xp.float32, device=device)
    root(x, out)
    words = r'"root" failed on stream 0: RuntimeError: no root of -4.0'
    for _ in range(2):
        with pytest.raises(DeviceError, match=words):
            out.to_numpy()
    assert float(x[0]) == -4.0
    assert float(xp.sum(xp.ones(5, dtype=xp.float32, device=device))) == 5.0
    device.synchronize()


def test_failure_does_not_affect_engines_on_the_same_device() -> None:
    device = assay.runtime.device("cpu")
    params = SamplingParams(max_tokens=4, temperature=0.0)
    with assay.Engine.load("synthetic", device=device) as engine:
        before = engine.generate(["Once"], params)[0].token_ids
        with pytest.raises(DeviceError, match=WORDS):
            ops.embedding(integers(device, 99), table(device))
        rows, bad_ids = table(device), integers(device, 99)
        with device.stream(), pytest.raises(DeviceError, match=WORDS):
            ops.embedding(bad_ids, rows).to_numpy()
        assert engine.generate(["Once"], params)[0].token_ids == before


def test_sim_operations_compute_nothing_and_reading_raises() -> None:
    device = Device("sim")
    x = xp.ones((2, 4), dtype=xp.float32, device=device)
    gain = xp.ones(4, dtype=xp.float32, device=device)
    start = device.now_ns()
    out = ops.softmax(ops.rms_norm(x, gain, 1e-5))
    device.synchronize()
    assert device.now_ns() > start
    for read in (out.to_numpy, lambda: xp.sum(out), lambda: out.to_device("cpu")):
        with pytest.raises(DeviceError, match="take time and compute nothing") as caught:
            read()
        assert caught.value.code == "no_values"
    np.testing.assert_array_equal(x.to_numpy(), np.ones((2, 4)))


@pytest.mark.parametrize("seed", range(40))
def test_random_programs_never_expose_poisoned_results(seed: int) -> None:
    """Results that depend on a failure raise when read; all others match NumPy."""
    random = np.random.default_rng(seed)
    device = Device("cpu")
    streams = [device.default_stream, *(device.stream() for _ in range(3))]
    gain = xp.ones(4, dtype=xp.float32, device=device)
    good, bad = integers(device, 2, 0, 5, 1, 3, 4), integers(device, 2, 0, 5, 1, 99, 4)
    values = random.normal(size=(6, 4)).astype(np.float32)
    start = xp.asarray(values, device=device, copy=True)
    arrays: list[tuple[Array, npt.NDArray[np.float32] | None]] = [(start, values)]
    messages: list[str] = []
    for _ in range(60):
        array, expected = arrays[random.integers(len(arrays))]
        fails = random.random() < 0.1
        with streams[random.integers(len(streams))]:
            try:
                if fails or random.random() < 0.5:
                    output = ops.embedding(bad if fails else good, array)
                    moved = None if fails or expected is None else expected[[2, 0, 5, 1, 3, 4]]
                    arrays.append((output, moved))
                else:
                    output = ops.rms_norm(array, gain, 1e-5)
                    normed = None
                    if expected is not None:
                        scale = np.sqrt((expected**2).mean(1, keepdims=True) + 1e-5)
                        normed = (expected / scale).astype(np.float32)
                    arrays.append((output, normed))
            except DeviceError as error:
                messages.append(error.message)
    for array, expected in arrays:
        try:
            found = array.to_numpy()
        except DeviceError as error:
            messages.append(error.message)
        else:
            assert expected is not None, "the output of failed work was read as good"
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    assert messages
    assert all("got 99" in message for message in messages)
    # The device and its streams still work.
    for stream in streams[1:]:
        with stream:
            moved_again = ops.embedding(good, start)
        np.testing.assert_array_equal(moved_again.to_numpy(), values[[2, 0, 5, 1, 3, 4]])
