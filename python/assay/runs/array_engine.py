"""A workload on arrays behind the protocol of the loop: a request is a data set, an answer its outputs."""

from __future__ import annotations

import hashlib
import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from assay._native import build_info
from assay.errors import InputError
from assay.improve.engines.disturbance import DisturbanceMeter
from assay.improve.engines.one_by_one import measured
from assay.improve.engines.protocol import (
    FLOOR,
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
from assay.workloads.contract import Arrays, ArrayWorkload, DataSet, WorkloadSetting

ENGINE: Final = "assay-workload"


class ArrayEngine(EngineProtocol):
    """A workload in this process, one data set after the other; every setting is live.

    Where all settings keep outputs bit by bit, answers are compared by the hash of the outputs;
    where one rounds otherwise, by the verdict of the workload's own check.
    """

    def __init__(
        self,
        workload: ArrayWorkload,
        device: Device,
        data: Sequence[DataSet],
        settings: Mapping[str, Setting],
        floor_s: float | None = None,
    ) -> None:
        """Tune a workload on these data sets, which requests name by their number."""
        self._workload = workload
        self._device = device
        self._data = tuple(data)
        self._floor_s = floor_s
        self._choices: dict[str, WorkloadSetting] = {
            setting.name: setting for setting in workload.settings(device)
        }
        self._is_exact = all(setting.keeps == "bitwise" for setting in self._choices.values())
        self._settings = dict(settings)
        self._program = workload.prepare(self._data[0], device, self._settings)
        self._meter = DisturbanceMeter()
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
            details={} if self._floor_s is None else {FLOOR: self._floor_s},
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
        data = self._data[request.number % len(self._data)]
        self._program.load(data)
        start = time.perf_counter()
        self._program.run()
        end_s = sent_s + _since(start)
        said = _digest(self._program.outputs()) if self._is_exact else f"run of {data.units}"
        return RequestRecord(
            number=request.number,
            sent_s=sent_s,
            first_token_s=end_s,
            end_s=end_s,
            prompt_tokens=data.units,
            output_tokens=data.units,
            digest=said,
            output=said,
            finish_reason=STOPPED,
        )

    def probe(self, prompts: Sequence[str], max_tokens: int) -> list[ProbeAnswer]:
        """Outputs, poisoned before and verified after; each prompt stands for a data set."""
        known: dict[int, ProbeAnswer] = {}
        answers = []
        for prompt in prompts:
            at = _place(prompt) % len(self._data)
            if at not in known:
                known[at] = ProbeAnswer((), self._verified(at), (), ())
            answers.append(known[at])
        return answers

    def _verified(self, at: int) -> tuple[str, ...]:
        """The same outputs of the same data are verified once."""
        self._program.load(self._data[at])
        self._program.poison()
        self._program.run()
        outputs = self._program.outputs()
        digest = _digest(outputs)
        if (at, digest) not in self._known:
            self._known[at, digest] = self._verdict(outputs, digest, self._data[at])
        return self._known[at, digest]

    def _verdict(self, outputs: Arrays, digest: str, data: DataSet) -> tuple[str, ...]:
        verified = self._workload.verify(outputs, data)
        if not verified.error <= verified.tolerance or verified.units != data.units:
            return (f"wrong against {verified.against}: error {verified.error:.3g} ",)
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


def _digest(outputs: Arrays) -> str:
    return DataSet(outputs, 0).sha256


def _place(prompt: str) -> int:
    """A number that is the same whenever a prompt is asked."""
    return int.from_bytes(hashlib.sha256(prompt.encode()).digest()[:4], "big")


def _since(start: float) -> float:
    return time.perf_counter() - start
