"""What a workload on arrays gives: data by seed, a program, a check, rivals and its work.

Order-book events, protein structures and point clouds are such workloads. One that gives this is
measured by `assay bench` and tuned by `assay run` without further code.
"""

from __future__ import annotations

import hashlib
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from assay.errors import InputError
from assay.load.workloads.measurement import Setting
from assay.runtime.hardware import Device

HostArray = npt.NDArray[Any]
Arrays = Mapping[str, HostArray]
"""Arrays on the host, by name."""

Keeps = Literal["bitwise", "rounding"]
"""What a setting does to outputs: nothing, or another order of the same sums."""


@dataclass(frozen=True, slots=True)
class DataSet:
    """Inputs of one run, as a generator or a file gave them."""

    arrays: Arrays
    units: int
    """How many units of work they hold; `verify` counts them again."""

    @property
    def sha256(self) -> str:
        """The hash of names, types, shapes and bytes."""
        digest = hashlib.sha256()
        for name in sorted(self.arrays):
            array = np.ascontiguousarray(self.arrays[name])
            digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
            digest.update(array.data.cast("B") if array.size else b"")
        return digest.hexdigest()


@dataclass(frozen=True, slots=True)
class WorkloadSetting:
    """A setting of a program: a lever of `assay run`."""

    name: str
    meaning: str
    mechanism: str
    """One sentence: how another value saves time."""
    values: tuple[Setting, ...]
    """All that may be chosen, in the order of trying."""
    plain: Setting
    """What `assay run` starts from: what one writes first."""
    default: Setting
    """What users get."""
    keeps: Keeps = "bitwise"


Step = Literal["kernel", "load"]
"""What a step of a chain is: an operation over whole arrays, or an access to memory inside of one."""


class Work(NamedTuple):
    """What one data set needs at the least, whatever the implementation."""

    flops: float
    bytes: float
    """Read and written once each: inputs, outputs and what fits into no cache."""
    serial_steps: float = 0.0
    """The longest chain of operations of which each needs the one before."""
    step: Step = "kernel"


class Verified(NamedTuple):
    """Outputs held against an independent implementation."""

    error: float
    """The largest relative error, 0 where all is equal; NaN where something was not written."""
    tolerance: float
    against: str
    """The other implementation, in words: NumPy, event by event."""
    units: int
    """Units of work that the other implementation counted in the data."""


class Program(ABC):
    """A workload prepared for one size of data: memory allocated, kernels compiled.

    `load` copies, `run` computes: what depends on the values of the inputs is part of `run`.
    """

    @abstractmethod
    def load(self, data: DataSet) -> None:
        """Copy other inputs of the same size to where `run` reads them; not timed."""

    @abstractmethod
    def run(self) -> Mapping[str, float]:
        """Compute all outputs; returns once they are complete.

        The answer has seconds by stage, as the program measured them; empty for one stage.
        """

    @abstractmethod
    def outputs(self) -> Arrays:
        """Copies of the outputs on the host; not timed."""

    @abstractmethod
    def poison(self) -> None:
        """Overwrite all outputs (NaN, -1), so that what is not written again cannot pass."""

    def own_seconds(self) -> float | None:
        """Seconds of the last run by a clock of the program's own; None where the caller's counts."""
        return None

    def close(self) -> None:  # noqa: B027
        """Give back memory, threads and processes, where there are such."""


@dataclass(frozen=True, slots=True)
class Missing:
    """Why a rival cannot run here."""

    reason: str
    """not installed, has no device cuda:0 ..."""


class WorkloadRival(ABC):
    """Another program for the same work, on the same data."""

    name: str
    install: str
    """How to install it: pip install nanobook."""
    is_exact: bool = True
    """Whether its outputs are verified as ours are; a rival that computes less says so in `note`."""
    note: str = ""
    packages: Mapping[str, str | None] = MappingProxyType({})
    """What it is made of: None for a package whose version Python knows, else the version."""

    @abstractmethod
    def prepare(self, data: DataSet, device: Device) -> Program | Missing:
        """Ready to run on data of this size, or why not."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Units of work of a data set."""

    quick: int
    """Of a smoke test, which does real work in a second."""
    usual: int


