"""Servers side by side: their start and end, what they are asked, and the floor of a run."""

import itertools
import os
import signal
import sys

import numpy as np
import pytest

from assay.bench.serving import servers, users
from assay.bench.serving.adapters import write_adapters
from assay.bench.serving.comparison import compare_servers
from assay.bench.serving.floor import Ceilings, request_floor_s
from assay.bench.serving.scenarios import ADAPTERS, SCENARIOS, scenarios
from assay.bench.serving.servers import RunningServer, ServerCommand, own_server, rival_server
from assay.bench.serving.users import Turn, UsersComparison
from assay.engine import Engine, SamplingParams
from assay.engine.loading import dummy_weights, open_model
from assay.engine.loading.dummy_checkpoint import write_checkpoint
from assay.errors import AssayError, NoDataError
from assay.interruption import interrupted_by_sigterm
from assay.planner import model_spec

SERVE = (
    "import http.server, sys\n"
    "class Handler(http.server.BaseHTTPRequestHandler):\n"
    "    def do_GET(self):\n"
    "        self.send_response(200); self.end_headers()\n"
    '        self.wfile.write(b\'# HELP a b\\na:steps_total{m="1"} 2.0\\na:steps_total{m="2"} 3.0\\n\')\n'
    "http.server.HTTPServer(('127.0.0.1', int(sys.argv[1])), Handler).serve_forever()\n"
)


def count(text):
    return len(text.encode())


def test_a_server_is_started_asked_and_ended(tmp_path):
    command = ServerCommand("own", (sys.executable, "-c", SERVE, "{port}"))
    with RunningServer(command, tmp_path / "log", 20.0) as server:
        process = server._process
        assert server.counters() == {"a:steps_total": 5.0}
        assert 0 < server.start_s < 20
    assert process.poll() is not None


def test_sigterm_ends_the_servers_too(tmp_path):
    command = ServerCommand("own", (sys.executable, "-c", SERVE, "{port}"))
    before, processes = signal.getsignal(signal.SIGTERM), []
    with (
        pytest.raises(KeyboardInterrupt),
        interrupted_by_sigterm(),
        RunningServer(command, tmp_path / "log", 20.0) as server,
    ):
        processes.append(server._process) or os.kill(os.getpid(), signal.SIGTERM)
    assert processes[0].poll() is not None
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize(
    ("compare", "inside"),
    [
        (users.compare_users, "assay.engine.loading.open_model"),
        (compare_servers, "assay.bench.serving.comparison.scenarios"),
    ],
)
def test_comparisons_are_ended_by_sigterm(compare, inside, monkeypatch):
    monkeypatch.setattr(inside, lambda *_: os.kill(os.getpid(), signal.SIGTERM))
    with pytest.raises(KeyboardInterrupt):
        compare("m", "cpu", rival=None)


def test_a_server_that_ends_says_why(tmp_path):
    program = "import sys; sys.stderr.write('no such model\\n'); sys.exit(2)"
    command = ServerCommand("rival", (sys.executable, "-c", program))
    with (
        pytest.raises(NoDataError, match="rival: ended with 2: no such model"),
        RunningServer(command, tmp_path / "log", 20.0),
    ):
        pass


def test_commands_are_the_servers_own():
    assert own_server("m", "cuda:0").arguments[1:5] == ("-m", "assay", "serve", "m")
    with pytest.raises(AssayError, match='unknown rival "sglang"'):
        rival_server("sglang", "m")


def test_prompts_have_the_tokens_that_a_scenario_says():
    for name in ("1024/128", "200/500"):
        scenario = SCENARIOS[name]
        planned = scenario.planned(12, 3, count, rate=None, at_once=4)
        lengths = [count(request.prompt) for request in planned.requests]
        assert max(lengths) <= scenario.prompt
        assert min(lengths) >= scenario.prompt - 12
        assert planned.concurrency == 4
        assert len({request.prompt for request in planned.requests}) == 12


