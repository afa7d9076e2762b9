"""The speech suite: without models there is the transform, and rivals that lack are named."""

import importlib.util
import json
from pathlib import Path

import pytest

from assay.bench.rivals import speech as rivals
from assay.cli.app import run
from assay.errors import InputError


def test_quick_run_of_the_speech_suite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ASSAY_SCRATCH", str(tmp_path))
    assert run(["bench", "speech", "--quick", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    [figure] = data["figures"]
    assert figure["name"] == "stft of 10 s"
    assert figure["check"]["passed"]
    assert figure["value"] > 0


def test_a_rival_that_is_not_installed_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, *rest: None if name == "faster_whisper" else found(name, *rest),
    )
    assert run(["bench", "speech", "--rival", "faster-whisper"]) == 2
    error, hint = capsys.readouterr().err.strip().splitlines()
    assert error == "error: --rival faster-whisper: expected the package faster_whisper, got none"
    assert hint.startswith("hint: install it beside assay")
    with pytest.raises(InputError, match="faster_whisper"):
        rivals.require(["faster-whisper"])


@pytest.mark.slow
@pytest.mark.parametrize("case", ["moonshine tiny", "silero", "kokoro, first"])
def test_models_say_and_hear_the_right_words(
    case: str,
    machine_scratch: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("ASSAY_SCRATCH", str(machine_scratch))
    code = run(["bench", "speech", "--quick", "--case", case, "--json"])
    if code == 2:
        pytest.skip("needs: the models, and assay pull speech-samples")
    [figure] = json.loads(capsys.readouterr().out)["figures"]
    assert figure["check"]["passed"]
