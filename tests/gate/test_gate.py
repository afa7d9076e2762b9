"""Gates of real processes: verdict, report, JSON, and nothing left when they are over or killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from gate_repositories import git

import assay
from assay.cli.app import program, run
from assay.gating.commits import Repository
from assay.gating.servers import Servers
from assay.gating.sides import Side
from assay.report import figures
from assay.report.page import render
from assay.report.run_files import RunFiles
from assay.report.storing import from_data
from assay.report.verify import verify

WORKLOAD = ("--workload", "batch", "--concurrency", "2", "--input-tokens", "8",
            "--output-tokens", "8")  # fmt: skip
QUICK = ("--noise", "0", "--block", "20ms", *WORKLOAD)
KEYS = {
    "run", "verdict", "passed", "metric", "better", "base", "head", "ratio", "confidence", "margin",
    "pairs", "noise", "gates", "reason", "seconds", "bisection", "report", "notes",
}  # fmt: skip
SIDE = {"name", "given", "kind", "commit", "subject", "image", "command", "level"}


def gate(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, Any]:
    capsys.readouterr()
    code = run(["gate", *words, "--json"])
    captured = capsys.readouterr()
    assert captured.out, captured.err
    return code, json.loads(captured.out)


# Slow: on busy cores what both spend on the way hides an eighth of the speed. Verdicts of planted
# visits, which take no time, are those of test_comparison.py.
@pytest.mark.slow
def test_a_slower_command_regresses_with_a_report_that_verifies(
    capsys: pytest.CaptureFixture[str], serve: Callable[[str], str], none_left: Callable[[], bool]
) -> None:
    code, data = gate(capsys, serve("--token-ms 1"), serve("--token-ms 8"), *QUICK)
    assert (code, data["verdict"], data["passed"]) == (1, "regressed", False)
    assert set(data) == KEYS
    assert set(data["base"]) == set(data["head"]) == SIDE
    # An eighth of the speed, less what both spend on the way.
    assert data["ratio"]["lo"] < 0.5
    assert data["head"]["name"] == "--token-ms 8"
    assert data["base"]["level"]["value"] > 1.5 * data["head"]["level"]["value"]
    assert none_left()
    folder = Path(data["run"])
    verification = verify(folder)
    assert verification.is_verified, verification.failures
    text = Path(data["report"]).read_text()
    assert text.startswith("# Regressed: output throughput of head over base 0.")
    assert "slowdown excluded" in text
    assert run(["run", "--resume", data["run"]]) == 2
    assert "got a gate, which has nothing to go on with" in capsys.readouterr().err
    # An edited report is not verified: the figure is derived again.
    stored = folder / "report.json"
    stored.write_text(stored.read_text().replace('"regressed"', '"improved"'))
    assert not verify(folder).is_verified


def test_a_killed_gate_leaves_no_server_and_no_worktree(
    repository: Callable[..., Path], serve: Callable[[str], str], pids: Path,
    none_left: Callable[[], bool], scratch: Path,
) -> None:  # fmt: skip
    folder = repository("1.0", "1.1")
    words = ["v0", "v1", "--repository", str(folder), "--serve", serve("--speed-file speed.txt")]
    child = subprocess.Popen(
        [sys.executable, "-m", "assay", "gate", *words, *QUICK, "--block", "5s"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    _wait(pids.exists)
    time.sleep(0.5)
    child.send_signal(signal.SIGTERM)
    _, error = child.communicate(timeout=120)
    assert child.returncode == 130, error
    assert none_left()
    assert len(git(folder, "worktree", "list").splitlines()) == 1


@pytest.mark.slow
def test_the_watchdog_stops_the_server_of_a_gate_that_was_killed(
    serve: Callable[[str], str], pids: Path, none_left: Callable[[], bool]
) -> None:
    words = [serve("--token-ms 1"), serve("--token-ms 3"), *QUICK, "--block", "5s"]
    child = subprocess.Popen(
        [sys.executable, "-m", "assay", "gate", *words],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _wait(pids.exists)
    time.sleep(0.5)
    child.kill()
    child.wait()
    _wait(none_left)


def test_worktrees_of_a_killed_gate_are_removed_by_the_next(
    repository: Callable[..., Path], scratch: Path
) -> None:
    folder = repository("1.0", "1.1")
    left = scratch / "runs" / "20260101-000000-gate-batch-0000" / "commits" / "base"
    left.parent.mkdir(parents=True)
    elsewhere = folder.parent / "mine"
    git(folder, "worktree", "add", "--detach", "--quiet", str(left), "v0")
    git(folder, "worktree", "add", "--detach", "--quiet", str(elsewhere), "v0")
    Repository.open(folder).remove_abandoned(scratch / "runs")
    listed = git(folder, "worktree", "list")
    assert (str(left) in listed, str(elsewhere) in listed) == (False, True)
    assert not left.exists()


def test_a_gate_may_be_started_by_a_hook(
    repository: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Git tells its hooks where the repository is; that is not the one that is gated."""
    folder = repository("1.0", "1.1")
    wanted = git(folder, "rev-parse", "v0").strip()
    monkeypatch.setenv("GIT_DIR", str(folder.parent / "another" / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", "elsewhere")
    assert Repository.open(folder).commit("v0") == wanted


@pytest.mark.parametrize("command", ["vllm serve m --port 1", "assay serve m --port 1", "x 1"])
def test_a_command_is_started_as_it_was_given(command: str, tmp_path: Path) -> None:
    """Nothing of what a run adds to a server to read its settings back."""
    side = Side("base", command, "command", command)
    adapter = Servers({"control": side, "treatment": side}, tmp_path)._adapter(
        f"{command} {{settings}}"
    )
    assert (adapter.arguments({}), adapter.variables({})) == ([], {})
    assert "prefix-cache" not in adapter.capabilities


def _wait(check: Callable[[], bool], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.slow
def test_a_bisection_names_the_commit(
    capsys: pytest.CaptureFixture[str], repository: Callable[..., Path],
    serve: Callable[[str], str], none_left: Callable[[], bool],
) -> None:  # fmt: skip
    folder = repository("1.0", "1.01", "1.0", "0.1", "0.101")
    code, data = gate(
        capsys, "v0", "v4", "--repository", str(folder), "--bisect", "--budget", "5m",
        "--build", "test -f speed.txt", "--serve", serve("--speed-file speed.txt"), *QUICK,
    )  # fmt: skip
    assert (code, data["verdict"]) == (1, "regressed")
    bisection, wanted = data["bisection"], git(folder, "rev-parse", "v3").strip()
    # A machine that is busy with other things may leave a range.
    assert wanted in bisection["suspects"]
    if bisection["culprit"] is not None:
        assert (bisection["culprit"], bisection["subject"]) == (wanted, "Speed 0.1, step 3")
        assert bisection["confirmed"] is not False
    assert data["confidence"] == pytest.approx(1 - 0.05 / 4)
    assert none_left()
    assert len(git(folder, "worktree", "list").splitlines()) == 1
    verification = verify(Path(data["run"]))
    assert verification.is_verified, verification.failures
    assert "Bisection: " in Path(data["report"]).read_text()


def test_containers_are_removed_by_name(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    serve: Callable[[str], str], none_left: Callable[[], bool],
) -> None:  # fmt: skip
    """A docker that runs the scripted server; the image's name is the option of what fails."""
    said = tmp_path / "said"
    docker = tmp_path / "bin" / "docker"
    docker.parent.mkdir()
    docker.write_text(
        f"#!{sys.executable} -S\n"
        "import os, shlex, sys\n"
        f"open({str(said)!r}, 'a').write(' '.join(sys.argv[1:]) + chr(10))\n"
        "if sys.argv[1] == 'run':\n"
        "    port = sys.argv[sys.argv.index('-p') + 1].split(':')[1]\n"
        "    image = sys.argv[sys.argv.index('--memory=1g') + 1]\n"
        f"    command = shlex.split({serve('')!r}.replace('{{port}}', port))\n"
        "    os.execv(command[0], [*command, '--fail', image, *sys.argv[sys.argv.index(image) + 1:]])\n"
    )
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", f"{docker.parent}:{os.environ['PATH']}")
    code, data = gate(
        capsys, "sound", "short", "--container", "docker", "--container-port", "9000",
        "--container-options", "--memory=1g", "--serve", "--token-ms 1", *QUICK,
    )  # fmt: skip
    assert (code, data["verdict"], data["head"]["image"]) == (1, "invalid", "short")
    lines = [line.split() for line in said.read_text().splitlines()]
    started = [words[words.index("--name") + 1] for words in lines if words[0] == "run"]
    assert [words[2] for words in lines if words[:2] == ["rm", "--force"]] == started
    assert len(set(started)) == 2
    assert all(words[words.index("-p") + 1].endswith(":9000") for words in lines[:1])
    assert none_left()


@pytest.mark.slow
def test_the_own_engine_is_gated(monkeypatch: pytest.MonkeyPatch) -> None:
    """`assay serve` of the synthetic model: one request at a time against eight."""
    command = f"{sys.executable} -m assay serve synthetic --port {{port}} --no-access-log"
    answer = assay.gate(
        f"{command} --knob max_batch=8",
        f"{command} --knob max_batch=1",
        workload="batch",
        concurrency=8,
        input_tokens="16",
        output_tokens="32",
        block="500ms",
        noise=1,
        budget="90s",
    )
    # A machine that is busy with other things may leave it undecided, and never pass it.
    assert answer.verdict in ("regressed", "undecided"), answer.reason
    assert not answer.passed
    assert answer.problem is not None
    assert answer.noise is not None
    drawn: dict[str, Any] = {}
    claims, provenance = from_data(json.loads((answer.run / "report.json").read_text()))
    with monkeypatch.context() as patched:
        patched.setattr(figures, "sequences", lambda looks, *rest: drawn.update(looks) or "")
        render(claims, provenance, RunFiles(answer.run))
    # The sequences of the page rest on the A/A noise as the claims do.
    claimed = {claim.name: claim.figure for claim in claims}
    assert "experiment.head over base.ratio" in drawn
    assert {name: looks[-1] for name, looks in drawn.items()} == {
        name: claimed[name] for name in drawn
    }
    assert verify(answer.run).is_verified


def test_the_workflow_is_whole(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["gate", "--workflow"]) == 0
    text = capsys.readouterr().out
    data = yaml.safe_load(text)
    steps = data["jobs"]["gate"]["steps"]
    assert data["permissions"] == {"contents": "read", "pull-requests": "write"}
    script = next(step["run"] for step in steps if step.get("id") == "gate")
    given = {word for word in script.split() if word.startswith("--")}
    known = {
        option
        for parameter in program(["gate"]).commands["gate"].params
        for option in parameter.opts
    }
    assert {"--build", "--serve", "--workload", "--margin", "--budget", "--json"} <= given & known
    assert any("gh pr comment" in step.get("run", "") for step in steps)
    # Titles and branch names of strangers reach no shell: expressions stand in env alone.
    assert not any("${{" in step.get("run", "") for step in steps)
