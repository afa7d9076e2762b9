"""A workload on arrays behind the protocol of the loop: a request is a data set, an answer its outputs."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from assay._native import build_info
from assay.errors import InputError
from assay.improve.engines.disturbance import DisturbanceMeter
from assay.improve.engines.one_by_one import measured
from assay.improve.engines.protocol import (
    FLOOR,
    NOT_IN_FLOOR,
    Engine as EngineProtocol,
    EngineDescription,
    EngineKnob,
    ProbeAnswer,
    Undo,
)
from assay.improve.levers.lever import KnobRange, Lever
from assay.load.workloads.measurement import STOPPED, Measurement, RequestRecord, Setting
from assay.load.workloads.workload import PlannedRequest, Window, Workload
from assay.runtime.fingerprint import machine
from assay.runtime.hardware import Device
from assay.workloads.contract import Arrays, ArrayWorkload, DataSet, HostArray, WorkloadSetting

ENGINE: Final = "assay-workload"
_WRONG: Final = "wrong against"
"""How the verdict on outputs begins that another implementation does not give."""


class ArrayEngine(EngineProtocol):
    """A workload in this process, one data set after the other; every setting is live.

    Probes hold the outputs of every data set against another implementation, once for the same bits of
    the same data. Where all settings keep outputs bit by bit, answers are compared by the hash of the
    outputs; where one rounds otherwise, by that verdict. A run whose outputs are wrong is an error.
    """

    def __init__(
        self,
        workload: ArrayWorkload,
        device: Device,
        data: Sequence[DataSet],
        settings: Mapping[str, Setting],
        floor_s: float | None = None,
        not_in_floor: str = "",
    ) -> None:
        """Tune a workload on these data sets, which requests name by their number.

        `not_in_floor` says what a run waits for besides, in words.
        """
        self._workload = workload
        self._device = device
        self._data = tuple(data)
        self._floor_s = floor_s
        self._not_in_floor = not_in_floor
        self._choices: dict[str, WorkloadSetting] = {
            setting.name: setting for setting in workload.settings(device)
        }
        self._is_exact = all(setting.keeps == "bitwise" for setting in self._choices.values())
        self._settings = dict(settings)
        self._program = workload.prepare(self._data[0], device, self._settings)
        self._meter = DisturbanceMeter()
        self._places: dict[str, int] = {}
        """Data sets of probes: one after the other, so that as many probes as data sets reach them all."""
        self._seen: dict[int, tuple[Arrays, str]] = {}
        """The last outputs of each data set with their hash: to compare bits is ten times as fast as to hash them."""
        self._known: dict[tuple[int, str], tuple[str, ...]] = {}
        """What the other implementation said of outputs, by data set and hash: it may take a minute."""

    def describe(self) -> EngineDescription:
        """The workload and the machine."""
        kind = self._device.name.partition(":")[0]
        return EngineDescription(
            engine=ENGINE,
            release=build_info()["version"],
            model=self._workload.name,
            device=self._device.name,
            hardware=machine(self._device).to_data(),
            capabilities=frozenset({kind, "hot-knobs"}),
            details={}
            if self._floor_s is None
            else {FLOOR: self._floor_s, NOT_IN_FLOOR: self._not_in_floor},
        )

    def knobs(self) -> Mapping[str, EngineKnob]:
        """The workload's settings."""
        return {
            setting.name: EngineKnob(
                setting.name, setting.meaning, setting.default, True, choices=setting.values
            )
            for setting in self._choices.values()
        }

    def levers(self) -> Sequence[Lever]:
        """A lever for each setting, with its other values in the order of trying."""
        return [
            Lever(
                name=setting.name.replace("_", "-"),
                engine=ENGINE,
                mechanism=setting.mechanism,
                knobs=(KnobRange(setting.name, setting.values),),
                safety="may slow",
                correctness=setting.keeps,
                reference="docs/guides/claims.md",
                source=f"workload {self._workload.name}",
            )
            for setting in self._choices.values()
        ]

    def settings(self) -> Mapping[str, Setting]:
        """What the program was prepared with."""
        return dict(self._settings)

    def configure(self, changes: Mapping[str, Setting]) -> Undo:
        """Prepare the program anew with other settings."""
        for name, value in changes.items():
            choice = self._choices.get(name)
            if choice is None:
                known = ", ".join(self._choices)
                raise InputError(f"{name}: expected a setting of {known}, got {name}")
            if value not in choice.values:
                offered = ", ".join(str(each) for each in choice.values)
                raise InputError(f"{name}: expected one of {offered}, got {value}")
        before = dict(self._settings)
        self._become({**before, **changes})
        return lambda: self._become(before)

    def _become(self, settings: Mapping[str, Setting]) -> None:
        if dict(settings) == self._settings:
            return
        prepared = self._workload.prepare(self._data[0], self._device, settings)
        self._program.close()
        self._program, self._settings = prepared, dict(settings)

    def measure(self, workload: Workload, window: Window) -> Measurement:
        """Run data sets, one after the other; loading them and reading outputs is not counted."""
        return measured(workload, window, self._window, self._meter, self.settings())

    def _window(self, workload: Workload, window: Window) -> Iterator[RequestRecord]:
        start = time.perf_counter()
        number, clock_s = 0, 0.0
        while window.requests is None or number < window.requests:
            if window.seconds is not None and number and _since(start) >= window.seconds:
                return
            request = workload.requests[(window.offset + number) % len(workload.requests)]
            record = self._record(request, clock_s)
            clock_s = record.end_s
            yield record
            number += 1

    def _record(self, request: PlannedRequest, sent_s: float) -> RequestRecord:
        """One run on a clock that stands still while data are loaded and outputs are read."""
        at = request.number % len(self._data)
        data = self._data[at]
        self._program.load(data)
        start = time.perf_counter()
        self._program.run()
        end_s = sent_s + _since(start)
        said = self._said(at)
        return RequestRecord(
            number=request.number,
            sent_s=sent_s,
            first_token_s=end_s,
            end_s=end_s,
            prompt_tokens=data.units,
            output_tokens=data.units,
            error=said if said.startswith(_WRONG) else None,
            digest=said,
            output=said,
            finish_reason=STOPPED,
        )

    def _said(self, at: int) -> str:
        """What a run says of its outputs: which bits they are, or that they are right, or how they are wrong."""
        outputs = self._program.outputs()
        if not self._is_exact:
            return self._checked(at, outputs)[0]
        digest = self._digest(at, outputs)
        first, *_ = self._known.get((at, digest), ("",))
        return first if first.startswith(_WRONG) else digest

    def probe(self, prompts: Sequence[str], max_tokens: int) -> list[ProbeAnswer]:
        """Outputs, poisoned before and verified after; each prompt stands for a data set."""
        known: dict[int, ProbeAnswer] = {}
        answers = []
        for prompt in prompts:
            at = self._places.setdefault(prompt, len(self._places)) % len(self._data)
            if at not in known:
                known[at] = ProbeAnswer((), self._verified(at), (), ())
            answers.append(known[at])
        return answers

    def _verified(self, at: int) -> tuple[str, ...]:
        """The verdict on outputs that nothing before could have written."""
        self._program.load(self._data[at])
        self._program.poison()
        self._program.run()
        return self._checked(at, self._program.outputs())

    def _checked(self, at: int, outputs: Arrays) -> tuple[str, ...]:
        """The verdict on outputs; the same ones of the same data are verified once."""
        digest = self._digest(at, outputs)
        if (at, digest) not in self._known:
            self._known[at, digest] = self._verdict(outputs, digest, self._data[at])
        return self._known[at, digest]

    def _digest(self, at: int, outputs: Arrays) -> str:
        """The hash of names, types, shapes and bytes of outputs."""
        before, digest = self._seen.get(at, ({}, ""))
        if not _same_bits(before, outputs):
            digest = DataSet(outputs, 0).sha256
            self._seen[at] = (outputs, digest)
        return digest

    def _verdict(self, outputs: Arrays, digest: str, data: DataSet) -> tuple[str, ...]:
        verified = self._workload.verify(outputs, data)
        if not verified.error <= verified.tolerance or verified.units != data.units:
            return (f"{_WRONG} {verified.against}: error {verified.error:.3g} ",)
        right = f"equal to {verified.against} within {verified.tolerance:g} "
        return (right, f"{digest} ") if self._is_exact else (right,)

    def capture(self, workload: Workload, window: Window, folder: Path) -> Path | None:
        """No trace: `assay bench profile` records one."""
        return None

    def launch_command(self, settings: Mapping[str, Setting]) -> str:
        """`assay bench run` with every setting that differs from what users get."""
        words = ["assay", "bench", "run", self._workload.name, "--device", self._device.name]
        for name, choice in self._choices.items():
            value = settings.get(name, choice.default)
            if value != choice.default:
                words += ["--knob", f"{name}={value}"]
        return shlex.join(words)

    def close(self) -> None:
        """Give back the program's memory."""
        self._program.close()


def _same_bits(left: Arrays, right: Arrays) -> bool:
    """Whether arrays are equal bit by bit: NaN is itself, and 0 is not -0."""
    return left.keys() == right.keys() and all(
        left[name].dtype == array.dtype
        and left[name].shape == array.shape
        and np.array_equal(_bytes(left[name]), _bytes(array))
        for name, array in right.items()
    )


def _bytes(array: HostArray) -> HostArray:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _since(start: float) -> float:
    return time.perf_counter() - start
