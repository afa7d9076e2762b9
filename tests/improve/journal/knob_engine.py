"""An engine that is nothing but its settings, for tests of the journal."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from assay.improve.engines.protocol import (
    Engine,
    EngineDescription,
    EngineKnob,
    EngineLostError,
    ProbeAnswer,
    TrialFailedError,
    Undo,
)
from assay.load.workloads.measurement import Measurement, Setting
from assay.load.workloads.workload import Window, Workload


class KnobEngine(Engine):
    """Settings that can be changed; `fail` maps a knob's value to how the change goes wrong."""

    def __init__(self, hot: bool = True, **settings: Setting) -> None:
        self.now: dict[str, Setting] = dict(settings)
        self.hot = hot
        self.fail: dict[Setting, str] = {}
        self.calls: list[dict[str, Setting]] = []
        self.before_change: Callable[[], None] = lambda: None

    def describe(self) -> EngineDescription:
        return EngineDescription("knobs", "1", "none", "cpu", {})

    def knobs(self) -> Mapping[str, EngineKnob]:
        return {name: EngineKnob(name, name, value, self.hot) for name, value in self.now.items()}

    def settings(self) -> Mapping[str, Setting]:
        return dict(self.now)

    def configure(self, changes: Mapping[str, Setting]) -> Undo:
        self.before_change()
        self.calls.append(dict(changes))
        before = {name: self.now[name] for name in changes}
        how = next((self.fail[value] for value in changes.values() if value in self.fail), "")
        if how == "trial":
            raise TrialFailedError("it did not start", failure="OOM")
        if how == "ignored":
            return lambda: None
        self.now |= changes
        if how == "lost":
            raise EngineLostError("it crashed")
        return lambda: self.now.update(before)

    def measure(self, workload: Workload, window: Window) -> Measurement:
        raise NotImplementedError

    def probe(self, prompts: Sequence[str], max_tokens: int) -> list[ProbeAnswer]:
        raise NotImplementedError

    def capture(self, workload: Workload, window: Window, folder: Path) -> Path | None:
        return None

    def launch_command(self, settings: Mapping[str, Setting]) -> str:
        return "knobs"

    def close(self) -> None:
        pass