def test_turns_repeat_all_that_was_said_before():
    planned = SCENARIOS["turns"].planned(8, 0, count, rate=2.0, at_once=4)
    by_number = {request.number: request.prompt for request in planned.requests}
    for number in (1, 2, 3, 5, 6, 7):
        assert by_number[number].startswith(by_number[number - 1])
    assert planned.rate == 2.0


def test_unknown_scenarios_are_refused():
    with pytest.raises(AssayError, match="case of the suite serving"):
        scenarios(("2048/1",))


def test_the_floor_of_a_request_by_hand():
    # Llama 3 8B: 6.98e9 weights in the layers and 0.525e9 in the logits; 128 KiB of cache a token.
    layers, head = 32 * (4096 * (4096 + 1024) * 2 + 3 * 4096 * 14336), 4096 * 128256
    flops = 2 * layers * 1152 + 2 * head * 128 + 32 * 4 * 4096 * 1024 * 1025 / 2
    cache = 128 * (1024 + 64) * 131_072
    floor = request_floor_s(
        model_spec("llama-3-8b"), SCENARIOS["1024/128"], Ceilings(688e12, 4.59e12)
    )
    assert floor == pytest.approx(flops / 688e12 + cache / 4.59e12)


def test_a_random_checkpoint_has_the_weights_of_its_shape(monkeypatch, tmp_path):
    monkeypatch.setenv("ASSAY_SCRATCH", str(tmp_path / "scratch"))
    small = {
        "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 300,
        "max_position_embeddings": 128, "bos_token_id": 256, "eos_token_id": 257,
    }  # fmt: skip
    shape = dummy_weights.SHAPES["llama-3-8b-shape"] | small
    monkeypatch.setitem(dummy_weights.SHAPES, "small-shape", shape)
    write_checkpoint(tmp_path / "model", "small-shape")
    stored, dummy = open_model(tmp_path / "model"), open_model("small-shape")
    assert stored.tensors.keys() == dummy.tensors.keys()
    for name, tensor in dummy.tensors.items():
        # Norms are rounded to bf16.
        tolerance = 2**-8 if len(tensor.shape) == 1 else 0.0
        np.testing.assert_allclose(
            stored.tensors[name].to_float32(), tensor.to_float32(), rtol=tolerance
        )
    text = "The ferry leaves at nine: caf\N{LATIN SMALL LETTER E WITH ACUTE}."
    assert stored.tokenizer.encode(text) == list(text.encode()) == dummy.tokenizer.encode(text)
    with pytest.raises(AssayError, match='unknown shape "gpt-9"'):
        write_checkpoint(tmp_path, "gpt-9")


def test_plain_answers_of_a_random_checkpoint_are_letters_far_from_any_tie(monkeypatch, tmp_path):
    monkeypatch.setenv("ASSAY_SCRATCH", str(tmp_path / "scratch"))
    small = {
        "hidden_size": 512, "intermediate_size": 1024, "num_hidden_layers": 4,
        "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 64, "vocab_size": 4096,
        "max_position_embeddings": 512, "bos_token_id": 4000, "eos_token_id": 4001,
    }  # fmt: skip
    shape = dummy_weights.SHAPES["llama-3-8b-shape"] | small
    monkeypatch.setitem(dummy_weights.SHAPES, "small-shape", shape)
    write_checkpoint(tmp_path / "model", "small-shape", plain=True)
    params = SamplingParams(max_tokens=100, temperature=0.0, ignore_eos=True, logprobs=2)
    prompts = ["The ferry leaves at nine.", "x"]
    with Engine.load(str(tmp_path / "model"), "cpu", kv_tokens=1024) as engine:
        answers = engine.generate(prompts, params)
    for prompt, answer in zip(prompts, answers, strict=True):
        places = [ord(letter) - 32 for letter in prompt[-1] + answer.text]
        assert len(places) == 101
        assert {(after - before) % 95 for before, after in itertools.pairwise(places)} == {37}
        best = [[logprob for _, logprob in chunk.top_logprobs] for chunk in answer.logprobs]
        assert min(first - second for first, second in best) > 10.0


