"""Items by a query: all of them, what is refused by name, and a pull that goes on."""

from pathlib import Path

import pytest
from s3_server import S3Server
from store_items import Making

from assay.errors import InputError
from assay.improve.journal import faults
from assay.store.backend import StoreError
from assay.store.layout import digest_of, init_store, manifest_key, object_key, open_store
from assay.store.pulling import pull
from assay.store.pulling_several import PulledItems, pull_several, would_pull
from assay.store.pushing import manifest_of, push
from assay.store.refs import refs

LLAMA = {"model": "Llama 3", "engine": "vllm"}


@pytest.fixture
def team(place: str, make_item: Making) -> str:
    """A store with two runs of a model, a trace of it, and a run of another."""
    push(
        [
            make_item("first", {"a": b"first", "b": b"\1" * 500}, taxonomy=LLAMA),
            make_item("second", {"a": b"second"}, taxonomy=LLAMA, created_at=2_000.0),
            make_item("first", {"events": b"events"}, kind="trace", taxonomy=LLAMA),
            make_item("other", {"a": b"other"}, taxonomy={"model": "Qwen 3"}),
        ],
        place,
    )
    return place


def outcomes(pulled: PulledItems) -> dict[str, str]:
    return {each.item: each.outcome for each in pulled.items}


def test_all_that_match_are_pulled_each_below_its_kind(team: str, tmp_path: Path) -> None:
    to = tmp_path / "copies"
    pulled = pull_several(place=team, terms=["model=llama", "engine=vllm"], to=to)
    assert set(outcomes(pulled)) == {"run/first", "run/second", "trace/first"}
    files = {path.relative_to(to).as_posix() for path in to.rglob("*") if path.is_file()}
    assert files == {"run/first/a", "run/first/b", "run/second/a", "trace/first/events"}
    assert pulled.bytes == pulled.fetched_bytes == 505 + 6 + 6
    again = pull_several(place=team, terms=["model=llama"], to=to)
    assert set(outcomes(again).values()) == {"there"}
    assert again.fetched_bytes == 0


def test_a_dry_run_writes_nothing_and_says_what_exists(team: str, tmp_path: Path) -> None:
    pulled = pull_several(place=team, terms=["kind=run"], to=tmp_path / "to", dry_run=True)
    assert (len(pulled.items), pulled.bytes, pulled.fetched_bytes) == (3, 505 + 6 + 5, 0)
    assert not (tmp_path / "to").exists()
    pull_several(["run/first"], team, to=tmp_path / "to")
    pulled = pull_several(place=team, terms=["kind=run"], to=tmp_path / "to", dry_run=True)
    assert outcomes(pulled) == {
        "run/first": "exists",
        "run/second": "wanted",
        "run/other": "wanted",
    }


def test_a_dry_run_of_one_item_says_where_its_pull_goes(
    team: str, make_item: Making, tmp_path: Path
) -> None:
    listed = would_pull("run/second", team, to=tmp_path / "to")
    (row,) = listed.items
    pulled = pull("run/second", team, to=tmp_path / "to")
    assert (row.place, row.manifest, row.files, row.bytes) == (
        pulled.place, pulled.manifest, pulled.files, pulled.bytes
    )  # fmt: skip
    assert (row.outcome, listed.dry_run) == ("wanted", True)
    assert would_pull("second", team, to=tmp_path / "to").items[0].outcome == "exists"
    (sent,) = push([make_item("first", {"a": b"later"}, taxonomy=LLAMA)], team).items
    (row,) = would_pull("run/first", team, version=sent.manifest[:12]).items
    assert (row.manifest, row.bytes) == (sent.manifest, 5)
    assert would_pull("run/first", team).notes[0].startswith("2 versions of run/first are stored")
    with pytest.raises(InputError, match='no version "ffff"'):
        would_pull("run/first", team, version="ffff")


