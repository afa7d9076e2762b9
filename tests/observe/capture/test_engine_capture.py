"""`assay.capture` of the engine at work, on small models."""

import json
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import polars as pl
import pytest
from small_models import fixture_engine

import assay
from assay.engine import SamplingParams
from assay.engine.runner import recording
from assay.engine.runner.recording import SECTIONS
from assay.errors import InputError
from assay.observe import operations
from assay.observe.trace import Trace
from chosen_device import ON_GPU


def launches(engine, sequences: int) -> set[int]:
    """How many launches a decode step has; a GPU may need several for an operation."""
    nodes = len(engine.operations(sequences))
    return set(range(nodes, 4 * nodes)) if ON_GPU else {nodes}


GREEDY = SamplingParams(max_tokens=12, temperature=0.0, ignore_eos=True)
ONCE = list(range(1, 18))
LAYERED = ("llama", "qwen3", "gpt2")
"""Fused norms; QK norms; LayerNorm and learned positions."""


def captured(path: Path, engine, prompts=(ONCE, [7]), params=GREEDY) -> Trace:
    with assay.capture(path) as capture:
        engine.generate(list(prompts), params)
    return capture.trace


@pytest.fixture(scope="module", params=LAYERED)
def traced(request, tmp_path_factory):
    """An engine, its trace, and how many steps it took."""
    with fixture_engine(request.param) as engine:
        trace = captured(tmp_path_factory.mktemp("traces") / "trace", engine)
        yield engine, trace, engine.statistics()["steps"]


def kernels(trace: Trace) -> pl.DataFrame:
    return trace.events.filter(pl.col("kind").cast(pl.String) == "kernel")


def test_every_step_has_every_node_of_its_graph(traced):
    engine, trace, steps = traced
    assert trace.steps["step"].to_list() == list(range(steps))
    decode = trace.steps.filter(pl.col("phase").cast(pl.String) == "decode")
    expected = launches(engine, 2)
    counts = kernels(trace).group_by("step").len()
    of_decode = counts.filter(pl.col("step").is_in(decode["step"].to_list()))["len"].unique()
    assert len(of_decode) == 1
    assert set(of_decode) <= expected
    nodes = kernels(trace).filter(pl.col("step") == decode["step"][0])["node"].to_list()
    assert nodes == list(range(len(nodes)))


def test_operations_are_canonical_and_the_same_in_every_layer_and_step(traced):
    engine, trace, _ = traced
    events = kernels(trace).with_columns(pl.col("op", "phase").cast(pl.String))
    assert events["op"].null_count() == 0
    assert all(operations.is_operation(name) for name in events["op"].unique())
    layers = engine.model.shape.layers
    for step, phase in zip(trace.steps["step"], trace.steps["phase"].cast(pl.String), strict=True):
        of_step = events.filter(pl.col("step") == step)
        assert of_step["phase"].unique().to_list() == [phase]
        by_layer = {
            layer: Counter(of_step.filter(pl.col("layer") == layer)["op"])
            for layer in range(layers)
        }
        assert by_layer[0]
        assert all(counts == by_layer[0] for counts in by_layer.values())
        parts = {part for name in of_step["op"] for part in operations.parts(name)}
        needed = {"qkv_proj", "attention", "o_proj", "gate_up_proj", "down_proj", "kv_cache_write"}
        assert needed | {"embedding", "lm_head", "sampling"} <= parts
        assert ("qk_norm" in parts) == (engine.model.blocks[0].attention.query_norm is not None)


def test_steps_say_what_they_computed(traced):
    _, trace, _ = traced
    first, *others = trace.steps.iter_rows(named=True)
    assert first["phase"] == "prefill"
    assert (first["batch"], first["requests"]) == (0, 2)
    assert first["prefill_tokens"] > 2
    assert first["context"] < first["prefill_tokens"]
    for before, step in zip([first, *others], others, strict=False):
        assert step["phase"] == "decode"
        assert (step["batch"], step["prefill_tokens"], step["requests"]) == (2, 0, 2)
        assert step["context"] == before["context"] + 1
        assert step["start_ns"] >= before["start_ns"] + before["dur_ns"]
        assert step["source"] == "engine"


