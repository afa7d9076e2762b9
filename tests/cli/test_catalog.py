"""`assay catalog`, `--with` and `--model-config`."""

import json
from pathlib import Path
from typing import Any

import pytest


def test_list_and_one_group(cli: Any) -> None:
    paths = [entry["path"] for entry in cli("catalog", "--json").data]
    assert {"accelerators/h100_sxm", "models/llama-3.1-8b", "grids/france"} <= set(paths)
    only = [entry["path"] for entry in cli("catalog", "list", "tariffs", "--json").data]
    assert only == [path for path in paths if path.startswith("tariffs/")]
    text = cli("catalog", "list", "rents")
    assert text.code == 0
    assert text.out.splitlines()[0].split() == ["entry", "values", "title"]
    assert "rents/h800_deepseek" in text.out


def test_show_prints_the_source_of_every_value(cli: Any) -> None:
    outcome = cli("catalog", "show", "accelerators/H100-SXM-80GB", "--json")
    assert outcome.code == 0
    assert outcome.data["path"] == "accelerators/h100_sxm"
    assert outcome.data["values"]["gpu.clock"] == {
        "value": "1.83 GHz",
        "source": "NVIDIA H100 Tensor Core GPU Architecture, whitepaper 2022",
        "kind": "spec",
        "date": "2022-09",
        "uncertainty": 0.0,
    }
    text = cli("catalog", "show", "rents/h800_deepseek").out
    assert "2 USD/(h*GPU)" in text
    assert "[1] DeepSeek-AI 2024, DeepSeek-V3 Technical Report, Table 1" in text


def test_list_is_filtered_and_cut(cli: Any) -> None:
    every = cli("catalog", "list", "--filter", "sxm H200", "--json").data
    assert {"accelerators/h200_sxm", "prices/h200_sxm"} <= {entry["path"] for entry in every}
    cut = cli("catalog", "list", "--filter", "sxm H200", "--limit", "1")
    assert f"1 of {len(every)} entries; --limit 0 lists all" in cut.out
    assert "h200_sxm" in cut.out
    none = cli("catalog", "list", "--filter", "zzzq")
    assert (none.code, none.out) == (0, "no entries of that kind; fewer words find more\n")


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("catalog", "show"), "show needs an entry"),
        (("catalog", "show", "h100"), "malformed entry"),
        (("catalog", "show", "gpus/h100"), 'unknown catalog group "gpus"'),
        (("catalog", "burn"), 'unknown action "burn"'),
        (("catalog", "list", "--save", "x.json"), "--save cannot be used with list"),
        (("catalog", "probe", "x"), 'probe takes no name, got "x"'),
        (("catalog", "show", "models/x", "--limit", "3"), "--limit cannot be used with show"),
        (("catalog", "probe", "--filter", "x"), "--filter cannot be used with probe"),
    ],
)
def test_invalid_catalog_arguments_are_refused(
    cli: Any, words: tuple[str, ...], error: str
) -> None:
    outcome = cli(*words)
    assert outcome.code == 2
    assert outcome.err.startswith(f"error: {error}")


def test_with_overrides_preset_entries_of_the_same_group(cli: Any) -> None:
    alone = cli("resolve", "gpu.peak_flops", "--with", "accelerators/l40s", "--json")
    assert alone.data["value"] == pytest.approx(362, abs=1)
    words = ("resolve", "gpu.memory.bandwidth", "--preset", "llama3_8b_8_h100_training", "--json")
    assert cli(*words).data["value"] == pytest.approx(3.35, rel=1e-3)
    other = cli(*words, "--with", "accelerators/h200_sxm")
    assert other.data["value"] == pytest.approx(4.8, rel=1e-3)
    assigned = cli(*words, "--with", "accelerators/h200_sxm", "--assign", "hbm.stacks=3 1/GPU")
    assert assigned.data["value"] == pytest.approx(2.4, rel=1e-3)


def test_model_config(cli: Any, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    config = {
        "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "vocab_size": 100,
        "intermediate_size": 96, "model_type": "novel",
    }  # fmt: skip
    path.write_text(json.dumps(config))
    outcome = cli("resolve", "architecture.parameters", "--model-config", str(path))
    assert outcome.out.startswith("architecture.parameters = 82752")
    assert 'note: model_type "novel" is not known' in outcome.err
    del config["vocab_size"]
    path.write_text(json.dumps(config))
    refused = cli("resolve", "architecture.parameters", "--model-config", str(path))
    assert refused.code == 2
    assert "the configuration lacks vocab_size" in refused.err


def test_a_sweep_over_an_included_model(cli: Any) -> None:
    outcome = cli(
        "sweep", "architecture.parameters", "--with", "models/llama-3.1-8b",
        "--over", "architecture.layers=16,32", "--json",
    )  # fmt: skip
    assert outcome.code == 0, outcome.err
    assert "8030261248" in outcome.out.replace(".0", "")


@pytest.mark.parametrize("command", [("resolve",), ("explain", "--depth", "1")])
def test_borrowed_constants_and_companions_are_named_beside_the_answer(
    cli: Any, command: tuple[str, ...]
) -> None:
    preset = ("--preset", "llama3_8b_8_h100_training", "--with", "accelerators/gh200")
    err = cli(*command, "training.step_time", *preset).err
    assert "no kernel measurements of gh200: constants of h200_sxm" in err
    assert "nodes/gh200_superchip replaces nodes/dgx_h100" in err
    notes = cli(*command, "gpu.peak_flops", *preset, "--json").data["notes"]
    assert "no kernel measurements of gh200: constants of h200_sxm" in notes
