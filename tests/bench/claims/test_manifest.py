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
    with pytest.raises(InputError, match="data of seed 3: expected sha256 ffffffffffff"):
        running.prepare(read_claim(path), running.Asked())


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
    prepared = running.prepare(read_claim(path), running.Asked())
    with pytest.raises(InputError, match="expected a NumPy archive"):
        prepared.suite.cases(prepared.settings)


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
