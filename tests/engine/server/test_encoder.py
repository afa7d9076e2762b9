"""A server of an encoder: embeddings, and refusals of everything that generates."""

import json
import subprocess
import sys
from pathlib import Path

import httpx
import numpy as np
import pytest
from encoder_folders import write_encoder
from running_server import Serving

from assay.cli.app import run
from assay.engine import Encoder
from assay.engine.server import served_encoder

TEXTS = ["the cat", "cats sat on the unable cat", "sat"]


def test_an_encoder_serves_embeddings_only(serving: Serving, tmp_path: Path) -> None:
    encoder = Encoder.load(write_encoder(tmp_path))
    expected = encoder.embed_batch(TEXTS)
    served = serving(encoder, model=served_encoder(encoder, "small"))
    with httpx.Client(base_url=served.url, trust_env=False) as http:
        answer = http.post("/v1/embeddings", json={"model": "small", "input": TEXTS}).json()
        got = np.array([one["embedding"] for one in answer["data"]])
        lengths = np.linalg.norm(expected, axis=1, keepdims=True)
        assert np.allclose(got, expected / lengths, atol=1e-6)
        assert answer["usage"]["prompt_tokens"] == 4 + 10 + 3
        body = {"model": "small", "input": TEXTS[0], "normalize": False}
        [plain] = http.post("/v1/embeddings", json=body).json()["data"]
        assert np.allclose(plain["embedding"], expected[0], atol=1e-6)
        long = http.post("/v1/embeddings", json={"model": "small", "input": "the " * 80})
        assert long.json()["error"]["code"] == "context_length_exceeded"
        for path, body in (
            ("/v1/completions", {"prompt": "the"}),
            ("/v1/completions", {"prompt": "the", "echo": True, "logprobs": 1}),
            ("/v1/chat/completions", {"messages": [{"role": "user", "content": "the"}]}),
            ("/v1/responses", {"input": "the"}),
        ):
            refused = http.post(path, json={"model": "small", **body})
            assert refused.status_code == 400, path
            assert "use /v1/embeddings" in refused.json()["error"]["message"]
        tokens = http.post("/tokenize", json={"model": "small", "prompt": "the cats"}).json()
        assert tokens["tokens"] == [2, 4, 5, 9, 3]
        assert http.get("/server_info").json()["settings"] == {
            "weight_format": "file",
            "threads": 0,
        }
        assert 'vllm:kv_cache_usage_perc{model_name="small"} 0.0' in http.get("/metrics").text
        assert http.post("/reset_prefix_cache").status_code == 200


def test_an_encoder_beside_a_model_that_generates(tmp_path: Path) -> None:
    folder = write_encoder(tmp_path / "encoder")
    words = ["serve", "chat=synthetic", f"embed={folder}", "--knob", "max_batch=4"]
    process = subprocess.Popen(
        [sys.executable, "-m", "assay", *words, "--device", "cpu", "--port", "0", "--json"],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        facts = json.loads("".join(iter(process.stdout.readline, "}\n")) + "}")
        assert facts["models"] == ["chat", "embed"]
        with httpx.Client(base_url=facts["url"], trust_env=False, timeout=20) as http:
            body = {"model": "embed", "input": TEXTS[0]}
            [vector] = http.post("/v1/embeddings", json=body).json()["data"]
            prompt = {"model": "chat", "prompt": "Once", "max_tokens": 3}
            answer = http.post("/v1/completions", json=prompt).json()
            assert answer["usage"]["completion_tokens"] == 3
            assert http.get("/server_info").json()["settings"]["max_batch"] == 4
        with Encoder.load(folder) as encoder:
            expected = encoder.embed(TEXTS[0])
        length = np.linalg.norm(expected)
        assert np.allclose(vector["embedding"], expected / length, atol=1e-6)
    finally:
        process.terminate()
        process.communicate(timeout=20)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--share", "a=70", "e=30"), 'got the encoder "e"'),
        (("--guarantee", "e"), 'got the encoder "e"'),
        (("--guarantee", "a"), "expected several models that generate text, got 1"),
        (("--knob", "e.max_batch=4"), "encoder: expected knobs weight_format and threads"),
    ],
)
def test_an_encoder_has_no_share(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], message: str
) -> None:
    folder = write_encoder(tmp_path)
    models = ["a=synthetic", f"e={folder}", "--port", "0", "--no-http-process"]
    assert run(["serve", *models, "--device", "cpu", *words]) == 2
    assert message in capsys.readouterr().err
