"""Adapters: the built-in ones, what is refused in a file, and how settings become arguments."""

from __future__ import annotations

import re

import pytest

from assay.engine.core.knobs import KNOBS
from assay.errors import AssayError, InputError
from assay.improve.engines import adapter as adapters, detection, schemas
from assay.improve.engines.command import CommandTemplate

LLAMA = adapters.load("llama.cpp")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"threads": 2}, ["--threads", "2"]),
        ({"threads": None}, []),
        ({"flash_attn": "on"}, ["--flash-attn", "on"]),
        ({"cont_batching": False}, ["--no-cont-batching"]),
        ({"cont_batching": True}, ["--cont-batching"]),
        ({"poll": 0, "cache_type_k": "q8_0"}, ["--cache-type-k", "q8_0", "--poll", "0"]),
    ],
)
def test_settings_become_arguments_of_llama_cpp(settings, words):
    assert LLAMA.arguments(LLAMA.check(settings)) == [*LLAMA.always, *words]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"threads": 0}, "threads: expected from 1 to 512, got 0"),
        ({"threads": 1.5}, "threads: expected a whole number, got 1.5"),
        ({"threads": True}, "threads: expected a whole number, got True"),
        ({"cont_batching": 1}, "cont_batching: expected true or false, got 1"),
        ({"flash_attn": "yes"}, "flash_attn: expected one of on, off, auto, got 'yes'"),
        ({"thread": 1}, 'unknown knob "thread"'),
    ],
)
def test_values_outside_the_schema_are_refused(settings, message):
    with pytest.raises(AssayError, match=re.escape(message)):
        LLAMA.check(settings)


def test_the_knobs_of_assay_serve_are_the_engines_own():
    found = schemas.complete(adapters.load("assay"))
    assert set(found.knobs) == set(KNOBS)
    for name, knob in KNOBS.items():
        mine = found.knobs[name]
        assert (mine.default, mine.least, mine.most) == (knob.default, knob.least, knob.most)
        assert mine.choices == knob.choices
        assert mine.check(knob.default) == knob.default
    assert found.knobs["threads"].to_arguments(2) == ["--knob", "threads=2"]
    assert found.knobs["deterministic"].to_arguments(True) == ["--knob", "deterministic=true"]


KNOB = "  threads: {meaning: m}\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "expected a mapping, got list"),
        ("description: x", "expected name, got none"),
        ("name: x\nhealht: /h", "unknown key healht"),
        ("name: x\nknobs:\n  a: {meaning: m, type: tensor}", "expected type to be one of"),
        ("name: x\nknobs:\n  a: {type: integer}", "knob a: expected meaning, got none"),
        ("name: x\nknobs:\n  a: {meaning: m, default: 9, most: 3}", "a: expected at most 3, got 9"),
        ("name: x\nknobs:\n  a: {meaning: m, argument: --a}", "expected {value} in argument"),
        (
            "name: x\nknobs:\n  a: {meaning: m, type: boolean, arguments: {'true': --a}}",
            "expected arguments for false, got none",
        ),
        (
            "name: x\nknobs:\n  a: {meaning: m, read: {log: a, metric: b}}",
            "expected one of endpoint",
        ),
    ],
)
def test_mistakes_in_a_file_are_named(tmp_path, text, message):
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match=re.escape(message)):
        adapters.load(path)


def test_an_adapter_of_ones_own(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(
        "name: mine\nknobs:\n  workers: {meaning: processes, environment: WORKERS, least: 1}\n"
        "  fast: {meaning: speed, type: boolean}\n"
    )
    mine = adapters.load(str(path))
    assert mine.variables({"workers": 3}) == {"WORKERS": "3"}
    assert mine.arguments({"workers": 3, "fast": True}) == ["--fast"]
    assert mine.arguments({"fast": False}) == []


def test_an_unknown_adapter_is_refused():
    with pytest.raises(AssayError, match='unknown adapter "llamacpp"'):
        adapters.load("llamacpp")


def test_a_template_keeps_quotes_and_variables():
    template = CommandTemplate.parse("A=1 B='x y' sh -c 'exec server {settings} >&2' z")
    assert template.environment == {"A": "1", "B": "x y"}
    assert template.arguments(["--name", "a b"]) == [
        "sh", "-c", "exec server --name 'a b' >&2", "z",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("server --port 1", "expected {settings} where the settings go"),
        ("A=1", "expected a program, got none"),
        ("server 'x {settings}", "expected balanced quotes"),
    ],
)
def test_templates_that_cannot_work_are_refused(text, message):
    with pytest.raises(InputError, match=re.escape(message)):
        CommandTemplate.parse(text)


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("llama-server -m x {settings}", "llama.cpp"),
        ("python -m assay.improve.engines.llama_cpp_server -m x", "llama.cpp"),
        ("venv/bin/vllm serve x", "vllm"),
        ("python -m vllm.entrypoints.openai.api_server --model x", "vllm"),
        ("sglang serve --model-path x", "sglang"),
        ("python3 -m sglang.launch_server --model-path x", "sglang"),
        ("bin/trtllm-serve x --port 8000", "tensorrt-llm"),
        ("assay serve tiny", "assay"),
        ("python -m assay serve tiny", "assay"),
        ("other-server", None),
    ],
)
def test_the_server_of_a_command_is_known(command, name):
    assert detection.of_command(command.split()) == name
