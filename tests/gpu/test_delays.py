"""Delays inside CUDA graphs: kept times, unchanged results, slopes of one and zero on two streams."""

import numpy as np
import pytest
from small_models import fixture_engine

from assay import ops, xp
from assay.diagnose.delays import EngineTarget, GraphTarget, profile
from assay.engine import SamplingParams
from assay.runtime import Array, Device, cuda
from assay.runtime.delays import DelaySlots, overshoot_ns
from assay.runtime.graphs import Graph, capture_graph
from branch_graphs import branch_graph

if (missing := cuda.probe().missing) is not None:
    pytest.skip(missing.sentence, allow_module_level=True)

pytestmark = pytest.mark.gpu

GREEDY = SamplingParams(max_tokens=24, temperature=0.0, ignore_eos=True)


HOST_NS = 1_000_000
"""Longer than a host takes to queue two events and a graph."""
MOST_SPREAD = 1.1
"""Replays of one graph that differ by more share the GPU with another program."""


@pytest.fixture(scope="module")
def gpu() -> Device:
    return Device("cuda:0", pool_bytes=8 << 30)


def test_delays_last_as_long_as_asked_for(gpu: Device) -> None:
    overshoot = overshoot_ns(gpu)
    print(f"\novershoot {overshoot} ns")
    assert 0 <= overshoot <= 2_000
    slots = DelaySlots(gpu, 2)
    graph = capture_graph(lambda: slots.queue(1), device=gpu)
    stream = gpu.default_stream
    for requested in (5_000, 20_000, 100_000, 1_000_000):
        elapsed = []
        for duration in (0, requested) * 20:
            # While the first delay runs the host queues everything that is timed. Between an event that
            # the device reaches at once and a graph that follows it is the time of a launch: microseconds
            # more where the host slept for a millisecond before than where it did not.
            slots.set([HOST_NS, duration])
            slots.queue(0)
            start = stream.record()
            graph.replay()
            end = stream.record()
            end.synchronize()
            elapsed.append(end.elapsed_ns(start))
        added = np.median(elapsed[1::2]) - np.median(elapsed[::2])
        print(f"requested {requested} ns, the replay took {added:.0f} ns longer")
        assert added == pytest.approx(requested, abs=3_000)


def _read(device: Device, array: Array, out: Array, times: int, label: str) -> None:
    for index in range(times):
        device.copy(f"{label}.{index}", array.buffer, 0, out.buffer, 0, array.nbytes)


def two_streams(gpu: Device, longer: int, shorter: int) -> Graph:
    """Copies of 16 MiB on two streams, so many on each."""
    arrays = [xp.zeros(4 << 20, dtype=xp.float32, device=gpu) for _ in range(4)]
    root = xp.zeros(1024, dtype=xp.float32, device=gpu)
    side = gpu.stream()

    def step() -> None:
        gpu.fill("root", root.buffer, 0, 1, root.nbytes)
        with side:
            gpu.copy("start", root.buffer, 0, arrays[0].buffer, 0, root.nbytes)
            _read(gpu, arrays[0], arrays[1], shorter, "short")
        _read(gpu, arrays[2], arrays[3], longer, "long")

    return capture_graph(step, device=gpu, label="two streams")


def replay_spread(gpu: Device, graph: Graph) -> float:
    """The 90th percentile of replays of a graph over their least."""
    elapsed = []
    for _ in range(100):
        start = gpu.default_stream.record()
        graph.replay()
        end = gpu.default_stream.record()
        end.synchronize()
        elapsed.append(end.elapsed_ns(start))
    return float(np.quantile(elapsed[10:], 0.9) / min(elapsed[10:]))


def test_two_streams_have_slopes_of_one_and_zero(gpu: Device) -> None:
    """Waits of 400 and 150 us on two streams: what the streams compute does not contend."""
    case = branch_graph(gpu, [[200_000, 200_000], [150_000]], fill_bytes=1 << 20)
    found = profile(case.graph, nodes=["branch*"], budget=60)
    for one in found:
        print(one.name, f"{one.slope:.3f} [{one.lo:.3f}, {one.hi:.3f}]", one.verdict)
    for name in case.names(0):
        assert found.of(name).verdict == "critical"
        assert found.of(name).slope == pytest.approx(1.0, abs=0.05)
    for name in case.names(1):
        assert found.of(name).verdict == "hidden"
        assert found.of(name).slope == pytest.approx(0.0, abs=0.05)


def test_two_streams_of_copies_that_share_bandwidth(gpu: Device) -> None:
    """The longer of two streams of copies is critical; the shorter one is not."""
    graph = two_streams(gpu, longer=24, shorter=4)
    if (spread := replay_spread(gpu, graph)) > MOST_SPREAD:
        # Time slices of another program lengthen replays with a delay more often than those without.
        pytest.skip(f"replays of one graph differ by {spread:.2f} times: the GPU is not ours alone")
    found = profile(graph, nodes=["long.23", "short.0"], budget=60)
    for one in found:
        print(one.name, f"{one.slope:.3f} [{one.lo:.3f}, {one.hi:.3f}]", one.verdict)
    assert found.of("long.23").verdict == "critical"
    assert found.of("short.0").verdict == "hidden"


def test_results_are_the_same_with_delays(gpu: Device) -> None:
    """Programmatic dependent launch stays in order: kernels before and after a delay."""
    generator = np.random.default_rng(0)
    values = xp.asarray(
        generator.standard_normal((4, 512)).astype(np.float32), dtype=xp.bfloat16, device=gpu
    )
    weights = [
        ops.pack(
            generator.standard_normal((512, 512)).astype(np.float32) / 23, "bf16", (512, 512), gpu
        )
        for _ in range(8)
    ]
    outs = [xp.empty((4, 512), dtype=xp.bfloat16, device=gpu) for _ in weights]

    def step() -> None:
        current = values
        for index, (weight, out) in enumerate(zip(weights, outs, strict=True)):
            ops.linear(current, weight, out=out, label=f"linear.{index}")
            current = out

    graph = capture_graph(step, device=gpu)
    graph.replay()
    expected = outs[-1].to_numpy().copy()
    assert len(np.unique(expected)) > 1_000
    with GraphTarget(graph, replays=3) as target:
        for delay in (0, 5_000, 50_000):
            for out in outs:
                gpu.fill("clear", out.buffer, 0, 0, out.nbytes)
            target.run({node.name: delay for node in target.nodes})
            np.testing.assert_array_equal(outs[-1].to_numpy(), expected)


@pytest.mark.parametrize("name", ["llama", "qwen3"])
def test_an_engine_keeps_its_tokens_and_waits_for_its_layers(gpu: Device, name: str) -> None:
    with fixture_engine(name, gpu, kv_tokens=4096) as engine:
        [before] = engine.generate([[5, 6, 7]], GREEDY)
        with EngineTarget(engine, batch=2, context=16, steps=8) as target:
            control = target.run({})
            delayed = target.run({"head": 3_000_000})
            print(f"\n{name}: plain {target.plain():.0f}, idle delays {control.step_ns:.0f} ns")
            assert delayed.step_ns - control.step_ns == pytest.approx(3_000_000, rel=0.1)
        [after] = engine.generate([[5, 6, 7]], GREEDY)
        assert after.token_ids == before.token_ids
