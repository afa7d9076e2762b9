"""The built-in levers: valid, about knobs that exist, and each with an inverse that works."""

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from assay.engine import Engine
from assay.engine.core.knobs import KNOBS
from assay.errors import AssayError
from assay.files import read_yaml
from assay.improve.engines.own import OwnEngine
from assay.improve.engines.protocol import EngineDescription, EngineKnob
from assay.improve.levers import loading
from assay.improve.levers.applicability import candidates
from assay.improve.levers.lever import Lever
from assay.improve.levers.schema import filled
from assay.load.workloads.builtin import workload
from assay.load.workloads.measurement import Setting

LEVERS = loading.built_in()
OWN = [one for one in LEVERS if one.engine == "assay"]
PLAIN = {"threads": 1, "graph_buckets": 0, "max_batch": 1}


@pytest.fixture(scope="module")
def engine() -> Iterator[OwnEngine]:
    with Engine.load("synthetic", "cpu", kv_tokens=512) as found:
        # Kernel threads are the process's: an engine of another test may have left fewer.
        found.configure({"threads": 1})
        found.configure({"threads": 0})
        yield OwnEngine(found)


def test_at_least_thirty_levers_of_six_engines() -> None:
    assert len(LEVERS) >= 30
    engines = {"assay", "assay-speech", "llama.cpp", "sglang", "tensorrt-llm", "vllm"}
    assert {lever.engine for lever in LEVERS} == engines
    names = [(one.engine, one.name) for one in LEVERS]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("lever", LEVERS, ids=lambda one: f"{one.engine}/{one.name}")
def test_no_lever_asks_for_the_name_of_a_device(lever: Lever) -> None:
    text = " ".join((*lever.applies, *(str(one) for knob in lever.knobs for one in knob.values)))
    for name in ("h100", "h200", "a100", "b200", "nvidia", "amd", "intel", "epyc", "xeon"):
        assert name not in text.lower()


@pytest.mark.parametrize("lever", OWN, ids=lambda one: one.name)
def test_knobs_of_the_own_engine_exist_with_these_values(lever: Lever) -> None:
    for one in lever.knobs:
        knob = KNOBS[one.knob]
        for value in one.values:
            if not (isinstance(value, str) and value.startswith("=")):
                knob.check(value)


@pytest.mark.parametrize("lever", OWN, ids=lambda one: one.name)
def test_every_own_lever_is_undone(lever: Lever, engine: OwnEngine) -> None:
    """Whatever the lever changes, the engine reads back its former settings after the undo."""
    before = dict(engine.settings())
    blind = replace(lever, applies=())
    proposed, _ = candidates([blind], engine.describe(), engine.knobs(), before, workload("chat"))
    tried = 0
    for candidate in proposed:
        try:
            undo = engine.configure(candidate.changes)
        except AssayError:
            assert dict(engine.settings()) == before
            continue
        changed = engine.settings()
        assert {knob: changed[knob] for knob in candidate.changes} == dict(candidate.changes)
        undo()
        assert dict(engine.settings()) == before
        tried += 1
    current_only = {value for one in lever.knobs for value in one.values} <= set(before.values())
    assert tried or current_only or lever.name == "threads"


@pytest.mark.parametrize("lever", LEVERS, ids=lambda one: f"{one.engine}/{one.name}")
def test_what_if_changes_can_be_replayed(lever: Lever) -> None:
    from assay.diagnose.replay.changes import parse

    values: dict[str, Any] = {
        one.knob: next((v for v in one.values if not str(v).startswith("=")), 64)
        for one in lever.knobs
    }
    for change in lever.changes:
        assert parse(filled(change, values)).kind


def test_a_plain_start_has_the_candidates_that_a_plain_start_lacks(engine: OwnEngine) -> None:
    settings = {**engine.settings(), **PLAIN}
    described = engine.describe()
    described = replace(described, hardware={**described.hardware, "usable_cores": 2})
    proposed, skipped = candidates(
        loading.load("assay"), described, engine.knobs(), settings, workload("chat")
    )
    changes = [dict(one.changes) for one in proposed]
    assert {"threads": 2} in changes
    assert {"graph_buckets": 8} in changes
    assert {"max_batch": 4} in changes
    assert {"speculation_depth": 4} in changes
    assert len(changes) == len({tuple(one.items()) for one in changes})
    reasons = dict(skipped)
    assert reasons["async-scheduling"].startswith('does not hold: capability("async-scheduling")')
    assert "deterministic is false" in reasons["batch-variant-kernels"]


