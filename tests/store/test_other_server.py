"""A store on the S3 of somebody else: moto's, where it is installed (pip install 'moto[server]')."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from store_items import Making

from assay.store.backend import StoreError
from assay.store.collecting import collect
from assay.store.finding import make_store, remove_item
from assay.store.layout import object_key
from assay.store.pulling import pull
from assay.store.pushing import manifest_of, push
from assay.store.verifying import verify_store

pytest.importorskip("obstore")
servers = pytest.importorskip("moto.server", reason="needs moto")
boto3 = pytest.importorskip("boto3", reason="needs boto3")

PLACE = "s3://team/assay"
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.fixture
def client(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    server = servers.ThreadedMotoServer(port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    url = f"http://{host}:{port}"
    for name, value in {
        "AWS_ACCESS_KEY_ID": "any",
        "AWS_SECRET_ACCESS_KEY": "any",
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": url,
    }.items():
        monkeypatch.setenv(name, value)
    client = boto3.client("s3", endpoint_url=url)
    client.create_bucket(Bucket="team")
    yield client
    server.stop()


def test_items_come_back_damage_is_found_and_garbage_goes(
    client: Any, make_item: Making, tmp_path: Path
) -> None:
    assert [make_store(PLACE).is_new for _ in range(2)] == [True, False]
    files = {"journal.jsonl": b"{}\n", "trace/events": bytes(range(256)) * 400, "empty": b""}
    items = [make_item("first", files), make_item("second", {**files, "more": b"more"})]
    both = [threading.Thread(target=push, args=(items, PLACE)) for _ in range(2)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    again = push(items, PLACE)
    assert again.notes == ()
    assert [sent.sent_bytes for sent in again.items] == [0, 0]
    assert verify_store(PLACE).is_verified
    pull("run/first", PLACE, to=tmp_path / "copy")
    for name, content in files.items():
        assert (tmp_path / "copy" / name).read_bytes() == content
    damaged = next(file for file in manifest_of(items[0]).files if file.path == "trace/events")
    key = f"assay/{object_key(damaged.objects[0])}"
    client.put_object(Bucket="team", Key=key, Body=b"\1" + files["trace/events"][1:])
    (damage,) = verify_store(PLACE).damages
    assert sorted(damage.items) == ["run/first", "run/second"]
    with pytest.raises(StoreError):
        pull("run/first", PLACE, to=tmp_path / "damaged")
    assert not (tmp_path / "damaged").exists()
    assert push(items[:1], PLACE).items[0].mended_objects == 1
    assert verify_store(PLACE).is_verified
    remove_item("run/second", PLACE)
    assert collect(PLACE, grace_s=0.0).objects == 1
    assert verify_store(PLACE).is_verified
