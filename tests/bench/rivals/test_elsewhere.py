"""Rivals in another Python environment: a process that gets data as files and times itself."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path

import numpy as np
import pytest

from assay.bench.rivals import elsewhere
from assay.bench.rivals.elsewhere import RivalElsewhere, about, prepare_elsewhere
from assay.cli.app import run
from assay.errors import InputError
from assay.runtime.hardware import Device
from assay.workloads.contract import Missing
from assay.workloads.registry import workload

PYTHON = Path(sys.executable)


def test_a_rival_elsewhere_answers_as_the_same_one_here() -> None:
    pytest.importorskip("polars")
    order_book, device = workload("order-book"), Device("cpu")
    first, second = (order_book.generate(seed, 2_000) for seed in (1, 2))
    there = prepare_elsewhere(PYTHON, workload("order-book"), "Polars", first, device)
    assert isinstance(there, RivalElsewhere)
    polars = next(rival for rival in order_book.rivals if rival.name == "Polars")
    here = polars.prepare(first, device)
    assert not isinstance(here, Missing)
    for data in (second, first):
        here.load(data)
        here.run()
        there.load(data)
        there.poison()
        assert order_book.verify(there.outputs(), data).error != 0.0
        there.run()
        assert 0.0 < there.last_run_s < 60.0
        answers = there.outputs()
        assert order_book.verify(answers, data).error == 0.0
        for name, values in here.outputs().items():
            np.testing.assert_array_equal(answers[name], values)
    there.close()


def test_what_is_missing_there_is_said(tmp_path: Path) -> None:
    data = workload("order-book").generate(1, 100)
    missing = prepare_elsewhere(PYTHON, workload("order-book"), "nanobook", data, Device("cpu"))
    assert isinstance(missing, Missing)
    assert "ASSAY_ORDER_BOOK_RIVALS is not set" in missing.reason
    with pytest.raises(InputError, match=r"expected a Python interpreter: No such file"):
        about(tmp_path / "python", ())
    other = tmp_path / "other"
    other.write_text("#!/bin/sh\necho no\n")
    other.chmod(0o755)
    with pytest.raises(InputError, match="expected a Python interpreter: it answers as none"):
        about(other, ())
    other.write_text('#!/bin/sh\necho \'{"python": [3, 9, 1], "versions": {}}\'\n')
    with pytest.raises(InputError, match=r"expected Python 3.11 or later with NumPy, got 3.9.1"):
        about(other, ())
    other.write_text('#!/bin/sh\necho \'{"python": [3, 12, 1], "versions": {}}\'\n')
    with pytest.raises(InputError, match=r"got 3.12.1 without NumPy"):
        about(other, ())
    other.write_text("#!/bin/sh\necho cannot import it >&2\n")
    missing = prepare_elsewhere(other, workload("order-book"), "nanobook", data, Device("cpu"))
    assert missing == Missing("rival nanobook: its process ended: cannot import it")


def test_a_process_that_does_not_end_when_asked_to_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(elsewhere, "_ENDS_S", 0.1)
    deaf = tmp_path / "python"
    deaf.write_text(
        f"#!{sys.executable}\nimport signal, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "sys.stdin.readline()\nprint('{}', flush=True)\ntime.sleep(600)\n"
    )
    deaf.chmod(0o755)
    rival = RivalElsewhere(deaf, "deaf")
    rival.ask("prepare")
    rival.close()
    assert rival._process.returncode == -signal.SIGKILL


def test_a_run_records_the_ratio_and_versions_of_rivals_elsewhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("polars")
    words = ["bench", "run", "order-book", "--quick", "--sizes", "2000", "--rival", "Polars"]
    assert run([*words, "--rival-python", str(PYTHON), "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    (figure,) = data["figures"]
    (rival,) = figure["rivals"]
    assert rival["name"] == "Polars"
    assert rival["ratio"] > 0.0
    assert len(rival["rounds"]) == len(figure["own"]["rounds"])
    assert data["versions"]["rivals' polars"]
    # Where it lives is nobody else's business: the file is for others.
    assert str(PYTHON) not in json.dumps(data)
    assert run([*words, "--rival-python", str(tmp_path / "none")]) == 2
    assert "hint: --rival-python takes" in capsys.readouterr().err
    assert run(["bench", "run", "gemm", "--quick", "--rival-python", str(PYTHON)]) == 2
    assert "the suite gemm has no rivals that run in another" in capsys.readouterr().err
