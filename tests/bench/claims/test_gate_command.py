"""`assay bench gate`, `compare`, `reproduce`, `table` over suites of known speed."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import assay.workloads.registry as workload_registry
from assay import bench
from assay.bench.harness.case import Absent, Case, Check, PreparedCase, Settings, Subject, Suite
from assay.bench.harness.clocks import SelfTimedClock
from assay.cli.app import run
from assay.load.workloads.measurement import Setting
from assay.runtime.hardware import Device
from assay.workloads.contract import Arrays, DataSet, Program
from running_sums import RunningSums, SummingProgram

CLAIM = """
name = "thing"
about = "a thing of known speed"
suite = "graph"
unit = "byte"
metric = "GB/s"
[data]
generator = "graph"
seeds = [4, 5, 6]
[gates]
[[gates.target]]
over = "NumPy"
at_least = 1.5
"""


class Outcome:
    """What a command printed, and its exit code."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def gates(self) -> dict[str, str]:
        """The verdict of each gate."""
        return {line["gate"]: line["verdict"] for line in json.loads(self.out)["gates"]}


@pytest.fixture
def cli(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[..., Outcome]:
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.chdir(tmp_path)

    def call(*words: str) -> Outcome:
        capsys.readouterr()
        code = run(["bench", *words])
        return Outcome(code, *capsys.readouterr())

    return call


class Thing:
    """A suite with one figure, whose seconds follow a schedule of noise."""

    def __init__(self) -> None:
        self.times = 1.0
        self.rival: Subject | Absent = Subject("NumPy", lambda _: 0.2, SelfTimedClock(), 1e9)
        self.names: tuple[str, ...] = ("thing",)

    def cases(self, settings: Settings) -> list[Case]:
        noise = itertools.cycle([1.0, 1.004, 0.996, 1.002, 0.998])
        own = Subject("assay", lambda _: 0.1 * self.times * next(noise), SelfTimedClock(), 1e9)
        check = Check("the truth", lambda _: 0.0, 1e-6)
        prepared = lambda: PreparedCase(own, check, rivals=[self.rival])  # noqa: E731
        return [Case(name, "GB/s", prepared, rounds=30) for name in self.names]


@pytest.fixture
def thing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Thing:
    made = Thing()
    suite = Suite("graph", made.cases, axes=(1,), seeding="inputs")
    monkeypatch.setattr(bench, "suite", lambda name: suite)
    (tmp_path / "bench.toml").write_text(CLAIM, encoding="utf-8")
    return made


def test_an_honest_result_passes_every_gate(cli: Callable[..., Outcome], thing: Thing) -> None:
    outcome = cli("gate", "bench.toml", "--save", "kept.json", "--json")
    assert (outcome.code, outcome.gates) == (
        0,
        dict.fromkeys(("check", "seeds", "spread", "saturation", "target"), "passed"),
    )
    kept = bench.load(Path("kept.json"))
    assert [part.seed for part in kept.figures[0].seeds] == [4, 5, 6]
    assert [part.rounds for part in kept.figures[0].seeds] == [10, 10, 10]
    assert kept.claim is not None
    assert kept.claim["name"] == "thing"


@pytest.mark.parametrize(
    ("times", "verdict", "code"), [(1.0, "passed", 0), (1.05, "failed", 1), (1.02, "passed", 0)]
)
def test_a_planted_slowdown_of_five_percent_fails_the_gate(
    cli: Callable[..., Outcome], thing: Thing, times: float, verdict: str, code: int
) -> None:
    cli("run", "bench.toml", "--save", "before.json")
    thing.times = times
    outcome = cli("gate", "bench.toml", "--baseline", "before.json", "--json")
    assert (outcome.gates["regression"], outcome.code) == (verdict, code)


def test_a_result_without_seeds_and_stalls_fails(cli: Callable[..., Outcome], thing: Thing) -> None:
    cli("run", "bench.toml", "--save", "kept.json")
    data = json.loads(Path("kept.json").read_text())
    # A file from before there were seals.
    del data["sha256"], data["summary"]
    for figure in data["figures"]:
        del figure["seeds"], figure["stalls"]
    Path("kept.json").write_text(json.dumps(data))
    outcome = cli("gate", "bench.toml", "--result", "kept.json", "--json")
    assert outcome.code == 1
    assert (outcome.gates["seeds"], outcome.gates["saturation"]) == ("failed", "failed")


def test_a_missed_target_fails_and_an_absent_rival_too(
    cli: Callable[..., Outcome], thing: Thing
) -> None:
    thing.times = 2.0
    assert cli("gate", "bench.toml", "--json").gates["target"] == "failed"
    thing.rival = Absent("NumPy", "not installed")
    outcome = cli("gate", "bench.toml")
    assert outcome.code == 1
    assert "NumPy: not installed" in outcome.out
    best = CLAIM.replace('over = "NumPy"', 'over = "best rival"')
    Path("bench.toml").write_text(best)
    (line,) = [line for line in json.loads(cli("gate", "bench.toml", "--json").out)["gates"]
               if line["gate"] == "target"]  # fmt: skip
    assert line["reason"] == "best rival: none was measured: NumPy not installed"


def test_a_required_rival_that_is_absent_is_one_line_and_exit_two(
    cli: Callable[..., Outcome], thing: Thing
) -> None:
    thing.rival = Absent("NumPy", "not installed")
    text = CLAIM.replace("[gates]", '[rivals]\nrequired = ["NumPy"]\n[gates]', 1)
    Path("bench.toml").write_text(text)
    outcome = cli("run", "bench.toml")
    assert outcome.code == 2
    assert "thing: expected the rival NumPy, got none: not installed" in outcome.err
    assert "hint: install it" in outcome.err


def test_reproducing_tells_within_from_outside(cli: Callable[..., Outcome], thing: Thing) -> None:
    cli("run", "bench.toml", "--save", "kept.json")
    again = cli("reproduce", "kept.json", "--json")
    assert again.code == 0
    (figure,) = json.loads(again.out)["figures"]
    assert figure["verdict"] == "within its spread"
    thing.times = 1.2
    outside = cli("reproduce", "kept.json", "--json")
    assert (outside.code, json.loads(outside.out)["figures"][0]["verdict"]) == (1, "outside")


def test_another_machine_is_said_and_judged_by_the_rival(
    cli: Callable[..., Outcome], thing: Thing
) -> None:
    cli("run", "bench.toml", "--save", "kept.json")
    data = json.loads(Path("kept.json").read_text())
    del data["sha256"]
    data["machine"] |= {"fingerprint": "0123456789abcdef", "processor": "Another CPU"}
    Path("kept.json").write_text(json.dumps(data))
    outcome = cli("reproduce", "kept.json")
    assert outcome.code == 0
    assert "another machine" in outcome.out
    assert "Another CPU" in outcome.out
    thing.rival = Absent("NumPy", "not installed")
    alone = cli("reproduce", "kept.json")
    assert alone.code == 3
    assert "another machine" in alone.out


@pytest.mark.parametrize(
    "words",
    [
        ("gate", "bench.toml", "--result", "kept.json"),
        ("table", "kept.json"),
        ("compare", "kept.json", "kept.json"),
        ("reproduce", "kept.json"),
        ("run", "bench.toml", "--compare", "kept.json"),
    ],
)
def test_an_edited_result_is_refused_and_one_without_a_hash_is_named(
    cli: Callable[..., Outcome], thing: Thing, words: tuple[str, ...]
) -> None:
    cli("run", "bench.toml", "--save", "kept.json")
    text = Path("kept.json").read_text()
    assert "not sealed" not in cli(*words).err
    data = json.loads(text)
    data["figures"][0]["own"]["rounds"][0] *= 2
    Path("kept.json").write_text(json.dumps(data))
    edited = cli(*words)
    assert edited.code == 2
    assert (
        "kept.json was changed after it was written: expected the content of sha256" in edited.err
    )
    del data["sha256"]
    Path("kept.json").write_text(json.dumps(data))
    unsealed = cli(*words)
    if words[0] == "gate":
        assert (unsealed.code, "kept.json: expected the sha256 of its content" in unsealed.err) == (
            2,
            True,
        )
        del data["summary"]
        Path("kept.json").write_text(json.dumps(data))
        unsealed = cli(*words)
    assert unsealed.err.count("not sealed: kept.json") == 1


@pytest.mark.parametrize(
    "words",
    [
        ("gate", "bench.toml", "--baseline", "kept.json"),
        ("compare", "whole.json", "kept.json", "--fail-on-regression"),
        ("run", "bench.toml", "--compare", "kept.json", "--fail-on-regression"),
    ],
)
def test_nothing_is_held_against_a_result_whose_hash_was_cut_out(
    cli: Callable[..., Outcome], thing: Thing, words: tuple[str, ...]
) -> None:
    cli("run", "bench.toml", "--save", "whole.json")
    data = json.loads(Path("whole.json").read_text())
    del data["sha256"]
    Path("kept.json").write_text(json.dumps(data))
    outcome = cli(*words)
    assert (outcome.code, "kept.json: expected the sha256 of its content" in outcome.err) == (
        2,
        True,
    )


def test_a_result_of_other_options_than_the_claims_is_not_judged(
    cli: Callable[..., Outcome], thing: Thing
) -> None:
    judge = ("gate", "bench.toml", "--result", "kept.json")
    cli("run", "bench.toml", "--case", "thing", "--save", "kept.json")
    part = cli(*judge)
    assert (part.code, part.out) == (2, "")
    assert "the claim thing: cases: expected what was measured, ['thing'], got []" in part.err
    cli("run", "bench.toml", "--sizes", "512", "--save", "kept.json")
    sized = cli(*judge)
    assert (sized.code, "the claim thing: sizes: expected what was measured, 512" in sized.err) == (
        2,
        True,
    )
    cli("run", "bench.toml", "--save", "kept.json")
    assert cli(*judge).code == 0
    Path("bench.toml").write_text(CLAIM.replace("[4, 5, 6]", "[4, 5, 7]"))
    other = cli(*judge)
    assert (other.code, "bench.toml: data: expected what was measured" in other.err) == (2, True)


def test_a_reproduction_of_a_claims_result_is_judged_as_its_result(
    cli: Callable[..., Outcome], thing: Thing
) -> None:
    judge = ("gate", "bench.toml", "--result", "again.json", "--json")
    Path("bench.toml").write_text(f"{CLAIM}[run]\nwarm_up = 2\n")
    cli("run", "bench.toml", "--save", "kept.json")
    assert cli("reproduce", "kept.json", "--save", "again.json").code == 0
    kept, again = (bench.load(Path(file)) for file in ("kept.json", "again.json"))
    assert (again.options, again.claim) == (kept.options, kept.claim)
    judged = cli(*judge)
    assert (judged.code, set(judged.gates.values())) == (0, {"passed"})
    # And again, of the reproduction.
    cli("reproduce", "again.json", "--save", "again.json")
    assert cli(*judge).code == 0
    Path("bench.toml").write_text(CLAIM.replace("[4, 5, 6]", "[4, 5, 7]"))
    other = cli(*judge)
    assert (other.code, "bench.toml: data: expected what was measured" in other.err) == (2, True)


def test_a_reproduction_of_something_else_is_not_judged(
    cli: Callable[..., Outcome], thing: Thing
) -> None:
    judge = ("gate", "bench.toml", "--result", "again.json")
    cli("run", "bench.toml", "--save", "kept.json")
    cli("reproduce", "kept.json", "--sizes", "512", "--save", "again.json")
    sized = cli(*judge)
    assert sized.code == 2
    assert "the claim thing: sizes: expected what was measured, 512, got None" in sized.err
    thing.names = ("thing", "other")
    cli("run", "bench.toml", "--save", "kept.json")
    cli("reproduce", "kept.json", "--case", "other", "--save", "again.json")
    part = cli(*judge)
    assert part.code == 2
    assert "the claim thing: cases: expected what was measured, ['other'], got []" in part.err
    # Of a result that lacks a case, since its run was ended early.
    thing.names = ("thing",)
    cli("run", "bench.toml", "--save", "kept.json")
    thing.names = ("thing", "other")
    cli("reproduce", "kept.json", "--save", "again.json")
    assert "cases: expected what was measured, ['thing'], got []" in cli(*judge).err


def test_a_result_of_other_seeds_or_another_device_is_not_judged(
    cli: Callable[..., Outcome], thing: Thing
) -> None:
    judge = ("gate", "bench.toml", "--result", "kept.json")
    # Two of three seeds may be the two that pass.
    for seeds in ("1", "2"):
        cli("run", "bench.toml", "--seeds", seeds, "--save", "kept.json")
        fewer = cli(*judge)
        assert fewer.code == 2
        assert "the claim thing: seeds: expected all of [4, 5, 6]" in fewer.err
    cli("run", "bench.toml", "--seeds", "4", "--save", "kept.json")
    assert cli(*judge).code == 0
    cli("run", "bench.toml", "--save", "kept.json")
    data = json.loads(Path("kept.json").read_text())
    data["options"]["device"] = "cuda:0"
    del data["sha256"], data["summary"]
    Path("kept.json").write_text(json.dumps(data))
    # A claim that says no device is one of every device.
    assert cli(*judge).code == 0
    Path("bench.toml").write_text(f'{CLAIM}[run]\ndevice = "cpu"\n')
    other = cli(*judge)
    assert other.code == 2
    assert "the claim thing: device: expected cpu, got a result of cuda:0" in other.err


def test_results_are_compared_and_printed_as_tables(
    cli: Callable[..., Outcome], thing: Thing
) -> None:
    cli("run", "bench.toml", "--save", "then.json")
    thing.times = 1.25
    cli("run", "bench.toml", "--save", "now.json")
    outcome = cli("compare", "now.json", "then.json", "--fail-on-regression")
    assert outcome.code == 1
    assert "regressed 0.80" in outcome.out
    table = cli("table", "now.json", "then.json").out
    assert table.count("## assay bench graph") == 2
    assert table.count("| thing |") == 2


class Lazy(SummingProgram):
    """Computes when outputs are read, so that nothing is timed."""

    def run(self) -> Mapping[str, float]:
        return {}

    def outputs(self) -> Arrays:
        return {"sums": np.cumsum(self.values)} if self.sums[0] == -1 else super().outputs()


class Remembering(SummingProgram):
    """Keeps the outputs of every data set that it has seen, and takes its time for new ones."""

    def __init__(self, data: DataSet, how: str = "vector") -> None:
        super().__init__(data, how)
        self.kept: dict[bytes, Any] = {}

    def run(self) -> Mapping[str, float]:
        key = self.values[:8].tobytes()
        if key not in self.kept:
            for _ in range(400):
                self.kept[key] = np.cumsum(np.sort(self.values) * 0 + self.values)
        np.copyto(self.sums, self.kept[key])
        return {}


class Faking(RunningSums):
    """A workload whose program is one that fakes its work."""

    def __init__(self, program: type[SummingProgram]) -> None:
        self.program = program

    def prepare(self, data: DataSet, device: Device, settings: Mapping[str, Setting]) -> Program:
        return self.program(data)


@pytest.mark.parametrize(
    ("program", "complaint"),
    [
        (Lazy, "outputs are right before the run"),
        (Remembering, "times as fast on data that were seen before: outputs are kept"),
    ],
)
def test_a_harness_that_fakes_its_work_fails_the_gate(
    cli: Callable[..., Outcome],
    monkeypatch: pytest.MonkeyPatch,
    program: type[SummingProgram],
    complaint: str,
) -> None:
    monkeypatch.setattr(
        "assay.bench.suites.array_workload.workload_named", lambda _: Faking(program)
    )
    monkeypatch.setitem(workload_registry.WORKLOADS, "running-sums", "running_sums")
    outcome = cli("gate", "running-sums", "--quick")
    assert outcome.code == 1
    assert complaint in " ".join(outcome.out.split())


def test_a_claim_that_judges_no_speed_says_so(cli: Callable[..., Outcome], thing: Thing) -> None:
    note = "no speed is judged"
    assert note not in cli("gate", "bench.toml").err
    Path("bench.toml").write_text(CLAIM.partition("[gates]")[0])
    assert note in cli("gate", "bench.toml", "--save", "kept.json").err
    assert note not in cli("gate", "bench.toml", "--baseline", "kept.json").err


def test_what_is_undecided_is_measured_longer(cli: Callable[..., Outcome], thing: Thing) -> None:
    Path("bench.toml").write_text(CLAIM.replace("at_least = 1.5", "at_least = 2.0"))
    outcome = cli("gate", "bench.toml", "--seconds", "0.5", "--save", "kept.json")
    assert outcome.code == 3
    assert "hint: assay bench gate bench.toml --seconds 2 measures four times as" in outcome.err
    saved = cli("gate", "bench.toml", "--result", "kept.json")
    assert "hint: assay bench run bench.toml --seconds 2 --save FILE measures" in saved.err


def test_a_result_that_was_measured_shorter_than_the_claim_says_is_not_judged(
    cli: Callable[..., Outcome], thing: Thing
) -> None:
    judge = ("gate", "bench.toml", "--result", "kept.json")
    cli("run", "bench.toml", "--save", "kept.json")
    Path("bench.toml").write_text(f"{CLAIM}[run]\nseconds = 4\n")
    usual = cli(*judge)
    assert usual.code == 2
    assert "seconds: expected at least 4, got a result of the usual" in usual.err
    for seconds, code in (("3", 2), ("4", 0), ("5", 0)):
        cli("run", "bench.toml", "--seconds", seconds, "--save", "kept.json")
        assert cli(*judge).code == code
    cli("reproduce", "kept.json", "--save", "again.json")
    again = bench.load(Path("again.json"))
    assert again.options is not None
    assert again.options["seconds"] == 5


def test_hints_name_a_claim_as_it_was_typed(cli: Callable[..., Outcome], thing: Thing) -> None:
    Path("own").mkdir()
    Path("own/bench.toml").write_text(CLAIM.replace('"thing"', '"inner"'))
    cli("run", "own", "--save", "kept.json")
    Path("own/bench.toml").write_text(CLAIM.replace('"thing"', '"inner"').replace("6]", "7]"))
    other = cli("gate", "own", "--result", "kept.json")
    assert "data: expected what was measured, seeds = [4, 5, 6], got seeds = [4, 5, 7]" in other.err
    assert "hint: assay bench run own --save FILE measures the claim as it is now" in other.err


def test_a_reproduction_leads_with_what_is_not_the_same(
    cli: Callable[..., Outcome], thing: Thing
) -> None:
    cli("run", "bench.toml", "--save", "kept.json")
    data = json.loads(Path("kept.json").read_text())
    del data["sha256"]
    data["commit"], data["other_cores"] = "0123456789ab", 1e3
    Path("kept.json").write_text(json.dumps(data))
    lines = cli("reproduce", "kept.json").out.splitlines()
    assert lines[0].startswith("Assay's commit: 0123456789ab then, ")
    assert any("the machine was busy with other work then" in line for line in lines)
    (first, *_) = json.loads(cli("reproduce", "kept.json", "--json").out)["differences"]
    assert first == lines[0]


def test_a_reproduction_whose_rival_moved_is_undecided(
    cli: Callable[..., Outcome], thing: Thing
) -> None:
    cli("run", "bench.toml", "--save", "kept.json")
    thing.rival = Subject("NumPy", lambda _: 0.6, SelfTimedClock(), 1e9)
    outcome = cli("reproduce", "kept.json", "--json")
    assert outcome.code == 3
    (figure,) = json.loads(outcome.out)["figures"]
    assert figure["verdict"] == "undecided"
    assert figure["doubt"].startswith("by value within its spread: ")


def test_a_regression_by_ratio_alone_is_exit_code_three(
    cli: Callable[..., Outcome], thing: Thing
) -> None:
    cli("run", "bench.toml", "--save", "then.json")
    thing.rival = Subject("NumPy", lambda _: 0.06, SelfTimedClock(), 1e9)
    cli("run", "bench.toml", "--save", "now.json")
    outcome = cli("compare", "now.json", "then.json", "--fail-on-regression")
    assert outcome.code == 3
    assert "undecided: value and ratio contradict each other: thing" in outcome.err
    assert "NumPy was 3.33 times as fast as then" in " ".join(outcome.out.split())
