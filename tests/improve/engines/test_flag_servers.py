"""SGLang and TensorRT-LLM: flags and answers as documented and recorded, and a stand-in for either.

No test has a GPU with one of them: what their documentation and sources of 2026 say is all that is held.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path

import fake_flag_server as fake
import pytest

from assay.errors import InputError
from assay.improve.engines import adapter as adapters, detection, read_back
from assay.improve.engines.http import HttpEngine
from assay.improve.engines.vllm import free_port
from assay.load.workloads.builtin import workload
from assay.load.workloads.workload import Window
from assay.openai_api.address import ServerAddress

SGLANG, TENSORRT_LLM = adapters.load("sglang"), adapters.load("tensorrt-llm")


def test_flags_of_sglang() -> None:
    settings = {"tp_size": 2, "schedule_policy": "lpm", "disable_radix_cache": True,
                "enable_mixed_chunk": False, "mem_fraction_static": 0.9}  # fmt: skip
    words = "--schedule-policy lpm --disable-radix-cache --mem-fraction-static 0.9 --tp-size 2"
    assert SGLANG.arguments(settings) == words.split()
    with pytest.raises(InputError, match="schedule_policy: expected one of fcfs, lpm"):
        SGLANG.check({"schedule_policy": "fifo"})


def test_flags_of_trtllm_serve() -> None:
    settings = {"max_batch_size": 64, "enable_chunked_prefill": True, "tensor_parallel_size": 2}
    words = "--max_batch_size 64 --enable_chunked_prefill --tensor_parallel_size 2"
    assert TENSORRT_LLM.arguments(settings) == words.split()


@pytest.fixture
def sglang_answers(monkeypatch: pytest.MonkeyPatch) -> Iterator[ServerAddress]:
    """What a server of SGLang answers, in a thread of this process."""
    monkeypatch.setattr(fake.Handler, "is_sglang", True)
    monkeypatch.setattr(fake.Handler, "values", {**fake.SGLANG, "tp_size": 2})
    with ThreadingHTTPServer(("127.0.0.1", 0), fake.Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield ServerAddress(f"http://127.0.0.1:{server.server_port}")
        server.shutdown()


def test_sglang_states_its_settings(sglang_answers: ServerAddress) -> None:
    assert detection.of_server(sglang_answers) == "sglang"
    stated = read_back.read_back(SGLANG, sglang_answers, ["--tp", "1"], {}, None)
    assert (stated.settings["tp_size"], stated.settings["mem_fraction_static"]) == (2, 0.88)
    assert (stated.settings["disable_cuda_graph"], stated.settings["quantization"]) == (False, None)
    assert stated.sources["tp_size"] == "/server_info"
    # Only what is not set is not stated.
    unset = {name for name, value in fake.SGLANG.items() if value is None}
    assert {name for name, source in stated.sources.items() if source != "/server_info"} == unset


def test_tensorrt_llm_states_its_settings_in_its_log(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    values = {**fake.TENSORRT_LLM, "max_batch_size": 64, "enable_chunked_prefill": True}
    log.write_text(f"[TRT-LLM] [I] LLM Args:\n{fake.llm_args(values)}\n[TRT-LLM] [I] ready\n")
    nowhere = ServerAddress("http://127.0.0.1:9")
    stated = read_back.read_back(TENSORRT_LLM, nowhere, ["--max_batch_size", "7"], {}, log)
    # Not that of the CUDA graphs, which is called the same.
    assert stated.settings["max_batch_size"] == 64
    assert stated.settings == values
    assert set(stated.sources.values()) == {"start-up log"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "name", "release", "knob"),
    [
        ("sglang", "sglang", "0.5.9", "chunked_prefill_size"),
        ("trtllm-serve", "tensorrt-llm", "1.2.0", "max_num_tokens"),
    ],
)
def test_a_stand_in_is_started_changed_measured_and_stopped(
    program: str, name: str, release: str, knob: str, tmp_path: Path
) -> None:
    script = tmp_path / program
    script.write_text(f"#!{sys.executable}\n{Path(fake.__file__).read_text()}")
    script.chmod(0o755)
    port = free_port()
    engine = HttpEngine(
        f"http://127.0.0.1:{port}",
        f"{script} serve --model-path m --port {port} {{settings}}",
        folder=tmp_path / "logs",
    )
    try:
        described = engine.describe()
        assert (described.engine, described.release) == (name, release)
        undo = engine.configure({knob: 4096})
        measured = engine.measure(workload("batch"), Window(requests=2))
        assert (measured.errors, measured.settings[knob]) == (0, 4096)
        [answer] = engine.probe(["the quick brown fox"], 3)
        assert len(answer.texts) == 3
        undo()
        assert engine.settings()[knob] == 8192
    finally:
        engine.close()
