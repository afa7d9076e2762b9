"""Every suite of `assay bench run` is named in its help."""

import pytest

from assay.bench.suites.registry import SUITES
from assay.cli import app


def test_help_names_every_suite(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["bench", "run", "--help"]) == 0
    words = capsys.readouterr().out
    named = words[words.index("What to measure") : words.index("Options:")]
    assert [suite for suite in SUITES if suite not in named] == []
