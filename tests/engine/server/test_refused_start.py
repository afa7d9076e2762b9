"""Starts that cannot succeed: one line, exit code 2, and no process left."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def occupied() -> Iterator[str]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield str(listener.getsockname()[1])


def refused(*words: str) -> str:
    """The error of a start that fails."""
    process = subprocess.Popen(
        [sys.executable, "-m", "assay", "serve", "synthetic", "--device", "cpu", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    output, text = process.communicate(timeout=60)
    assert (process.returncode, output) == (2, "")
    # The group is gone with its last process.
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)
    errors = [line for line in text.splitlines() if not line.startswith(("note: ", "hint: "))]
    [error] = errors
    return error.removeprefix("error: ")


@pytest.mark.parametrize("apart", ["--http-process", "--no-http-process"])
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--slo", "tpot=0.001ms"), "--slo tpot: expected at least"),
        (("--kv-tokens", "2000000000"), "out of device memory"),
        (("--kv-tokens", "900000000000"), "kv_tokens: expected at most 2,147,483,647, got 900,"),
        (("--max-model-len", "99999999"), "max_model_len: expected at most"),
        (("--tensor-parallel-size", "2"), 'option "--tensor-parallel-size" of assay serve'),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_settings_that_cannot_be_kept(words: tuple[str, ...], message: str, apart: str) -> None:
    assert message in refused("--port", "0", apart, *words)


@pytest.mark.parametrize("apart", ["--http-process", "--no-http-process"])
def test_port_that_is_in_use(occupied: str, apart: str) -> None:
    assert f"got {occupied}, which is in use" in refused("--port", occupied, apart)


@pytest.mark.parametrize("apart", ["--http-process", "--no-http-process"])
def test_template_that_fails(tmp_path: Path, apart: str) -> None:
    file = tmp_path / "chat.jinja"
    file.write_text("{{ raise_exception('no') }}")
    error = refused("--port", "0", apart, "--chat-template", str(file))
    assert "expected a template that renders a message of the user, got: no" in error
