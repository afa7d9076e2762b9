"""An engine whose every change is written ahead: the inverse is on disk before the change is made."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Literal

from assay.errors import AssayError, InputError, unknown_name
from assay.improve.engines.process import ServerRecord
from assay.improve.engines.protocol import (
    Engine,
    EngineDescription,
    EngineKnob,
    EngineLostError,
    Followed,
    Given,
    ProbeAnswer,
    Residents,
    TokenPair,
    TrialFailedError,
    Undo,
)
from assay.improve.journal.faults import fault_point
from assay.improve.journal.journal import Journal, JournalError
from assay.improve.journal.run_folder import RunFolder, configuration_hash
from assay.improve.journal.undo import TRIAL_OVER, JournaledChange, composed_inverse, undone_by
from assay.improve.levers.lever import Lever
from assay.load.workloads.measurement import Measurement, Setting
from assay.load.workloads.workload import Window, Workload

OnDeath = Literal["restart", "stop"]
MOST_ROLLBACKS: Final = 3
"""Automatic rollbacks of a run; after these it stops, for something is wrong with the machine."""
PATIENCE_S: Final = 900.0
"""How long a call of the engine may take before the watchdog takes the controller for hung."""
RUN_VARIABLE: Final = "ASSAY_RUN"
"""Servers that a run starts carry its id in this variable, so that recovery forgets none."""


class RollbackError(AssayError):
    """The engine does not come back to the recorded configuration, or too often had to."""

    exit_code = 5


class JournaledEngine(Engine):
    """Wraps an engine of the protocol; what the loop drives.

    `beat` is told before each call how many seconds the call may take.
    """

    def __init__(
        self,
        engine: Engine,
        journal: Journal,
        run: RunFolder,
        beat: Callable[[float], None] = lambda seconds: None,
        most_rollbacks: int = MOST_ROLLBACKS,
    ) -> None:
        """Wrap `engine`; `declare_safe` comes before the first change."""
        self.inner = engine
        self.most_rollbacks = most_rollbacks
        self._journal = journal
        self._run = run
        self._beat = beat
        self._stack: list[JournaledChange] = []
        self._undos: dict[int, Undo] = {}
        self._number = 0
        self._safe: dict[str, Setting] | None = None
        self._is_stored = False
        self.unrecorded: list[str] = []
        """Why rollbacks were not recorded: the disk was full even for them."""
        records = journal.read()
        self.rollbacks = sum(
            bool(record.data.get("automatic")) for record in records.of("reverting")
        )
        for record in records.of("intend"):
            self._number = record.data["change"] + 1
        self._restarting = engine.restarting()
        if self._restarting is not None:
            self._restarting.on_start = self._server_started
            self._restarting.environment = {**self._restarting.environment, RUN_VARIABLE: run.id}

    @property
    def stack(self) -> tuple[JournaledChange, ...]:
        """Changes in force, oldest first."""
        return tuple(self._stack)

    @property
    def safe(self) -> Mapping[str, Setting] | None:
        """The configuration that a fault brings the engine back to."""
        return self._safe

    def declare_safe(self, why: str, on_death: OnDeath | None = None) -> Mapping[str, Setting]:
        """Record the configuration of now as the one to come back to, and return it.

        Where the controller dies, a server is started with it (`restart`) or stopped (`stop`, the
        default for one that was started for the run). An engine in this process has it at its next
        start.
        """
        settings = dict(self.settings())
        server = self._server_for(settings)
        if on_death is None:
            on_death = "restart" if self._was_found() else "stop"
        running = None if self._restarting is None else self._restarting.server.record
        if self._safe is None and running is not None:
            self._journal.append("engine", server=running.to_data(), found=self._was_found())
        self._journal.append(
            "safe",
            settings=settings,
            hash=configuration_hash(settings),
            why=why,
            on_death=on_death,
            server=None if server is None else server.to_data(),
        )
        # The journal holds it from here on: a file that cannot be written must not undo it.
        self._safe = settings
        self._stack.clear()
        self._undos.clear()
        self._is_stored = False
        write_configuration(self._run, settings, why)
        self._is_stored = True
        return settings

    def configure(self, changes: Mapping[str, Setting]) -> Undo:
        """Change knobs; the inverse is recorded before."""
        if self._safe is None:
            self.declare_safe("the configuration before the first change")
        before = dict(self.settings())
        for name in changes:
            if name not in before:
                raise unknown_name("knob", name, before)
        change = JournaledChange(
            self._number,
            dict(changes),
            {name: before[name] for name in changes},
            configuration_hash(before),
            configuration_hash({**before, **changes}),
        )
        self._number += 1
        server = self._server_for({**before, **changes})
        self._journal.append(
            "intend", **change.to_data(), server=None if server is None else server.to_data()
        )
        self._stack.append(change)
        with self._failing(change), self._calling("configure"):
            self._undos[change.number] = self.inner.configure(changes)
        self._applied(change)
        return lambda: self._undo(change)

    def revert(self, why: str, *, automatic: bool = False) -> None:
        """Undo every change in reverse order; the configuration is then the one recorded as safe.

        `automatic`: not the end of a trial but a rollback after a fault, of which there may be
        `most_rollbacks`.
        """
        if automatic and self.rollbacks >= self.most_rollbacks:
            raise RollbackError(
                f"{self.rollbacks} automatic rollbacks: expected at most {self.most_rollbacks}",
                "the run stops here; its journal says what failed each time",
            )
        self.rollbacks += automatic
        if self._stack or automatic:
            self._revert(list(self._stack), why, automatic)
        if self._safe is not None and not self._is_stored:
            self._store(self._safe, why)

    def describe(self) -> EngineDescription:
        """What it is, now."""
        with self._calling("describe"):
            return self.inner.describe()

    def knobs(self) -> Mapping[str, EngineKnob]:
        """Its knobs by name."""
        return self.inner.knobs()

    def settings(self) -> Mapping[str, Setting]:
        """The value of every knob, read back from the engine itself."""
        with self._calling("settings"):
            return self.inner.settings()

    def measure(self, workload: Workload, window: Window) -> Measurement:
        """Run a window of a workload."""
        with self._calling("measure", 3 * (window.seconds or 0.0)):
            return self.inner.measure(workload, window)

    def probe(self, prompts: Sequence[str], max_tokens: int) -> list[ProbeAnswer]:
        """Greedy answers with log-probabilities."""
        with self._calling("probe"):
            return self.inner.probe(prompts, max_tokens)

    def capture(self, workload: Workload, window: Window, folder: Path) -> Path | None:
        """Record a trace of a window."""
        with self._calling("capture", 3 * (window.seconds or 0.0)):
            return self.inner.capture(workload, window, folder)

    def launch_command(self, settings: Mapping[str, Setting]) -> str:
        """The command that starts this engine with these settings."""
        return self.inner.launch_command(settings)

    def close(self) -> None:
        """Stop what the engine started."""
        with self._calling("close"):
            self.inner.close()

    def answers(self, workload: Workload, count: int) -> list[TokenPair]:
        """Tokens of the first prompts of a workload and of their answers."""
        return self.inner.answers(workload, count)

    def follow(self, answers: Sequence[Given], tie: float) -> list[Followed | None]:
        """Lead the engine along answers."""
        with self._calling("follow"):
            return self.inner.follow(answers, tie)

    def residents(self) -> Residents | None:
        """The engine's; changes between them are journaled as others are."""
        return self.inner.residents()

    def levers(self) -> Sequence[Lever]:
        """The engine's."""
        return self.inner.levers()

    def is_live(self, changes: Mapping[str, Setting]) -> bool:
        """Whether a change is made without a restart."""
        return self.inner.is_live(changes)

    def _applied(self, change: JournaledChange) -> None:
        read_back = configuration_hash(self.settings())
        # What goes back to an earlier configuration takes changes off the stack, itself too. An engine
        # that reports it without being asked for it may have changed all the same.
        undone = undone_by(self._stack, read_back) if read_back == change.after else []
        numbers = [gone.number for gone in undone]
        self._journal.append(
            "applied",
            change=change.number,
            hash=read_back,
            as_intended=read_back == change.after,
            undoes=numbers,
        )
        self._forget(numbers)

    def _undo(self, change: JournaledChange) -> None:
        """Undo a change, and before it those that were made after it."""
        numbers = [applied.number for applied in self._stack]
        if change.number in numbers:
            place = numbers.index(change.number)
            self._revert(self._stack[place:], TRIAL_OVER, automatic=False)
        elif configuration_hash(self.settings()) != change.before:
            # It went back to an earlier configuration, so that it is not on the stack itself.
            self.configure(change.inverse)

    def _revert(self, changes: list[JournaledChange], why: str, automatic: bool) -> None:
        target = changes[0].before if changes else configuration_hash(self._safe or {})
        numbers = [change.number for change in reversed(changes)]
        self._record("reverting", changes=numbers, why=why, automatic=automatic, to=target)
        with self._calling("revert"):
            self._take_back(changes)
        if configuration_hash(self.settings()) != target:
            with self._calling("revert"):
                self._set(composed_inverse(changes) or self._safe or {})
        read_back = configuration_hash(self.settings())
        if read_back != target:
            raise RollbackError(
                f"the engine is not back: expected configuration {target[:12]}, got {read_back[:12]}",
                f"assay rollback {self._run.id} tries again from the journal",
            )
        self._record("reverted", changes=numbers, hash=read_back)
        self._forget(numbers)

    def _take_back(self, changes: Sequence[JournaledChange]) -> None:
        if not changes:
            # Nothing was changed, but the engine may be dead: this starts it again.
            self._set(self._safe or {})
            return
        knobs = self.knobs()
        if not all(
            knobs[name].hot for change in changes for name in change.changes if name in knobs
        ):
            # One restart, not one for each change.
            self._set(composed_inverse(changes))
            return
        for change in reversed(changes):
            # The engine's own undo knows best; after a failed change there is none.
            undo = self._undos.get(change.number)
            if undo is not None:
                undo()
            else:
                self._set(change.inverse)

    def _record(self, kind: str, **data: Any) -> None:
        """Record a rollback; one that cannot be recorded is made all the same."""
        try:
            self._journal.append(kind, **data)
        except JournalError as error:
            self.unrecorded.append(error.message)

    def _store(self, settings: Mapping[str, Setting], why: str) -> None:
        """Write the safe configuration where the disk was full before."""
        try:
            write_configuration(self._run, settings, why)
        except OSError as error:
            self.unrecorded.append(f"{self._run.configuration} cannot be written: {error.strerror}")
        else:
            self._is_stored = True

    def _set(self, values: Mapping[str, Setting]) -> None:
        self.inner.configure(values)

    def _forget(self, numbers: Sequence[int]) -> None:
        self._stack = [change for change in self._stack if change.number not in numbers]
        for number in numbers:
            self._undos.pop(number, None)

    @contextmanager
    def _failing(self, change: JournaledChange) -> Iterator[None]:
        """Record that a change failed; it stays on the stack unless the engine took it back."""
        try:
            yield
        except (TrialFailedError, InputError) as error:
            # By contract both leave the engine as it was; it is read back all the same.
            self._failed(change, error, self._is_at(change.before))
            raise
        except EngineLostError as error:
            self._failed(change, error, restored=False)
            raise

    def _is_at(self, configuration: str) -> bool:
        try:
            return configuration_hash(self.settings()) == configuration
        except EngineLostError:
            return False

    def _failed(self, change: JournaledChange, error: AssayError, restored: bool) -> None:
        self._journal.append(
            "failed",
            change=change.number,
            reason=error.message,
            failure=error.failure if isinstance(error, EngineLostError) else "refused",
            restored=restored,
        )
        if restored:
            self._forget([change.number])

    @contextmanager
    def _calling(self, what: str, extra_s: float = 0.0) -> Iterator[None]:
        self._beat(PATIENCE_S + extra_s)
        fault_point(f"engine.{what}.before")
        yield
        fault_point(f"engine.{what}.after")

    def _was_found(self) -> bool:
        """Whether the server ran before the run."""
        return self._restarting is None or self._restarting.server.was_found

    def _server_for(self, settings: Mapping[str, Setting]) -> ServerRecord | None:
        # A server without a restart command has no knobs, and cannot be changed.
        if self._restarting is None or not self.knobs():
            return None
        return self._restarting.record_for(settings)

    def _server_started(self, record: ServerRecord) -> None:
        fault_point("engine.server_started")
        self._journal.append("engine", server=record.to_data())


def write_configuration(run: RunFolder, settings: Mapping[str, Setting], why: str) -> None:
    """Store the configuration that the engine is to have, for its next start."""
    run.write_json(
        run.configuration.name,
        {"settings": dict(settings), "hash": configuration_hash(settings), "why": why},
    )
