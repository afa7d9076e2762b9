"""Workloads on arrays as suites, and programs that fake their work."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar, cast

import numpy as np
import pytest

import assay.workloads.registry as registry
from assay.bench.claims import running
from assay.bench.claims.claim import Claim, ClaimData
from assay.bench.harness import runner
from assay.bench.harness.case import Absent, Settings
from assay.bench.harness.program_check import TELLING_S, ProgramCheck
from assay.bench.harness.seeding import FIRST_UNSEEN, seeded
from assay.bench.suites.array_workload import suite_for
from assay.bench.suites.registry import suite
from assay.errors import InputError
from assay.load.workloads.measurement import Setting
from assay.runtime.hardware import Device
from assay.workloads.contract import Arrays, DataSet, Program, Sizes, Verified, WorkloadSetting
from running_sums import RunningSums, SummingProgram

SIZE = 50


class Zeroed(SummingProgram):
    """Writes zeros."""

    def run(self) -> Mapping[str, float]:
        self.sums.fill(0)
        return {}


class Nothing(SummingProgram):
    """Does not run."""

    def run(self) -> Mapping[str, float]:
        return {}


class Cached(SummingProgram):
    """Keeps the outputs of the data that it was prepared with."""

    def __init__(self, data: DataSet, how: str = "vector") -> None:
        super().__init__(data, how)
        self.kept = np.cumsum(self.values)

    def run(self) -> Mapping[str, float]:
        np.copyto(self.sums, self.kept)
        return {}


class Unpoisoned(SummingProgram):
    """Computes while data are loaded, and keeps outputs from being poisoned."""

    def load(self, data: DataSet) -> None:
        super().load(data)
        np.cumsum(self.values, out=self.sums)

    def run(self) -> Mapping[str, float]:
        return {}

    def poison(self) -> None:
        pass


class Inflated(RunningSums):
    """Says that there are ten times as many units."""

    def generate(self, seed: int, size: int) -> DataSet:
        return DataSet(super().generate(seed, size).arrays, 10 * size)


class CopiedFromRival(SummingProgram):
    """Copies what the rival wrote last."""

    last: ClassVar[Arrays] = {"sums": np.zeros(SIZE, np.int64)}

    def run(self) -> Mapping[str, float]:
        np.copyto(self.sums, self.last["sums"])
        return {}


@pytest.mark.parametrize(
    ("program", "workload", "complaint"),
    [
        (Zeroed, RunningSums(), "outputs differ from itertools.accumulate on data not seen before"),
        (Nothing, RunningSums(), "outputs differ"),
        (Cached, RunningSums(), "outputs differ"),
        (CopiedFromRival, RunningSums(), "outputs differ"),
        (Unpoisoned, RunningSums(), "outputs are right before the run"),
        (SummingProgram, Inflated(), "the data hold 50 frames, not 500"),
    ],
)
def test_a_program_that_fakes_its_work_is_refused(
    program: type[SummingProgram], workload: RunningSums, complaint: str
) -> None:
    check = ProgramCheck(workload, program(workload.generate(1, SIZE)), SIZE)
    assert not check.error(0) <= check.tolerance
    assert check.complaints[0].startswith(complaint)


def test_an_honest_program_passes_on_every_check() -> None:
    workload = RunningSums()
    check = ProgramCheck(workload, SummingProgram(workload.generate(1, SIZE)), SIZE)
    assert [check.error(number) for number in range(3)] == [0.0, 0.0, 0.0]
    assert (check.complaints, check.against) == ([], "itertools.accumulate")


def test_times_below_the_floor_and_of_known_data_only_are_no_measurement() -> None:
    workload = RunningSums()
    check = ProgramCheck(workload, SummingProgram(workload.generate(1, SIZE)), SIZE)
    # As slow on data that it has not seen, however often.
    check.fresh_seconds = [0.4, 0.5, *(0.4 for _ in range(7))]
    assert not check.is_fake(0.5, None)
    assert not check.is_fake(0.5, 1.0)
    assert check.is_fake(0.3, 1.0)
    assert check.is_fake(0.05, None)
    assert [complaint.split(":")[0] for complaint in check.complaints] == [
        "faster than this machine moves its bytes",
        "8 times as fast on data that were seen before",
    ]


def test_runs_that_are_too_short_to_tell_kept_outputs_are_said_to_be() -> None:
    workload = RunningSums()
    check = ProgramCheck(workload, SummingProgram(workload.generate(1, SIZE)), SIZE)
    for fresh_s, doubts in ((0.010, 0), (0.0019, 1)):
        check.fresh_seconds = [fresh_s]
        assert not check.is_fake(fresh_s, None)
        assert len(check.doubts) == doubts
    # Ten milliseconds tell a cache whose runs take next to nothing.
    check.fresh_seconds = [TELLING_S] * 9
    assert check.is_fake(1e-4, None)


def test_every_seed_is_checked_on_data_of_its_own() -> None:
    """What was kept of the check of one seed must not be data of the next."""
    seen: list[int] = []

    class Noting(RunningSums):
        def generate(self, seed: int, size: int) -> DataSet:
            seen.append(seed)
            return super().generate(seed, size)

    workload = Noting()
    for seed in (0, 1, FIRST_UNSEEN - 1):
        with seeded(seed):
            check = ProgramCheck(workload, SummingProgram(workload.generate(seed, SIZE)), SIZE)
            check.error(0)
            check.error(1)
            check.fresh_seconds = [60.0]
            check.is_fake(1.0, None)
    assert len(seen) == len(set(seen))
    assert sum(seed < FIRST_UNSEEN for seed in seen) == 3


def test_the_seed_zero_has_data_of_its_own() -> None:
    seeds: list[int] = []

    class Noting(RunningSums):
        def generate(self, seed: int, size: int) -> DataSet:
            seeds.append(seed)
            return super().generate(seed, size)

    (case,) = suite_for(Noting()).cases(Settings(Device("cpu"), quick=True))
    for seed in (0, 1):
        with seeded(seed):
            case.prepare()
    assert [seed for seed in seeds if seed < FIRST_UNSEEN] == [0, 1]


def test_sizes_and_knobs_are_those_of_the_cases_of_a_gpu(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class OfGpus(RunningSums):
        case = "of GPUs"
        sizes = Sizes(7, 7)

        def settings(self, device: Device) -> tuple[WorkloadSetting, ...]:
            return ()

    class Both(RunningSums):
        devices = ("cpu", "cuda")
        gpu_cases = (OfGpus(),)

    capabilities = SimpleNamespace(is_gpu=True)
    gpu = cast(Device, SimpleNamespace(name="cuda:0", capabilities=capabilities))
    every = suite_for(Both())
    assert [case.parameters["size"] for case in every.cases(Settings(gpu))] == [7]
    with pytest.raises(
        InputError, match="expected no sizes, got 9: cases on cuda:0 have their own"
    ):
        every.cases(Settings(gpu, sizes=((9,),)))
    with pytest.raises(InputError, match="expected no sizes, got 9: files of data have their own"):
        every.cases(Settings(gpu, sizes=((9,),), data=tmp_path, data_units=3))
    monkeypatch.setitem(registry.WORKLOADS, "running-sums", "running_sums")
    monkeypatch.setattr("assay.bench.claims.suites.workload_named", lambda _: Both())
    monkeypatch.setattr("assay.bench.claims.suites.bench.suite", lambda _: every)
    monkeypatch.setattr("assay.bench.harness.session.Device", lambda _: gpu)
    claim = Claim(
        "running-sums", "", "running-sums", "", "", ClaimData("running-sums", (1, 2, 3), 400)
    )
    # The size of the claim is that of its data on a CPU.
    assert running.prepare(claim, running.Asked(device="cuda:0")).settings.sizes == ()
    with pytest.raises(
        InputError, match="of GPUs: setting how: expected no settings, got 'number'"
    ):
        running.prepare(claim, running.Asked(device="cuda:0", settings={"how": "number"}))


def test_data_of_a_seed_have_one_hash_and_other_seeds_another() -> None:
    workload = RunningSums()
    hashes = [workload.generate(seed, SIZE).sha256 for seed in (1, 1, 2)]
    assert hashes[0] == hashes[1] != hashes[2]
    values = workload.generate(1, SIZE).arrays["values"]
    assert DataSet({"values": values.astype(np.int32)}, SIZE).sha256 != hashes[0]


def test_a_workload_is_a_suite_with_its_rivals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("assay.bench.suites.array_workload.workload_named", lambda _: RunningSums())
    monkeypatch.setitem(registry.WORKLOADS, "running-sums", "running_sums")
    chosen = suite("running-sums")
    (case,) = chosen.cases(Settings(Device("cpu"), quick=True))
    prepared = case.prepare()
    assert (case.name, case.unit) == ("running-sums, 1,000 frames", "frames/s")
    assert prepared.check.error(0) == 0.0
    assert prepared.own.amount == 1_000
    numpy, absent = prepared.rivals
    assert not isinstance(numpy, Absent)
    assert numpy.name == "NumPy"
    assert absent == Absent("fastsums", "not installed (pip install fastsums)")


def test_stages_are_those_of_the_rounds_without_the_first_call_that_warms_up() -> None:
    class Staged(SummingProgram):
        """A stage that says which run it was."""

        runs = 0

        def run(self) -> Mapping[str, float]:
            self.runs += 1
            return {**super().run(), "sum": float(self.runs)}

    class Stages(RunningSums):
        """Has it."""

        rivals = ()

        def prepare(
            self, data: DataSet, device: Device, settings: Mapping[str, Setting]
        ) -> Program:
            return Staged(data)

    (case,) = suite_for(Stages()).cases(Settings(Device("cpu"), quick=True))
    plan = runner.SamplingPlan(0.01, 3, 5, 1e-4, 1.0, warm_up=2)
    measured = runner.measure(case, plan, None)
    runs = measured.stages["sum"][measured.own.name]
    first = runs[0]
    assert runs == [first + number for number in range(len(measured.own.rounds))]


class Wrong(RunningSums):
    """Its own implementation and the rival's disagree with the check."""

    def prepare(self, data: DataSet, device: Device, settings: Mapping[str, Setting]) -> Program:
        return SummingProgram(data)

    def verify(self, outputs: Arrays, data: DataSet) -> Verified:
        return Verified(1.0, 0.0, "nothing", data.units)


def test_a_rival_that_computes_something_else_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("assay.bench.suites.array_workload.workload_named", lambda _: Wrong())
    monkeypatch.setitem(registry.WORKLOADS, "running-sums", "running_sums")
    (case,) = suite("running-sums").cases(Settings(Device("cpu"), quick=True))
    rival = case.prepare().rivals[0]
    assert isinstance(rival, Absent)
    assert rival.reason.startswith("computes something else")
