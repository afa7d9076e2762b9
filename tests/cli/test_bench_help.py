"""Every suite and workload of `assay bench run` is named in its help."""

import pytest

from assay.bench.suites.registry import SUITES
from assay.cli import app
from assay.workloads.registry import WORKLOADS


def test_help_names_every_suite_and_workload(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["bench", "run", "--help"]) == 0
    words = capsys.readouterr().out
    named = words[words.index("What to measure") : words.index("Options:")]
    assert [name for name in (*SUITES, *WORKLOADS) if name not in named] == []
