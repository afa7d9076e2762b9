"""`assay predict`: text, JSON, sweeps and errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .conftest import Cli

ASKED = ("predict", "--model", "llama-3.1-8b", "--gpu", "h200")


def test_text_has_the_step_and_its_operations(cli: Cli) -> None:
    done = cli(*ASKED, "--batch", "64", "--context", "208")
    assert done.code == 0
    assert "step of   64 decoding at context 208" in done.out
    assert "floor" in done.out
    first = next(line for line in done.out.splitlines() if line.startswith("gate_up_proj"))
    assert "#" in first
    assert first.endswith("memory")
    assert "rent of" in done.err


def test_json_adds_up(cli: Cli) -> None:
    done = cli(*ASKED, "--batch", "8", "--json")
    data = done.data
    step = data["totals"]["step"]["expected"]
    assert sum(node["expected_ns"] for node in data["nodes"]) == pytest.approx(step)
    assert sum(row["expected_ns"] for row in data["operations"]) == pytest.approx(step)
    assert sum(row["nodes"] for row in data["operations"]) == len(data["nodes"])
    assert data["batch"]["sequences"] == 8
    node = next(one for one in data["nodes"] if one["name"] == "layers.3.qkv_proj")
    assert node["layer"] == 3
    parts = ("time", "floor", "size", "flops")
    assert node["equations"] == [f"serving.step.operation.qkv.{part}" for part in parts]


def test_sweeps_have_a_row_for_each_combination(cli: Cli) -> None:
    done = cli(*ASKED, "--sweep", "batch=1,8,64", "--sweep", "gpu=h100,h200", "--json")
    data = done.data
    assert data["settings"]["hardware"] == ["h100_sxm"] * 3 + ["h200_sxm"] * 3
    assert data["settings"]["sequences"] == [1, 8, 64] * 2
    assert data["step_ns"] == sorted(data["step_ns"][:3]) + sorted(data["step_ns"][3:])
    alone = cli(*ASKED, "--batch", "64", "--json").data
    assert data["step_ns"][5] == pytest.approx(alone["totals"]["step"]["expected"])
    text = cli(*ASKED, "--sweep", "context=1000:3000:1000", "--verbose")
    assert [line.split()[0] for line in text.out.splitlines()[1:]] == ["1,000", "2,000", "3,000"]
    assert "configurations in" in text.err


def test_a_config_file_is_a_model(cli: Cli, tmp_path: Path) -> None:
    config = {
        "model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4,
        "vocab_size": 1000, "intermediate_size": 128, "torch_dtype": "float16",
    }  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(config))
    done = cli("predict", "--model", str(tmp_path), "--gpu", "a100", "--nodes", "--limit", "0")
    assert done.code == 0
    assert "f16 weights" in done.out
    assert "layers.1.down_proj" in done.out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--gpu", "h2000"), 'unknown accelerator "h2000"'),
        (("--model", "lama-3"), 'unknown model "lama-3"'),
        (("--gpu", "trainium2"), "systolic arrays"),
        (("--batch", "0"), "empty step"),
        (("--context", "many"), "context: expected a number of tokens"),
        (("--dtype", "q9"), 'unknown weight format "q9"'),
        (("--engine", "tgi"), 'unknown engine "tgi"'),
        (("--sweep", "batch"), "expected name=values"),
        (("--sweep", "batch=a"), "expected numbers"),
        (("--sweep", "bach=1"), "did you mean batch"),
        (("--sweep", "sequences=-1"), "0 or more"),
    ],
)
def test_errors_are_named(cli: Cli, words: tuple[str, ...], message: str) -> None:
    done = cli(*ASKED, *words)
    assert done.code == 2
    assert done.out == ""
    assert message in done.err
