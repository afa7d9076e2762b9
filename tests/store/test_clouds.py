"""Stores in buckets of Google Cloud and Azure, against servers in this process that speak as theirs do."""

import hashlib
import threading
from collections.abc import Iterator
from pathlib import Path

import fault_worker
import pytest
from cloud_servers import AzureServer, GoogleServer
from fault_campaign import Campaign
from s3_server import S3Server
from store_items import Making

from assay.errors import InputError
from assay.object_store import AZURE, GOOGLE, S3, SERVICES, Service
from assay.store.backend import StoreError
from assay.store.bucket import Bucket
from assay.store.collecting import collect
from assay.store.finding import find, make_store, remove_item
from assay.store.layout import OBJECTS, init_store, object_key, open_store
from assay.store.places import open_backend
from assay.store.pulling import pull
from assay.store.pushing import manifest_of, push
from assay.store.verifying import verify_store

FILES = {"journal.jsonl": b"{}\n", "trace/events": bytes(range(256)) * 20, "empty": b""}


@pytest.fixture(params=[GoogleServer, AzureServer])
def cloud(
    request: pytest.FixtureRequest, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[S3Server]:
    pytest.importorskip("obstore")
    server = request.param()
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("assay.store.bucket._RETRIES", 0)
    yield server
    server.close()


def test_items_come_back_damage_is_found_and_garbage_goes(
    cloud: S3Server, make_item: Making, tmp_path: Path
) -> None:
    place = f"{cloud.scheme}://bucket/team"
    assert [make_store(place).is_new for _ in range(2)] == [True, False]
    items = [make_item("first", FILES), make_item("second", {**FILES, "more": b"more"})]
    both = [threading.Thread(target=push, args=(items, place)) for _ in range(2)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    again = push(items, place, tags=["nightly"])
    assert again.notes == ()
    assert [sent.sent_bytes for sent in again.items] == [0, 0]
    assert cloud.conditions
    assert find(["tag=nightly"], place).total == 2
    pull("run/first", place, to=tmp_path / "copy")
    for name, content in FILES.items():
        assert (tmp_path / "copy" / name).read_bytes() == content
    damaged = next(file for file in manifest_of(items[0]).files if file.path == "trace/events")
    open_store(place).backend.replace(object_key(damaged.objects[0]), b"other")
    (damage,) = verify_store(place).damages
    assert sorted(damage.items) == ["run/first", "run/second"]
    assert push(items[:1], place).items[0].mended_objects == 1
    remove_item("run/second", place)
    assert collect(place, grace_s=0.0).objects == 1
    assert verify_store(place).is_verified


def test_the_second_of_two_writers_is_refused(cloud: S3Server) -> None:
    backend = open_backend(f"{cloud.scheme}://bucket/team")
    assert [backend.create("key", content) for content in (b"first", b"second")] == [True, False]
    assert backend.read("key") == b"first"
    backend.remove("key")
    backend.remove("key")
    assert backend.read("key") is None
    assert backend.entry("key") is None


def test_objects_are_listed_page_by_page(cloud: S3Server) -> None:
    place = f"{cloud.scheme}://bucket/team"
    init_store(place)
    for number in range(1200):
        digest = hashlib.sha256(str(number).encode()).hexdigest()
        cloud.objects[f"team/{object_key(digest)}"] = (b"12", 1.0)
    entries = list(open_backend(place).entries(OBJECTS))
    assert len(entries) == 1200
    assert {(entry.size, entry.modified) for entry in entries} == {(2, 1.0)}


def test_a_wrong_key_is_one_line_without_the_key(
    cloud: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = f"{cloud.scheme}://bucket/team"
    init_store(place)
    for name, value in cloud.environment("wrong-name").items():
        monkeypatch.setenv(name, value)
    with pytest.raises(StoreError, match="cannot be read: access denied") as error:
        open_store(place)
    assert error.value.hint == SERVICES[cloud.scheme].keys
    assert "wrong-name" not in error.value.message


def test_a_bucket_that_is_not_there_is_named(cloud: S3Server) -> None:
    word = SERVICES[cloud.scheme].bucket
    with pytest.raises(StoreError, match=f"there is no such {word}"):
        init_store(f"{cloud.scheme}://elsewhere/team")


def test_faults_lose_nothing(
    cloud: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("layout", "manifest", "pushing"):
        monkeypatch.setattr(f"assay.store.{module}.OBJECT_BYTES", fault_worker.OBJECT_BYTES)
    with Campaign(tmp_path, seed=3, server=cloud) as campaign:
        campaign.inject(6)
    assert campaign.injected.total() == 6


@pytest.mark.parametrize(
    ("service", "text", "message"),
    [
        # What obstore says where no key is set: it asks the machine for one.
        (S3, "Error performing PUT http://169.254.169.254/latest/api", "no keys: expected some"),
        (GOOGLE, "GET http://metadata.google.internal/computeMetadata", "no keys: expected some"),
        (AZURE, "Account must be specified", "no keys: expected some"),
        (S3, "PUT http://x/objects/ab/ab403 - 500 Internal Server Error", "500 Internal"),
        (GOOGLE, "Server returned non-2xx status code: 403 Forbidden", "access denied"),
        (AZURE, "error sending request for url", "its server does not answer"),
    ],
)
def test_what_a_service_says_is_one_line_with_its_variables(
    service: Service, text: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    obstore = pytest.importorskip("obstore")
    monkeypatch.setattr(
        "assay.store.bucket.open_bucket", lambda *rest, **options: obstore.store.MemoryStore()
    )
    backend = Bucket(f"{service.scheme}://bucket", service)

    def refused(*rest: object) -> None:
        raise OSError(f"{text}\nDebug source: more")

    monkeypatch.setattr(obstore, "get", refused)
    with pytest.raises(StoreError, match=message) as error:
        backend.read("key")
    assert "\n" not in error.value.message
    assert error.value.hint is not None
    is_key = message.startswith(("no keys", "access"))
    assert error.value.hint == (
        service.keys if is_key else f"is its server there? {service.server} names it"
    )


@pytest.mark.parametrize("scheme", SERVICES)
@pytest.mark.parametrize("rest", ["", "//", "//name:secret@bucket/team", "bucket"])
def test_an_address_without_a_bucket_or_with_keys_is_refused(scheme: str, rest: str) -> None:
    pytest.importorskip("obstore")
    with pytest.raises(InputError, match="without keys") as error:
        open_backend(f"{scheme}:{rest}")
    assert "secret" not in f"{error.value.message} {error.value.hint}"


def test_an_azure_key_that_is_none_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("obstore")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "team")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "not base64!")
    with pytest.raises(StoreError, match="az://box cannot be opened: ") as error:
        open_backend("az://box")
    assert error.value.hint == AZURE.keys
    assert "base64" not in error.value.message
