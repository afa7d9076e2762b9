"""Sampling parameters that a checkpoint states."""

import json
from pathlib import Path
from typing import Any

import gguf_models
import pytest

from assay.cli.app import run
from assay.engine import SamplingParams
from assay.engine.loading import open_model
from assay.engine.loading.synthetic import write_folder
from assay.errors import InputError


def write(folder: Path, **stated: Any) -> Path:
    write_folder(folder, "llama")
    (folder / "generation_config.json").write_text(json.dumps(stated))
    return folder


def test_generation_config_is_read(tmp_path: Path) -> None:
    folder = write(tmp_path, do_sample=True, temperature=0.6, top_k=20, top_p=0.95, max_length=9)
    files = open_model(folder)
    assert files.sampling == {"temperature": 0.6, "top_k": 20, "top_p": 0.95}
    params = SamplingParams.with_defaults(files.sampling, top_p=0.5, min_p=None, max_tokens=4)
    assert (params.temperature, params.top_k, params.top_p, params.min_p) == (0.6, 20, 0.5, 0.0)
    (folder / "generation_config.json").unlink()
    assert open_model(folder).sampling == {}


def test_metadata_of_a_gguf_file_is_read(tmp_path: Path) -> None:
    model = gguf_models.small("llama")
    path = tmp_path / "model.gguf"
    stated = {"general.sampling.temp": 0.5, "general.sampling.top_k": 64}
    gguf_models.write(path, model, changes=stated)
    assert open_model(path).sampling == {"temperature": 0.5, "top_k": 64}


@pytest.mark.parametrize(
    "stated",
    [
        {"temperature": -1},
        {"top_p": 0},
        {"top_p": 2},
        {"top_k": 1.5},
        {"min_p": "a"},
        {"top_k": True},
    ],
)
def test_unusable_values_are_refused(tmp_path: Path, stated: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=rf"generation_config.json: expected {next(iter(stated))}"):
        open_model(write(tmp_path, **stated))


def test_commands_sample_as_the_checkpoint_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(write(tmp_path, temperature=0.0))
    words = ["generate", folder, "--prompt", "Once", "--max-tokens", "8"]

    def output(*more: str) -> tuple[str, str]:
        assert run([*words, *more]) == 0
        printed = capsys.readouterr()
        return printed.out, printed.err

    greedy, _ = output("--greedy")
    assert output("--seed", "1")[0] == greedy
    assert "sampling as the checkpoint states: temperature 0" in output()[1]
    assert output("--seed", "1", "--temperature", "1")[0] != greedy
