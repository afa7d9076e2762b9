"""Models of speech behind the protocol, on random weights: knobs, windows, and words as the gate."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from whisper_folders import write_ctranslate2

from assay.errors import InputError
from assay.improve.engines.protocol import FLOOR
from assay.improve.engines.speech import TranscribingEngine
from assay.improve.experiments.blocks import marked
from assay.improve.experiments.correctness import baseline_reference, correctness_gate
from assay.improve.experiments.prompts import PROMPTS
from assay.load.workloads.workload import Objective, PlannedRequest, Window, Workload
from assay.planner.specs import Ceiling, HardwareSpec
from assay.runs.speech import open_speech
from assay.runs.subject_options import SubjectOptions


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> TranscribingEngine:
    numbers = np.random.default_rng(2)
    recordings = {
        name: numbers.standard_normal(8_000).astype(np.float32) * np.float32(0.1)
        for name in ("one", "two")
    }
    folder = write_ctranslate2(tmp_path_factory.mktemp("whisper"))
    made = TranscribingEngine(str(folder), recordings)
    # Kernel threads are the process's: an engine of another test may have left fewer.
    made.configure({"threads": 1})
    made.configure({"threads": 0})
    return made


WORKLOAD = Workload(
    "transcribe",
    "",
    (PlannedRequest(0, "one", 448), PlannedRequest(1, "two", 448)),
    objective=Objective("request_throughput"),
)


def test_knobs_are_set_read_back_and_undone(engine: TranscribingEngine) -> None:
    start = dict(engine.settings())
    assert start == {"threads": 0, "beam_size": 5, "compute_type": "default"}
    undo = engine.configure({"compute_type": "int8", "beam_size": 1, "threads": 1})
    assert engine.settings() == {"threads": 1, "beam_size": 1, "compute_type": "int8"}
    command = engine.launch_command(engine.settings())
    assert command.endswith("--threads 1 --beam-size 1 --compute-type int8")
    undo()
    assert engine.settings() == start
    for wrong in ({"beam_size": 99}, {"compute_type": "int4"}, {"batch": 2}):
        with pytest.raises(InputError, match=next(iter(wrong))):
            engine.configure(wrong)
    assert engine.settings() == start


def test_a_window_answers_requests_whatever_marks_their_prompts(engine: TranscribingEngine) -> None:
    plain = engine.measure(WORKLOAD, Window(requests=3, offset=1))
    again = engine.measure(marked(WORKLOAD, "bd13759a"), Window(requests=3, offset=1))
    assert [record.number for record in plain.records] == [1, 0, 1]
    assert [record.digest for record in plain.records] == [
        record.digest for record in again.records
    ]
    assert plain.figures["request_throughput"] == pytest.approx(3 / plain.seconds, rel=1e-6)
    assert plain.settings["beam_size"] == 5


def test_words_are_the_gate(engine: TranscribingEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    said = {"one": "the same words", "two": "of both recordings"}
    monkeypatch.setattr(engine, "_words", lambda request: said[request])
    reference = baseline_reference(engine)
    assert reference.gate.passed
    texts = [prompt.text for prompt in PROMPTS]
    assert correctness_gate(reference, engine.probe(texts, 12), "rounding", False).passed
    said["two"] = "Of both, recordings!"
    assert correctness_gate(reference, engine.probe(texts, 12), "rounding", False).passed
    said["two"] = "of most recordings"
    refused = correctness_gate(reference, engine.probe(texts, 12), "rounding", False)
    assert not refused.passed


def test_the_floor_is_that_of_the_operations_that_ran(engine: TranscribingEngine) -> None:
    fast = Ceiling(1e15, 1e15, 1e15, "byte/s", 1, {"operation": "read", "bytes": 1.0})
    engine.count(HardwareSpec("here", {"gpu.peak_flops": 1e9}, "", {"read": fast}))
    floor: Any = engine.describe().details[FLOOR]
    # The encoder alone: 100 frames of 80 mels and 50 of 64 under kernels of 3, then layers of
    # width 64 with attention over 50 rows.
    encoder = 2 * (100 * 240 * 64 + 50 * 192 * 64) + 2 * (2 * 50 * 12 * 64**2 + 4 * 50**2 * 64)
    assert encoder / 1e9 < floor < 100 * encoder / 1e9


@pytest.mark.parametrize(
    "given", [{"rate": 1.0}, {"concurrency": 2}, {"device": "cuda:0"}, {"workload": "speak", "model": "x"}]
)  # fmt: skip
def test_what_speech_has_not_is_refused(given: dict[str, Any], tmp_path: Path) -> None:
    options = SubjectOptions(engine="assay", budget_s=60.0, **{"workload": "transcribe", **given})
    with pytest.raises(InputError, match=list(given)[-1]):
        open_speech(options, None, lambda text: None)
