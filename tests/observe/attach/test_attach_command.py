"""`assay trace attach -- COMMAND`: a whole run of the command line."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assay.observe.trace import Trace

Script = Callable[[str], Path]


@pytest.fixture
def attach(environment: dict[str, str]) -> Callable[..., subprocess.CompletedProcess[str]]:
    def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "assay", "trace", "attach", *words],
            env=environment, capture_output=True, text=True, timeout=60,
        )  # fmt: skip

    return run


Attach = Callable[..., subprocess.CompletedProcess[str]]


def answer(finished: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert finished.stdout, finished.stderr
    found: dict[str, Any] = json.loads(finished.stdout)
    return found


def test_a_program_is_traced_and_its_exit_code_kept(
    attach: Attach, script: Script, tmp_path: Path
) -> None:
    out = tmp_path / "trace"
    program = script("cuda.cuInit(0); launch(30, graph=2); print('hello'); sys.exit(7)")
    finished = attach("--out", out, "--json", "--", sys.executable, program)
    assert finished.returncode == 7, finished.stderr
    assert "hello" in finished.stderr
    found = answer(finished)
    assert found == {
        "trace": str(out), "events": 30, "kinds": {"kernel": 30},
        "processes": found["processes"], "clock": "realtime", "dropped": 0, "degradations": [],
        "repairs": {}, "exit_code": 7,
    }  # fmt: skip
    stored = Trace.open(out)
    assert stored.events["graph"].to_list() == [2] * 30
    assert stored.header.metadata["attach"]["command"] == [sys.executable, str(program)]
    # Shards and control file are gone.
    assert list((tmp_path / "scratch" / "traces").iterdir()) == []


def test_recording_starts_with_a_file_and_ends_after_its_time(
    attach: Attach, script: Script, tmp_path: Path
) -> None:
    flag = tmp_path / "go"
    program = script(
        f"""
        cuda.cuInit(0)
        launch(1)
        open({str(flag)!r}, "w").close()
        wait_until(lambda: tool()["subscribed"] == 1)
        launch(20)
        wait_until(lambda: tool()["subscribed"] == 0)
        launch(300)
        """
    )
    out = tmp_path / "trace"
    words = ("--arm-file", flag, "--duration-s", "0.2", "--json", "--out", out)
    found = answer(attach(*words, "--", sys.executable, program))
    assert (found["events"], found["degradations"], found["exit_code"]) == (20, [], 0)


def test_a_program_that_ends_before_its_delay(attach: Attach, script: Script) -> None:
    program = script("cuda.cuInit(0); launch(5)")
    finished = attach("--delay-s", "60", "--json", "--", sys.executable, program)
    assert answer(finished)["degradations"] == [
        "no events: no process of the program loaded the CUDA driver while recording",
        "the program ended before recording started",
    ]


def test_signals_go_to_the_program_and_the_trace_is_kept(
    environment: dict[str, str], script: Script, tmp_path: Path
) -> None:
    ready = tmp_path / "ready"
    program = script(
        f"""
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))
        cuda.cuInit(0)
        launch(9)
        open({str(ready)!r}, "w").close()
        time.sleep(30)
        """
    )
    words = [sys.executable, "-m", "assay", "trace", "attach", "--json", "--"]
    with subprocess.Popen(
        [*words, sys.executable, str(program)], env=environment, stdout=subprocess.PIPE, text=True
    ) as running:
        end = time.monotonic() + 30
        while not ready.exists():
            assert time.monotonic() < end
            time.sleep(0.02)
        running.send_signal(signal.SIGTERM)
        out, _ = running.communicate(timeout=30)
    found = json.loads(out)
    assert (running.returncode, found["exit_code"], found["events"]) == (5, 5, 9)
    assert found["degradations"] == []


def test_a_killed_program_is_told_by_its_code(attach: Attach, script: Script) -> None:
    program = script("cuda.cuInit(0); launch(9); time.sleep(2); os.kill(os.getpid(), 9)")
    finished = attach("--json", "--", sys.executable, program)
    assert finished.returncode == 128 + 9
    found = answer(finished)
    assert found["events"] == 9
    assert "ended without closing its shard" in found["degradations"][0]


def test_text_says_what_was_recorded(attach: Attach, script: Script, tmp_path: Path) -> None:
    program = script("cuda.cuInit(0); launch(2)")
    finished = attach("--out", tmp_path / "t", "--", sys.executable, program)
    lines = [line.split(maxsplit=1) for line in finished.stdout.splitlines()]
    assert lines[0] == ["trace", str(tmp_path / "t")]
    assert lines[1] == ["events", "2 (2 kernels)"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "expected a command or --url, got neither"),
        (("--url", "http://127.0.0.1:1", "--", "true"), "expected a command or --url, got both"),
        (("--steps", "3", "--", "true"), "--steps: expected it with --url"),
        (("--record", "kernels", "--", "true"), "--record: expected kinds of kernel, memcpy"),
        (("--", "no-such-program"), 'command "no-such-program": expected a program'),
        (("--out", ".", "--", "true"), ".: exists already"),
        (("--url", "ftp://host"), "--url: expected --steps or --duration-s"),
        (("--url", "ftp://host", "--steps", "1"), "--url: expected http://HOST:PORT"),
    ],
)
def test_bad_input_is_one_line(attach: Attach, words: tuple[str, ...], message: str) -> None:
    finished = attach(*words)
    assert (finished.returncode, finished.stdout) == (2, "")
    assert finished.stderr.startswith(f"error: {message}")