def test_records_are_longer_than_their_answers_and_adapters_take_turns():
    planned = SCENARIOS["json"].planned(3, 0, count, rate=None, at_once=4)
    schema = planned.requests[0].fields["response_format"]["json_schema"]["schema"]
    # The shortest record has more than 30 characters: a hundred of them never fit into 128 tokens.
    shortest = '{"customer":"","quantity":1,"status":"open"}'
    assert schema["minItems"] * len(shortest) > 16 * 128
    planned = SCENARIOS["adapters"].planned(16, 0, count, rate=None, at_once=4)
    names = [request.fields["model"] for request in planned.requests]
    assert names == [*ADAPTERS, *ADAPTERS]


def test_adapters_of_a_model_are_loaded_and_change_its_answers(tmp_path):
    written = write_adapters(tmp_path / "adapters", "synthetic")
    assert list(written) == list(ADAPTERS)
    with Engine.load("synthetic", adapters=written) as engine:
        assert engine.adapters == list(ADAPTERS)
        params = SamplingParams(max_tokens=1, temperature=0.0, logprobs=0)
        prompt = list(range(5, 60))
        scores = {
            name: engine.generate([prompt], params, adapter=name)[0].logprobs[0].logprob
            for name in (None, *ADAPTERS[:2])
        }
    assert len(set(scores.values())) == 3
    vllm = rival_arguments(written)
    assert vllm[vllm.index("--max-loras") + 1] == "8"
    assert f"adapter-7={written['adapter-7']}" in vllm
    with pytest.raises(
        AssayError, match=r"llama\.cpp: expected a case that its server can be asked"
    ):
        rival_server("llama.cpp", "m", written)


def rival_arguments(adapters):
    """Arguments of vLLM, which need not be installed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(servers.shutil, "which", lambda name: f"/bin/{name}")
        return rival_server("vllm", "m", adapters).arguments


def test_a_window_without_an_answer_says_why(tmp_path):
    # The synthetic model's context is 1,024 tokens.
    with pytest.raises(
        NoDataError, match=r"got none: .* requests failed: .*context is 1024 tokens"
    ):
        compare_servers("synthetic", "cpu", cases=["1024/128"], quick=True, logs=tmp_path)


def test_windows_of_users_are_compared_round_by_round():
    turns = [
        Turn(server, number, {"output_throughput": rate}, ())
        for server, rates in {
            "assay": (200.0, 100.0, 300.0),
            "slow": (20.0, 20.0, 20.0),
            "fast": (100.0, 80.0, 100.0),
        }.items()
        for number, rate in enumerate(rates, 1)
    ]
    compared = UsersComparison("m", "cpu", False, {}, {}, {}, turns)
    fastest, slowest, own = compared.ratios()
    assert (fastest.server, fastest.median, fastest.least, fastest.most) == ("fast", 2, 1.25, 3)
    assert (slowest.server, slowest.tokens_per_s, slowest.median) == ("slow", 20, 10)
    assert (own.server, own.least, own.most) == ("assay", 1, 1)


def test_llama_cpp_gets_a_slot_for_every_user(monkeypatch, tmp_path):
    monkeypatch.setattr(servers.shutil, "which", lambda name: f"/bin/{name}")
    commands = users._rivals("llama.cpp", "m", tmp_path / "m.gguf")
    assert [command.name[-3:].strip() for command in commands] == ["on", "off"]
    words = commands[0].arguments
    assert words[words.index("--parallel") + 1] == "8"
    assert words[words.index("--ctx-size") + 1] == "8192"
    with pytest.raises(AssayError, match="expected a GGUF file as the model, got m"):
        users._rivals("llama.cpp", "m", tmp_path)


def test_users_of_a_server_get_whole_answers(tmp_path):
    compared = users.compare_users("synthetic", "cpu", rival=None, quick=True, logs=tmp_path)
    [turn] = compared.turns
    assert turn.figures["total_output_tokens"] == users.USERS * 128
    assert compared.notes == ()
    assert compared.to_json()["ratios"][0]["median"] == 1.0
