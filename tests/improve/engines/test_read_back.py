"""Settings read back from what llama.cpp really prints (release of October 2026, verbosity 4)."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay.improve.engines import adapter as adapters, failures, read_back
from assay.improve.engines.probing import parse
from assay.openai_api.address import ServerAddress

LOG = """\
0.00.003.083 I cmn  common_param: system_info: n_threads = 1 (n_threads_batch = 2) / 2 | CPU : SSE3 = 1 |
0.00.637.741 I load_tensors: loading model tensors, this can take a while... (load_mode = mmap)
0.00.649.766 I llama_context: n_batch               = 2048
0.00.649.766 I llama_context: n_ubatch              = 256
0.00.649.767 I llama_context: flash_attn            = auto
0.00.649.768 I llama_context: kv_unified            = false
0.00.767.121 I llama_kv_cache: size =  137.81 MiB (  2048 cells,  30 layers,  4/4 seqs), \
K (q8_0):   47.81 MiB, V (f16):   90.00 MiB
0.00.778.724 I cmn          init: llama threadpool init, n_threads = 1
"""
NOWHERE = ServerAddress("http://127.0.0.1:9")


def found(tmp_path: Path, argv: list[str], log: str = LOG) -> read_back.ReadBack:
    path = tmp_path / "server.log"
    path.write_text(log)
    return read_back.read_back(adapters.load("llama.cpp"), NOWHERE, argv, {}, path)


def test_the_log_states_what_the_context_was_made_with(tmp_path):
    back = found(tmp_path, ["--threads", "7"])
    values = back.settings
    assert (values["threads"], values["threads_batch"]) == (1, 2)
    assert (values["batch_size"], values["ubatch_size"]) == (2048, 256)
    assert (values["cache_type_k"], values["cache_type_v"]) == ("q8_0", "f16")
    assert (values["flash_attn"], values["kv_unified"], values["load_mode"]) == (
        "auto",
        False,
        "mmap",
    )
    assert back.sources["threads"] == "start-up log"


def test_what_nothing_states_comes_from_the_command_line_and_is_named(tmp_path):
    back = found(tmp_path, ["x", "--poll", "0", "--no-cont-batching", "-np", "3"])
    assert (back.settings["poll"], back.settings["cont_batching"]) == (0, False)
    assert back.settings["parallel"] == 3
    assert {"poll", "cont_batching", "parallel", "prio"} <= set(back.unconfirmed)
    assert "threads" not in back.unconfirmed
    assert any("/props" in one for one in back.problems)


@pytest.mark.parametrize("words", [["--poll", "7"], ["--poll=7"], ["--poll", "1", "--poll", "7"]])
def test_spellings_of_a_flag(tmp_path, words):
    assert found(tmp_path, words).settings["poll"] == 7


def test_a_value_of_another_kind_is_a_problem_not_a_setting(tmp_path):
    back = found(tmp_path, ["--ubatch-size", "64"], "llama_context: n_ubatch = many\n")
    assert back.settings["ubatch_size"] == 64
    assert any("ubatch_size: expected a value of its kind" in one for one in back.problems)


@pytest.mark.parametrize(
    ("code", "lines", "was_serving", "kind"),
    [
        (1, ["torch.OutOfMemoryError: CUDA out of memory."], False, "OOM"),
        (1, ["ValueError: No available memory for the cache blocks."], False, "OOM"),
        (-9, [], True, "OOM"),
        (1, ["error: invalid argument: --thread"], False, "refused"),
        (1, ["error: invalid argument: --thread"], True, "crash"),
        (-6, ["GGML_ASSERT(x) failed"], False, "crash"),
        (-11, [], True, "crash"),
    ],
)
def test_kinds_of_failure(code, lines, was_serving, kind):
    refusals = adapters.load("llama.cpp").refusals
    assert failures.classify(code, lines, refusals, was_serving=was_serving) == kind


def test_the_tail_of_a_log_is_bounded_and_printable(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b"x" * 500_000 + b"\nlast \x1b[2J\xff\n\n")
    assert failures.tail(path)[-1] == "last \\x1b[2J\ufffd"
    assert len(failures.tail(path)[0]) <= 300


def test_memory_that_ran_out_is_found_before_many_later_lines(tmp_path):
    path = tmp_path / "log"
    later = "ERROR EngineDeadError: EngineCore encountered an issue.\n" * 20_000
    path.write_text("INFO ready\ntorch.OutOfMemoryError: CUDA out of memory.\x1b[2J\n" + later)
    said = failures.memory_line(path)
    assert said == "torch.OutOfMemoryError: CUDA out of memory.\\x1b[2J"
    assert failures.classify(0, [*failures.tail(path), said], (), was_serving=True) == "OOM"
    path.write_text("INFO ready\n" + later)
    assert failures.memory_line(path) is None
    assert failures.memory_line(tmp_path / "none") is None


OPENAI = {
    "choices": [
        {
            "text": " a b",
            "token_ids": [5, 6],
            "logprobs": {
                "tokens": [" a", " b"],
                "token_logprobs": [-0.1, -0.7],
                "top_logprobs": [{" a": -0.1, " c": -2.1}, {" b": -0.7, " c": -0.8}],
            },
        }
    ]
}
# As llama.cpp answers: ids in place of texts, because pieces of characters have equal texts.
RECORDS = {
    "choices": [
        {
            "text": " holds",
            "logprobs": {
                "content": [
                    {
                        "id": 6650, "token": " holds", "logprob": -1.3005,
                        "top_logprobs": [
                            {"id": 6650, "token": " holds", "logprob": -1.3005},
                            {"id": 36359, "token": " governs", "logprob": -2.0369},
                        ],
                    }
                ]
            },
        }
    ]
}  # fmt: skip


def test_both_spellings_of_log_probabilities():
    one = parse(OPENAI)
    assert (one.token_ids, one.texts, one.logprobs) == ((5, 6), (" a", " b"), (-0.1, -0.7))
    assert one.margins == pytest.approx((2.0, 0.1))
    two = parse(RECORDS)
    assert (two.token_ids, two.texts) == ((6650,), (" holds",))
    assert two.margins == pytest.approx((0.7364,))
    assert two.top_logprobs == ({"6650": -1.3005, "36359": -2.0369},)


def test_an_answer_without_log_probabilities_is_text():
    assert parse({"choices": [{"text": "abc", "logprobs": None}]}).texts == ("abc",)
