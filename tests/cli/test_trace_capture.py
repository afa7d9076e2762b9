"""`assay trace capture`."""

from pathlib import Path
from typing import Any

from assay.observe.trace import Trace


def test_a_synthetic_load_is_captured(cli: Any, tmp_path: Path) -> None:
    folder = tmp_path / "trace"
    words = ("--batch", "3", "--context", "20", "--steps", "5", "--out", str(folder))
    outcome = cli("trace", "capture", "synthetic", *words)
    assert outcome.code == 0
    assert f"stored {folder}" in outcome.out
    steps = Trace.open(folder).steps
    assert steps["phase"].to_list() == ["prefill", *["decode"] * 5]
    assert steps["batch"].to_list()[1:] == [3] * 5
    assert steps["prefill_tokens"].to_list()[0] == 60


def test_warmup_leaves_the_prefill_out(cli: Any, tmp_path: Path) -> None:
    words = ("--warmup", "2", "--steps", "4", "--out", str(tmp_path / "trace"))
    assert cli("trace", "capture", "synthetic", *words).code == 0
    phases = Trace.open(tmp_path / "trace").steps["phase"].to_list()
    assert set(phases) == {"decode"}
    assert len(phases) == 4


def test_bad_input_is_one_line(cli: Any, tmp_path: Path) -> None:
    for words, message in (
        (("--steps", "0"), "--steps: expected at least 1, got 0"),
        (("--warmup", "-1"), "--warmup: expected at least 0, got -1"),
        (("--out", str(tmp_path)), f"{tmp_path}: exists already"),
    ):
        outcome = cli("trace", "capture", "synthetic", *words)
        assert outcome.code == 2
        assert message in outcome.err
        assert "Traceback" not in outcome.err
