"""Control and treatment of an engine: one change of settings, made and taken back many times."""

from __future__ import annotations

from collections.abc import Mapping

from assay.errors import InputError
from assay.improve.engines.protocol import Engine, Undo
from assay.improve.experiments.result import Arm
from assay.improve.experiments.settings_check import mismatches
from assay.load.workloads.measurement import Setting


class RefusedError(InputError):
    """The engine refuses the candidate's values."""


class Arms:
    """Switches an engine between its settings of now and a change of them."""

    def __init__(self, engine: Engine, changes: Mapping[str, Setting]) -> None:
        """Start in the control; a knob that cannot be read back cannot be changed."""
        settings = engine.settings()
        missing = [name for name in changes if name not in settings]
        if missing:
            raise RefusedError(
                f"knob {', '.join(missing)}: expected one that the engine reads back, got none"
            )
        self.now: Arm = "control"
        self.toward: Arm = "control"
        """The arm that the engine is in or was last asked to go to."""
        self.switches = 0
        self.asked: Mapping[Arm, Mapping[str, Setting]] = {
            "control": {name: settings[name] for name in changes},
            "treatment": dict(changes),
        }
        self.hot = engine.is_live(changes)
        self._engine = engine
        self._undo: Undo | None = None

    @property
    def differ(self) -> bool:
        """Whether the treatment changes anything."""
        return bool(mismatches(self.asked["treatment"], self.asked["control"]))

    def switch(self, arm: Arm) -> bool:
        """Go to an arm; whether that changed anything."""
        if arm == self.now:
            return False
        self.switches += 1
        self.toward = arm
        if arm == "treatment":
            try:
                self._undo = self._engine.configure(self.asked["treatment"])
            except InputError as error:
                raise RefusedError(error.message, error.hint) from error
            self.now = "treatment"
        else:
            self.restore()
        return True

    def restore(self) -> None:
        """Back to the control, if that is not where the engine is."""
        if self.now == "treatment" and self._undo is not None:
            self._undo()
            self.now, self._undo = "control", None

    def is_restored(self) -> bool:
        """Whether the engine itself reports the control's settings."""
        return not mismatches(self.asked["control"], self._engine.settings())
