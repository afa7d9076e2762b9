"""Promotions over real servers and agents: what is proven stays, everything else is undone."""

from __future__ import annotations

import json
import subprocess
from functools import partial
from pathlib import Path

import pytest
from fleet_processes import CHANGED, START, promote, servers, workload
from injection import run_command, servers_of
from knob_engine import KnobEngine

from assay.errors import InputError
from assay.improve.engines import process
from assay.improve.fleet.agent import Agent
from assay.improve.fleet.lines import LineReader
from assay.improve.fleet.settings import PromotionSettings
from assay.improve.journal import journal, run_folder
from assay.improve.journal.journaled_engine import JournaledEngine
from assay.improve.journal.run_folder import RunFolder
from assay.improve.loop.progress import Silent
from assay.load.workloads.workload import ServiceLevel
from assay.report.verify import verify
from assay.runs.fleet import FleetOptions, changes_of


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_SCRATCH", str(tmp_path / "scratch"))
    monkeypatch.setattr("assay.runs.fleet.LEAST_WINDOW_S", 0.3)
    monkeypatch.setattr("assay.runs.fleet.MOST_WINDOW_S", 0.6)


def faults(folder: Path, port: int, **by_knob: dict[str, str]) -> None:
    (folder / str(port) / "faults.json").write_text(json.dumps(by_knob))


# Slow: on busy cores windows of a real server may not show a gain. What promotes is tested on the
# simulated fleet (test_promotion.py).
@pytest.mark.slow
def test_a_gain_is_promoted_and_rolled_back(tmp_path: Path) -> None:
    with servers(tmp_path, 4) as fleet:
        outcome = promote(fleet.options(), ServiceLevel(ttft_ms=5000.0))
        assert (outcome.verdict, outcome.problem) == ("promoted", None), outcome.reason
        assert fleet.settings() == [CHANGED] * 4
        assert outcome.ratio is not None
        assert outcome.ratio.lo > 1.0
        assert outcome.out == 1
        for run, state in outcome.replicas.values():
            assert state == "with the change"
            reading = journal.verify(Path(run))
            kinds = [record.kind for record in reading.records]
            # The inverse is on the node before the change is made.
            for record in reading.of("intend"):
                assert record.data["inverse"] in ({"threads": 1}, {"threads": 4})
                assert "applied" in kinds[record.number :]
            assert reading.last("finished") is not None
        assert run_folder.find("latest").path == outcome.run
        report = (outcome.run / "report.md").read_text()
        assert "Promotion of threads 4: promoted" in report
        assert journal.verify(outcome.run).is_finished
        assert verify(outcome.run).is_verified, verify(outcome.run).failures
        (outcome.run / "report.md").write_text(report.replace("promoted", "undecided"))
        assert [check.name for check in verify(outcome.run).failures] == ["report.md"]
        # Without the controller: each node by its own journal.
        run_command(tmp_path, "rollback", Path(outcome.replicas[fleet.urls[0]].run).name)
        assert fleet.settings() == [START, CHANGED, CHANGED, CHANGED]
        assert run_command(tmp_path, "report", "latest") == (outcome.run / "report.md").read_text()
        said = run_command(tmp_path, "rollback", outcome.run.name)
        assert "4 of 4 replicas as before the promotion" in said
        assert fleet.settings() == [START] * 4


@pytest.mark.slow
def test_a_change_that_does_nothing_is_undone(tmp_path: Path) -> None:
    with servers(tmp_path, 2) as fleet:
        outcome = promote(fleet.options(changes=("batch=16",), budget_s=8.0))
        assert outcome.verdict in ("undecided", "regressed")
        assert fleet.settings() == [START] * 2


def test_unreachable(tmp_path: Path) -> None:
    with servers(tmp_path, 2) as fleet:
        gone = "http://127.0.0.1:9"
        outcome = promote(fleet.options(urls=[*fleet.urls, gone]))
        assert outcome.problem is not None
        assert outcome.problem.exit_code == 2
        assert outcome.problem.message.startswith(f"{gone}: expected a server that answers")
        assert outcome.verdict == "refused"
        assert fleet.settings() == [START] * 2


def test_unequal(tmp_path: Path) -> None:
    with servers(tmp_path, 1) as first, servers(tmp_path, 1) as second:
        # Somebody gave the second one other settings.
        command = first.restart.replace("{port}", str(second.ports[0]))
        identified = process.identify(servers_of(tmp_path / str(second.ports[0]))[0])
        assert identified is not None
        process.stop(identified)
        other = subprocess.Popen(
            command.replace("{settings}", "--batch 16").split(), start_new_session=True
        )
        assert process.wait_until(lambda: second.settings()[0] is not None, 60.0)
        outcome = promote(first.options(urls=[*first.urls, *second.urls]))
        assert outcome.problem is not None
        assert outcome.problem.exit_code == 2
        assert f"{second.urls[0]}: batch: expected 8 as at {first.urls[0]}, got 16" == (
            outcome.problem.message
        )
        assert first.settings() == [START]
        other.kill()
        other.wait()