def test_host_sections_leave_no_gap(traced):
    _, trace, _ = traced
    host = trace.events.filter(pl.col("kind").cast(pl.String).is_in(["host", "sync"]))
    known = {section.name for section in SECTIONS}
    assert set(host["name"].cast(pl.String)) <= known
    for row in trace.steps.iter_rows(named=True):
        start, end = row["start_ns"], row["start_ns"] + row["dur_ns"]
        inside = host.filter(
            (pl.col("start_ns") < end) & (pl.col("start_ns") + pl.col("dur_ns") > start)
        )
        covered = sum(
            min(end, first + length) - max(start, first)
            for first, length in inside.select("start_ns", "dur_ns").iter_rows()
        )
        assert covered >= 0.98 * row["dur_ns"]
        # The sections of a call do not overlap.
        assert covered <= row["dur_ns"]


@pytest.mark.skipif(ON_GPU, reason="a GPU runs beside the host")
def test_launches_fill_the_launch_section(traced):
    _, trace, _ = traced
    launch = trace.events.filter(pl.col("name").cast(pl.String) == "launch")
    for step, start, length in launch.select("step", "start_ns", "dur_ns").iter_rows():
        inside = kernels(trace).filter(pl.col("step") == step)
        assert inside["start_ns"].min() >= start - 1_000
        ends = inside["start_ns"] + inside["dur_ns"]
        assert ends.max() <= start + length + 1_000
        assert inside["dur_ns"].sum() <= length
        device_ns = trace.steps.filter(pl.col("step") == step)["device_ns"].item()
        assert device_ns == inside["dur_ns"].sum()


def test_copies_have_their_bytes(traced):
    _, trace, steps = traced
    copies = trace.events.filter(pl.col("kind").cast(pl.String) == "memcpy")
    names = Counter(copies["name"].cast(pl.String))
    assert names == {"step_inputs": steps, "step_outputs": steps}
    assert set(copies["op"].cast(pl.String)) == {"prepare_inputs", "collect_outputs"}
    assert copies["bytes"].min() >= 4


def test_header_says_where_it_comes_from(tmp_path):
    with fixture_engine("llama") as engine, assay.capture(tmp_path / "trace") as capture:
        engine.generate([ONCE], GREEDY)
    header = json.loads((tmp_path / "trace" / "header.json").read_text())
    assert header["source"] == "assay"
    assert header["clock"] == "monotonic"
    assert header["model"] == capture.header.model
    assert header["dropped"] == 0
    assert header["hardware"]["fingerprint"]
    assert header["overhead"]["command"] == "assay bench tracing"
    assert header["degradations"] == []
    assert Trace.open(tmp_path / "trace").header == capture.header


def test_outputs_are_the_same_and_nothing_is_recorded_when_off(tmp_path):
    with fixture_engine("llama") as engine:
        before = engine.generate([ONCE], GREEDY)
        with assay.capture(tmp_path / "trace") as capture:
            during = engine.generate([ONCE], GREEDY)
        assert recording.active is None
        assert engine._state.recorder is None
        after = engine.generate([ONCE], GREEDY)
    assert before[0].token_ids == during[0].token_ids == after[0].token_ids
    steps = capture.steps.height
    assert 12 <= steps <= 13
    assert engine.device.stop_trace().counts() == (0, 0, 0)


def test_a_capture_inside_a_capture_is_refused(tmp_path):
    with (
        assay.capture(tmp_path / "first"),
        pytest.raises(InputError, match="one capture at a time"),
    ):
        assay.capture(tmp_path / "second").start()
    assert not (tmp_path / "second").exists()
    assert recording.active is None


def test_an_existing_path_is_refused_before_anything_runs(tmp_path):
    (tmp_path / "trace").mkdir()
    with pytest.raises(InputError, match="exists already"):
        assay.capture(tmp_path / "trace")


def test_a_trace_is_read_after_its_end(tmp_path):
    with (
        assay.capture(tmp_path / "trace") as capture,
        pytest.raises(InputError, match="got one under way"),
    ):
        _ = capture.events
    assert capture.events.height == 0
    assert capture.header.degradations == ["no engine took a step while it was captured"]