def test_items_by_name_need_no_index(
    team: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As of a version that another machine pushes while the index is read.
    monkeypatch.setattr("assay.store.index.refs", lambda store: [])
    pulled = pull_several(["run/first", "run/second"], team, to=tmp_path / "to")
    assert outcomes(pulled) == {"run/first": "pulled", "run/second": "pulled"}
    assert (pulled.bytes, pulled.terms) == (505 + 6, {})


def test_a_damaged_manifest_is_named_and_the_others_come(
    team: str, make_item: Making, tmp_path: Path
) -> None:
    item = make_item("second", {"a": b"second"}, taxonomy=LLAMA, created_at=2_000.0)
    digest = digest_of(manifest_of(item).content())
    open_store(team).backend.replace(manifest_key(digest), b"{}")
    pulled = pull_several(["run/second", "run/first"], team, to=tmp_path / "to")
    assert outcomes(pulled) == {"run/second": "refused", "run/first": "pulled"}
    assert pulled.items[0].bytes is None


def test_of_several_versions_the_last_pushed_is_pulled(
    team: str, make_item: Making, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (sent,) = push([make_item("first", {"a": b"later"}, taxonomy=LLAMA)], team).items
    # Two pushes of one second are not told apart by every clock.
    known = [
        ref._replace(pushed_at=ref.pushed_at + 9) if ref.manifest == sent.manifest else ref
        for ref in refs(open_store(team))
    ]
    monkeypatch.setattr("assay.store.index.refs", lambda store: known)
    pulled = pull_several(place=team, terms=["kind=run", "name==first"], to=tmp_path / "to")
    assert [each.manifest for each in pulled.items] == [sent.manifest]
    assert pulled.notes[0].startswith("not pulled: 1 earlier version of these items")
    assert (tmp_path / "to/run/first/a").read_bytes() == b"later"


def test_what_is_damaged_or_in_the_way_is_named_and_the_others_come(
    team: str, make_item: Making, tmp_path: Path
) -> None:
    item = make_item("second", {"a": b"second"}, taxonomy=LLAMA, created_at=2_000.0)
    (file,) = manifest_of(item).files
    open_store(team).backend.replace(object_key(file.objects[0]), b"secomd")
    (tmp_path / "to/run/other").mkdir(parents=True)
    pulled = pull_several(place=team, terms=["kind=run"], to=tmp_path / "to")
    assert outcomes(pulled) == {
        "run/first": "pulled",
        "run/second": "refused",
        "run/other": "refused",
    }
    assert isinstance(pulled.problem, StoreError)
    assert pulled.problem.message.startswith("2 of 3 items not pulled: ")
    assert not (tmp_path / "to/run/second").exists()
    push([item], team)
    (tmp_path / "to/run/other").rmdir()
    again = pull_several(place=team, terms=["kind=run"], to=tmp_path / "to")
    assert set(outcomes(again).values()) == {"there", "pulled"}


def test_a_pull_that_was_cut_short_goes_on(
    team: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults.reached.clear()
    monkeypatch.setenv(faults.VARIABLE, "store.pulled=error@3")
    with pytest.raises(faults.InjectedFaultError):
        pull_several(place=team, terms=["kind=run"], to=tmp_path / "to")
    monkeypatch.delenv(faults.VARIABLE)
    pulled = pull_several(place=team, terms=["kind=run"], to=tmp_path / "to")
    assert len(pulled.items) == 3
    assert 0 < pulled.fetched_bytes < pulled.bytes
    assert not list((tmp_path / "to").rglob("*.partial"))


def test_a_lost_connection_is_one_line_and_no_item_is_tried_after_it(
    s3: S3Server, scratch: Path, make_item: Making, tmp_path: Path
) -> None:
    init_store("s3://bucket/team")
    push([make_item(name, {"a": name.encode()}) for name in ("a", "b", "c")], "s3://bucket/team")
    listed = pull_several(place="s3://bucket/team", terms=["kind=run"], dry_run=True)
    # Two markers, refs and tags, the manifest of the first item; its object is not read.
    first = s3.requests + 5
    s3.fault = lambda number, method: "before" if number > first else None
    with pytest.raises(StoreError, match="cannot be read"):
        pull_several(place="s3://bucket/team", terms=["kind=run"], to=tmp_path / "to")
    assert s3.requests == first + 1
    s3.fault = lambda number, method: None
    again = pull_several(place="s3://bucket/team", terms=["kind=run"], to=tmp_path / "to")
    assert again.fetched_bytes == listed.bytes
