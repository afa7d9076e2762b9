"""`--on` and `assay jobs`: what is submitted, what comes back, and what is refused."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from fake_ray import FakeHead, envelope_of, files_of

from assay.cluster import current, jobs, ray_library

PRESET = ("--preset", "dense_training_cost_fixture")
SWEEP = ("sweep", "thermal.dc.pue", "--over", "cluster.nodes=1,2 node", *PRESET)
ON = ("--on", "http://head:8265")


@pytest.fixture
def head(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeHead:
    monkeypatch.setenv("ASSAY_SCRATCH", str(tmp_path / "scratch"))
    head = FakeHead()
    monkeypatch.setattr(jobs, "ray_module", head.module)
    return head


def test_a_command_is_submitted_and_its_answer_printed(cli: Any, head: FakeHead) -> None:
    outcome = cli(*SWEEP, "--json", *ON)
    assert (outcome.code, outcome.out) == (0, "3 USD\n")
    assert "note: a thing to know\n" in outcome.err
    envelope = envelope_of(head)
    # The words of the command, without --on; equal to what was given.
    words = ["sweep", "thermal.dc.pue", "--over", "cluster.nodes=1,2 node", *PRESET, "--json"]
    assert envelope.arguments == words
    (name,) = head.jobs
    assert envelope.id == name
    assert head.jobs[name]["entrypoint"] == "python -m assay.cli.job_driver"
    listed = cli("jobs", "list", "--json").data
    assert [job["id"] for job in listed["jobs"]] == [name]
    assert cli("jobs", "status", name[:15], "--json").data["status"] == "succeeded"
    assert cli("jobs", "logs", name).out == "note: a thing to know\n1 of 2 parts\n"


def test_the_exit_code_is_that_of_the_command(cli: Any, head: FakeHead) -> None:
    head.status, head.exit_code, head.log = "FAILED", 1, "error: violated\nhint: see\n"
    outcome = cli(*SWEEP, *ON)
    assert (outcome.code, outcome.out) == (1, "3 USD\n")
    assert outcome.err.endswith("error: violated\nhint: see\n")


def test_files_that_are_named_travel(cli: Any, head: FakeHead, tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text("{}")
    assert cli(*SWEEP, "--model-config", str(config), *ON).code == 0
    name, marker = files_of(head)
    assert name.endswith("-config.json")
    assert marker == "assay-job.txt"
    assert envelope_of(head).arguments[-1] == name
    (job,) = head.jobs.values()
    known = json.loads(job["runtime_env"]["env_vars"]["ASSAY_JOB_FILES"])
    assert sorted(known) == [name, marker]
    assert known[name] == hashlib.sha256(b"{}").hexdigest()


def test_a_head_that_has_forgotten_a_job_gets_it_again(cli: Any, head: FakeHead) -> None:
    cli(*SWEEP, *ON)
    (name,) = head.jobs
    before = envelope_of(head)
    head.forget()
    outcome = cli("jobs", "attach", name)
    assert (outcome.code, outcome.out) == (0, "3 USD\n")
    assert f"note: job {name} is not known at http://head:8265, and was submitted again" in (
        outcome.err
    )
    assert envelope_of(head) == before


def test_a_head_that_fails_to_answer_now_and_then_is_asked_again(
    cli: Any, head: FakeHead, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs.time, "sleep", lambda seconds: None)  # type: ignore[attr-defined]
    head.failures = 2
    outcome = cli(*SWEEP, *ON)
    assert (outcome.code, outcome.out) == (0, "3 USD\n")
    monkeypatch.setattr(jobs, "_PATIENCE_S", -1.0)
    head.failures = 1
    (name,) = head.jobs
    outcome = cli("jobs", "attach", name)
    assert outcome.code == 2
    assert "hint: a head that was lost and is back goes on by: assay jobs attach ID" in outcome.err


def test_cancel(cli: Any, head: FakeHead) -> None:
    cli(*SWEEP, *ON)
    (name,) = head.jobs
    assert cli("jobs", "cancel", name, "--json").data["status"] == "stopped"
    head.answer = b""
    outcome = cli("jobs", "attach", name)
    assert (outcome.code, outcome.out) == (2, "")
    assert f"error: job {name} was cancelled" in outcome.err


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            {"is_reachable": False},
            "error: http://head:8265: expected the head of a Ray cluster, got: Failed to connect to "
            "Ray at address: http://head:8265.\nhint: is Ray running there? ray start --head",
        ),
        (
            {"version": "2.9.1"},
            "error: http://head:8265: expected Ray 2.60.0, as here, got 2.9.1\nhint: install",
        ),
        (
            {"answer": b"", "status": "FAILED", "exit_code": 1, "log": "",
             "message": "python: No module named assay"},
            "the head of the cluster cannot run Assay: python: No module named assay\nhint: start "
            "Ray on every node in an environment that has assay[fleet]",
        ),
        (
            {"answer": b"", "status": "FAILED", "exit_code": 2,
             "log": "error: the head of the cluster: expected Assay with sources abc\nhint: install "
             "the same release of Assay on the head, on every node, and here\n"},
            "error: the head of the cluster: expected Assay with sources abc\nhint: install",
        ),
    ],
)  # fmt: skip
def test_what_a_cluster_refuses(
    cli: Any, head: FakeHead, change: dict[str, Any], expected: str
) -> None:
    for name, value in change.items():
        setattr(head, name, value)
    outcome = cli(*SWEEP, *ON)
    assert (outcome.code, outcome.out) == (2, "")
    assert expected in outcome.err
    assert outcome.err.count("error:") == 1


def test_an_unknown_job(cli: Any, head: FakeHead) -> None:
    cli(*SWEEP, *ON)
    outcome = cli("jobs", "status", "20200101-000000-sweep-beef", *ON)
    assert (outcome.code, outcome.out) == (2, "")
    assert 'error: unknown job "20200101-000000-sweep-beef"\nhint: ' in outcome.err
    other = cli("jobs", "attach", "nonsense")
    assert other.code == 2
    assert "job nonsense: expected --on http://HEAD:8265" in other.err


def test_bad_addresses(cli: Any, head: FakeHead) -> None:
    outcome = cli(*SWEEP, "--on", "ray://head:10001")
    assert outcome.code == 2
    assert "error: --on: expected http://HEAD:8265, got 'ray://head:10001'\nhint: " in outcome.err
    run = cli("run", *ON)
    assert run.code == 2
    assert "error: --on: expected it with --replicas URL,URL,..., got it without" in run.err


def test_without_ray(cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> None:
        raise ModuleNotFoundError(f"No module named {name!r}", name="ray")

    monkeypatch.setattr(ray_library, "import_module", absent)
    outcome = cli(*SWEEP, *ON)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.endswith(
        "error: a cluster: expected the package ray[default], got no module ray\n"
        "hint: pip install 'assay[fleet]'\n"
    )


def test_a_job_does_not_submit_itself(
    cli: Any, head: FakeHead, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(current, "_of_the_job", current.ThisProcess())
    assert "error: unknown run" in cli("rollback", "nonsense", *ON).err
    assert head.jobs == {}


@pytest.mark.parametrize("count", ["0", "-1"])
def test_workers_are_one_or_more(cli: Any, count: str) -> None:
    outcome = cli(*SWEEP, "--summary", "--workers", count)
    assert outcome.code == 2
    assert outcome.err == f"error: --workers: expected 1 or more, got {count}\n"


def test_workers_need_points_to_share(cli: Any) -> None:
    outcome = cli(*SWEEP, "--workers", "2")
    assert outcome.code == 2
    assert "error: --workers: expected it with --summary, got it without" in outcome.err
