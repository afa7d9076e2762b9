"""Pushing, pulling, verifying and collecting, the same in a folder and in a bucket."""

import errno
import hashlib
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from s3_server import S3Server
from store_items import Making

from assay.errors import InputError, UnknownNameError
from assay.observe.header import TraceHeader
from assay.report.redaction import Redactor
from assay.store import collecting, leases, pushing
from assay.store.backend import StoreError
from assay.store.collecting import collect
from assay.store.describing import find_item
from assay.store.finding import find, make_store, remove_item, store_status
from assay.store.layout import (
    OBJECTS,
    Store,
    init_store,
    manifest_key,
    object_key,
    open_store,
    ref_key,
)
from assay.store.leases import leased
from assay.store.manifest import Manifest, parse, read_manifest
from assay.store.places import open_backend
from assay.store.pulling import pull
from assay.store.pushing import manifest_of, push, push_item
from assay.store.redacting import redacted
from assay.store.tagging import add_tags, all_tags, tag_item
from assay.store.verifying import verify_store

FILES = {"journal.jsonl": b"{}\n", "trace/events.shard": b"\0" * 5000, "empty": b""}


def contents(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_what_was_pushed_comes_back(place: str, make_item: Making, tmp_path: Path) -> None:
    (sent,) = push([make_item("first", FILES)], place, tags=["nightly"]).items
    assert (sent.is_new, sent.files, sent.sent_objects) == (True, 3, 2)
    pulled = pull("run/first", place, to=tmp_path / "back")
    assert contents(tmp_path / "back") == FILES
    assert pulled.fetched_bytes == 5003
    assert verify_store(place).is_verified


def test_a_push_without_tags_is_the_same_version_and_keeps_them(
    place: str, make_item: Making
) -> None:
    item = make_item("first", FILES)
    push([item], place, tags=["nightly", "team=search/eu"])
    (sent,) = push([item], place).items
    assert (sent.is_new, sent.is_completed) == (False, False)
    (row,) = find([], place).items
    assert row["tags"] == ["nightly", "team=search/eu"]
    assert store_status(place).versions == 1


def test_tags_are_given_and_taken_away(place: str, make_item: Making) -> None:
    push([make_item("first", FILES)], place, tags=["nightly"])
    assert tag_item("run/first", ["best", "a/b", "a"], (), place).tags == [
        "a",
        "a/b",
        "best",
        "nightly",
    ]
    assert tag_item("first", (), ["nightly", "a"], place).tags == ["a/b", "best"]
    assert [row["name"] for row in find(["tag=best"], place).items] == ["first"]
    assert find(["tag=nightly"], place).total == 0
    with pytest.raises(InputError, match="run/first: expected one of its tags, got nightly"):
        tag_item("first", (), ["nightly"], place)
    remove_item("run/first", place)
    assert list(all_tags(open_store(place))) == []


def test_a_stray_tag_is_garbage_and_that_of_an_item_is_not(place: str, make_item: Making) -> None:
    push([make_item("first", FILES)], place, tags=["kept"])
    store = open_store(place)
    add_tags(store, "run", "gone", ["left"])
    store.backend.create("tags/run/first/not-base-32!", b"")
    assert collect(place, grace_s=0.0).leftovers == 1
    assert [tag.tag for tag in all_tags(store)] == ["kept"]


def test_a_place_with_other_files_is_not_made_a_store(place: str) -> None:
    other = f"{place}-other"
    backend = open_backend(other)
    backend.create("notes/plan.txt", b"mine")
    with pytest.raises(StoreError, match=r"got other files, such as notes/plan\.txt"):
        init_store(other)
    # The rest of a store whose marker was lost is no stranger.
    open_backend(place).remove("assay-store.json")
    assert init_store(place)[1]


def test_an_item_is_found_by_the_start_of_its_name(
    place: str, make_item: Making, tmp_path: Path
) -> None:
    push([make_item("20261116-19-a", FILES), make_item("20261117-20-b", FILES)], place)
    assert pull("20261116", place, to=tmp_path / "a").item == "run/20261116-19-a"
    again = pull("run/20261116", place, to=tmp_path / "a")
    assert (again.was_there, again.fetched_bytes) == (True, 0)
    with pytest.raises(InputError, match="2 items start with it"):
        pull("202611", place)
    for name, got, hint in (
        ("20261116", "the start of 1 item", "its whole name: run/20261116-19-a"),
        ("run/2026", "the start of 2 items", "one of: run/20261116-19-a, run/20261117-20-b"),
    ):
        with pytest.raises(InputError, match=f"expected a whole name, got {got}") as error:
            remove_item(name, place)
        assert error.value.hint == hint
    with pytest.raises(UnknownNameError, match="unknown item"):
        remove_item("nothing", place)


def test_the_digits_of_a_version_are_told_from_a_name(place: str, make_item: Making) -> None:
    (sent,) = push([make_item("first", FILES)], place).items
    for ask in (remove_item, pull):
        with pytest.raises(InputError, match="got the digits of a version of run/first") as error:
            ask(sent.manifest[:8], place)
        assert error.value.hint == "its name: run/first"


def test_a_version_says_who_pushed_it_first(
    place: str, make_item: Making, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pushing, "this_pusher", lambda: "ann@one")
    copy = make_item("copy", FILES, redaction={"files": {}})
    push([make_item("first", FILES), copy], place)
    monkeypatch.setattr(pushing, "this_pusher", lambda: "ben@two")
    push([make_item("first", FILES), make_item("first", {"other": b"other"})], place)
    said = {(row["name"], row["files"]): row["pushed_by"] for row in find([], place).items}
    # A copy without names has none of who made it, and a ref of a store of before is empty.
    assert said == {("first", 3): "ann@one", ("copy", 3): None, ("first", 1): "ben@two"}
    backend = open_backend(place)
    for name, content in (("a", b""), ("b", b"\xff"), ("c", b"\x1b[31mred")):
        (sent,) = push([make_item(name, FILES)], place).items
        backend.replace(ref_key("run", name, sent.manifest), content)
        assert find([f"name=={name}"], place).items[0]["pushed_by"] is None


def test_what_a_push_completes_is_said(place: str, make_item: Making) -> None:
    item = make_item("first", FILES)
    (sent,) = push([item], place).items
    backend = open_backend(place)
    backend.replace(manifest_key(sent.manifest), b"damaged")
    assert push([item], place).items[0].is_completed
    backend.remove(object_key(hashlib.sha256(b"{}\n").hexdigest()))
    assert push([item], place).items[0].is_completed
    assert not push([item], place).items[0].is_completed


def test_objects_are_named_by_sha256_of_their_bytes(place: str, make_item: Making) -> None:
    push([make_item("first", FILES)], place)
    digest = hashlib.sha256(b"\0" * 5000).hexdigest()
    backend = open_backend(place)
    assert backend.read(f"objects/{digest[:2]}/{digest}") == b"\0" * 5000
    for entry in backend.entries("manifests/"):
        content = backend.read(entry.key)
        assert content is not None
        assert hashlib.sha256(content).hexdigest() == entry.key.rpartition("/")[2]


def test_a_second_push_sends_nothing(place: str, make_item: Making) -> None:
    item = make_item("first", FILES)
    first, again = (push([item], place).items[0] for _ in range(2))
    assert (again.sent_bytes, again.is_new, again.manifest) == (0, False, first.manifest)
    assert store_status(place).versions == 1


def test_a_large_file_is_cut_into_objects(
    place: str, make_item: Making, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("pushing", "manifest"):
        monkeypatch.setattr(f"assay.store.{module}.OBJECT_BYTES", 1000)
    content = bytes(range(256)) * 10
    (sent,) = push([make_item("large", {"file": content})], place).items
    assert sent.sent_objects == 3
    pull("large", place, to=tmp_path / "back")
    assert contents(tmp_path / "back") == {"file": content}


def test_a_pull_goes_on_where_it_was_cut(place: str, make_item: Making, tmp_path: Path) -> None:
    (sent,) = push([make_item("first", FILES)], place).items
    backend = open_backend(place)
    key = object_key(hashlib.sha256(b"\0" * 5000).hexdigest())
    whole = backend.read(key)
    assert whole is not None
    backend.remove(key)
    with pytest.raises(StoreError, match="is missing"):
        pull("first", place, to=tmp_path / "back")
    assert not (tmp_path / "back").exists()
    backend.create(key, whole)
    assert pull("first", place, to=tmp_path / "back").fetched_bytes == 5000
    assert [path.name for path in tmp_path.glob(".*")] == []
    assert pull("first", place, to=tmp_path / "back").fetched_bytes == 0
    assert sent.manifest == pull("first", place, to=tmp_path / "back").manifest


@pytest.mark.parametrize("damage", ["flip", "cut", "empty"])
def test_damaged_bytes_are_named_and_never_believed(
    place: str, make_item: Making, tmp_path: Path, damage: str
) -> None:
    item = make_item("first", FILES)
    push([item], place)
    digest = hashlib.sha256(b"\0" * 5000).hexdigest()
    bad = {"flip": b"\0" * 4999 + b"\1", "cut": b"\0" * 2500, "empty": b""}[damage]
    open_backend(place).replace(object_key(digest), bad)
    with pytest.raises(StoreError, match=f"object {digest[:16]} of run/first .* is damaged"):
        pull("first", place, to=tmp_path / "back")
    assert not (tmp_path / "back").exists()
    verified = verify_store(place)
    assert [(one.digest, one.items) for one in verified.damages] == [(digest, ["run/first"])]
    assert verified.problem is not None
    assert verified.problem.exit_code == 1
    # A push reads back what is there, so the item is whole when it ends.
    assert push([item], place).items[0].mended_objects == 1
    assert verify_store(place).is_verified


def test_a_damaged_manifest_is_refused_and_mended(
    place: str, make_item: Making, tmp_path: Path
) -> None:
    item = make_item("first", FILES)
    (sent,) = push([item], place).items
    backend = open_backend(place)
    content = backend.read(manifest_key(sent.manifest))
    assert content is not None
    backend.replace(manifest_key(sent.manifest), content.replace(b"journal", b"jourmal"))
    with pytest.raises(StoreError, match=r"manifest .* is damaged"):
        pull("first", place, to=tmp_path / "back")
    with pytest.raises(StoreError, match="nothing is removed"):
        collect(place, grace_s=0)
    found = find([], place)
    assert found.items[0]["damage"] is not None
    push([item], place)
    assert verify_store(place).is_verified
    assert find([], place).items[0]["damage"] is None


def test_discard_removes_what_is_damaged(place: str, make_item: Making) -> None:
    push([make_item("first", FILES)], place)
    key = object_key(hashlib.sha256(b"{}\n").hexdigest())
    open_backend(place).replace(key, b"[]\n")
    assert verify_store(place, discard=True).damages[0].is_removed
    assert open_backend(place).entry(key) is None


def test_two_versions_of_a_name_are_both_kept(
    place: str, make_item: Making, tmp_path: Path
) -> None:
    push([make_item("first", FILES)], place)
    (sent,) = push([make_item("first", {**FILES, "empty": b"no longer"})], place).items
    assert store_status(place).versions == 2
    older = next(
        row["manifest"] for row in find([], place).items if row["manifest"] != sent.manifest
    )
    pull("first", place, to=tmp_path / "old", version=older[:12])
    assert contents(tmp_path / "old") == FILES
    with pytest.raises(InputError, match='no version "ffffffff'):
        pull("first", place, version="ffffffffffff")


def test_garbage_is_removed_after_the_grace_period(place: str, make_item: Making) -> None:
    push([make_item("first", FILES), make_item("second", {"own": b"own"})], place)
    remove_item("run/first", place)
    assert collect(place).objects == 0
    assert collect(place, grace_s=0, dry_run=True).objects == 2
    assert collect(place, grace_s=0).objects == 2
    assert verify_store(place).is_verified
    assert store_status(place).objects == 1


def test_gc_reads_each_manifest_once_however_many_passes_it_takes(
    place: str, make_item: Making, monkeypatch: pytest.MonkeyPatch
) -> None:
    push([make_item(name, {"own": name.encode()}) for name in ("a", "b", "c", "d")], place)
    for name in ("c", "d"):
        remove_item(f"run/{name}", place)
    read: list[str] = []
    passes: list[leases.Sweep] = []

    def counted(store: Store, digest: str) -> Manifest:
        read.append(digest)
        return read_manifest(store, digest)

    def is_over(sweep: leases.Sweep) -> bool:
        """After its first removal."""
        passes.append(sweep)
        return passes.count(sweep) > 1

    monkeypatch.setattr(collecting, "read_manifest", counted)
    monkeypatch.setattr(leases.Sweep, "is_over", property(is_over))
    collected = collect(place, grace_s=0)
    assert (collected.objects, collected.manifests) == (2, 2)
    assert len({id(sweep) for sweep in passes}) == 4
    assert len(read) == len(set(read)) == 2


def test_gc_ends_where_a_look_takes_longer_than_a_removal_may(
    place: str, make_item: Making, monkeypatch: pytest.MonkeyPatch
) -> None:
    push([make_item("first", FILES)], place)
    remove_item("run/first", place)
    with monkeypatch.context() as slow:
        slow.setattr(leases.Sweep, "is_over", property(lambda sweep: True))
        assert collect(place, grace_s=0, dry_run=True).objects == 2
        with pytest.raises(StoreError, match="a look at what it holds took longer than 300 s"):
            collect(place, grace_s=0)
    assert collect(place, grace_s=0).objects == 2


def test_gc_spares_what_a_push_is_about_to_refer_to(place: str, make_item: Making) -> None:
    item = make_item("first", FILES)
    push([item], place)
    remove_item("run/first", place)
    store = open_store(place)
    with leased(store, manifest_of(item), lambda text: None, 0.0):
        collected = collect(place, grace_s=0)
        assert (collected.objects, collected.kept_for_pushes) == (0, 3)
        push_item(store, item)
    assert verify_store(place).is_verified
    assert store_status(place).kinds["run"] == 1


def test_a_push_waits_for_a_sweep_and_ignores_a_dead_one(
    place: str, make_item: Making, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, item = open_store(place), make_item("first", FILES)
    sweep = leases.Sweep(store)
    with pytest.raises(StoreError, match="is being swept"):
        push_item(store, item, wait_s=0.0)
    assert store_status(place).pushes == 0
    monkeypatch.setattr(leases, "_LOOK_S", 0.01)
    timer = threading.Timer(0.1, sweep.end)
    timer.start()
    push_item(store, item)
    timer.join()
    leases.Sweep(store)
    monkeypatch.setattr(leases, "SWEEP_S", -1.0)
    assert not push_item(store, item, wait_s=0.0).is_new


def test_the_lease_of_a_dead_push_expires(
    place: str, make_item: Making, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as killed:
        killed.setattr(leases, "_remove_quietly", lambda store, key: False)
        push([make_item("first", FILES)], place)
    remove_item("run/first", place)
    # Of another machine nobody knows here whether it goes on.
    monkeypatch.setattr(leases, "is_dead", lambda store, lease: False)
    monkeypatch.setattr(leases, "dead", lambda store: [])
    collected = collect(place, grace_s=0)
    assert collected.kept_for_pushes == 3
    (held,), (listed,) = collected.pushes, store_status(place).under_way
    assert (held.item, held.bytes) == (listed.item, listed.bytes) == ("run/first", 5003)
    assert held.until == held.renewed_at + leases.LEASE_S
    assert open_backend(place).entry(held.marker) is not None
    # A push of the same elsewhere cannot tell either.
    push([make_item("first", FILES)], place)
    remove_item("run/first", place)
    assert store_status(place).pushes == 1
    # What is left of it need not be readable to be removed.
    open_backend(place).replace(held.marker, b"damaged")
    monkeypatch.setattr(leases, "LEASE_S", -1.0)
    collected = collect(place, grace_s=0)
    assert (collected.objects, collected.leftovers, collected.pushes) == (2, 1, [])
    assert store_status(place).pushes == 0


_KILLED = """
import os, signal, sys
from assay.store.describing import find_item
from assay.store.layout import open_store
from assay.store.leases import leased
from assay.store.pushing import manifest_of

with leased(open_store(sys.argv[1]), manifest_of(find_item(sys.argv[2])), print, 0.0):
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("end", ["collected", "pushed again"])
def test_a_push_that_was_killed_here_counts_no_longer(place: str, root: Path, end: str) -> None:
    result = root / "bench" / "results" / "gemm-h200.json"
    words = [sys.executable, "-c", _KILLED, place, str(result)]
    assert subprocess.run(words, check=False).returncode == -signal.SIGKILL
    status = store_status(place)
    assert (status.pushes, status.under_way) == (1, [])
    assert status.notes[0].startswith("1 push of this machine cut short")
    if end == "collected":
        collected = collect(place, grace_s=0)
        assert (collected.leftovers, collected.pushes) == (1, [])
    else:
        push([find_item(str(result))], place)
    status = store_status(place)
    assert (status.pushes, list(status.notes)) == (0, [])


def test_a_file_that_changes_meanwhile_is_not_pushed(
    place: str, make_item: Making, monkeypatch: pytest.MonkeyPatch
) -> None:
    item = make_item("first", FILES)

    def changing(store: object, *parts: object) -> str:
        item.files["trace/events.shard"].write_bytes(b"later")
        return original(store, *parts)  # type: ignore[arg-type]

    original = pushing._send
    monkeypatch.setattr(pushing, "_send", changing)
    with pytest.raises(StoreError, match="changed while it was pushed"):
        push([item], place)
    assert store_status(place).kinds["run"] == 0
    assert verify_store(place).is_verified


def test_an_existing_place_is_not_overwritten(
    place: str, make_item: Making, tmp_path: Path
) -> None:
    push([make_item("first", FILES)], place)
    (tmp_path / "mine").write_text("mine")
    with pytest.raises(InputError, match="exists and is not"):
        pull("first", place, to=tmp_path / "mine")
    assert (tmp_path / "mine").read_text() == "mine"


def test_a_place_without_a_marker_is_not_a_store(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="is not a store") as error:
        open_store(str(tmp_path))
    assert "assay store init" in (error.value.hint or "")


def test_two_who_make_a_store_have_the_same_one(tmp_path: Path, scratch: Path) -> None:
    made = [init_store(str(tmp_path / "store")) for _ in range(2)]
    assert [is_new for _, is_new in made] == [True, False]
    assert made[0][0].id == made[1][0].id


@pytest.mark.parametrize("path", ["../up", "/etc/passwd", "a/../../b", "a\\b", "a\0b", "", "./a"])
def test_a_manifest_cannot_lead_out_of_its_folder(make_item: Making, path: str) -> None:
    content = manifest_of(make_item("first", {"fine": b"x"})).content()
    damaged = content.replace(b'"fine"', repr(path).replace("'", '"').encode(), 1)
    with pytest.raises(StoreError, match="expected a manifest"):
        parse(damaged.replace(b"\\x00", b"\\u0000"), "manifest")


@pytest.mark.parametrize("time", [b"NaN", b"Infinity", b'"now"', b"null", b"1e999"])
def test_a_time_of_a_manifest_is_a_number(make_item: Making, time: bytes) -> None:
    content = manifest_of(make_item("first", {"fine": b"x"})).content()
    with pytest.raises(StoreError, match="expected a manifest"):
        parse(content.replace(b'"created_at":1000.0', b'"created_at":' + time), "manifest")


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b"null", b"[" * 5000, b"\xff"])
def test_other_bytes_are_no_manifest(content: bytes) -> None:
    with pytest.raises(StoreError, match="expected a manifest"):
        parse(content, "manifest")


def test_a_wrong_key_is_one_line_without_the_key(
    s3: S3Server, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    init_store("s3://bucket/team")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "wrong-key-id")
    with pytest.raises(StoreError, match="cannot be read: access denied") as error:
        open_store("s3://bucket/team")
    assert "AWS_ACCESS_KEY_ID" in (error.value.hint or "")
    assert "very-secret" not in error.value.message
    assert "wrong-key-id" not in error.value.message


def test_a_bucket_that_is_not_there_is_named(s3: S3Server, scratch: Path) -> None:
    with pytest.raises(StoreError, match="no such bucket"):
        open_store("s3://elsewhere/team")


@pytest.mark.parametrize("how", ["told", "answered"])
def test_a_bucket_without_conditions_is_written_all_the_same_and_says_so(
    how: str, s3: S3Server, scratch: Path, make_item: Making, monkeypatch: pytest.MonkeyPatch
) -> None:
    if how == "told":
        monkeypatch.setenv("AWS_CONDITIONAL_PUT", "disabled")
    else:
        s3.has_conditions = False
    made = make_store("s3://bucket/team")
    assert made.is_new
    item = make_item("first", FILES)
    pushed, again = (push([item], "s3://bucket/team") for _ in range(2))
    assert (pushed.items[0].is_new, again.items[0].is_new) == (True, False)
    assert verify_store("s3://bucket/team").is_verified
    for answer in (made, pushed):
        (note,) = answer.notes
        assert "has no conditional writes" in note
    # Asked for a condition once a command, not for each object.
    assert s3.refused_conditions <= 3


def test_a_folder_without_links_is_written_all_the_same_and_says_so(
    scratch: Path, tmp_path: Path, make_item: Making, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*paths: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refused)
    place = str(tmp_path / "store")
    assert "has no hard links" in make_store(place).notes[0]
    pushed = push([make_item("first", FILES)], place)
    assert "has no hard links" in pushed.notes[0]
    assert verify_store(place).is_verified


def test_a_cut_connection_is_one_line_and_the_push_goes_on(
    s3: S3Server, scratch: Path, make_item: Making
) -> None:
    init_store("s3://bucket/team")
    item = make_item("first", FILES)
    at = s3.requests + 6
    s3.fault = lambda number, method: "before" if number >= at else None
    with pytest.raises(StoreError) as error:
        push([item], "s3://bucket/team")
    assert "\n" not in error.value.message
    assert "goes on" in (error.value.hint or "")
    s3.fault = lambda number, method: None
    (sent,) = push([item], "s3://bucket/team").items
    assert sent.is_new
    assert verify_store("s3://bucket/team").is_verified


def test_objects_of_other_names_are_listed_page_by_page(s3: S3Server, scratch: Path) -> None:
    init_store("s3://bucket/team")
    for number in range(1200):
        digest = hashlib.sha256(str(number).encode()).hexdigest()
        s3.objects[f"team/{object_key(digest)}"] = (str(number).encode(), 0.0)
    assert len(list(open_backend("s3://bucket/team").entries(OBJECTS))) == 1200


def test_a_trace_without_names_is_found_and_states_its_originals(
    scratch: Path, tmp_path: Path
) -> None:
    place = str(tmp_path / "store")
    init_store(place)
    trace = tmp_path / "chat-trace"
    trace.mkdir()
    header = TraceHeader(model="Project Zephyr", engine="vllm", processes={"1": "payroll"})
    header.write(trace / "header.json")
    (trace / "notes.log").write_text("payroll")
    item = redacted(find_item(str(trace)), tmp_path / "copies", Redactor(["Zephyr"], key=b"test"))
    push([item], place)
    (row,) = find(["kind=trace"], place).items
    assert (row["name"], row["redacted"], row["engine"]) == ("chat-trace", True, "vllm")
    assert "Zephyr" not in row["model"]
    pull("chat-trace", place, to=tmp_path / "back")
    assert set(contents(tmp_path / "back")) == {"header.json"}
    assert b"payroll" not in contents(tmp_path / "back")["header.json"]
    manifest = read_manifest(open_store(place), row["manifest"])
    assert manifest.redaction is not None
    assert manifest.redaction["left_out"] == ["notes.log"]
    original = hashlib.sha256((trace / "header.json").read_bytes()).hexdigest()
    assert manifest.redaction["files"]["header.json"] == original
