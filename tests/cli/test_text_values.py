"""Text of a command line is taken as it is, without what converts other values."""

from __future__ import annotations

import subprocess
import sys

import pytest

from assay.cli.app import run

_ANSWER = """
import sys
from assay.cli.app import run
code = run(["resolve", "gpu.memory.bandwidth", "--with", "accelerators/h100_sxm", "--no-interval", "--json"])
sys.exit(code or "pydantic" in sys.modules)
"""


def test_an_answer_needs_no_pydantic() -> None:
    done = subprocess.run([sys.executable, "-c", _ANSWER], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()


@pytest.mark.parametrize("word", ["sp\udcffam", "sp\u00e4m"])
def test_text_that_is_no_name_is_refused_in_a_line(
    word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["resolve", word]) == 2
    assert capsys.readouterr().err.startswith("error: ")


def test_numbers_are_still_checked(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["estimate", "llama-3.1-8b", "h100_sxm", "1T", "us_texas", "--gpus", "many"]) == 2
    assert "gpus" in capsys.readouterr().err