def test_files_of_the_user_replace_and_add(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(
        "format: assay.levers/1\nengine: assay\nlevers:\n"
        "- {name: threads, mechanism: mine, knobs: {threads: [2]}, safety: safe, hot: true,\n"
        "   correctness: bitwise, reference: none}\n"
        "- {name: other, mechanism: mine, knobs: {threads: [1]}, safety: safe, hot: true,\n"
        "   correctness: bitwise, reference: none}\n"
    )
    found = {one.name: one for one in loading.load("assay", [path])}
    assert len(found) == len(OWN) + 1
    assert found["threads"].mechanism == "mine"
    assert str(path) in found["other"].source
    with pytest.raises(AssayError, match="has it already"):
        loading.load("assay", [path, path])


def test_knobs_that_the_engine_chooses_itself_are_left_to_it(engine: OwnEngine) -> None:
    settings = {**engine.settings(), "overlap": None}
    described = replace(engine.describe(), capabilities=frozenset({"async-scheduling"}))
    levers = [one for one in OWN if one.name == "async-scheduling"]
    proposed, skipped = candidates(levers, described, engine.knobs(), settings)
    assert not proposed
    assert skipped[0].reason == "the engine chooses overlap itself"


def test_knobs_that_cannot_be_read_back_are_never_changed(engine: OwnEngine) -> None:
    settings = {name: value for name, value in engine.settings().items() if name != "threads"}
    _, skipped = candidates(OWN, engine.describe(), engine.knobs(), settings)
    assert dict(skipped)["threads"] == (
        "threads cannot be read back, so a change could not be undone"
    )
    fewer = {name: one for name, one in engine.knobs().items() if name != "policy"}
    _, skipped = candidates(OWN, engine.describe(), fewer, engine.settings())
    assert dict(skipped)["shortest-first"] == "the engine has no knob policy"


@pytest.mark.parametrize("engine", ["llama.cpp", "sglang", "tensorrt-llm"])
def test_knobs_of_levers_are_those_of_the_adapter(engine: str) -> None:
    adapters = loading.LIBRARY.parent.parent / "engines" / "adapters"
    knobs = read_yaml("adapter", adapters / f"{engine}.yaml")["knobs"]
    ranges = [knob for lever in LEVERS if lever.engine == engine for knob in lever.knobs]
    assert ranges
    for asked in ranges:
        choices = knobs[asked.knob].get("choices")
        for value in asked.values:
            assert choices is None or value in choices, asked


PARALLEL = {
    "sglang": ("tp_size", "pp_size", "dp_size"),
    "tensorrt-llm": ("tensor_parallel_size", "pipeline_parallel_size"),
    "vllm": ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size"),
}


@pytest.mark.parametrize("engine", PARALLEL)
@pytest.mark.parametrize("tensor", [1, 2, 4])
@pytest.mark.parametrize("other", [1, 2])
def test_levers_of_parallelism_keep_the_number_of_gpus(
    engine: str, tensor: int, other: int
) -> None:
    """Twice the GPUs would be a gain that another server would be too."""
    sizes = dict.fromkeys(PARALLEL[engine], other) | {PARALLEL[engine][0]: tensor}
    gpus = math.prod(sizes.values())
    settings: dict[str, Setting] = {**sizes, "enable_dp_attention": False}
    knobs = {name: EngineKnob(name, "", None, False, 1) for name in settings}
    levers = [
        lever
        for lever in LEVERS
        if lever.engine == engine and {knob.knob for knob in lever.knobs} & set(sizes)
    ]
    assert len(levers) >= 2
    described = EngineDescription(engine, "1", "m", "cuda:0", {}, frozenset(), 4096)
    proposed, _ = candidates(levers, described, knobs, settings, workload("batch"))
    assert bool(proposed) == (max(tensor, other) > 1)
    for candidate in proposed:
        after = {**sizes, **{name: int(str(v)) for name, v in candidate.changes.items()}}
        assert math.prod(after.values()) == gpus, candidate.name
