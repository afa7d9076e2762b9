"""The `assay chat` command."""

import json
import re
import subprocess
import sys

import pytest

from assay.engine import Engine, SamplingParams


def test_chat_keeps_the_conversation_and_reports_its_speed() -> None:
    arguments = ["chat", "synthetic", "--greedy", "--max-tokens", "16"]
    done = subprocess.run(
        [sys.executable, "-m", "assay", *arguments],
        input="hello\nagain\n\n/reset\nhello\n/exit\nnever\n",
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    reports = re.findall(
        r"^(\d+) tokens, [\d.]+ tok/s, \d+% of the floor$", done.stderr, re.MULTILINE
    )
    assert len(reports) == 3
    with Engine.load("synthetic") as engine:
        template, tokenizer = engine.files.chat_template, engine.files.tokenizer
        assert template is not None
        prompt = template.render([{"role": "user", "content": "hello"}])
        params = SamplingParams(max_tokens=16, temperature=0.0)
        (answer,) = engine.generate([tokenizer.encode(prompt, add_special=False)], params)
    assert done.stdout.startswith(f"{answer.text}\n")
    assert done.stdout.endswith(f"{answer.text}\n")


def test_chat_as_json() -> None:
    arguments = ["chat", "synthetic", "--greedy", "--max-tokens", "5", "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "assay", *arguments],
        input="hello\nagain\n",
        capture_output=True,
        text=True,
        timeout=120,
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [answer["tokens"] for answer in answers] == [5, 5]
    assert all(answer["finish_reason"] == "length" for answer in answers)
    assert all(answer["floor_share"] > 0 < answer["tokens_per_second"] for answer in answers)


@pytest.mark.parametrize(
    "words",
    [
        ("generate", "synthetic", "--prompt", "Once", "--max-tokens", "900", "--ignore-eos"),
        ("chat", "synthetic", "--max-tokens", "900"),
    ],
    ids=lambda words: words[0],
)
def test_broken_pipe_has_the_documented_exit_code(words: tuple[str, ...]) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "assay", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdin.write(b"hello\n" * 3)
        child.stdin.close()
        child.stdout.read(1)
        child.stdout.close()
        errors = child.stderr.read().decode()
        assert child.wait(60) == 141
    assert "error" not in errors.lower()


def test_chat_without_stdin_ends() -> None:
    done = subprocess.run(
        ["sh", "-c", f"exec {sys.executable} -m assay chat synthetic <&-"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stdout) == (0, "")
    assert "error" not in done.stderr
