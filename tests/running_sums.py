"""A small workload behind the contract, running sums of integers, and programs that fake it."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import numpy as np

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


class SummingProgram(Program):
    """Sums with `np.cumsum`, or number by number."""

    def __init__(self, data: DataSet, how: str = "vector") -> None:
        self.how = how
        self.values = np.zeros_like(data.arrays["values"])
        self.sums = np.zeros_like(self.values)
        self.load(data)

    def load(self, data: DataSet) -> None:
        np.copyto(self.values, data.arrays["values"])

    def run(self) -> Mapping[str, float]:
        if self.how == "vector":
            np.cumsum(self.values, out=self.sums)
        else:
            total = 0
            for place, value in enumerate(self.values.tolist()):
                total += value
                self.sums[place] = total
        return {}

    def outputs(self) -> Arrays:
        return {"sums": self.sums.copy()}

    def poison(self) -> None:
        self.sums.fill(-1)


class NumPyRival(WorkloadRival):
    """The same by NumPy."""

    name = "NumPy"
    install = "pip install numpy"

    def prepare(self, data: DataSet, device: Device) -> Program | Missing:
        return SummingProgram(data)


class AbsentRival(WorkloadRival):
    """A library that is not there."""

    name = "fastsums"
    install = "pip install fastsums"

    def prepare(self, data: DataSet, device: Device) -> Program | Missing:
        return Missing("not installed")


class RunningSums(ArrayWorkload):
    """Running sums, verified by `itertools.accumulate`."""

    name = "running-sums"
    unit = "frame"
    figure = "frames/s"
    sizes = Sizes(quick=1_000, usual=20_000)
    rivals = (NumPyRival(), AbsentRival())

    def generate(self, seed: int, size: int) -> DataSet:
        state, values = seed * 2 + 1, []
        for _ in range(size):
            state = (state * 1_103_515_245 + 12_345) % 2**31
            values.append(1 + state % 100)
        return DataSet({"values": np.array(values, np.int64)}, size)

    def settings(self, device: Device) -> tuple[WorkloadSetting, ...]:
        return (
            WorkloadSetting(
                name="how",
                meaning="how numbers are added",
                mechanism="one call of NumPy adds all numbers, without the interpreter between them",
                values=("number", "vector"),
                plain="number",
                default="vector",
            ),
        )

    def prepare(self, data: DataSet, device: Device, settings: Mapping[str, Setting]) -> Program:
        return SummingProgram(data, str(settings["how"]))

    def verify(self, outputs: Arrays, data: DataSet) -> Verified:
        values = data.arrays["values"].tolist()
        expected = np.array(list(itertools.accumulate(values)), np.int64)
        error = float(np.abs(outputs["sums"] - expected).max() / expected.max())
        return Verified(error, 0.0, "itertools.accumulate", len(values))

    def work(self, data: DataSet) -> Work:
        return Work(flops=data.units, bytes=16.0 * data.units, serial_steps=data.units)


WORKLOAD = RunningSums()
