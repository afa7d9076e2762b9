"""Servers of this machine beside the floor of what they serve."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")

from assay.observe.telemetry.sample import Reading
from assay.ui import served
from assay.ui.served import ServedModels

CONFIG = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 4096,
    "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
    "intermediate_size": 14336, "vocab_size": 128256, "max_position_embeddings": 8192,
    "rms_norm_eps": 1e-5, "hidden_act": "silu", "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}  # fmt: skip
WEIGHTS_READ = 2 * (32 * (2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 14336) + 4096 * 128256)
"""Bytes of the matrices that a step of Llama 3 8B reads in bf16, counted by hand."""
H200_BANDWIDTH = 4.8e12


class Answers(BaseHTTPRequestHandler):
    """A server that says what its class was given."""

    answers: dict[str, Any]
    headers_seen: list[dict[str, str]]

    def do_GET(self) -> None:
        """Answer with the JSON of the path."""
        self.headers_seen.append(dict(self.headers))
        found = self.answers.get(self.path)
        body = json.dumps(found).encode()
        self.send_response(404 if found is None else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[str, type[Answers]]]:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))

    class Own(Answers):
        answers: dict[str, Any] = {  # noqa: RUF012
            "/v1/models": {"data": [{"id": "llama", "max_model_len": 8192}]},
            "/server_info": {
                "engine": "assay", "device": "cuda:0", "weights": str(tmp_path),
                "weight_format": "bf16", "settings": {"kv_format": "bf16"},
            },
        }  # fmt: skip
        headers_seen: list[dict[str, str]] = []  # noqa: RUF012

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Own)
    thread = threading.Thread(target=listening.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{listening.server_port}", Own
    listening.shutdown()
    thread.join()
    listening.server_close()


def latest(
    url: str, kind: str = "assay", gpu: str | None = "NVIDIA H200", **values: float
) -> list[tuple[Reading, dict[str, Any]]]:
    endpoint = Reading("endpoint", f"{url}/metrics", 0, kind, {})
    found: list[tuple[Reading, dict[str, Any]]] = [(endpoint, {"endpoint_up": 1, **values})]
    if gpu is not None:
        found.append((Reading("nvidia", "GPU-0", 0, gpu, {}), {}))
    return found


def test_floor_is_the_time_to_read_the_weights(
    server: tuple[str, type[Answers]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASSAY_API_KEY", "secret")
    url, kind = server
    models = ServedModels()
    (one,) = models.compare(
        latest(url, engine_requests_running=1.0, tokens_per_second=140.0, itl_mean=0.007)
    )
    least = WEIGHTS_READ / H200_BANDWIDTH
    floor = one["floor"]
    assert least <= floor["step_ns"] / 1e9 < 1.1 * least
    assert floor["tokens_per_second"] == pytest.approx(1e9 / floor["step_ns"])
    assert floor["step_ns"] <= floor["lo_ns"] < floor["expected_ns"] < floor["hi_ns"]
    assert (one["model"], one["device"], one["gap"]) == ("llama", "cuda:0", None)
    assert one["tokens_per_second"] == 140
    # It was found, not named: it gets no key.
    assert all("Authorization" not in seen for seen in kind.headers_seen)
    asked = len(kind.headers_seen)
    (eight,) = models.compare(latest(url, engine_requests_running=15.0, tokens_per_second=900.0))
    assert (eight["requests"], eight["sequences"]) == (8, 8)
    assert eight["floor"]["tokens_per_second"] > 7 * floor["tokens_per_second"]
    assert len(kind.headers_seen) == asked


def test_context_is_that_of_finished_requests_rounded_down(
    server: tuple[str, type[Answers]],
) -> None:
    counters = {"engine_requests_finished": 4.0, "engine_prompt_tokens": 4000.0,
                "engine_generation_tokens": 800.0}  # fmt: skip
    (one,) = ServedModels().compare(latest(server[0], engine_requests_running=1.0, **counters))
    assert one["context"] == 1100
    assert 1100 / 1.25 < one["floor"]["context"] <= 1100


@pytest.mark.parametrize(
    ("kind", "gpu", "said", "gap"),
    [
        ("SGLang", "NVIDIA H200", {}, "steps of SGLang are not predicted"),
        ("assay", None, {"device": "cpu"}, "assay calibrate"),
        ("assay", "NVIDIA H200", {"weights": "/dev/null", "weight_format": 3}, "llama"),
        ("assay", "Voodoo 2", {}, "Voodoo 2"),
    ],
)
def test_what_is_not_known_is_said(
    server: tuple[str, type[Answers]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    gpu: str | None,
    said: dict[str, Any],
    gap: str,
) -> None:
    monkeypatch.setenv("ASSAY_SCRATCH", str(tmp_path / "scratch"))
    url, answers = server
    answers.answers["/server_info"] |= said
    (one,) = ServedModels().compare(latest(url, kind, gpu, engine_requests_running=1.0))
    assert one["floor"] is None
    assert gap in one["gap"]


def test_server_that_came_back_is_asked_again(
    server: tuple[str, type[Answers]], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, answers = server
    models = ServedModels()
    models.compare(latest(url))
    answers.answers["/v1/models"] = {"data": [{"id": "another"}]}
    assert models.compare(latest(url))[0]["model"] == "llama"
    assert models.compare([(latest(url)[0][0], {"endpoint_up": 0})]) == []
    assert models.compare(latest(url))[0]["model"] == "another"
    del answers.answers["/v1/models"]
    models = ServedModels()
    assert models.compare(latest(url))[0]["floor"] is None
    answers.answers["/v1/models"] = {"data": [{"id": "ready now"}]}
    monkeypatch.setattr(served, "_ASK_AGAIN_SECONDS", 0.0)
    assert models.compare(latest(url))[0]["floor"] is not None
