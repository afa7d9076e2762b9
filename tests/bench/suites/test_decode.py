"""The decode suite on a synthetic model."""

import json

import pytest

from assay.cli.app import run


def test_quick_run_of_the_decode_suite(capsys: pytest.CaptureFixture[str]) -> None:
    code = run(["bench", "decode", "--model", "synthetic", "--quick", "--json"])
    captured = capsys.readouterr()
    data = json.loads(captured.out)
    assert code == 0
    figures = {figure["name"]: figure for figure in data["figures"]}
    assert list(figures) == [
        "decode 8 tokens",
        "prefill 256 tokens",
        "8 requests at once, 8 tokens each",
        "prefill 256 tokens, deterministic",
        "8 requests at once, deterministic",
        "process start to first token",
    ]
    assert captured.err.count("\n") >= len(figures)
    assert all(figure["check"]["passed"] for figure in figures.values())
    assert all(figure["value"] > 0 for figure in figures.values())
    decode = figures["decode 8 tokens"]
    assert decode["unit"] == "tok/s"
    assert decode["ceiling"]["ratio"] > 0
    assert decode["bytes"] > 0
    reason = "the model has no file that it could load"
    assert decode["absent"] == {"llama.cpp": reason, "transformers": reason}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("decode", "--rival", "vllm"), 'unknown rival of the suite decode "vllm"'),
        (("decode", "--model", "no_such"), 'model "no_such"'),
        (("graph", "--model", "smollm2"), "the suite graph has no model to choose"),
        (("graph", "--rival", "llama.cpp"), "the suite graph has no rivals to choose"),
    ],
)
def test_invalid_choices_exit_with_one_line(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    assert run(["bench", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert f"error: {message}" in captured.err