def test_an_exception_inside_leaves_a_trace_that_says_so(tmp_path):
    with fixture_engine("llama") as engine:
        capture = assay.capture(tmp_path / "trace")

        def give_up():
            with capture:
                for index, _ in enumerate(engine.stream(ONCE, GREEDY)):
                    if index == 3:
                        raise RuntimeError("the caller gave up")

        with pytest.raises(RuntimeError, match="gave up"):
            give_up()
        assert engine.generate([ONCE], GREEDY)[0].error is None
    assert capture.header.degradations == [
        "ended early by an exception: RuntimeError: the caller gave up"
    ]
    assert capture.steps.height >= 4
    files = sorted(file.name for file in (tmp_path / "trace").iterdir())
    assert files == ["events.shard", "header.json", "steps.json"]
    assert [one.name for one in tmp_path.iterdir()] == ["trace"]


def test_dropped_records_are_counted(tmp_path):
    with fixture_engine("llama") as engine:
        with assay.capture(tmp_path / "trace", max_launches=100) as capture:
            engine.generate([ONCE], GREEDY)
        nodes = len(engine.operations(1))
    kept = kernels(capture.trace).height
    host = capture.events.filter(pl.col("kind").cast(pl.String).is_in(["host", "sync"])).height
    assert kept <= 100
    total = capture.steps.height * nodes
    assert 0 < total - kept <= capture.header.dropped
    assert host == 12
    assert any("records were dropped" in line for line in capture.header.degradations)


def test_overlapping_steps_keep_their_own_events(tmp_path):
    with fixture_engine("llama", overlap="on") as engine:
        trace = captured(tmp_path / "trace", engine)
        nodes = launches(engine, 2)
    decode = trace.steps.filter(pl.col("phase").cast(pl.String) == "decode")["step"].to_list()
    counts = Counter(kernels(trace)["step"])
    # The last step was launched before the one before it was read back.
    assert {counts[step] for step in decode} <= nodes
    names = trace.events.with_columns(pl.col("name").cast(pl.String))
    for step in decode[:-1]:
        own = Counter(names.filter(pl.col("step") == step)["name"])
        assert own["schedule"] == own["launch"] == own["wait"] == own["append_tokens"] == 1


def test_steps_without_graphs_are_traced_operation_by_operation(tmp_path):
    with fixture_engine("llama", graph_buckets=0) as engine:
        trace = captured(tmp_path / "trace", engine)
        nodes = launches(engine, 2)
    events = kernels(trace)
    assert events["graph"].null_count() == events.height
    decode = trace.steps.filter(pl.col("phase").cast(pl.String) == "decode")["step"].to_list()
    assert {Counter(events["step"])[step] for step in decode} <= nodes
    assert events["op"].null_count() == 0


def test_engines_of_several_threads_share_a_capture(tmp_path):
    outcomes = []

    def run(engine):
        outcomes.append(engine.generate([ONCE, [7]], GREEDY))

    with fixture_engine("llama") as one, fixture_engine("llama") as other:
        with assay.capture(tmp_path / "trace") as capture:
            threads = [threading.Thread(target=run, args=(each,)) for each in (one, other)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        nodes = launches(one, 2)
        steps = one.statistics()["steps"] + other.statistics()["steps"]
    assert len(outcomes) == 2
    assert capture.steps["step"].n_unique() == capture.steps.height == steps
    decode = capture.steps.filter(pl.col("phase").cast(pl.String) == "decode")["step"].to_list()
    counts = Counter(kernels(capture.trace)["step"])
    assert {counts[step] for step in decode} <= nodes
    threads_seen = capture.events.filter(pl.col("kind").cast(pl.String) == "host")["tid"]
    assert threads_seen.n_unique() == 2


def test_capturing_imports_neither_polars_nor_pyarrow(tmp_path):
    program = f"""
import sys, assay
with assay.Engine.load("synthetic") as engine, assay.capture({str(tmp_path / "trace")!r}):
    engine.generate(["Once"], assay.SamplingParams(max_tokens=3))
print([name for name in ("polars", "pyarrow", "pandas") if name in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
    assert (tmp_path / "trace" / "events.shard").is_file()


@pytest.mark.skipif(ON_GPU, reason="CUPTI records there")
def test_without_cupti_the_header_says_why(tmp_path):
    with fixture_engine("llama") as engine, assay.capture(tmp_path / "t", cupti=True) as capture:
        engine.generate([ONCE], GREEDY)
    (line,) = capture.header.degradations
    assert line.startswith("work of other libraries is not recorded: ")
    assert kernels(capture.trace).height
