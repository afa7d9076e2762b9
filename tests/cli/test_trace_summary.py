"""`assay trace summary` and `assay trace steps`."""

import json
from pathlib import Path
from typing import Any

import pytest
from random_engines import Generator

STEP_KEYS = [
    "step", "rank", "phase", "start_ns", "dur_ns", "device_ns", "batch", "prefill_tokens",
    "context", "requests", "source", "kernels", "layers", "complete",
]  # fmt: skip


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str, Any]:
    folder = tmp_path_factory.mktemp("trace")
    made = Generator(3, family="dense", scheme="real", ranks=2).generate()
    made.trace.save(folder / "stored")
    config = folder / "config.json"
    config.write_text(json.dumps(made.config), encoding="utf-8")
    return str(folder / "stored"), str(config), made


def test_summary_as_json(cli: Any, stored: Any) -> None:
    trace, config, made = stored
    outcome = cli("trace", "summary", trace, "--model", config, "--json")
    data = outcome.data
    assert list(data)[:16] == [
        "trace", "model", "kernels", "copies", "device_ns", "steps", "mapped_share", "named_share",
        "operations", "unmapped", "graph_replays", "collectives", "annotations", "captures", "repairs",
        "degradations",
    ]  # fmt: skip
    assert len(data["steps"]) == 2 * len(made.phases)
    assert list(data["steps"][0]) == STEP_KEYS
    assert list(data["operations"][0]) == ["name", "layers", "count", "ns", "share"]
    assert data["mapped_share"] > 0.98
    assert data["device_ns"] == made.trace.events["dur_ns"].sum()


def test_summary_and_steps_as_text(cli: Any, stored: Any) -> None:
    trace, config, made = stored
    text = cli("trace", "summary", trace, "--model", config).out
    for word in ("gate_up_proj", "mapped", "decode", "waiting ms", "total ms", "median device ms"):
        assert word in text
    lines = cli("trace", "steps", trace, "--model", config, "--limit", "3").out.splitlines()
    assert len(lines) == 4
    data = cli("trace", "steps", trace, "--model", config, "--json").data
    assert list(data)[:4] == ["trace", "steps", "repairs", "degradations"]
    assert len(data["steps"]) == 2 * len(made.phases)


def test_operations_of_a_program_that_is_no_model_are_its_own(cli: Any, tmp_path: Path) -> None:
    profile = str(tmp_path / "book")
    made = cli("bench", "profile", "order-book", "--quick", "--out", profile)
    assert not made.code
    assert "mean us a call" in made.out
    data = cli("trace", "summary", profile, "--json").data
    assert (data["mapped_share"], data["named_share"]) == (0.0, 1.0)
    text = " ".join(cli("trace", "summary", profile).out.split())
    assert "no operation of a language model ran; 100.00 % of device time has names that" in text
    assert "own operation count total ms replay" in text
    # The median step's kernels, and means over all whole steps.
    said = cli("diagnose", profile).out
    assert "us, median step" in said
    assert "mean us" in said


def test_summary_stores_what_it_found(cli: Any, stored: Any, tmp_path: Path) -> None:
    trace, config, _ = stored
    first = cli("trace", "summary", trace, "--model", config, "--out", str(tmp_path / "new"))
    assert not first.code
    data = cli("trace", "summary", str(tmp_path / "new"), "--json").data
    assert data["mapped_share"] > 0.98
    again = cli("trace", "summary", trace, "--model", config, "--out", str(tmp_path / "new"))
    assert again.code == 2
    assert "exists already" in again.err


def test_bad_input_is_one_line(cli: Any, stored: Any, tmp_path: Path) -> None:
    trace, _, _ = stored
    for words in (
        ("trace", "summary", str(tmp_path / "none"), "--json"),
        ("trace", "summary", trace, "--model", "no-such-model"),
        ("trace", "steps", trace, "--model", str(tmp_path / "config.json")),
    ):
        outcome = cli(*words)
        assert outcome.code == 2
        assert outcome.err.startswith("error: ")
