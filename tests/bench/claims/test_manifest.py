"""Data sets of claims: staged, checked, evicted, and refused where they are missing."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import numpy as np
import pytest

import assay.bench.claims.manifest as manifest
import assay.workloads.registry as registry
from assay.bench.claims import running, staging
from assay.bench.claims.reading import read_claim
from assay.bench.harness.case import Settings
from assay.cli.app import run
from assay.cli.bench_data import _budget
from assay.errors import InputError
from assay.runtime.hardware import Device
from running_sums import RunningSums

CLAIM = """
name = "{name}"
about = "sums of a recorded file"
workload = "running-sums"
unit = "frame"
metric = "frames/s"
[data]
file = "{name}.npz"
sha256 = "{sha256}"
units = 100
"""


@pytest.fixture(autouse=True)
def workload(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ASSAY_SCRATCH", str(tmp_path / "scratch"))
    monkeypatch.setitem(registry.WORKLOADS, "running-sums", "running_sums")
    for module in ("suites.array_workload", "claims.suites"):
        monkeypatch.setattr(f"assay.bench.{module}.workload_named", lambda _: RunningSums())
    monkeypatch.chdir(tmp_path)


def recorded(folder: Path, name: str, seed: int) -> Path:
    """A claim and its file, with its hash."""
    folder.mkdir(exist_ok=True)
    np.savez(folder / f"{name}.npz", values=RunningSums().generate(seed, 100).arrays["values"])
    digest = hashlib.sha256((folder / f"{name}.npz").read_bytes()).hexdigest()
    path = folder / "bench.toml"
    path.write_text(CLAIM.format(name=name, sha256=digest), encoding="utf-8")
    return path


def test_a_file_is_staged_once_checked_and_measured(tmp_path: Path) -> None:
    claim = read_claim(recorded(tmp_path / "a", "a", 1))
    prepared = running.prepare(claim, running.Asked(quick=True))
    (tmp_path / "a" / "a.npz").unlink()
    assert staging.stage(claim).sha256 == claim.data.sha256[0]
    (case,) = prepared.suite.cases(prepared.settings)
    assert case.name == "running-sums, 100 frames"
    assert case.prepare().check.error(0) == 0.0


def test_a_missing_or_other_file_is_refused(tmp_path: Path) -> None:
    path = recorded(tmp_path / "a", "a", 1)
    file = tmp_path / "a" / "a.npz"
    kept = file.read_bytes()
    file.write_bytes(kept + b"x")
    with pytest.raises(InputError, match=r"a\.npz: expected sha256"):
        running.prepare(read_claim(path), running.Asked())
    file.unlink()
    with pytest.raises(InputError, match=r"expected the data set a\.npz, got no file"):
        running.prepare(read_claim(path), running.Asked())


def test_an_address_that_does_not_answer_is_no_failed_gate(tmp_path: Path) -> None:
    path = recorded(tmp_path / "a", "a", 1)
    path.write_text(path.read_text().replace("a.npz", "http://127.0.0.1:9/a.npz"))
    with pytest.raises(InputError, match=r"a: expected the data set http.*, got none: ") as refused:
        running.prepare(read_claim(path), running.Asked())
    assert refused.value.exit_code == 2


def test_the_least_recently_used_goes_first(tmp_path: Path) -> None:
    claims = [read_claim(recorded(tmp_path / name, name, at)) for at, name in enumerate("abc", 1)]
    kept = [staging.stage(claim) for claim in claims]
    for age, entry in enumerate(reversed(kept)):
        os.utime(entry.path, (1_000_000 - age, 1_000_000 - age))
    staging.stage(claims[0])
    budget = 2 * max(entry.nbytes for entry in kept)
    assert [gone.sha256 for gone in staging.evict(budget)] == [kept[1].sha256]
    assert {entry.sha256 for entry in staging.staged()} == {kept[0].sha256, kept[2].sha256}


def test_a_manifest_is_built_verified_and_notices_damage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded(tmp_path / "a", "a", 1)
    assert run(["bench", "manifest", "build", "a", "--json"]) == 0
    (entry,) = json.loads(capsys.readouterr().out)["data_sets"]
    assert (entry["claim"], entry["source"], entry["size"]) == ("a", manifest.STAGED, 100)
    assert run(["bench", "manifest", "verify"]) == 0
    staged = staging.folder() / entry["sha256"]
    staged.write_bytes(b"damaged")
    assert run(["bench", "manifest", "verify"]) == 1
    staged.unlink()
    assert run(["bench", "manifest", "verify"]) == 2
    assert "missing: a" in capsys.readouterr().err


def test_a_generator_that_gives_something_else_is_refused(tmp_path: Path) -> None:
    path = recorded(tmp_path / "a", "a", 1)
    hashes = [RunningSums().generate(seed, 50).sha256 for seed in (1, 2, 3)]
    text = path.read_text().partition("[data]")[0]
    good = f'{text}[data]\ngenerator = "running-sums"\nseeds = [1, 2, 3]\nsize = 50\n'
    path.write_text(f"{good}sha256 = {json.dumps(hashes)}\n")
    assert running.prepare(read_claim(path), running.Asked()).seeds == (1, 2, 3)
    path.write_text(f"{good}sha256 = {json.dumps([*hashes[:2], 'f' * 64])}\n")
    # So small that a smoke test has the same data.
    for quick in (False, True):
        with pytest.raises(InputError, match="data of seed 3: expected sha256 ffffffffffff"):
            running.prepare(read_claim(path), running.Asked(quick=quick))


def test_settings_of_a_workload_are_among_its_choices(tmp_path: Path) -> None:
    path = recorded(tmp_path / "a", "a", 1)
    whole = path.read_text()
    path.write_text(f'{whole}[run.settings]\nhow = "number"\n')
    prepared = running.prepare(read_claim(path), running.Asked())
    assert isinstance(prepared.settings, Settings)
    assert (prepared.settings.settings, Device("cpu").name) == ({"how": "number"}, "cpu")
    path.write_text(f'{whole}[run.settings]\nhow = "guess"\n')
    with pytest.raises(InputError, match="expected one of number, vector, got 'guess'"):
        running.prepare(read_claim(path), running.Asked())


def test_an_archive_that_is_none_is_refused(tmp_path: Path) -> None:
    path = recorded(tmp_path / "a", "a", 1)
    file = tmp_path / "a" / "a.npz"
    file.write_bytes(b"no archive")
    digest = hashlib.sha256(b"no archive").hexdigest()
    path.write_text(CLAIM.format(name="a", sha256=digest))
    with pytest.raises(InputError, match="expected a NumPy archive"):
        running.prepare(read_claim(path), running.Asked())


@pytest.mark.parametrize("units", [99, 101, 10**9])
def test_units_that_are_not_those_of_the_file_are_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], units: int
) -> None:
    path = recorded(tmp_path / "a", "a", 1)
    path.write_text(path.read_text().replace("units = 100", f"units = {units}"))
    assert run(["bench", "run", "a", "--quick"]) == 2
    error, hint = capsys.readouterr().err.splitlines()[-2:]
    assert "data.units: expected the frames of a.npz, whose array values has 100 rows, got" in error
    assert f"{units:,} frames are {units:,} rows" in hint


def test_a_file_without_the_arrays_of_its_workload_is_refused(tmp_path: Path) -> None:
    path = recorded(tmp_path / "a", "a", 1)
    file = tmp_path / "a" / "a.npz"
    np.savez(file, other=np.arange(100))
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    path.write_text(CLAIM.format(name="a", sha256=digest))
    with pytest.raises(
        InputError, match=r"expected the arrays values in a\.npz, got none of values"
    ):
        running.prepare(read_claim(path), running.Asked())


def test_a_file_of_data_has_no_seeds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recorded(tmp_path / "a", "a", 1)
    assert run(["bench", "gate", "a", "--quick", "--json"]) in (0, 1, 3)
    gates = {line["gate"]: line for line in json.loads(capsys.readouterr().out)["gates"]}
    assert gates["seeds"]["verdict"] == "passed"
    assert gates["seeds"]["reason"] == "none: one file of data, 3 runs"
    assert "between runs of the file" in gates["spread"]["reason"]


def test_a_claim_that_fails_is_not_named_before_its_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded(tmp_path / "a", "inner", 1)
    (tmp_path / "a" / "inner.npz").unlink()
    assert run(["bench", "manifest", "build", "a"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("error: inner: expected the data set inner.npz")


@pytest.mark.parametrize(
    ("text", "nbytes"), [("1000", 1000), ("1KB", 1000), ("2 kB", 2000), ("3GB", 3 * 10**9)]
)
def test_a_budget_is_bytes_or_a_power_of_a_thousand(text: str, nbytes: int) -> None:
    assert _budget(text) == nbytes


def test_a_budget_of_another_unit_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(InputError, match="a number with KB, MB, GB or TB, got '1KiB'"):
        _budget("1KiB")


def test_a_result_of_a_file_is_reproduced_with_that_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded(tmp_path / "a", "a", 1)
    assert run(["bench", "run", "a", "--quick", "--save", "kept.json"]) == 0
    again = ["bench", "reproduce", "kept.json", "--save", "again.json"]
    assert run(again) == 2
    assert (
        "the claim a: expected its bench.toml, got none in bench/claims" in capsys.readouterr().err
    )
    assert run([*again, "--claim", "a"]) in (0, 1, 3)
    capsys.readouterr()
    assert run(["bench", "gate", "a", "--result", "again.json"]) in (0, 1, 3)
    assert "running-sums, 100 frames" in capsys.readouterr().out
    recorded(tmp_path / "b", "b", 2)
    assert run(["bench", "gate", "b", "--result", "again.json"]) == 2
    # Of the workload's own generator, which is not the file.
    assert run(["bench", "run", "running-sums", "--quick", "--save", "alone.json"]) == 0
    assert run(["bench", "gate", "a", "--result", "alone.json"]) == 2
    assert "bench.toml: data: expected what was measured, None" in capsys.readouterr().err
