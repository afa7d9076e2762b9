"""The client of `vllm bench serve`, in a process of its own: vLLM's `benchmark` function itself.

`python -m assay.bench.rivals.vllm_client` runs a block for each line of JSON on standard input and prints
its seconds, its CPU seconds and its output tokens.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import importlib.util
import inspect
import io
import json
import subprocess
import sys
import tempfile
import time
import weakref
from pathlib import Path
from typing import IO, Any, Final

from assay.bench.rivals.process_start import environment
from assay.errors import InputError

NAME: Final = "vllm bench serve"


def is_installed() -> bool:
    """Whether vLLM has its benchmarks; nothing is imported for it, as that takes half a minute."""
    spec = importlib.util.find_spec("vllm")
    folders = [] if spec is None else spec.submodule_search_locations or []
    return any((Path(folder) / "benchmarks" / "serve.py").is_file() for folder in folders)


class VllmClient:
    """The process, and blocks in it."""

    def __init__(self) -> None:
        self._said = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__],
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            text=True,
        )
        self._end = weakref.finalize(self, _end, self._process, self._said)

    def run(self, url: str, requests: int, concurrency: int, tokens: int) -> dict[str, float]:
        """One block: seconds, CPU seconds and output tokens of a closed loop."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        asked = {"url": url, "requests": requests, "concurrency": concurrency, "tokens": tokens}
        try:
            self._process.stdin.write(json.dumps(asked) + "\n")
            self._process.stdin.flush()
            figures: dict[str, float] = json.loads(self._process.stdout.readline())
        except (BrokenPipeError, ValueError):
            raise InputError(f"{NAME}: expected figures, got {self._last_words()}") from None
        return figures

    def _last_words(self) -> str:
        self._said.seek(0)
        lines = self._said.read().decode(errors="replace").strip().splitlines()
        return f"the end of its process: {lines[-1][:200]}" if lines else "the end of its process"


def _end(process: subprocess.Popen[str], said: IO[bytes]) -> None:
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            stream.close()
    process.wait()
    said.close()


def _block(serve: Any, datasets: Any, asked: dict[str, Any]) -> dict[str, float]:
    """Run vLLM's own benchmark; parameters that this release does not have are left out."""
    url = asked["url"]
    sample = datasets.SampleRequest
    known = {
        "task_type": serve.TaskType.GENERATION,
        "endpoint_type": "openai",
        "api_url": f"{url}/v1/completions",
        "base_url": url,
        "model_id": "m",
        "model_name": "m",
        "tokenizer": object(),
        "input_requests": [
            sample(prompt="hello world " * 20, prompt_len=40, expected_output_len=asked["tokens"])
            for _ in range(asked["requests"])
        ],
        "logprobs": None,
        "request_rate": float("inf"),
        "burstiness": 1.0,
        "disable_tqdm": True,
        "num_warmups": 0,
        "profile": False,
        "selected_percentile_metrics": ["ttft", "tpot"],
        "selected_percentiles": [99.0],
        "ignore_eos": True,
        "goodput_config_dict": {},
        "max_concurrency": asked["concurrency"],
        "lora_modules": None,
        "extra_headers": None,
        "extra_body": {"temperature": 0.0},
    }
    parameters = inspect.signature(serve.benchmark).parameters
    given = {name: value for name, value in known.items() if name in parameters}
    cpu_s = time.process_time()
    with contextlib.redirect_stdout(io.StringIO()):
        result = asyncio.run(serve.benchmark(**given))
    cpu_s = time.process_time() - cpu_s
    tokens = float(result["total_output_tokens"])
    return {"seconds": float(result["duration"]), "cpu_seconds": cpu_s, "tokens": tokens}


def _main() -> None:
    # vLLM's logger takes the standard output that it finds when imported; this one is for figures.
    answers, sys.stdout = sys.stdout, sys.stderr
    serve = importlib.import_module("vllm.benchmarks.serve")
    datasets = importlib.import_module("vllm.benchmarks.datasets")
    for line in sys.stdin:
        print(json.dumps(_block(serve, datasets, json.loads(line))), file=answers, flush=True)


if __name__ == "__main__":
    _main()