class ArrayWorkload(ABC):
    """One workload; a module of `assay.workloads` has it as `WORKLOAD`."""

    name: str
    """As commands have it: order-book."""
    unit: str
    """One unit of work: event, structure, frame."""
    figure: str
    """The unit of its headline figure, of `assay.bench.harness.case.UNITS`: ns/event, frames/s."""
    sizes: Sizes
    devices: tuple[str, ...] = ("cpu",)
    """Kinds of devices that its programs run on."""
    gpu_cases: Sequence[ArrayWorkload] = ()
    """What is measured on a GPU in its place, a workload a case."""
    case: str = ""
    """Which of these it is; empty for a workload that stands alone."""
    subject: str = "assay"
    """Who is measured: us, unless the work is somebody else's."""
    rivals: Sequence[WorkloadRival] = ()

    @abstractmethod
    def generate(self, seed: int, size: int) -> DataSet:
        """Inputs of `size` units; the same for the same seed on every machine, with any NumPy.

        Arrays have the same shapes for every seed, padded where counts differ.
        """

    def read(self, path: Path, units: int) -> DataSet:
        """Inputs of a staged file, whose hash was checked: a NumPy archive."""
        try:
            with np.load(path, allow_pickle=False) as archive:
                return DataSet({name: archive[name] for name in archive.files}, units)
        except (OSError, ValueError, AttributeError, zipfile.BadZipFile) as error:
            raise InputError(f"{path}: expected a NumPy archive (.npz), got {error}") from None

    def title(self, size: int) -> str:
        """What a case of so many units is called."""
        plural = "" if size == 1 else "s"
        return f"{self.name}, {size:,} {self.unit}{plural}"

    def summary(self, figures: Sequence[Any]) -> str:
        """A line about the measured figures together; empty where each stands for itself."""
        return ""

    def amount(self, data: DataSet) -> float:
        """What the headline figure counts in a run: units of work."""
        return float(data.units)

    def rows(self, data: DataSet) -> tuple[int, str]:
        """Rows of the outputs, each an answer of its own, and what they are of: units of work if not said otherwise."""
        return data.units, f"{self.unit}s"

    def notes(self, data: DataSet) -> Sequence[str]:
        """What a reader of the figure must know of how it was measured."""
        return ()

    def sources(self) -> Mapping[str, str]:
        """Files that are no part of a package, with their hashes."""
        return {}

    def measured_on(self, device: Device) -> Sequence[ArrayWorkload]:
        """What is measured there: itself, or its cases of a GPU, each with a size and settings of its own."""
        return self.gpu_cases if self.gpu_cases and device.capabilities.is_gpu else (self,)

    @abstractmethod
    def settings(self, device: Device) -> tuple[WorkloadSetting, ...]:
        """What can be set on this device."""

    @abstractmethod
    def prepare(self, data: DataSet, device: Device, settings: Mapping[str, Setting]) -> Program:
        """Our program for data of this size, with every setting given; the data are loaded."""

    @abstractmethod
    def verify(self, outputs: Arrays, data: DataSet) -> Verified:
        """Outputs held against an implementation that shares no code with `prepare`."""

    @abstractmethod
    def work(self, data: DataSet) -> Work:
        """The work of a data set, for its floor."""


PLAIN: Final = "plain"
DEFAULT: Final = "default"


def start_of(
    workload: ArrayWorkload, device: Device, start: Literal["plain", "default"]
) -> dict[str, Setting]:
    """The settings of a start, by name."""
    return {
        setting.name: setting.plain if start == PLAIN else setting.default
        for setting in workload.settings(device)
    }
