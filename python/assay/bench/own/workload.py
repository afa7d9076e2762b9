"""The work of a claim behind the contract of workloads, so that the same harness measures it."""

from __future__ import annotations

import functools
import hashlib
import math
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from assay.bench.claims.claim import Claim, Implementation
from assay.bench.claims.reading_work import TIMES, is_of_work
from assay.bench.harness.case import unit_named
from assay.bench.harness.program_check import CLOCK, TELLING_S
from assay.bench.harness.seeding import FIRST_UNSEEN
from assay.bench.own.commands import CommandProgram
from assay.bench.own.functions import Function, FunctionProgram, called, function_named
from assay.bench.own.values import OwnData, difference, from_file, named_arrays
from assay.errors import InputError
from assay.files import read_bytes
from assay.load.workloads.measurement import Setting
from assay.runtime.hardware import Device
from assay.workloads.contract import (
    Arrays,
    ArrayWorkload,
    DataSet,
    Missing,
    Program,
    Sizes,
    Verified,
    Work,
    WorkloadRival,
    WorkloadSetting,
)

_SAMPLE_S: Final = TELLING_S
"""A sample of a function takes so long, where that can be afforded: it has several calls where one is shorter."""
_LEAST_SAMPLE_S: Final = 5e-4
"""However slow the reference is, a sample has the calls that a clock needs."""
_LONG_S: Final = 0.02
"""A call that takes so long is not repeated to see whether the first one was slow."""
_MOST_CALLS: Final = 10_000
_MOST_BYTES: Final = 128 << 20
"""Of inputs and outputs of a sample, which are in memory several times."""
_VERIFIED_S: Final = 1.0
"""Nor has it more calls than the reference makes in so long."""
_GENERATED_S: Final = 0.25
"""A sample has no more calls than inputs that are made in so long: checks make some dozen samples."""
_STRIDE: Final = 1_000_003_000
"""Between the seeds of calls of one sample: beyond all seeds of claims and checks."""
_MOST_UNSEEN: Final = 100_000_000
"""Seeds of checks begin at one of so many: with those below, all fit into 31 bits."""
_MOST_FILE_BYTES: Final = 4 << 30
_CALIBRATION_SEED: Final = FIRST_UNSEEN
_LEAST_CALIBRATION_CALLS: Final = 3
_CALIBRATION_CALLS: Final = 12
"""The first calls of a function are slower than those of a sample."""
_KEPT_REFERENCES: Final = 4
_NO_TIME_S: Final = 1e-9
"""A clock may read no time at all, and counts of calls are divided by it."""


class OwnRival(WorkloadRival):
    """A rival of a claim: a function or a command."""

    install = ""

    def __init__(self, workload: OwnWorkload, implementation: Implementation) -> None:
        """Named as the claim has it."""
        self.name = implementation.name
        self._workload = workload
        self._implementation = implementation

    def prepare(self, data: DataSet, device: Device) -> Program | Missing:
        """Run it once, so that one that cannot run is said to be missing."""
        try:
            program = self._workload.program(self._implementation)
            program.load(data)
            program.run()
        except InputError as error:
            return Missing(error.message)
        return program


