"""`assay diagnose`: report, JSON, and what it refuses."""

import json
from pathlib import Path
from typing import Any

import pytest
from decode_traces import config, eager, replayed

KEYS = [
    "trace", "model", "gpu", "engine", "tensor", "cuda_graphs", "can_predict", "batch", "context",
    "context_source", "context_range", "phase", "step", "step_ns", "predicted_ns", "lo", "hi",
    "floor_ns", "waterfall", "causes",
    "violations", "changes", "operations", "nodes", "kernels", "critical_path", "intervals", "steps", "predictions",
    "degradations",
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("diagnose")
    config(made)
    eager().save(made / "eager.json")
    replayed().save(made / "graph.json")
    eager(mark="other").save(made / "other.json")
    return made


def words(folder: Path, trace: str) -> list[str]:
    return ["diagnose", str(folder / trace), "--model", str(folder / "config.json")]


def test_json_has_the_whole_diagnosis(cli: Any, folder: Path) -> None:
    data = cli(*words(folder, "graph.json"), "--gpu", "h200", "--context", "64", "--json").data
    assert [key for key in data if key != "notes"] == KEYS
    assert sum(term["ns"] for term in data["waterfall"]) == data["step_ns"]
    assert data["floor_ns"] < data["lo"] < data["predicted_ns"] < data["hi"]
    assert (data["batch"], data["context"], data["engine"]) == (8, 64, "vllm")
    assert data["cuda_graphs"] is True
    for cause in data["causes"]:
        assert list(cause)[:7] == [
            "name", "ns_per_token", "lo", "hi", "status", "evidence", "fix",
        ]  # fmt: skip
    low = min(one["start_ns"] for one in data["intervals"])
    high = max(one["start_ns"] + one["dur_ns"] for one in data["intervals"])
    assert high - low == sum(one["dur_ns"] for one in data["intervals"]) == data["step_ns"]
    assert sum(one["dur_ns"] for one in data["critical_path"]["segments"]) == data["step_ns"]
    assert sum(one["ns"] for one in data["critical_path"]["parts"]) == data["step_ns"]


def test_the_page_shows_what_the_text_says(cli: Any, folder: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    outcome = cli(
        *words(folder, "graph.json"), "--gpu", "h200", "--context", "64", "--html", str(page),
        "--json",
    )  # fmt: skip
    assert outcome.data["html"] == str(page)
    text = page.read_text()
    for cause in outcome.data["causes"]:
        assert cause["name"] in text
    assert f"{outcome.data['step_ns'] / 1e6:,.3f} ms" in text
    assert text.count("<svg") == 5
    assert cli("diagnose", "--url", "http://localhost:1", "--html", str(page)).code == 2


def test_text_shows_bars_causes_and_fixes(cli: Any, folder: Path) -> None:
    outcome = cli(*words(folder, "eager.json"), "--gpu", "h200")
    assert outcome.code == 0
    for text in (
        "launch gaps",
        "####",
        "host launch",
        "part of host",
        "what to try",
        "critical path",
    ):
        assert text in outcome.out
    assert "the trace does not state the context" in outcome.err


def test_the_gpu_of_the_trace_is_used_and_said(cli: Any, folder: Path) -> None:
    data = cli(*words(folder, "graph.json"), "--json").data
    assert data["gpu"] == "h200_sxm"
    assert data["degradations"][0].startswith("the GPU is the trace's own, h200_sxm")


def test_without_a_model_gaps_kernels_and_path_remain(cli: Any, folder: Path) -> None:
    data = cli("diagnose", str(folder / "eager.json"), "--json").data
    assert data["predicted_ns"] is None
    assert sum(term["ns"] for term in data["waterfall"]) == data["step_ns"]
    assert data["causes"][0]["name"] == "host launch"
    assert data["kernels"][0]["ns"] > 0
    assert data["critical_path"]["segments"]
    assert any(note.startswith("no prediction: no model given") for note in data["degradations"])


def test_an_engine_that_is_not_known_is_not_predicted(cli: Any, folder: Path) -> None:
    outcome = cli(*words(folder, "other.json"), "--gpu", "h200", "--json")
    assert outcome.code == 0
    assert outcome.data["predicted_ns"] is None
    assert any("the engine is not recognized" in note for note in outcome.data["degradations"])
    given = cli(*words(folder, "other.json"), "--gpu", "h200", "--engine", "vllm", "--json")
    assert given.data["predicted_ns"] > 0


def test_a_trace_without_steps_is_taken_as_a_whole(cli: Any, folder: Path) -> None:
    made = eager(steps=1)
    made.events = [
        event for number, event in enumerate(made.events) if number % 3 == 0 or number < 90
    ]
    path = made.save(folder / "pieces.json")
    data = cli("diagnose", str(path), "--json").data
    assert len(data["steps"]) == 1
    assert sum(term["ns"] for term in data["waterfall"]) == data["step_ns"]


def test_what_it_refuses(cli: Any, folder: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty.json"
    empty.write_text('{"traceEvents": []}', encoding="ascii")
    host = eager(steps=2)
    host.events = [event for event in host.events if event["cat"] == "cpu_op"]
    host.save(tmp_path / "host.json")
    layers = config(tmp_path, num_hidden_layers=9)
    (tmp_path / "large").mkdir()
    large = config(tmp_path / "large", intermediate_size=16384)
    graph, gpu = str(folder / "graph.json"), ("--gpu", "h200")
    model = ("--model", str(folder / "config.json"))
    for arguments, message in (
        ((graph, *model, "--gpu", "h2000"), 'unknown accelerator "h2000"'),
        ((graph, "--model", str(tmp_path / "none.json"), *gpu), "none.json"),
        ((str(tmp_path / "none"), *model, *gpu), "expected a trace, got nothing of that name"),
        ((str(empty), *model, *gpu), "expected a trace with events, got an empty one"),
        ((str(tmp_path / "host.json"), *model, *gpu), "events of the host alone"),
        ((graph, "--model", str(layers), *gpu), "expected steps of 9 layers as"),
        ((graph, "--model", str(large), *gpu), "its floor in"),
        ((graph, *model, *gpu, "--engine", "vlm"), 'unknown engine "vlm"'),
        ((graph, *model, *gpu, "--batch", "0"), "--batch: expected 1 or more, got 0"),
        ((graph, *model, *gpu, "--context", "-3"), "--context: expected 1 or more, got -3"),
        ((graph, *model, *gpu, "--telemetry", "nothing"), "expected a recording of telemetry"),
    ):
        outcome = cli("diagnose", *arguments)
        assert outcome.code == 2, arguments
        assert message in outcome.err
        assert outcome.out == ""
        assert "Traceback" not in outcome.err


def test_a_batch_that_the_trace_does_not_show_is_asked_for(cli: Any, folder: Path) -> None:
    made = replayed()
    for event in made.events:
        # Grids and copies alone show the batch.
        event["args"].pop("grid", None)
        if event["cat"] == "gpu_memcpy":
            event["args"]["bytes"] = 17
    path = made.save(folder / "unsized.json")
    arguments = (*words(folder, "unsized.json"), "--gpu", "h200")
    outcome = cli(*arguments)
    assert outcome.code == 2
    assert "expected the number of sequences of its decode steps" in outcome.err
    assert "hint: --batch" in outcome.err
    assert cli(*arguments, "--batch", "8", "--json").data["batch"] == 8
    assert json.loads(path.read_text(encoding="ascii"))


def test_a_slower_operation_is_found_against_a_baseline(cli: Any, folder: Path) -> None:
    made = replayed()
    late = 0.0
    for event in made.events:
        event["ts"] += late
        # The linear layer of gate and up takes 20 us.
        if event["cat"] == "kernel" and event["dur"] == 20:
            event["dur"] += 3
            late += 3
    made.save(folder / "slower.json")
    arguments = ("--context", "64", "--baseline", str(folder / "graph.json"))
    data = cli(*words(folder, "slower.json"), *arguments, "--json").data
    slower = {one["name"] for one in data["changes"] if one["verdict"] == "slower"}
    assert "gate_up_proj" in slower
    assert not {"down_proj", "qkv_proj", "attention"} & slower
    text = cli(*words(folder, "slower.json"), *arguments).out
    assert "+15.0 %" in text
    assert cli(*words(folder, "graph.json"), "--json").data["changes"] == []


def test_experiments_are_read_and_checked(cli: Any, folder: Path, tmp_path: Path) -> None:
    row = {
        "name": "attention", "operation": "attention", "nodes": ["a"], "verdict": "critical",
        "slope": 1.0, "lo": 0.9, "hi": 1.1, "requested_ns": [5000], "doses_ns": [5000.0],
        "effects_ns": [5000.0], "runs": 40, "controls": 40, "blocks": 10,
    }  # fmt: skip
    path = tmp_path / "found.json"
    arguments = (*words(folder, "graph.json"), "--context", "64", "--experiments", str(path))
    path.write_text(json.dumps({"experiments": [row]}), encoding="ascii")
    data = cli(*arguments, "--json").data
    named = {cause["name"]: cause for cause in data["causes"]}
    assert named["attention kernel latency"]["status"] == "established by experiment"
    assert named["attention kernel latency"]["evidence"][-1]["source"] == "experiment"
    for broken, message in (
        ([], "expected a list of experiments"),
        ({"experiments": [{**row, "verdict": "sure"}]}, "expected a verdict of critical"),
        ({"experiments": [{**row, "slope": "1"}]}, 'expected a number as "slope"'),
        ({"experiments": [{**row, "doses_ns": []}]}, 'expected numbers as "doses_ns"'),
    ):
        path.write_text(json.dumps(broken), encoding="ascii")
        outcome = cli(*arguments)
        assert outcome.code == 2
        assert message in outcome.err


def test_odd_traces_give_a_report_that_adds_up(cli: Any, tmp_path: Path) -> None:
    def kernel(ts: float, dur: float, correlation: int) -> dict[str, Any]:
        args = {"device": 0, "stream": 7, "correlation": correlation}
        return {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": ts, "dur": dur,
                "args": args}  # fmt: skip

    without_calls = eager(steps=4)
    odd = {
        "one": [kernel(1, 5, 1)],
        "all at once": [kernel(1, 5, number) for number in range(9)],
        "negative": [kernel(1, -5, 1), kernel(3, 5, 2)],
        "far apart": [kernel(1, 5, 1), kernel(9e12, 5, 2)],
        "no calls": [one for one in without_calls.events if one["cat"] != "cuda_runtime"],
    }
    for name, events in odd.items():
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps({"traceEvents": events}), encoding="ascii")
        data = cli("diagnose", str(path), "--json").data
        assert sum(term["ns"] for term in data["waterfall"]) == data["step_ns"], name
        covered = sum(one["dur_ns"] for one in data["critical_path"]["segments"])
        assert covered == data["step_ns"], name


def test_what_contradicts_the_header_is_refused(cli: Any, folder: Path, tmp_path: Path) -> None:
    """A trace that names its GPU and ranks is not another's."""
    data = json.loads((folder / "graph.json").read_text())
    data["deviceProperties"] = [{"id": 0, "name": "NVIDIA H200"}]
    data["distributedInfo"] = {"world_size": 1, "rank": 0}
    path = tmp_path / "h200.json"
    path.write_text(json.dumps(data))
    trace = ["diagnose", str(path), "--model", str(folder / "config.json"), "--context", "64"]
    for option, value, expected in (
        ("--gpu", "mi300x", "expected h200_sxm, which the trace was recorded on, got mi300x"),
        ("--tensor", "2", "--tensor: expected at most 1, the trace's ranks, got 2"),
    ):
        outcome = cli(*trace, option, value)
        assert outcome.code == 2
        assert expected in outcome.err
    assert cli(*trace, "--gpu", "h200", "--json").data["gpu"]
