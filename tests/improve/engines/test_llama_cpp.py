"""A real llama.cpp server, from the package xllamacpp, with SmolLM2-135M.

Needs `pip install xllamacpp` in this interpreter, or in another one that ASSAY_LLAMA_CPP_PYTHON names.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from assay.improve.engines.http import HttpEngine
from assay.improve.engines.protocol import TrialFailedError
from assay.load.workloads.workload import PlannedRequest, Window, Workload

PYTHON = os.environ.get("ASSAY_LLAMA_CPP_PYTHON", sys.executable)
PROMPT = "Gravity is the force that"
CONTINUED = (
    " holds the universe together. It's a fundamental concept that underlies everything, from"
)
"""By llama.cpp itself, greedy, from the same file."""
WORKLOAD = Workload(
    "test", "", tuple(PlannedRequest(n, f"Tell me about number {n}.", 16) for n in range(4)),
    concurrency=2,
)  # fmt: skip

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def engine(tmp_path_factory, smollm2):
    if subprocess.run([PYTHON, "-c", "import xllamacpp"], capture_output=True).returncode:
        pytest.skip(f"{PYTHON} has no xllamacpp")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    launcher = f"{PYTHON} -m assay.improve.engines.llama_cpp_server"
    source = Path(__file__).parents[3] / "python"
    found = HttpEngine(
        f"http://127.0.0.1:{port}/v1",
        f"PYTHONPATH={source} {launcher} --model {smollm2} --port {port} --ctx-size 4096 {{settings}}",
        folder=tmp_path_factory.mktemp("llama"),
    )
    yield found
    found.close()


def test_knobs_are_read_back_from_the_server(engine):
    undo = engine.configure(
        {
            "threads": 1, "threads_batch": 2, "batch_size": 512, "ubatch_size": 128, "parallel": 2,
            "cache_type_k": "q8_0", "cache_type_v": "q8_0", "flash_attn": "on",
            "kv_unified": False, "load_mode": "none", "spec_type": "ngram-simple",
        }
    )  # fmt: skip
    found = engine._read()
    unconfirmed = {"cont_batching", "repack", "poll", "prio", "numa", "cache_reuse", "cache_ram"}
    assert set(found.unconfirmed) == unconfirmed
    values = engine.settings()
    assert [values[name] for name in ("threads", "threads_batch", "parallel")] == [1, 2, 2]
    assert [values[name] for name in ("batch_size", "ubatch_size")] == [512, 128]
    assert [values[name] for name in ("cache_type_k", "cache_type_v")] == ["q8_0", "q8_0"]
    assert (values["flash_attn"], values["kv_unified"]) == ("on", False)
    assert (values["load_mode"], values["spec_type"]) == ("none", "ngram-simple")
    undo()
    assert engine.settings()["cache_type_k"] == "f16"


def test_probes_answer_as_llama_cpp_does(engine):
    [answer] = engine.probe([PROMPT], 14)
    assert CONTINUED.startswith("".join(answer.texts))
    assert len(answer.token_ids) == len(answer.margins) == 14
    assert engine.probe([PROMPT], 14) == [answer]


def test_answers_come_as_tokens(engine):
    [(prompt, output)] = engine.answers(Workload("one", "", (PlannedRequest(0, PROMPT, 14),)), 4)
    assert len(prompt) in (5, 6)
    assert output == engine.probe([PROMPT], 14)[0].token_ids


def test_windows_are_whole_and_repeatable(engine):
    first, second = (engine.measure(WORKLOAD, Window(requests=4)) for _ in range(2))
    assert (first.errors, first.output_tokens) == (0, 64)
    assert [one.digest for one in first.records] == [one.digest for one in second.records]


def test_a_quantized_cache_without_flash_attention_fails_and_is_undone(engine):
    before = engine.settings()
    with pytest.raises(TrialFailedError) as caught:
        engine.configure({"cache_type_v": "q8_0", "flash_attn": "off"})
    assert caught.value.failure in ("crash", "refused", "timeout")
    assert engine.settings() == before
