"""`ASSAY_STORE`: a place that is no store refuses a run before it begins, and an ended run says where it went."""

from __future__ import annotations

import shutil
import tarfile
from pathlib import Path

import pytest

import assay
from assay.errors import AssayError, InputError
from assay.improve.loop.progress import Silent
from assay.load.workloads.builtin import workload
from assay.runs.fleet import FleetOptions, promote_fleet
from assay.runs.sharing import push_ended
from assay.store.backend import StoreError
from assay.store.describing import item_of
from assay.store.finding import find, store_status
from assay.store.layout import init_store
from assay.store.pulling import pull
from assay.store.pulling_several import pull_several
from assay.store.pushing import push

RUN = "h200-own-engine"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ASSAY_SCRATCH", str(tmp_path / "scratch"))
    monkeypatch.setenv("ASSAY_STORE", str(tmp_path / "store"))
    return tmp_path / "store"


@pytest.fixture
def run(place: Path, root: Path) -> Path:
    """A run that verifies, in a store's reach."""
    folder = place.parent / "runs"
    with tarfile.open(root / "docs" / "examples" / RUN / "run.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    init_store(str(place))
    (path,) = folder.iterdir()
    return path


@pytest.mark.parametrize("other", ["nothing", "a folder", "a file"])
def test_a_place_that_is_no_store_refuses_a_run_before_it_begins(
    place: Path, other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(*_: object, **__: object) -> None:
        raise AssertionError("a model is loaded before the store is looked for")

    monkeypatch.setattr("assay.engine.Engine.load", load)
    if other == "a folder":
        place.mkdir()
    elif other == "a file":
        place.touch()
    with pytest.raises(StoreError, match=f"ASSAY_STORE: {place} is not a store") as error:
        assay.optimize(model="synthetic", workload="decode", budget=60, dry_run=True)
    hint = str(error.value.hint)
    assert ("one of s3://" if other == "a file" else "assay store init --store") in hint
    assert "without ASSAY_STORE, runs stay on this machine" in hint
    assert not (place.parent / "scratch" / "runs").exists()


def test_a_place_that_is_no_store_refuses_a_promotion(place: Path) -> None:
    urls = ["http://127.0.0.1:1", "http://127.0.0.1:2"]
    options = FleetOptions(urls=urls, restart="true", changes=("threads=2",), budget_s=60.0)
    with pytest.raises(StoreError, match=r"ASSAY_STORE: .* is not a store"):
        promote_fleet(options, workload("decode"), Silent())


def test_an_ended_run_says_where_it_went(run: Path, place: Path) -> None:
    assert push_ended(run) == [f"pushed to store {place}: run/{run.name}"]
    assert find([], str(place)).items[0]["verdict"] == "improved"


def test_without_a_store_nothing_is_said(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ASSAY_STORE")
    assert push_ended(run) == []


def test_a_push_that_fails_says_how_to_push(run: Path, place: Path) -> None:
    shutil.rmtree(place)
    (note,) = push_ended(run)
    assert note.startswith(f"the run is not in the store of ASSAY_STORE: {place} is not a store")
    assert note.endswith(f"; assay store push {run.name} pushes it")


def test_a_run_is_named_by_its_id(run: Path, place: Path) -> None:
    renamed = run.rename(run.with_name("my best run"))
    assert push([item_of(renamed)]).items[0].item == f"run/{run.name}"
    assert push([item_of(renamed.rename(run))]).items[0].is_new is False
    assert store_status().versions == 1


def damaged(run: Path, how: str) -> Path:
    if how == "report":
        (run / "report.md").write_text("4x faster")
    else:
        (run / "report.sig").write_text("garbage")
    return run


@pytest.mark.parametrize(
    ("how", "what"), [("report", r"report\.md: "), ("signature", "report.sig is not a signature")]
)
def test_a_run_that_does_not_verify_is_refused_and_the_others_are_not(
    run: Path, place: Path, root: Path, how: str, what: str
) -> None:
    items = [item_of(damaged(run, how)), item_of(root / "bench" / "results" / "gemm-h200.json")]
    pushed = push(items)
    assert [sent.item for sent in pushed.items] == ["result/gemm-h200.json"]
    assert [refused.item for refused in pushed.refused] == [f"run/{run.name}"]
    with pytest.raises(InputError, match=f"1 of 2 items not pushed: .* does not verify: .*{what}"):
        raise_of(pushed.problem)
    assert store_status().kinds["run"] == 0
    (note,) = push_ended(run)
    assert "does not verify" in note
    assert "--unverified pushes it" in note


def raise_of(problem: AssayError | None) -> None:
    assert problem is not None
    raise problem


def test_a_run_that_is_pushed_unverified_is_marked_for_everybody(
    run: Path, place: Path, tmp_path: Path
) -> None:
    pushed = push([item_of(damaged(run, "report"))], unverified=True)
    assert pushed.problem is None
    (row,) = find([]).items
    assert row["unverified"].startswith("report.md: ")
    assert store_status().unverified == 1
    said = f"run/{run.name} was pushed as not verified: report.md: "
    assert pull(row["item"], to=tmp_path / "one").notes[0].startswith(said)
    assert pull_several(terms=["kind=run"], to=tmp_path / "all").notes[0].startswith(said)
