"""LoRA adapters that come and go while a server runs, and models that sleep."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import httpx
import pytest
from fake_engine import FakeEngine
from lora_folders import factors_of, write_adapter
from running_server import Serving
from small_models import fixture_files

from assay.engine import Engine
from assay.engine.core.device_sharing import DeviceSharing, engine_settings, shares_of
from assay.engine.loading.synthetic import synthetic_model
from assay.engine.server import HostedModel, served_model
from assay.errors import OutOfMemoryError
from assay.runtime import Device

LOAD, UNLOAD = "/v1/load_lora_adapter", "/v1/unload_lora_adapter"


def client(url: str) -> httpx.Client:
    return httpx.Client(base_url=url, trust_env=False, timeout=30)


def complete(http: httpx.Client, model: str, **body: object) -> httpx.Response:
    settings = {"prompt": [3, 17, 5, 90], "max_tokens": 6, "temperature": 0, "ignore_eos": True}
    return http.post("/v1/completions", json={"model": model, **settings, **body})


def test_adapters_are_loaded_from_below_the_folder_and_unloaded(
    serving: Serving, tmp_path: Path
) -> None:
    files = fixture_files("llama")
    folder = tmp_path / "adapters"
    write_adapter(folder / "sql", factors_of(files, ("q_proj", "up_proj"), rank=4, seed=1))
    write_adapter(tmp_path / "outside", factors_of(files, ("q_proj",), rank=4, seed=2))
    (folder / "link").symlink_to(tmp_path / "outside")
    (folder / "broken").mkdir()
    engine = Engine.load(files, "cpu")
    served = serving(engine, model=served_model(engine, "base"), adapter_folder=folder)
    with client(served.url) as http:
        plain = complete(http, "base").json()["choices"][0]["text"]
        for path in ("../outside", str(tmp_path / "outside"), "link", "/etc", "a\0b", "."):
            refused = http.post(LOAD, json={"lora_name": "sql", "lora_path": path})
            assert refused.status_code == 400, path
            assert "expected a folder below that of --lora-folder" in refused.text
        for body, part in (
            ({"lora_name": "sql", "lora_path": "missing"}, "expected a folder, got"),
            ({"lora_name": "sql", "lora_path": "broken"}, "adapter_config.json"),
            ({"lora_name": "a b", "lora_path": "sql"}, "lora_name"),
            ({"lora_name": "sql"}, "lora_path"),
            ({"lora_name": "sql", "lora_path": "sql", "load_inplace": True}, "does not support"),
        ):
            refused = http.post(LOAD, json=body)
            assert refused.status_code == 400
            assert part in refused.json()["error"]["message"]
        loaded = http.post(LOAD, json={"lora_name": "sql", "lora_path": "sql"})
        assert (loaded.status_code, loaded.text[:8]) == (200, "Success:")
        cards = http.get("/v1/models").json()["data"]
        assert [(one["id"], one["parent"]) for one in cards] == [("base", None), ("sql", "base")]
        adapted = complete(http, "sql").json()
        assert adapted["model"] == "sql"
        assert adapted["choices"][0]["text"] != plain
        for name in ("sql", "base"):
            taken = http.post(LOAD, json={"lora_name": name, "lora_path": "sql"})
            assert taken.status_code == 409
        assert http.post(UNLOAD, json={"lora_name": "sql"}).status_code == 200
        assert complete(http, "sql").status_code == 404
        assert complete(http, "base").json()["choices"][0]["text"] == plain
        for name in ("sql", "base"):
            assert http.post(UNLOAD, json={"lora_name": name}).status_code == 404


def test_the_paths_are_absent_unless_they_are_enabled(serving: Serving) -> None:
    with client(serving(FakeEngine()).url) as http:
        for path in (LOAD, UNLOAD, "/sleep", "/wake_up"):
            assert http.post(path, json={}).status_code == 404, path
        assert http.get("/is_sleeping").status_code == 404


def test_an_adapter_in_use_is_not_unloaded(serving: Serving, tmp_path: Path) -> None:
    files = fixture_files("llama")
    write_adapter(tmp_path / "sql", factors_of(files, ("q_proj",), rank=4, seed=1))
    engine = Engine.load(files, "cpu", kv_tokens=128)
    served = serving(engine, model=served_model(engine, "base"), adapter_folder=tmp_path)
    with client(served.url) as http:
        http.post(LOAD, json={"lora_name": "sql", "lora_path": "sql"})
        body = {"model": "sql", "prompt": [5], "max_tokens": 100, "ignore_eos": True}
        with http.stream("POST", "/v1/completions", json={**body, "stream": True}) as stream:
            lines = stream.iter_lines()
            next(lines)
            used = http.post(UNLOAD, json={"lora_name": "sql"})
            list(lines)
        if used.status_code == 409:
            assert "expected no requests that use it" in used.json()["error"]["message"]
            assert complete(http, "sql").status_code == 200
        else:
            assert used.status_code == 200, "the stream had ended already"


def test_a_model_sleeps_when_its_requests_have_ended(serving: Serving) -> None:
    engine = FakeEngine(step_seconds=0.02)
    served = serving(engine, sleep_mode=True)
    with client(served.url) as http:
        answers: list[httpx.Response] = []
        body = {"prompt": "abc", "max_tokens": 15}

        def request() -> None:
            with client(served.url) as other:
                answers.append(complete(other, "fake", **body))

        thread = threading.Thread(target=request)
        thread.start()
        while not (engine.has_work or answers):
            time.sleep(0.001)
        assert http.get("/is_sleeping").json() == {"is_sleeping": False}
        assert http.post("/sleep").json() == {"is_sleeping": True}
        thread.join()
        assert answers[0].json()["usage"]["completion_tokens"] == 15, "it was not aborted"
        assert engine.asleep
        refused = complete(http, "fake", **body)
        assert refused.status_code == 503
        assert "asleep: POST /wake_up" in refused.json()["error"]["message"]
        assert http.post("/v1/embeddings", json={"model": "fake", "input": "a"}).status_code == 503
        assert http.get("/health").status_code == 200
        assert http.post("/reset_prefix_cache").status_code == 200
        assert engine.resets == 0
        state = 'vllm:engine_sleep_state{model_name="fake",sleep_state="weights_offloaded"}'
        assert f"{state} 1.0" in http.get("/metrics").text
        assert http.post("/sleep").json() == {"is_sleeping": True}, "a second time"
        engine.wake_error = OutOfMemoryError("not enough memory")
        assert http.post("/wake_up").status_code == 503
        assert http.get("/is_sleeping").json() == {"is_sleeping": True}
        engine.wake_error = None
        assert http.post("/wake_up").json() == {"is_sleeping": False}
        assert complete(http, "fake", **body).status_code == 200
        assert f"{state} 0.0" in http.get("/metrics").text


@pytest.mark.parametrize("query", ["level=2", "level=0", "tags=weights", "mode=abort", "level=x"])
def test_other_ways_to_sleep_are_refused(serving: Serving, query: str) -> None:
    with client(serving(FakeEngine(), sleep_mode=True).url) as http:
        assert http.post(f"/sleep?{query}").status_code == 400
        assert http.post("/sleep?model=other").status_code == 404
        assert http.get("/is_sleeping").json() == {"is_sleeping": False}


def test_a_model_that_sleeps_gives_its_reservation_to_the_scheduler(serving: Serving) -> None:
    device = Device("cpu", pool_bytes=64 << 20)
    shares = shares_of(["a", "b"], {"a": 70, "b": 30}, ["a"])
    sharing = DeviceSharing(device, shares)
    hosted = []
    for seed, share in enumerate(shares, 31):
        files = synthetic_model(seed=seed)
        with sharing.loading(share.name):
            engine = Engine.load(files, device, **engine_settings(share, shares))
        hosted.append((share.name, engine))
    sharing.admit()
    places = [
        HostedModel(engine, served_model(engine, name), sharing.places[name])
        for name, engine in hosted
    ]
    served = serving(
        places[0].engine,
        model=places[0].model,
        place=places[0].place,
        others=places[1:],
        sharing=sharing,
        sleep_mode=True,
    )
    with client(served.url) as http:
        before = {name: complete(http, name).json()["choices"][0]["text"] for name in "ab"}
        assert http.post("/sleep?model=a").json() == {"is_sleeping": True}
        assert http.get("/is_sleeping?model=b").json() == {"is_sleeping": False}
        assert http.get("/is_sleeping").json() == {"is_sleeping": False}, "not all of them"
        assert sharing.places["a"].task.state == "paused"
        text = http.get("/metrics").text
        assert 'assay:task_admitted{model_name="a"} 0.0' in text
        assert 'assay:task_admitted{model_name="b"} 1.0' in text
        used = {one.share.name: one.used_bytes for one in sharing.statistics()}
        assert used["a"] < 0.1 * used["b"]
        assert complete(http, "a").status_code == 503
        assert complete(http, "b").json()["choices"][0]["text"] == before["b"]
        taken = device.tenant("taken", 64 << 20).reserve(sharing.statistics()[0].quota_bytes // 2)
        refused = http.post("/wake_up?model=a")
        assert refused.status_code == 503
        assert 'model "a": expected to be admitted to cpu' in refused.json()["error"]["message"]
        taken.release()
        assert http.post("/wake_up?model=a").json() == {"is_sleeping": False}
        assert sharing.places["a"].task.state == "running"
        assert {name: complete(http, name).json()["choices"][0]["text"] for name in "ab"} == before
