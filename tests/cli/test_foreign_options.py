"""Options of llama.cpp, vLLM and Ollama either work or are refused by name, with a hint."""

from typing import Any

import pytest

from assay.cli import app
from assay.cli.foreign_options import translate

OWN = {
    name: [
        option
        for parameter in app.by_name(app.program([name]))[name].params
        for option in (*parameter.opts, *parameter.secondary_opts)
    ]
    for name in ("generate", "chat", "serve")
}


@pytest.mark.parametrize(
    ("command", "words", "expected"),
    [
        ("generate", "-m a.gguf -p hi -n 8 --temp 0.5", "a.gguf --prompt hi --max-tokens 8 --temperature 0.5"),
        ("generate", "m --repeat-penalty=1.1 -t 2 -c 512", "m --repetition-penalty=1.1 --threads 2 --kv-tokens 512"),
        ("chat", "-hf org/name -cnv -sys short", "org/name --system short"),
        ("serve", "m --max-num-seqs 8 --max-num-batched-tokens=64", "m --knob max_batch=8 --knob token_budget=64"),
        ("serve", "m --tensor-parallel-size=1 --port 1", "m --port 1"),
        ("serve", "m --served-model-name x --enable-prefix-caching", "m --name x"),
        ("serve", "m --kv-cache-dtype auto --kv-cache-dtype fp8_e4m3", "m --knob kv_format=fp8"),
        ("serve", "m -md d.gguf", "m --knob speculation_method=draft_model --knob draft_model=d.gguf"),
        ("generate", "m -- --temp", "m -- --temp"),
    ],
)  # fmt: skip
def test_options_that_mean_the_same_are_rewritten(command: str, words: str, expected: str) -> None:
    assert translate(command, words.split(), OWN[command]) == expected.split()


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("serve", "m", "--tensor-parallel-size", "2"), "one GPU"),
        (("serve", "m", "-ngl", "99"), "--knob offload_layers"),
        (("serve", "m", "--gpu-memory-utilization", "0.8"), "--kv-tokens"),
        (("serve", "m", "--trust-remote-code"), "never run"),
        (("generate", "m", "--mirostat", "2"), "top-k"),
        (("chat", "m", "--think"), "enable_thinking"),
    ],
)
def test_options_without_an_equal_are_refused_by_name(
    cli: Any, words: tuple[str, ...], hint: str
) -> None:
    outcome = cli(*words)
    assert outcome.code == 2
    error, advice = outcome.err.strip().splitlines()
    assert error == f'error: option "{words[2]}" of assay {words[0]}: not supported'
    assert advice.startswith("hint: ")
    assert hint in advice


def test_every_target_is_an_option_or_a_knob() -> None:
    from assay.cli import foreign_options
    from assay.engine.core.knobs import KNOBS

    every = {option for options in OWN.values() for option in options}
    assert set(foreign_options._RENAMED.values()) <= every
    assert set(foreign_options._KNOBS.values()) <= KNOBS.keys()


def test_options_work_as_a_user_of_llama_cpp_types_them(cli: Any) -> None:
    outcome = cli("generate", "-m", "synthetic", "-p", "Once", "-n", "3", "--temp", "0", "--json")
    own = cli("generate", "synthetic", "Once", "--max-tokens", "3", "--greedy", "--json")
    assert (outcome.code, own.code) == (0, 0)
    assert len(outcome.data["token_ids"]) == 3
    assert outcome.data["token_ids"] == own.data["token_ids"]
