"""An `LLM` in this process, with a stand-in for vLLM that steps as vLLM does."""

from __future__ import annotations

import sys
from pathlib import Path

import fake_vllm_024
import pytest
from fake_vllm_024 import inputs, llm, sampling_params

from assay.errors import InputError
from assay.improve.engines.opening import open_engine
from assay.improve.engines.protocol import Engine, EngineLostError, TrialFailedError
from assay.improve.engines.vllm_in_process import VllmInProcess
from assay.load.workloads.workload import PlannedRequest, Window, Workload

WORKLOAD = Workload(
    "test",
    "",
    tuple(PlannedRequest(n, f"words of request number {n}", 7) for n in range(6)),
    concurrency=3,
)
LONG = Workload("long", "", (PlannedRequest(0, "word " * 60, 4),))


@pytest.fixture
def engine(monkeypatch):
    llm.ALIVE.clear()
    llm.LIMITS["starts"] = 1000
    monkeypatch.setitem(sys.modules, "vllm", fake_vllm_024)
    monkeypatch.setitem(sys.modules, "vllm.inputs", inputs)
    monkeypatch.setitem(sys.modules, "vllm.sampling_params", sampling_params)
    monkeypatch.setattr(fake_vllm_024, "inputs", inputs, raising=False)
    monkeypatch.setattr(
        fake_vllm_024, "SamplingParams", sampling_params.SamplingParams, raising=False
    )
    monkeypatch.setattr(llm.LLM, "__module__", "vllm.entrypoints.llm")
    return open_engine(llm.LLM("shapes/llama", enforce_eager=True))


def test_it_is_described(engine):
    assert isinstance(engine, VllmInProcess)
    assert isinstance(engine, Engine)
    found = engine.describe()
    assert (found.engine, found.release, found.model) == ("vllm", "0.24.0", "llama")
    assert found.synthetic
    assert "capture" in found.capabilities
    assert any("no tokenizer" in one for one in found.degradations)


def test_settings_are_those_of_the_configuration(engine):
    found = engine.settings()
    assert (found["enforce_eager"], found["max_num_seqs"], found["block_size"]) == (True, 256, 16)
    assert (found["max_cudagraph_capture_size"], found["optimization_level"]) == (0, 0)
    assert found["speculative_config"] is None


def test_tokens_are_counted_not_steps(engine):
    found = engine.measure(WORKLOAD, Window(requests=6))
    assert [one.output_tokens for one in found.records] == [7] * 6
    assert {one.prompt_tokens for one in found.records} == {5}
    # Seven tokens arrive two at a time: four arrivals, three latencies between them.
    assert {len(one.itls_s) for one in found.records} == {3}
    assert found.errors == 0
    assert engine.llm.resets == 1
    again = engine.measure(WORKLOAD, Window(requests=6))
    assert [one.digest for one in again.records] == [one.digest for one in found.records]


def test_a_request_that_is_refused_is_an_error_of_its_own(engine):
    found = engine.measure(LONG, Window(requests=1))
    assert found.errors == 1
    assert "longer than the maximum" in found.records[0].error


def test_a_change_makes_a_new_engine_in_the_place_of_the_old(engine):
    undo = engine.configure({"enforce_eager": False})
    assert len(llm.ALIVE) == 1
    # What follows from the change is not held back.
    assert engine.settings()["max_cudagraph_capture_size"] == 512
    command = engine.launch_command(engine.settings())
    assert command.startswith("vllm serve shapes/llama ")
    assert "--dtype bfloat16" in command
    assert "--load-format dummy" in command
    assert "--no-enforce-eager" in command
    undo()
    assert engine.settings()["enforce_eager"] is True
    assert len(llm.ALIVE) == 1


@pytest.mark.parametrize(
    ("changes", "failure"),
    [({"gpu_memory_utilization": 0.98}, "OOM"), ({"max_num_seqs": 13}, "refused")],
)
def test_a_failed_trial_brings_the_former_engine_back(engine, changes, failure):
    before = engine.settings()
    with pytest.raises(TrialFailedError) as caught:
        engine.configure(changes)
    assert caught.value.failure == failure
    assert engine.settings() == before
    assert engine.measure(WORKLOAD, Window(requests=2)).errors == 0


def test_the_object_that_was_given_lets_go_of_its_engine(engine):
    given = engine.llm
    engine.configure({"enforce_eager": False})
    assert vars(given) == {}
    assert engine.llm is not given


def test_an_engine_that_does_not_come_back_is_lost(engine):
    with pytest.raises(EngineLostError, match="nor does it start with the former arguments"):
        engine.configure({"max_num_seqs": 14})
    with pytest.raises(EngineLostError, match="expected an engine, got none"):
        engine.settings()
    with pytest.raises(EngineLostError, match="expected an engine, got none"):
        engine.measure(WORKLOAD, Window(requests=1))


def test_unknown_knobs_are_refused_before_anything_is_stopped(engine):
    with pytest.raises(InputError, match="enforce_eager: expected true or false"):
        engine.configure({"enforce_eager": 1})
    assert len(llm.ALIVE) == 1


def test_probes_have_margins(engine):
    [answer] = engine.probe(["one two"], 3)
    assert answer.margins == (0.75, 0.75, 0.75)
    assert answer.logprobs == (-0.5, -0.5, -0.5)
    assert len(answer.token_ids) == 3


class SyncMPClient(llm.InprocClient):
    pass


def test_a_child_process_is_not_traced(engine):
    engine.llm.llm_engine.engine_core = SyncMPClient()
    assert engine.capture(WORKLOAD, Window(requests=1), Path("unused")) is None
    assert any("VLLM_ENABLE_V1_MULTIPROCESSING" in one for one in engine.describe().degradations)


def test_other_objects_are_refused():
    with pytest.raises(InputError, match="expected assay, vllm, a URL, an assay"):
        open_engine(object())
