"""Workloads on arrays behind the protocol of the loop: settings are levers, outputs are compared."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping

import pytest

import assay.workloads.registry as registry
from assay.errors import InputError
from assay.improve.engines.protocol import Engine
from assay.improve.experiments.correctness import baseline_reference, correctness_gate
from assay.improve.experiments.prompts import PROMPTS
from assay.load.workloads.measurement import Setting
from assay.load.workloads.workload import Window
from assay.runs import arrays
from assay.runs.array_engine import ArrayEngine
from assay.runs.subject_options import SubjectOptions
from assay.runtime.hardware import Device
from assay.workloads.contract import Arrays, DataSet, Program, Verified, WorkloadSetting
from assay.workloads.registry import workload as workload_named
from running_sums import RunningSums, SummingProgram

SIZE = 200
TEXTS = [prompt.text for prompt in PROMPTS]


def engine_of(workload: RunningSums) -> ArrayEngine:
    data = [workload.generate(seed, SIZE) for seed in (1, 2, 3)]
    return ArrayEngine(workload, Device("cpu"), data, {"how": "number"})


class LosesTheLast(RunningSums):
    """Its fast setting forgets the last number."""

    def prepare(self, data: DataSet, device: Device, settings: Mapping[str, Setting]) -> Program:
        class Forgetting(SummingProgram):
            def run(self) -> Mapping[str, float]:
                super().run()
                self.sums[-1] = 0
                return {}

        return Forgetting(data) if settings["how"] == "vector" else SummingProgram(data, "number")


def test_settings_are_knobs_and_levers() -> None:
    engine = engine_of(RunningSums())
    assert isinstance(engine, Engine)
    assert engine.knobs()["how"].choices == ("number", "vector")
    (lever,) = engine.levers()
    assert (lever.name, lever.knobs[0].values) == ("how", ("number", "vector"))
    assert lever.correctness == "bitwise"
    undo = engine.configure({"how": "vector"})
    assert engine.settings() == {"how": "vector"}
    undo()
    assert engine.settings() == {"how": "number"}
    plain = "assay bench run running-sums --device cpu --knob how=number"
    assert engine.launch_command({"how": "number"}) == plain
    assert engine.launch_command({"how": "vector"}) == "assay bench run running-sums --device cpu"
    with pytest.raises(InputError, match="how: expected one of number, vector, got guess"):
        engine.configure({"how": "guess"})


def test_a_setting_that_keeps_outputs_passes_the_gate_and_one_that_does_not_fails() -> None:
    for workload, passed in ((RunningSums(), True), (LosesTheLast(), False)):
        engine = engine_of(workload)
        reference = baseline_reference(engine)
        assert reference.gate.passed
        engine.configure({"how": "vector"})
        gate = correctness_gate(reference, engine.probe(TEXTS, 12), "bitwise", allow_lossy=False)
        assert gate.passed is passed


def test_outputs_that_were_verified_are_not_verified_again() -> None:
    """Another implementation may take a minute for a data set, and every experiment asks for it."""

    class Counted(RunningSums):
        verified = 0

        def verify(self, outputs: Arrays, data: DataSet) -> Verified:
            self.verified += 1
            return super().verify(outputs, data)

    workload = Counted()
    engine = engine_of(workload)
    first = engine.probe(TEXTS, 12)
    asked = workload.verified
    engine.configure({"how": "vector"})
    assert engine.probe(TEXTS, 12) == first
    assert 0 < asked == workload.verified


def test_probes_reach_every_data_set() -> None:
    engine = engine_of(RunningSums())
    assert len({answer.texts for answer in engine.probe(TEXTS[:3], 12)}) == 3


def test_a_run_with_wrong_outputs_is_an_error() -> None:
    """An exact setting is found by its hash, once a probe has verified it; a rounding one by the verdict."""

    class Rounds(LosesTheLast):
        def settings(self, device: Device) -> tuple[WorkloadSetting, ...]:
            (how,) = super().settings(device)
            return (dataclasses.replace(how, keeps="rounding"),)

    data = [RunningSums().generate(seed, SIZE) for seed in (1, 2, 3)]
    asked = SubjectOptions(engine="assay", workload="running-sums", budget_s=60.0)
    for workload in (LosesTheLast(), Rounds()):
        engine = engine_of(workload)
        planned = arrays._requests(workload, asked, data, "")
        right = engine.measure(planned, Window(requests=3))
        assert [record.error for record in right.records] == [None] * 3
        engine.configure({"how": "vector"})
        engine.probe(TEXTS, 12)
        wrong = engine.measure(planned, Window(requests=3))
        assert all(str(record.error).startswith("wrong against") for record in wrong.records)


def test_a_request_is_said_in_the_units_of_the_workload() -> None:
    asked = SubjectOptions(engine="assay", workload="running-sums", budget_s=60.0)
    workload = RunningSums()
    planned = arrays._requests(workload, asked, [workload.generate(1, SIZE)], "")
    shape = planned.data_set
    assert shape is not None
    assert (shape.rows, shape.row, shape.unit) == (SIZE, "frames", "frames/s")
    assert shape.figure(10.0) == 10.0 * SIZE
    assert planned.notes[0] == "a request is a data set of 200 frames: 1 request/s is 200 frames/s"
    market = workload_named("order-book")
    events = arrays._shape(market, market.generate(1, 1_000))
    # 1,000 events in a request: 100 of them a second are 10 us an event.
    assert events.figure(100.0) == pytest.approx(10_000.0)
    assert (events.rows, events.row, events.unit) == (1_000, "events", "ns/event")


def test_a_window_counts_runs_and_not_loading(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "WORKLOADS", {"running-sums": "running_sums"})
    engine = engine_of(RunningSums())
    asked = SubjectOptions(engine="assay", workload="running-sums", budget_s=60.0)
    data = [RunningSums().generate(seed, SIZE) for seed in (1, 2, 3)]
    workload = arrays._requests(RunningSums(), asked, data, "")
    window = engine.measure(workload, Window(requests=6))
    assert [record.number for record in window.records] == [0, 1, 2, 0, 1, 2]
    spans = [(record.sent_s, record.end_s) for record in window.records]
    assert all(end == later for (_, end), (later, _) in itertools.pairwise(spans))
    assert window.records[0].digest == window.records[3].digest != window.records[1].digest


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model": "smollm2"}, "--model: expected none for running-sums, got smollm2"),
        ({"device": "sim"}, "--device: expected cpu for running-sums, got sim"),
        ({"knobs": ["how=guess"]}, "--knob how: expected one of number, vector, got guess"),
        ({"knobs": ["what=1"]}, "--knob what: expected one of how, got 1"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, object], message: str
) -> None:
    monkeypatch.setattr(arrays, "workload_named", lambda _: RunningSums())
    asked = SubjectOptions(
        engine="assay",
        workload="running-sums",
        budget_s=60.0,
        **options,  # type: ignore[arg-type]
    )
    with pytest.raises(InputError) as refused:
        arrays.open_arrays(asked, None, lambda _: None)
    assert refused.value.message == message
