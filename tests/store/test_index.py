"""The local index: fast with a million objects, and made again where it is damaged."""

import hashlib
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from store_items import Making

from assay.store import finding
from assay.store.finding import find
from assay.store.index import Index
from assay.store.layout import init_store, open_store
from assay.store.manifest import Manifest, StoredFile
from assay.store.pushing import push
from assay.store.refs import Ref

ABOUT = {"model": "Llama 3", "engine": "vllm", "accelerator": "NVIDIA H200", "workload": "chat"}
RATIO = {"value": 1.5, "lo": 1.25, "hi": 2.0}
OUTCOME = {"verdict": "improved", "metric": "goodput", "ratio": RATIO}


@pytest.fixture
def store(tmp_path: Path, scratch: Path, make_item: Making) -> str:
    place = str(tmp_path / "store")
    init_store(place)
    first = make_item("first", {"a": b"a"}, taxonomy=ABOUT, outcome=OUTCOME)
    push([first], place, tags=["nightly"])
    push([make_item("second", {"b": b"b"}, kind="trace", created_at=2e9)], place)
    return place


@pytest.mark.parametrize(
    ("terms", "names"),
    [
        ([], ["second", "first"]),
        (["kind=trace"], ["second"]),
        (["model=llama"], ["first"]),
        (["model==llama"], []),
        (["model==llama 3", "engine=VLLM"], ["first"]),
        (["h200"], ["first"]),
        (["nightly"], ["first"]),
        (["tag=night"], []),
        (["verdict=improved"], ["first"]),
        (["verdict=not"], []),
        (["since=90m"], ["second"]),
        (["until=1970-01-01"], ["first"]),
        (["until=1969-12-31"], []),
        (["name=%"], []),
        (["name=_"], []),
        (["since=2030-01-01"], ["second"]),
        (["until=2030-01-01"], ["first"]),
        ([f"sha256={hashlib.sha256(b'b').hexdigest()[:8]}"], ["second"]),
        (["kind=run", "since=2030-01-01"], []),
        (["name=' OR 1=1 --"], []),
    ],
)
def test_items_are_found_by_terms(store: str, terms: list[str], names: list[str]) -> None:
    found = find(terms, store)
    assert [row["name"] for row in found.items] == names
    assert found.total == len(names)


def test_a_run_is_listed_with_what_it_came_to(store: str) -> None:
    second, first = find([], store).items
    assert (first["verdict"], first["metric"], first["ratio"]) == ("improved", "goodput", RATIO)
    assert (second["verdict"], second["ratio"]) == (None, None)


def test_versions_of_one_item_are_listed_the_last_pushed_first(store: str) -> None:
    """For everybody: it is the default of `pull`, and an index made anew reads refs in another order."""
    manifest = Manifest("run", "again", 3e9, (), {})
    digests = [character * 64 for character in "bac"]
    for order in (1, -1):
        with Index.of(open_store(store)) as index:
            for number, digest in list(enumerate(digests))[::order]:
                index.add([(Ref("run", "again", digest, 10.0 + number), manifest, None)])
            rows = index.select(["name = 'again'"], [], 0)
            assert [row["manifest"] for row in rows] == digests[::-1]
            index._database.execute("DELETE FROM items WHERE name = 'again'")
            index._database.commit()


@pytest.mark.parametrize("damage", ["gone", "zeros", "text", "old"])
def test_a_damaged_index_is_made_again(store: str, scratch: Path, damage: str) -> None:
    find([], store)
    (path,) = (scratch / "cache" / "stores").glob("*.sqlite")
    content = path.read_bytes()
    if damage == "gone":
        path.unlink()
    elif damage == "old":
        path.write_bytes(content[:60] + b"\0\0\0\x63" + content[64:])
    else:
        path.write_bytes(b"\0" * 8192 if damage == "zeros" else b"not a database" * 100)
    assert find([], store).total == 2


def test_the_index_forgets_what_the_store_no_longer_has(store: str) -> None:
    find([], store)
    finding.remove_item("run/first", store)
    assert find([], store, refresh=False).total == 2
    assert find([], store).total == 1


def rows(number: int) -> Iterator[tuple[Ref, Manifest, None]]:
    """Items of ten files each, named and hashed by their number."""
    source = random.Random(7)
    for item in range(number):
        files = tuple(
            StoredFile(f"f{file}", 100, hashlib.sha256(f"{item} {file}".encode()).hexdigest(), ())
            for file in range(10)
        )
        about = {"model": f"model {item % 50}", "engine": source.choice(["vllm", "assay"])}
        digest = hashlib.sha256(f"manifest {item}".encode()).hexdigest()
        name = f"run-{item}"
        yield (Ref("run", name, digest, item), Manifest("run", name, item, files, about), None)


@pytest.mark.slow
def test_a_million_objects_are_found_in_two_seconds(store: str) -> None:
    with Index.of(open_store(store)) as index:
        index.add(rows(100_000))
        index._database.commit()
        assert index._database.execute("SELECT count(*) FROM files").fetchone()[0] == 1_000_000
    digest = hashlib.sha256(b"77777 3").hexdigest()
    for terms, total in (
        ([f"sha256={digest}"], 1),
        ([f"sha256={digest[:10]}"], 1),
        (["model==model 7", "engine=vllm"], None),
        (["model=odel 4"], 22_000),
        (["run-77777"], 1),
        (["kind=run"], 100_000),
    ):
        begun_s = time.perf_counter()
        found = find(terms, store, refresh=False)
        seconds = time.perf_counter() - begun_s
        print(f"{' '.join(terms)[:40]}: {found.total:,} items in {seconds:.3f} s")
        assert total is None or found.total == total
        assert seconds <= 2.0
