"""What people try first with `generate` and `chat`: stdin, files, a schema, an adapter, one answer."""

import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from lora_folders import factors_of, write_adapter

from assay.cli.app import run
from assay.engine import Engine, SamplingParams
from assay.engine.loading.synthetic import synthetic_model

SHORT = ("--greedy", "--max-tokens", "6")
SCHEMA = '{"type": "object", "properties": {"a": {"enum": [1]}}, "required": ["a"], "additionalProperties": false}'
CHATML = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}<assistant>"


def output(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert run(words) == 0, capsys.readouterr().err
    return capsys.readouterr().out


def pipe(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


def test_prompt_comes_from_argument_option_file_or_stdin(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "prompt.txt"
    file.write_text("Once upon\na time\n")
    expected = output(capsys, "generate", "synthetic", "Once upon\na time", *SHORT)
    for words in (("--prompt", "Once upon\na time"), ("--file", str(file))):
        assert output(capsys, "generate", "synthetic", *words, *SHORT) == expected
    for words in ((), ("-",), ("--file", "-")):
        pipe(monkeypatch, file.read_bytes())
        assert output(capsys, "generate", "synthetic", *words, *SHORT) == expected


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("a", "--prompt", "b"), "PROMPT and --prompt: expected one text, got 2"),
        (("--file", "none.txt"), "prompt none.txt cannot be read"),
        (("-",), "stdin: expected UTF-8"),
        (("a", "--json-schema", "{"), "--json-schema: expected JSON or the path of a file"),
        (("a", "--json-schema", "no.json"), "JSON schema no.json cannot be read"),
        (("a", "--threads", "2", "--knob", "threads=1"), "--threads: expected it once"),
        (("a", "--lora", "nowhere"), "nowhere"),
    ],
)
def test_unusable_prompts_and_options_are_one_line(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    message: str,
) -> None:
    pipe(monkeypatch, b"\xff")
    assert run(["generate", "synthetic", *words]) == 2
    assert message in capsys.readouterr().err


def test_terminal_without_a_prompt_is_not_waited_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: True))
    assert run(["generate", "synthetic"]) == 2
    assert "PROMPT: expected a text, got none" in capsys.readouterr().err


def test_output_fits_a_schema(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "schema.json"
    file.write_text(SCHEMA)
    for schema in (SCHEMA, str(file)):
        words = ("--json-schema", schema, "--max-tokens", "200", "--seed", "1", "--threads", "1")
        assert json.loads(output(capsys, "generate", "synthetic", "A", *words)) == {"a": 1}
        assert json.loads(output(capsys, "chat", "synthetic", "A", *words)) == {"a": 1}


def test_adapter_changes_the_output(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    factors = factors_of(synthetic_model(), ("q_proj", "v_proj", "down_proj"), 8, 1)
    folder = str(write_adapter(tmp_path / "adapter", factors, lora_alpha=64))
    plain = output(capsys, "generate", "synthetic", "Once", *SHORT)
    assert output(capsys, "generate", "synthetic", "Once", *SHORT, "--lora", folder) != plain


def test_chat_answers_one_message_with_a_template(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    template = tmp_path / "chat.jinja"
    template.write_text(CHATML)
    words = ("chat", "synthetic", "Hi", *SHORT, "--chat-template", str(template), "--json")
    answer = json.loads(output(capsys, *words))
    with Engine.load("synthetic") as engine:
        prompt = engine.files.tokenizer.encode("<user>Hi<assistant>", add_special=False)
        [expected] = engine.generate([prompt], SamplingParams(max_tokens=6, temperature=0.0))
    assert (answer["tokens"], answer["text"]) == (6, expected.text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{% if %}", "chat.jinja: expected a template that renders a message"),
        ("{{ raise_exception('no user') }}", "got: no user"),
        ("{{ messages[0].content + 1 }}", "got: can only concatenate str"),
    ],
)
@pytest.mark.parametrize("command", ["chat", "serve"])
def test_template_that_fails_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str, text: str, message: str
) -> None:
    template = tmp_path / "chat.jinja"
    template.write_text(text)
    words = [command, "synthetic", *(["--port", "0"] if command == "serve" else ["Hi"])]
    assert run([*words, "--chat-template", str(template)]) == 2
    [error] = capsys.readouterr().err.splitlines()
    assert message in error


def test_variables_reach_the_template(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    template = tmp_path / "chat.jinja"
    template.write_text("{{ effort }}{{ messages[0].content }}")
    words = ("chat", "synthetic", "Hi", *SHORT, "--chat-template", str(template))
    given = output(capsys, *words, "--chat-template-kwargs", '{"effort": "low"}')
    template.write_text("low{{ messages[0].content }}")
    assert output(capsys, *words) == given
    assert run([*words, "--chat-template-kwargs", "low"]) == 2
