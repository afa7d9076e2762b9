"""Mistakes in a claim are refused, and a busy machine is not mistaken for a program that fakes its work."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay.bench.claims import reading, running
from assay.bench.harness.program_check import ProgramCheck
from assay.cli import app
from assay.errors import AssayError, InputError
from assay.runtime import device
from assay.workloads.contract import PLAIN, start_of
from assay.workloads.registry import WORKLOADS, workload

CLAIM = """
name = "orders"
about = "Order books"
workload = "order-book"
unit = "event"
metric = "ns/event"
[data]
generator = "order-book"
seeds = [1, 2, 3]
size = 500
"""


def prepared(folder: Path, text: str, **asked: int) -> running.Prepared:
    path = folder / "bench.toml"
    path.write_text(text, encoding="utf-8")
    return running.prepare(reading.read_claim(path), running.Asked(**asked))


def test_a_required_rival_that_no_rival_is_called_is_refused(tmp_path: Path) -> None:
    for key in ("required", "names"):
        with pytest.raises(AssayError, match='"nanobok"') as refused:
            prepared(tmp_path, CLAIM + f'[rivals]\n{key} = ["nanobok"]\n', quick=True)
        assert refused.value.message.startswith(f"{tmp_path / 'bench.toml'}: rivals.{key}: ")
        assert "nanobook" in (refused.value.hint or "")


def test_a_claim_counts_what_its_workload_counts(tmp_path: Path) -> None:
    with pytest.raises(InputError, match='unit: expected "event", which order-book counts'):
        prepared(tmp_path, CLAIM.replace('"event"', '"banana"'))


def test_settings_of_a_suite_are_refused_in_words(tmp_path: Path) -> None:
    suite = (
        CLAIM.replace("order-book", "gemm").replace("workload", "suite").replace("size = 500", "")
    )
    suite = suite.replace("ns/event", "GFLOP/s")
    with pytest.raises(InputError, match=r"settings for a workload only, got levels=tree$"):
        prepared(tmp_path, f'{suite}[run.settings]\nlevels = "tree"\n')


def test_seconds_are_those_of_the_claim_or_the_command(tmp_path: Path) -> None:
    claim = f"{CLAIM}[run]\nseconds = 10\n"
    assert prepared(tmp_path, CLAIM).seconds is None
    assert prepared(tmp_path, claim).seconds == 10
    assert prepared(tmp_path, claim, seconds=20).seconds == 20
    # A smoke test is short, unless it is asked for longer.
    assert prepared(tmp_path, claim, quick=True).seconds is None
    assert prepared(tmp_path, claim, quick=True, seconds=20).seconds == 20
    for seconds in ("0", "-1", "inf", "nan", "1e9"):
        with pytest.raises(
            InputError, match=r"run\.seconds: expected more than 0 seconds, at most"
        ):
            prepared(tmp_path, f"{CLAIM}[run]\nseconds = {seconds}\n")
    with pytest.raises(InputError, match=r"--seconds: expected more than 0 seconds, .* got 0$"):
        prepared(tmp_path, CLAIM, seconds=0)


def test_a_smoke_test_is_no_larger_than_the_claim(tmp_path: Path) -> None:
    assert prepared(tmp_path, CLAIM, quick=True).settings.sizes == ((500,),)


def test_one_slow_run_on_new_data_is_no_fake() -> None:
    chosen = workload("order-book")
    data = chosen.generate(1, 500)
    here = device("cpu")
    check = ProgramCheck(chosen, chosen.prepare(data, here, start_of(chosen, here, PLAIN)), 500)
    # As if another program had had the core for a minute.
    check.fresh_seconds = [60.0]
    assert not check.is_fake(10.0, None)
    assert len(check.fresh_seconds) == 2
    check.fresh_seconds = [60.0] * 9
    assert check.is_fake(1e-9, None)


def test_every_claim_workload_and_suite_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["bench", "list"]) == 0
    text = capsys.readouterr().out
    assert all(name in text for name in (*WORKLOADS, "gemm", "order-book-latency", "serving"))


def test_seeds_of_the_command_are_those_of_the_claim_first(tmp_path: Path) -> None:
    claim = CLAIM.replace("[1, 2, 3]", "[11, 12, 13]")
    assert prepared(tmp_path, claim, seeds=1).seeds == (11,)
    assert prepared(tmp_path, claim, seeds=2).seeds == (11, 12)
    assert prepared(tmp_path, claim, seeds=4).seeds == (11, 12, 13, 1)
    for count in (0, 1_000_000):
        with pytest.raises(InputError, match=f"--seeds: expected 1 to 999,979, got {count:,}"):
            prepared(tmp_path, claim, seeds=count)


def test_a_list_of_no_staged_data_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ASSAY_SCRATCH", str(tmp_path))
    assert app.run(["bench", "manifest", "list"]) == 0
    assert "no data set is staged in" in capsys.readouterr().out
