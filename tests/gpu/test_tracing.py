"""Times that kernels store, on a GPU: complete, in order, and of every launch."""

import polars as pl
import pytest
from small_models import fixture_engine

import assay
from assay._native import set_trace_step
from assay.bench.suites.tracing_workloads import SmallKernels
from assay.engine import SamplingParams
from assay.runtime import Device, cuda
from assay.runtime.graphs import capture_graph

if (missing := cuda.probe().missing) is not None:
    pytest.skip(missing.sentence, allow_module_level=True)

pytestmark = pytest.mark.gpu

GREEDY = SamplingParams(max_tokens=24, temperature=0.0, ignore_eos=True)


@pytest.fixture(scope="module")
def gpu() -> Device:
    return Device("cuda:0", pool_bytes=8 << 30)


def traced(device, run):
    device.start_trace(100_000)
    set_trace_step(0)
    try:
        run()
    finally:
        set_trace_step(None)
        device.synchronize()
    return device.stop_trace()


def test_launches_one_by_one_have_times(gpu):
    small = SmallKernels(gpu)
    small.launch(1)
    work = traced(gpu, lambda: small.launch(10_000))
    assert work.counts() == (10_000, 10_000, 0)
    assert work.dropped == 0
    assert work.names() == [("small", "swiglu", "swiglu")]
    assert work.clock_error_ns < 50_000
    assert 0 < work.resolution_ns <= 2_000


def test_graphs_have_times_of_every_node(gpu):
    small = SmallKernels(gpu)

    def run():
        with capture_graph(lambda: small.launch(100), device=gpu, label="small") as graph:
            for _ in range(50):
                graph.replay()
            gpu.synchronize()

    work = traced(gpu, run)
    assert work.counts() == (50, 50, 0)


def test_a_traced_engine_computes_the_same_in_order(gpu, tmp_path):
    with fixture_engine("llama", gpu) as engine:
        # The first answer fills the prefix cache; with its hits, prefill rounds otherwise.
        engine.generate([list(range(1, 18)), [7]], GREEDY)
        plain = engine.generate([list(range(1, 18)), [7]], GREEDY)
        with assay.capture(tmp_path / "trace") as capture:
            during = engine.generate([list(range(1, 18)), [7]], GREEDY)
        after = engine.generate([list(range(1, 18)), [7]], GREEDY)
    tokens = [[answer.token_ids for answer in one] for one in (plain, during, after)]
    assert tokens[0] == tokens[1] == tokens[2]
    events = capture.events.with_columns(pl.col("kind", "args", "op").cast(pl.String))
    device = events.filter(pl.col("kind") == "kernel").sort("start_ns")
    assert device["op"].null_count() == 0
    stamped = device.filter(pl.col("args").is_null())
    assert stamped.height
    ends = (stamped["start_ns"] + stamped["dur_ns"]).to_list()
    resolution = capture.header.hardware["devices"][gpu.name]["clock_resolution_ns"]
    for end, start in zip(ends, stamped["start_ns"].to_list()[1:], strict=False):
        assert end <= start + 2 * resolution
