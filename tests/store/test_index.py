"""The local index: fast with a million objects, and made again where it is damaged."""

import hashlib
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from store_items import Making

import assay
from assay.errors import AssayError, InputError
from assay.store import finding
from assay.store.collecting import collect
from assay.store.finding import find
from assay.store.index import Index, IndexedVersion
from assay.store.layout import init_store, open_store
from assay.store.manifest import Manifest, StoredFile
from assay.store.pulling_several import pull_several
from assay.store.pushing import push
from assay.store.refs import Ref
from assay.store.retaining import Policy

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
        (["accelerator=h200_sxm"], ["first"]),
        (["accelerator==h200_sxm"], ["first"]),
        (["accelerator==nvidia h200"], ["first"]),
        (["accelerator=h100_sxm"], []),
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


@pytest.mark.parametrize(
    ("term", "message", "hint"),
    [
        ("model~llama", "expected model=TEXT or model==TEXT, got the sign \"~\"", "did you mean model=llama?"),
        ("model!=llama", "got the sign \"!=\"", "not what they are not"),
        ("since>2026-11-01", "got the sign \">\"", "since=2026-11-01 and until"),
        ("verdict=great", "unknown verdict \"great\"", "improved"),
        ("verdict==improve", "unknown verdict \"improve\"", "improved"),
    ],
)  # fmt: skip
def test_what_no_item_can_fulfill_is_a_mistake(
    store: str, term: str, message: str, hint: str
) -> None:
    with pytest.raises(AssayError) as caught:
        find([term], store)
    assert message in caught.value.message
    assert hint in f"{caught.value.hint} {caught.value.message}"


@pytest.mark.parametrize(
    ("terms", "note"),
    [
        (["model=qwen"], "no item has model=qwen; model is one of: Llama 3"),
        (
            ["kind=run", "accelerator=b200"],
            "no item has accelerator=b200; of those with kind=run the accelerator is: NVIDIA H200 (h200_sxm)",
        ),
        (["tag=weekly"], "no item has tag=weekly; tag is one of: nightly"),
        (["verdict=regressed"], "no item has verdict=regressed; verdict is one of: improved"),
    ],
)
def test_an_empty_answer_has_the_values_that_there_are(
    store: str, terms: list[str], note: str
) -> None:
    assert list(find(terms, store).notes) == [note]
    assert list(pull_several(terms=terms, place=store).notes) == [note]
    assert list(collect(store, policy=Policy(keep_last=0, terms=terms)).notes) == [note]


def test_items_are_asked_for_from_python(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_STORE", store)
    assert [row["name"] for row in assay.list_items().items] == ["second", "first"]
    assert assay.list_items(kind="trace").total == 1
    assert assay.find_items("model=llama tag=nightly", kind="run").total == 1
    assert assay.store_status().kinds["trace"] == 1
    with pytest.raises(InputError, match="expected terms such as model=llama, got none"):
        assay.find_items()


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
                ref = Ref("run", "again", digest, 10.0 + number)
                index.add([IndexedVersion(ref, manifest, None)])
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


def rows(number: int) -> Iterator[IndexedVersion]:
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
        manifest = Manifest("run", name, item, files, about)
        yield IndexedVersion(Ref("run", name, digest, item), manifest, None)


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