class OwnWorkload(ArrayWorkload):
    """One claim that brings its work along."""

    devices = ("cpu", "cuda")

    def __init__(self, claim: Claim) -> None:
        """Nothing of the user's is run yet."""
        assert claim.work is not None
        assert claim.path is not None
        self.claim = claim
        self.folder = claim.path.resolve().parent
        self.own = claim.work
        self.name = self.subject = claim.name
        self.unit = claim.unit
        self.figure = claim.metric
        self.sizes = Sizes(claim.data.size or 1, claim.data.size or 1)
        self.rivals = tuple(OwnRival(self, rival) for rival in self.own.rivals)
        # Others in every run: an earlier one may have left its outputs on disk.
        self._unseen = secrets.randbelow(_MOST_UNSEEN)
        self._calls: dict[int, int] = {}
        self._file: OwnData | None = None
        self._references: dict[int, tuple[OwnData, list[dict[str, Any]]]] = {}

    @property
    def is_per_call(self) -> bool:
        """Whether the metric is the time of a call, not of a unit of work."""
        return self.figure in TIMES

    def amount(self, data: DataSet) -> float:
        """Calls, or units of work."""
        assert isinstance(data, OwnData)
        return float(len(data.values) if self.is_per_call else data.units)

    def program(self, implementation: Implementation) -> Program:
        """What runs a function or a command."""
        if implementation.function:
            return FunctionProgram(implementation.function, self.folder)
        return CommandProgram(
            implementation.command,
            self.folder,
            self.own,
            unit_named(self.figure),
            is_per_call=self.is_per_call,
            is_of_work=is_of_work(self.figure, self.unit),
        )

    def generate(self, seed: int, size: int) -> DataSet:
        """Inputs of a sample; of a file, always the same."""
        if self._file is not None:
            return self._file
        if size not in self._calls:
            data = self._generated(_CALIBRATION_SEED, size, 1)
            # Not the first one, which imports what the generator needs.
            start = CLOCK()
            again = self._generated(_CALIBRATION_SEED, size, 1)
            affordable = math.ceil(_GENERATED_S / max(CLOCK() - start, _NO_TIME_S))
            self._check_seeds(data, again)
            self._calls[size] = self._calls_of_a_sample(data, affordable)
        return self._generated(seed, size, self._calls[size])

    def _generated(self, seed: int, size: int, calls: int) -> OwnData:
        if seed >= FIRST_UNSEEN:
            seed += self._unseen
        seeds = [seed + _STRIDE * place for place in range(calls)]
        values = tuple(self._value(own_seed, size) for own_seed in seeds)
        arrays = named_arrays(self.claim.data.generator or "the seed", values[0])
        return OwnData(arrays, size * calls, seed, size, values)

    def _value(self, seed: int, size: int) -> Any:
        """Inputs of one call; without a generator the seed itself, and the size if there is one."""
        text = self.claim.data.generator
        if not text:
            return seed if self.claim.data.size is None else (seed, size)
        given = (seed,) if self.claim.data.size is None else (seed, size)
        return called(text, self._generator, *given)

    @functools.cached_property
    def _generator(self) -> Function:
        return function_named(self.claim.data.generator, self.folder, "generator")

    def _calls_of_a_sample(self, data: OwnData, affordable: int) -> int:
        """As many as a sample needs that tells; fewer where they cannot be afforded; a command is one."""
        if not all(program.function for program in (self.own.ours, *self.own.rivals)):
            return 1
        program = self.program(self.own.ours)
        seconds = math.inf
        for place in range(max(_LEAST_CALIBRATION_CALLS, min(_CALIBRATION_CALLS, affordable))):
            # Other data each time: what is kept of a call must not make the next one short.
            program.load(self._generated(_CALIBRATION_SEED + place, data.size, 1))
            start = CLOCK()
            program.run()
            seconds = min(seconds, CLOCK() - start)
            if seconds > _LONG_S:
                return 1
        seconds = max(seconds, _NO_TIME_S)
        wanted = min(_MOST_CALLS, affordable, math.ceil(_SAMPLE_S / seconds))
        if wanted == 1:
            return 1
        # Its file is imported before the clock starts.
        _ = self._reference_program
        start = CLOCK()
        (outputs,) = self._reference(data)
        verified = math.ceil(_VERIFIED_S / max(CLOCK() - start, _NO_TIME_S))
        held: int = sum(array.nbytes for array in (*data.arrays.values(), *outputs.values()))
        most = max(1, _MOST_BYTES // max(held, 1))
        return min(wanted, most, max(verified, math.ceil(_LEAST_SAMPLE_S / seconds)))

    def _check_seeds(self, data: OwnData, again: OwnData) -> None:
        """A seed must give the same data again, and another seed others."""
        if not self.claim.data.generator:
            return
        other = self._generated(_CALIBRATION_SEED + 1, data.size, 1)
        if data.sha256 != again.sha256:
            raise InputError(
                f"{self.claim.data.generator}: expected the same data for the same seed, got others",
                "draw them from numpy.random.default_rng(seed)",
            )
        if data.sha256 == other.sha256:
            raise InputError(
                f"{self.claim.data.generator}: expected other data for another seed, got the same",
                "without them nobody can tell work from outputs that were kept",
            )

    def read(self, path: Path, units: int) -> DataSet:
        """A staged file: arrays of NumPy's formats, else bytes."""
        where = self.claim.data.file
        value = from_file(where, where, read_bytes("data", path, _MOST_FILE_BYTES))
        self._file = OwnData(named_arrays(where, value), units, 0, units, (value,))
        return self._file

    def settings(self, device: Device) -> tuple[WorkloadSetting, ...]:
        """None."""
        return ()

    def prepare(self, data: DataSet, device: Device, settings: Mapping[str, Setting]) -> Program:
        """The function or command of [work], loaded."""
        program = self.program(self.own.ours)
        program.load(data)
        return program

    def verify(self, outputs: Arrays, data: DataSet) -> Verified:
        """Outputs held against those of the reference, call by call."""
        assert isinstance(data, OwnData)
        expected = self._reference(data)
        by_call: list[dict[str, Any]] = [{} for _ in expected]
        for name, array in outputs.items():
            place, _, rest = name.partition("/")
            by_call[int(place)][rest] = array
        where, tolerance = self.own.ours.text, self.own.tolerance
        errors = [
            difference(where, got, right, tolerance)
            for got, right in zip(by_call, expected, strict=True)
        ]
        error = math.nan if any(map(math.isnan, errors)) else max(errors)
        against = f"the reference {self.own.reference.text}"
        if not error <= tolerance:
            against += f" (seed {data.seed})"
        return Verified(error, tolerance, against, data.units)

    def _reference(self, data: OwnData) -> list[dict[str, Any]]:
        """Outputs of the reference, which is asked once for each data set."""
        known = self._references.get(id(data))
        if known is not None and known[0] is data:
            return known[1]
        program = self._reference_program
        outputs: list[dict[str, Any]] = []
        for value in data.values:
            program.load(OwnData({}, data.size, data.seed, data.size, (value,)))
            program.run()
            outputs.append(
                {name.partition("/")[2]: array for name, array in program.outputs().items()}
            )
        while len(self._references) >= _KEPT_REFERENCES:
            del self._references[next(iter(self._references))]
        self._references[id(data)] = (data, outputs)
        return outputs

    @functools.cached_property
    def _reference_program(self) -> Program:
        """Whose value is not read, should it report one."""
        reference = self.own.reference
        if reference.function:
            return FunctionProgram(reference.function, self.folder)
        return CommandProgram(reference.command, self.folder, self.own)

    def work(self, data: DataSet) -> Work:
        """What the claim says that a unit needs; nothing where it does not."""
        return Work((self.own.flops or 0.0) * data.units, (self.own.bytes or 0.0) * data.units)

    def notes(self, data: DataSet) -> list[str]:
        """How it was measured, where that is not as of every workload."""
        assert isinstance(data, OwnData)
        notes = []
        if len(data.values) > 1:
            notes.append(f"a sample is {len(data.values):,} calls, each with inputs of its own")
        if self.own.value:
            notes.append(f'the figure is "{self.own.value}" as the command reports it')
        if self._file is not None:
            notes.append(
                "one file of data: whether outputs are kept from run to run was not checked"
            )
        return notes

    def sources(self) -> dict[str, str]:
        """The files of the user that ran, by hash."""
        programs = (self.own.ours, self.own.reference, *self.own.rivals)
        names = [own.function.rpartition(":")[0] for own in programs if own.function]
        names += [own.command[0] for own in programs if own.command and "/" in own.command[0]]
        names += [word for own in programs for word in own.command[1:] if word.endswith(".py")]
        names += [self.claim.data.generator.rpartition(":")[0]] if self.claim.data.generator else []
        files = {name: self.folder / name for name in dict.fromkeys(names)}
        return {
            name: f"sha256 {hashlib.sha256(path.read_bytes()).hexdigest()[:12]}"
            for name, path in files.items()
            if path.is_file()
        }
