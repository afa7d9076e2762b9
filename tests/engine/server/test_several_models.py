"""Several models behind one address: requests choose by name, and a drain ends them all."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from fake_engine import FakeEngine, expected_text, fake_model
from lora_folders import factors_of, write_adapter
from running_server import Serving
from small_models import fixture_files

from assay.cli.serve_models import _adapters_by_model, parse
from assay.engine import Engine, SamplingParams
from assay.engine.core.device_sharing import DeviceSharing, engine_settings, shares_of
from assay.engine.server import HostedModel, served_model
from assay.errors import InputError
from assay.runtime import Device


def test_requests_choose_a_model_by_its_name(serving: Serving) -> None:
    first, second = FakeEngine(), FakeEngine(script="another")
    other = HostedModel(second, replace(fake_model(), name="other"))
    served = serving(first, others=[other])
    with httpx.Client(base_url=served.url, trust_env=False) as http:
        listed = [one["id"] for one in http.get("/v1/models").json()["data"]]
        assert listed == ["fake", "other"]
        assert http.get("/v1/models/other").json()["id"] == "other"
        answers = {}
        for name in listed:
            body = {"model": name, "prompt": "abc", "max_tokens": 4}
            answer = http.post("/v1/completions", json=body).json()
            answers[answer["model"]] = answer["choices"][0]["text"]
        assert answers == {"fake": expected_text("abc", 4), "other": "anot"}
        assert (first.steps, second.steps) == (4, 4)
        for path, body in (
            ("/v1/completions", {"prompt": "a"}),
            ("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}]}),
            ("/v1/responses", {"input": "a"}),
            ("/v1/embeddings", {"input": "a"}),
            ("/tokenize", {"prompt": "a"}),
            ("/detokenize", {"tokens": [97]}),
        ):
            refused = http.post(path, json={"model": "third", **body})
            assert refused.status_code == 404, path
            assert '"fake", "other" are' in refused.json()["error"]["message"]
        text = http.get("/metrics").text
        assert 'vllm:generation_tokens_total{model_name="other"} 4.0' in text
        assert 'vllm:generation_tokens_total{model_name="fake"} 4.0' in text
        assert "assay:device_share_requested" not in text, "nothing is shared here"
        http.post("/reset_prefix_cache")
        assert (first.resets, second.resets) == (1, 1)


def test_engines_share_a_device_through_the_scheduler(serving: Serving) -> None:
    device = Device("cpu")
    shares = shares_of(["a", "b"], {"a": 70, "b": 30}, ["a"])
    sharing = DeviceSharing(device, shares)
    engines = {}
    for share in shares:
        with sharing.loading(share.name):
            engines[share.name] = Engine.load("synthetic", device, **engine_settings(share, shares))
    sharing.admit()
    alone = Engine.load("synthetic")
    prompt = list(range(5, 40))
    hosted = [
        HostedModel(engine, served_model(engine, name), sharing.places[name])
        for name, engine in engines.items()
    ]
    served = serving(
        hosted[0].engine,
        model=hosted[0].model,
        place=hosted[0].place,
        others=hosted[1:],
        sharing=sharing,
    )
    with httpx.Client(base_url=served.url, trust_env=False, timeout=30) as http:
        [expected] = alone.generate([prompt], SamplingParams(max_tokens=20, temperature=0.0))
        for name in engines:
            body = {"model": name, "prompt": prompt, "max_tokens": 20, "temperature": 0}
            answer = http.post("/v1/completions", json=body).json()
            assert answer["choices"][0]["text"] == expected.text
        text = http.get("/metrics").text
    alone.close()
    figures = {}
    for line in text.splitlines():
        if line.startswith("assay:"):
            name, value = line.rsplit(" ", 1)
            figures[name] = float(value)
    assert figures['assay:device_share_requested{model_name="a"}'] == 0.7
    assert figures['assay:device_share_guaranteed{model_name="a"}'] == 1
    assert figures['assay:device_share_guaranteed{model_name="b"}'] == 0
    for name in engines:
        assert figures[f'assay:task_admitted{{model_name="{name}"}}'] == 1
        assert figures[f'assay:device_time_seconds_total{{model_name="{name}"}}'] > 0
        used = figures[f'assay:memory_used_bytes{{model_name="{name}"}}']
        assert 0 < used < figures[f'assay:memory_quota_bytes{{model_name="{name}"}}']
    quotas = [figures[f'assay:memory_quota_bytes{{model_name="{name}"}}'] for name in engines]
    # Weights are in the quota of the first model; the rest is divided 70 : 30.
    assert quotas[0] / quotas[1] == pytest.approx(7 / 3, rel=0.05)


def test_adapters_are_models_of_their_own_name(serving: Serving, tmp_path: Path) -> None:
    files = fixture_files("llama")
    factors = factors_of(files, ("q_proj", "v_proj", "up_proj"), rank=4, seed=1)
    folder = write_adapter(tmp_path / "adapter", factors)
    engine = Engine.load(files, adapters={"tuned": folder})
    prompt = [3, 17, 5, 90, 41, 8]
    greedy = SamplingParams(max_tokens=6, temperature=0.0, ignore_eos=True)
    expected = {
        name: engine.generate([prompt], greedy, adapter=adapter)[0].text
        for name, adapter in (("base", None), ("tuned", "tuned"))
    }
    assert expected["base"] != expected["tuned"]
    served = serving(engine, model=served_model(engine, "base"), adapters=engine.adapters)
    with httpx.Client(base_url=served.url, trust_env=False, timeout=30) as http:
        cards = http.get("/v1/models").json()["data"]
        assert [(one["id"], one["parent"]) for one in cards] == [("base", None), ("tuned", "base")]
        for name, text in expected.items():
            body = {"prompt": prompt, "max_tokens": 6, "temperature": 0, "ignore_eos": True}
            answer = http.post("/v1/completions", json={"model": name, **body}).json()
            assert (answer["model"], answer["choices"][0]["text"]) == (name, text)
        embedded = [
            http.post("/v1/embeddings", json={"model": name, "input": prompt}).json()
            for name in expected
        ]
        assert embedded[0]["data"][0]["embedding"] != embedded[1]["data"][0]["embedding"]
        assert http.get("/metrics").text.count("vllm:num_requests_running{") == 1


@pytest.mark.parametrize(
    ("given", "names", "message"),
    [
        (["sql"], ["m"], 'expected NAME=FOLDER, got "sql"'),
        (["sql=x", "sql=y"], ["m"], 'expected a name that no model or adapter has, got "sql"'),
        (["m=x"], ["m"], 'expected a name that no model or adapter has, got "m"'),
        (["sql=x"], ["a", "b"], 'expected MODEL:NAME=FOLDER, got "sql=x"'),
        (["c:sql=x"], ["a", "b"], 'expected MODEL:NAME=FOLDER, got "c:sql=x"'),
    ],
)
def test_adapters_of_the_command_are_checked(
    given: list[str], names: list[str], message: str
) -> None:
    with pytest.raises(InputError, match="--lora") as caught:
        _adapters_by_model(given, names)
    assert message in caught.value.message


def test_adapters_belong_to_a_model() -> None:
    assert _adapters_by_model(["b:sql=c:/x", "a:chat=y"], ["a", "b"]) == {
        "a": {"chat": "y"},
        "b": {"sql": "c:/x"},
    }


def test_the_names_sources_and_shares_of_the_command() -> None:
    parsed = parse(["a=one.gguf", "b=two", "b=30"], shares=["a=70"], guaranteed=["a"])
    assert [(one.name, one.source) for one in parsed] == [("a", "one.gguf"), ("b", "two")]
    assert [one.share and one.share.percent for one in parsed] == [70, 30]
    assert [one.share and one.share.guaranteed for one in parsed] == [True, False]
    [single] = parse(["folder/model.gguf"])
    assert (single.name, single.share) == ("model", None)
    assert [one.share and one.share.percent for one in parse(["a=x", "b=x"])] == [50, 50]


@pytest.mark.parametrize(
    ("models", "shares", "guaranteed", "message"),
    [
        (["a=x", "y"], [], [], 'expected NAME=MODEL for each of several models, got "y"'),
        (["a=x", "a=y"], [], [], 'expected different names, got "a" twice'),
        (["x"], ["x=70"], [], "--share: expected several models, got one"),
        (["x"], [], ["x"], "--guarantee: expected several models, got one"),
        (["a=x", "b=y"], ["a=70"], [], 'expected a share of every model, got none of "b"'),
        (["a=x", "b=y"], ["a=70,b=40"], [], "expected shares that sum to 100, got a=70, b=40"),
        (["a=x", "b=y"], ["a=100,b=0"], [], "expected percentages between 0 and 100"),
        (["a=x", "b=y"], ["a=lots"], [], 'expected NAME=PERCENT, such as a=70, got "a=lots"'),
        (["a=x", "b=y"], ["a=70,a=30"], [], 'expected one share of "a", got two'),
        (["a=x", "b=y"], ["c=100"], [], 'expected one of the models a, b, got "c"'),
        (["a=x", "b=y"], [], ["c"], 'expected one of the models a, b, got "c"'),
        (["a=x", "b=y"], ["a=96,b=4"], ["a"], "expected at most 95 percent in all, got 96"),
    ],
)
def test_contradictory_shares_are_refused(
    models: list[str], shares: list[str], guaranteed: list[str], message: str
) -> None:
    with pytest.raises(InputError) as caught:
        parse(models, shares=shares, guaranteed=guaranteed)
    assert message in caught.value.message
