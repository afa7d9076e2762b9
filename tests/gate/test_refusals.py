"""What a gate refuses: one line that names the side, an exit code, and nothing left running or changed."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from gate_repositories import git

from assay.cli.app import run

QUICK = ("--noise", "0", "--block", "20ms", "--budget", "1m", "--workload", "batch",
         "--concurrency", "2", "--input-tokens", "8", "--output-tokens", "8")  # fmt: skip


class Outcome:
    def __init__(self, code: int, error: str) -> None:
        self.code = code
        lines = [line for line in error.splitlines() if line.startswith(("error:", "hint:"))]
        self.error = next((line for line in lines if line.startswith("error:")), "")
        self.hint = next((line for line in lines if line.startswith("hint:")), "")
        assert len(lines) <= 2, error


@pytest.fixture
def gate(capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    def call(*words: str) -> Outcome:
        capsys.readouterr()
        code = run(["gate", *words, *QUICK])
        return Outcome(code, capsys.readouterr().err)

    return call


def worktrees(folder: Path) -> list[str]:
    return [line for line in git(folder, "worktree", "list").splitlines() if line]


@pytest.mark.parametrize(
    ("base", "head", "error", "hint"),
    [
        ("v0", "nowhere", 'unknown commit "nowhere" of repository', "shallow clone"),
        ("v0", "v0", "got the same commit", "A/A"),
        ("v0", "--upload-pack=x", "", None),
    ],
)
def test_commits_that_cannot_be_compared(
    gate: Callable[..., Outcome], repository: Callable[..., Path], serve: Callable[[str], str],
    base: str, head: str, error: str, hint: str | None,
) -> None:  # fmt: skip
    folder = repository("1.0", "1.1")
    outcome = gate("--repository", str(folder), "--serve", serve(), base, head)
    assert outcome.code == 2
    assert error in outcome.error
    assert hint is None or hint in outcome.hint
    assert len(worktrees(folder)) == 1


def test_changes_that_no_commit_has_are_refused(
    gate: Callable[..., Outcome], repository: Callable[..., Path], serve: Callable[[str], str]
) -> None:
    folder = repository("1.0", "1.1")
    (folder / "speed.txt").write_text("9.0")
    outcome = gate("--repository", str(folder), "--serve", serve(), "v0", "HEAD")
    assert outcome.code == 2
    assert "got speed.txt: they would not be measured" in outcome.error
    assert (folder / "speed.txt").read_text() == "9.0"
    assert len(worktrees(folder)) == 1


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("a", "b"), "expected a git repository"),
        (("x {port}", "x {port}"), "expected two that differ, got the same command twice"),
        (("x {port}", "main"), "expected two commands or two commits, got a command and 'main'"),
        (("x '{port}", "y {port}"), "expected balanced quotes"),
        (("x {port}", "y {port}", "--build", "make"), "--build: expected none"),
        (("x {port}", "y {port}", "--bisect"), "--bisect: expected two commits, got two commands"),
        (("x {port}", "y {port}", "--margin", "0%"), "--margin: expected a share above 0"),
        (("x {port}", "y {port}", "--port", "99999"), "--port: expected a port from 1 to 65535"),
        (("a", "b", "--container", "lxc"), "--container: expected docker or podman, got 'lxc'"),
        (("a", "a", "--container", "docker"), "got the same image twice"),
        (("a",), "missing argument 'HEAD'"),
        ((), "missing argument 'BASE'"),
    ],
)
def test_what_is_asked_wrongly(
    gate: Callable[..., Outcome], tmp_path: Path, words: tuple[str, ...], error: str
) -> None:
    outcome = gate(*words, "--repository", str(tmp_path))
    assert (outcome.code, error in outcome.error) == (2, True), outcome.error


def test_a_commit_needs_a_command(
    gate: Callable[..., Outcome], repository: Callable[..., Path]
) -> None:
    folder = repository("1.0", "1.1")
    outcome = gate("v0", "v1", "--repository", str(folder))
    assert (outcome.code, "expected --serve COMMAND" in outcome.error) == (2, True)
    outcome = gate("v0", "v1", "--repository", str(folder), "--serve", "server --port 80")
    assert (outcome.code, "expected {port} where the port goes" in outcome.error) == (2, True)


def test_a_port_that_is_taken(
    gate: Callable[..., Outcome], serve: Callable[[str], str], pids: Path
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        outcome = gate(serve(), serve("--token-ms 2"), "--port", port)
    assert (outcome.code, f"--port {port}: expected a free port" in outcome.error) == (2, True)
    assert not pids.exists()


@pytest.mark.parametrize(
    ("options", "code", "error"),
    [
        ("--fail exit", 4, "server (crash): exited with 1 at start"),
        ("--fail hang", 4, "server (timeout): not healthy 1 s after its start"),
        ("--chats-only", 2, "/v1/chat/completions: expected success, got 404"),
        ("--fail errors", 1, "does not do the work of the base"),
        ("--fail short", 1, "output tokens in the control"),
        ("--fail die", 4, "server (crash): exited with 3"),
    ],
)
def test_a_head_that_does_not_serve(
    gate: Callable[..., Outcome], serve: Callable[[str], str], none_left: Callable[[], bool],
    options: str, code: int, error: str,
) -> None:  # fmt: skip
    outcome = gate(serve(), serve(options), "--start-timeout", "1s")
    assert outcome.code == code, outcome.error
    assert error in outcome.error
    assert f"head {options}" in outcome.error
    assert none_left()


def test_a_command_that_does_not_exist(
    gate: Callable[..., Outcome], serve: Callable[[str], str], none_left: Callable[[], bool]
) -> None:
    outcome = gate("no-such-program {port}", serve())
    assert outcome.code == 2
    assert 'base no-such-program {port}: server command "no-such-program" cannot' in outcome.error
    assert none_left()


def test_a_base_that_fails_every_request(
    gate: Callable[..., Outcome], serve: Callable[[str], str], none_left: Callable[[], bool]
) -> None:
    outcome = gate(serve("--fail errors"), serve())
    assert outcome.code in (2, 3)
    assert "base --fail errors" in outcome.error
    assert none_left()


def test_a_commit_that_does_not_build_or_start_leaves_no_worktree(
    gate: Callable[..., Outcome], repository: Callable[..., Path], serve: Callable[[str], str],
    none_left: Callable[[], bool],
) -> None:  # fmt: skip
    folder = repository("1.0", "1.1")
    given = ("--repository", str(folder), "--serve", serve("--speed-file speed.txt"))
    outcome = gate("v0", "v1", *given, "--build", "sh -c 'echo no compiler; exit 7'")
    assert outcome.code == 2
    assert "exited with 7: no compiler" in outcome.error
    assert len(worktrees(folder)) == 1
    outcome = gate("v0", "v1", *given[:2], "--serve", serve("--speed-file absent.txt"))
    assert outcome.code == 4
    assert outcome.error.startswith(("error: base v0", "error: head v1"))
    assert outcome.error.endswith("server (crash): exited with 1 at start")
    assert len(worktrees(folder)) == 1
    assert none_left()
    assert git(folder, "status", "--porcelain") == ""


def test_a_budget_that_is_too_short_is_undecided_with_a_hint(
    capsys: pytest.CaptureFixture[str], serve: Callable[[str], str], none_left: Callable[[], bool]
) -> None:
    options = [*QUICK]
    options[options.index("--budget") + 1] = "1ms"
    assert run(["gate", serve(), serve("--token-ms 2"), *options]) == 3
    said = capsys.readouterr().err
    assert "error: undecided: too few pairs for an interval" in said
    assert "hint: a longer --budget" in said
    assert none_left()