def test_failing_already(tmp_path: Path) -> None:
    with servers(tmp_path, 2) as fleet:
        outcome = promote(fleet.options(), ServiceLevel(ttft_ms=0.001))
        assert outcome.problem is not None
        assert outcome.problem.exit_code == 2
        assert "expected 99.0% of requests within the SLO, got 0.0%" in outcome.problem.message
        assert outcome.verdict == "refused"
        assert fleet.settings() == [START] * 2


# Slow: within the 3 s a server that is well has to start too.
@pytest.mark.slow
def test_a_restart_that_never_answers(tmp_path: Path) -> None:
    adapter = tmp_path / "impatient.yaml"
    with servers(tmp_path, 2) as fleet:
        original = Path(fleet.options().adapter or "").read_text()
        adapter.write_text(original.replace("start_timeout_s: 60", "start_timeout_s: 3"))
        for port in fleet.ports:
            faults(tmp_path, port, threads={"4": "hang-start"})
        outcome = promote(fleet.options(adapter=str(adapter)))
        assert outcome.problem is not None
        assert outcome.problem.exit_code == 5
        assert "server (timeout): not healthy 3 s after its start" in outcome.problem.message
        assert any(outcome.problem.message.startswith(url) for url in fleet.urls)
        assert fleet.settings() == [START] * 2


def test_an_engine_that_lies(tmp_path: Path) -> None:
    with servers(tmp_path, 2) as fleet:
        for port in fleet.ports:
            faults(tmp_path, port, threads={"4": "lies"})
        outcome = promote(fleet.options())
        assert outcome.problem is not None
        assert outcome.problem.exit_code == 5
        message = outcome.problem.message
        assert "threads: expected 4 after the restart, the engine states 1" in message
        assert fleet.settings() == [START] * 2
        for run, _ in outcome.replicas.values():
            assert journal.verify(RunFolder(Path(run)).path).is_finished


def test_bad_options(tmp_path: Path) -> None:
    with servers(tmp_path, 2) as fleet:
        with pytest.raises(InputError, match="expected each address once"):
            promote(fleet.options(urls=[fleet.urls[0]] * 2))
        with pytest.raises(InputError, match=r"expected --promote RUN or --change .* got neither"):
            promote(fleet.options(changes=()))
        outcome = promote(fleet.options(changes=("thread=2",)))
        assert outcome.problem is not None
        assert "expected a knob thread, got none of that name" in outcome.problem.message
        outcome = promote(fleet.options(changes=("threads=1",)))
        assert outcome.problem is not None
        assert "threads: expected another value than that of now, got 1" in outcome.problem.message


@pytest.mark.slow
def test_a_faster_change_that_answers_otherwise_goes_back(tmp_path: Path) -> None:
    with servers(tmp_path, 2) as fleet:
        for port in fleet.ports:
            faults(tmp_path, port, threads={"4": "wrong"})
        outcome = promote(fleet.options())
        assert outcome.verdict == "regressed"
        assert outcome.reason.startswith("answers changed: ")
        assert outcome.problem is not None
        assert outcome.problem.exit_code == 5
        assert fleet.settings() == [START] * 2


def test_what_a_run_kept_is_promoted(tmp_path: Path) -> None:
    run = run_folder.create("tuned")
    options = FleetOptions(urls=(), restart=None, promote=run.id, budget_s=60.0)
    with journal.Journal.create(run.path) as writing:
        for settings in ({"threads": 1, "batch": 8}, {"threads": 2, "batch": 8}):
            writing.append("safe", settings=settings, hash="", why="", on_death="stop", server=None)
        writing.append("finished", verdict="undecided")
        with pytest.raises(InputError, match="expected a run that improved its engine"):
            changes_of(options)
        writing.append("finished", verdict="improved")
    assert changes_of(options) == {"threads": 2}


# Slow: short windows on busy cores turn bad before the watch begins; the watch alone is
# tested on the simulated fleet (test_promotion.py).
@pytest.mark.slow
def test_a_kept_change_that_turns_bad_is_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = partial(PromotionSettings, alpha=0.3, baseline_rounds=2)
    monkeypatch.setattr("assay.runs.fleet.PromotionSettings", quick)
    with servers(tmp_path, 2) as fleet:

        class Slowing(Silent):
            """Slows the change down when the watch begins."""

            def phase(self, title: str, seconds: float) -> None:
                if title == "watch":
                    assert fleet.settings() == [CHANGED] * 2
                    for port in fleet.ports:
                        (tmp_path / str(port) / "slow").touch()

        options = fleet.options(watch=True, watch_s=100.0, max_out=2)
        outcome = promote(options, progress=Slowing())
        assert outcome.verdict == "regressed", outcome.reason
        assert "to the start by window" in outcome.reason
        assert outcome.problem is not None
        assert outcome.problem.exit_code == 5
        assert fleet.settings() == [START] * 2
        assert {end.state for end in outcome.replicas.values()} == {"as at the start"}


def test_an_agent_that_waits_tells_its_watchdog_that_it_lives(tmp_path: Path) -> None:
    beats: list[float] = []
    run = run_folder.create("waiting")
    with journal.Journal.create(run.path) as writing:
        own = JournaledEngine(KnobEngine(), writing, run, beats.append)
        agent = Agent(LineReader(0), 1)
        for _ in range(3):
            agent._do(own, workload(), {}, {"do": "beat"})
    assert len(beats) == 3
