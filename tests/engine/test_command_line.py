"""The commands `assay generate` and `assay serve`."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import httpx
import openai
import pytest
from serving_attack import attack, busy

from assay.cli import sampling, serve_settings
from assay.cli.app import run
from assay.engine import Engine, SamplingParams
from assay.errors import InputError
from assay.runtime import Device

GREEDY = SamplingParams(max_tokens=12, temperature=0.0)


def outcome(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    capsys.readouterr()
    code = run(arguments)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_generate_prints_only_the_completion(capsys: pytest.CaptureFixture[str]) -> None:
    with Engine.load("synthetic") as engine:
        (answer,) = engine.generate(["Once"], GREEDY)
    code, out, err = outcome(
        capsys, "generate", "synthetic", "--prompt", "Once", "--max-tokens", "12", "--greedy"
    )
    assert (code, out) == (0, f"{answer.text}\n")
    assert err == 'note: the model "synthetic-llama" is synthetic: its weights are random\n'


def test_the_first_gpu_computes_when_no_device_is_given(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("assay.runtime.cuda.names", lambda: ("cuda:0", "cuda:1"))
    assert sampling.chosen_device(None) == "cuda:0"
    assert (
        capsys.readouterr().err == "note: computing on cuda:0; --device cpu computes on the CPU\n"
    )
    assert [sampling.chosen_device(name) for name in ("cpu", "auto")] == ["cpu", "auto"]
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("assay.runtime.cuda.names", lambda: ())
    assert sampling.chosen_device(None) == "cpu"


def test_a_service_level_that_cannot_be_kept_ends_the_server(
    capsys: pytest.CaptureFixture[str],
) -> None:
    options = ("serve", "synthetic", "--device", "cpu", "--port", "0", "--slo")
    code, _, err = outcome(capsys, *options, "tpot=0.0001ms")
    assert code == 2
    assert "error: --slo tpot: expected at least " in err
    assert ", as measured with one prompt of 8 tokens on cpu, got 0.0001 ms" in err
    code, _, err = outcome(capsys, *options, "e2el=1s")
    assert (code, "error: --slo: expected ttft or tpot, got e2el" in err) == (2, True)


def test_a_service_level_chooses_the_settings_of_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    hardware = SimpleNamespace(
        name="cuda:0", description="NVIDIA H200", capabilities=SimpleNamespace(is_gpu=True)
    )
    device, model = cast(Any, hardware), "llama-3-8b-shape"
    level = serve_settings.service_level("ttft=1s,tpot=25ms")
    chosen = serve_settings.choose(model, device, {}, level)
    assert chosen.knobs == {"max_step_ms": 25, "max_batch": 256, "token_budget": 2048}
    given = {"max_batch": 3000}
    assert serve_settings.choose(model, device, given, None).knobs == {"token_budget": 3000}
    unknown = SimpleNamespace(**{**vars(hardware), "description": "NVIDIA Unknown 1"})
    unpredicted = serve_settings.choose(model, cast(Any, unknown), {}, None)
    assert unpredicted.knobs == serve_settings.UNPREDICTED
    assert "chosen without a prediction" in unpredicted.line
    with pytest.raises(InputError, match=r"--slo tpot: expected at least 5\.2 ms"):
        serve_settings.choose(model, device, {}, serve_settings.service_level("tpot=1ms"))


def test_gemms_of_every_large_step_are_timed_before_graphs_are_captured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    device = Device("cpu")
    capabilities = dataclasses.replace(device.capabilities, is_gpu=True)
    monkeypatch.setattr(device, "capabilities", capabilities)
    timed: list[int] = []

    @contextmanager
    def tuning_gemms() -> Iterator[None]:
        yield
        programs = engine._state.runner._graphs._programs
        assert not any(program.graphs for program in programs.values())
        timed.extend(key[0].num_tokens for key in programs)

    monkeypatch.setattr(device, "tuning_gemms", tuning_gemms)
    knobs: dict[str, Any] = {"token_budget": 650, "max_batch": 2, "overlap": "on"}
    with Engine.load("synthetic", device, kv_tokens=2048, **knobs) as engine:
        done = serve_settings.prepare(engine, device, 2048, None)
        assert engine._state.runner._graphs._programs
    # Largest first, in steps of as many rows as steps are padded to.
    assert timed == [640, 576, 512]
    assert "graphs ready in" in done


def test_generate_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    with Engine.load("synthetic") as engine:
        (answer,) = engine.generate(["Once"], GREEDY)
    options = ("--prompt", "Once", "--max-tokens", "12", "--greedy", "--json")
    code, out, _ = outcome(capsys, "generate", "synthetic", *options)
    data = json.loads(out)
    assert code == 0
    assert data["text"] == answer.text
    assert data["token_ids"] == list(answer.token_ids)
    assert data["finish_reason"] == answer.finish_reason
    assert data["synthetic"] is True
    assert data["seconds"]["total"] >= data["seconds"]["first_token"] > 0
    assert (data["notes"], data["degradations"]) == ([], [])


def test_substituted_weight_format_is_noted(capsys: pytest.CaptureFixture[str]) -> None:
    files = SimpleNamespace(synthetic=False, name="some")
    model = SimpleNamespace(notes=["q4_k computed as bf16"])
    sampling.show_notes(cast(Engine, SimpleNamespace(files=files, model=model)))
    assert capsys.readouterr().err == "note: q4_k computed as bf16\n"


def test_seed_repeats_the_output(capsys: pytest.CaptureFixture[str]) -> None:
    def sampled(seed: str) -> str:
        options = ("--prompt", "a", "--max-tokens", "30", "--seed", seed)
        return outcome(capsys, "generate", "synthetic", *options)[1]

    assert sampled("7") == sampled("7") != sampled("8")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("synthetic", "--greedy", "--temperature", "0.5"), "contradict each other"),
        (("synthetic", "--knob", "threads"), "expected NAME=VALUE"),
        (("synthetic", "--knob", "no_such=1"), 'unknown knob "no_such"'),
        (("synthetic", "--top-p", "2"), "top_p"),
        (("synthetic", "--max-tokens", "99999"), "1024"),
        (("no_such_model",), "no_such_model"),
    ],
)
def test_wrong_arguments_are_one_line(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    code, out, err = outcome(capsys, "generate", *arguments, "--prompt", "x")
    assert (code, out) == (2, "")
    (line,) = (line for line in err.splitlines() if line.startswith("error: "))
    assert message in line


def test_greedy_output_of_smollm2(
    smollm2: Path, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cases = json.loads((root / "tests" / "data" / "llama_cpp_smollm2.json").read_text())["cases"]
    case = cases[0]
    options = ("--prompt", case["prompt"], "--max-tokens", "21", "--greedy", "--json")
    code, out, err = outcome(capsys, "generate", "smollm2", *options)
    assert (code, err) == (0, "")
    # Token 22 is a near tie in llama.cpp itself, whose builds differ there.
    assert json.loads(out)["token_ids"] == case["token_ids"][:21]


@contextmanager
def serving(*options: str) -> Iterator[tuple[str, "subprocess.Popen[str]"]]:
    command = [sys.executable, "-m", "assay", "serve", "synthetic", "--port", "0", "--json"]
    child = subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    try:
        text = "".join(iter(child.stdout.readline, "}\n")) + "}"
        yield json.loads(text)["url"], child
    finally:
        child.kill()
        child.communicate()


def client_of(url: str, key: str = "none") -> openai.OpenAI:
    http = httpx.Client(trust_env=False)
    return openai.OpenAI(
        base_url=f"{url}/v1", api_key=key, http_client=http, max_retries=0, timeout=60
    )


def test_serve_matches_the_engine_and_drains() -> None:
    with Engine.load("synthetic") as engine:
        (expected,) = engine.generate(["Once"], GREEDY)
    with serving("--name", "small") as (url, child), client_of(url) as client:
        answer = client.completions.create(
            model="small", prompt="Once", max_tokens=12, temperature=0, logprobs=2
        )
        assert answer.choices[0].text == expected.text
        logprobs = answer.choices[0].logprobs
        assert logprobs is not None
        assert logprobs.token_logprobs is not None
        assert logprobs.top_logprobs is not None
        best = [max(top.values()) for top in logprobs.top_logprobs]
        assert logprobs.token_logprobs == pytest.approx(best, abs=1e-3)
        stream = client.chat.completions.create(
            model="small",
            messages=[{"role": "user", "content": "hello"}],
            max_tokens=20,
            stream=True,
            stream_options={"include_usage": True},
        )
        *_, last = stream
        assert last.usage is not None
        assert last.usage.completion_tokens <= 20
        with pytest.raises(openai.BadRequestError, match="context is 1024 tokens"):
            client.completions.create(model="small", prompt="a" * 2000)
        assert not any(busy(url).values())
        child.send_signal(signal.SIGTERM)
        assert child.wait(60) == 0


def test_serve_requires_the_api_key() -> None:
    os.environ["ASSAY_API_KEY"] = "sesame"
    try:
        with serving() as (url, _), client_of(url, "sesame") as right, client_of(url) as wrong:
            assert right.models.list().data[0].id == "synthetic"
            with pytest.raises(openai.AuthenticationError):
                wrong.models.list()
    finally:
        del os.environ["ASSAY_API_KEY"]


def test_serve_survives_many_misbehaving_clients() -> None:
    """The cache is far smaller than the clients need, so requests wait and are preempted."""
    options = ("--kv-tokens", "1024", "--knob", "deterministic=true", "--max-requests", "4096")
    with serving(*options) as (url, child):
        report = attack(url, clients=60, seconds=3)
        assert report.wrong == []
        assert report.done["healthy"] >= 3
        child.send_signal(signal.SIGTERM)
        assert child.wait(60) == 0


def test_port_in_use_is_reported_before_the_model_is_loaded(
    capsys: pytest.CaptureFixture[str],
) -> None:
    from assay.engine.server import listen

    with listen("127.0.0.1", 0) as listener:
        port = str(listener.getsockname()[1])
        code, _, err = outcome(capsys, "serve", "no_such_model", "--port", port)
    assert code == 2
    assert err.splitlines() == [
        f"error: --port: expected a free port of 127.0.0.1, got {port}, which is in use",
        "hint: --port 0 picks a free one",
    ]


@pytest.mark.parametrize(
    ("options", "environment", "error", "hint"),
    [
        (("--host", ""), {}, "--host: expected an address of this machine, got an empty one", ""),
        (("--host", " "), {}, "--host: expected an address of this machine, got an empty one", ""),
        (
            ("--host", "no.such.host.invalid"),
            {},
            '--host: expected an address of this machine, got "no.such.host.invalid"',
            "127.0.0.1 is the loopback",
        ),
        (
            ("--host", "0.0.0.0", "--port", "0"),
            {},
            "--host 0.0.0.0: expected an API key to listen beyond the loopback, got none",
            "--insecure serves everybody who can connect",
        ),
        (("--port", "0"), {"ASSAY_API_KEY": ""}, "the API key is empty", "none at all"),
        (("--port", "0", "--api-key", ""), {}, "the API key is empty", "none at all"),
        (
            ("--host", "0.0.0.0", "--port", "0", "--insecure"),
            {"ASSAY_API_KEY": ""},
            "the API key is empty",
            "none at all",
        ),
    ],
)
def test_serve_refuses_before_the_model_is_loaded(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[str, ...],
    environment: dict[str, str],
    error: str,
    hint: str,
) -> None:
    monkeypatch.delenv("ASSAY_API_KEY", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    code, out, err = outcome(capsys, "serve", "no_such_model", *options)
    assert (code, out) == (2, "")
    assert err.splitlines()[0] == f"error: {error}"
    assert hint in err.splitlines()[1]


@pytest.mark.parametrize("given", [("--insecure",), ("--api-key", "sesame")])
def test_serve_listens_beyond_the_loopback_if_told(given: tuple[str, ...]) -> None:
    with serving("--host", "0.0.0.0", *given) as (url, child):
        local = url.replace("0.0.0.0", "127.0.0.1")
        with client_of(local, "sesame") as client:
            assert client.models.list().data[0].id == "synthetic"
        child.send_signal(signal.SIGTERM)
        assert child.wait(60) == 0
