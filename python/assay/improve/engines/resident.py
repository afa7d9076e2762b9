"""Servers of several settings at once, so that an experiment goes from one to another without a restart.

Each is a server of its own on a port of its own. On a GPU they share its memory: each gets an equal
part, given in bytes of KV cache, as a server that starts beside others cannot tell their memory from
its own. Or they sleep in turn, and the one that is awake has it all.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from assay.errors import AssayError, InputError
from assay.improve.engines.http import HttpEngine
from assay.improve.engines.memory_sharing import Parts, parts_of, room_of
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
    RestartingEngine,
    Room,
    RunningServer,
    TokenPair,
    TrialFailedError,
    Undo,
)
from assay.improve.engines.vllm import free_port
from assay.load.workloads.measurement import Measurement, Setting
from assay.load.workloads.workload import Window, Workload
from assay.openai_api.exchange import exchange

Key = frozenset[tuple[str, Setting]]
"""Settings as changes of the start."""
START: Final[Key] = frozenset()
WAKE_S: Final = 120.0
"""How long a server may take to fall asleep or to wake up."""


class ResidentEngine(Engine):
    """A restarting server, and others of other settings beside it while experiments last.

    Until `start` is called it is the server that it was given. From then on that one is stopped, and
    `close` brings it back where it was found, with the settings of the last change.
    """

    def __init__(self, base: HttpEngine) -> None:
        self.base: Final = base
        self.alone = base.adapter.residents.knobs
        self._members: dict[Key, list[HttpEngine]] = {}
        """The first of each serves; a second one is its twin."""
        self._failed: dict[Key, EngineLostError] = {}
        self._front: Key = START
        self._at_start: Mapping[str, Setting] = {}
        self._parts: Parts | None = None
        self._sleeps = False

    # What is asked of the server that serves now.

    @property
    def _serving(self) -> HttpEngine:
        return self._members[self._front][0] if self._members else self.base

    def describe(self) -> EngineDescription:
        """What answers."""
        return self._serving.describe()

    def knobs(self) -> Mapping[str, EngineKnob]:
        """The server's knobs."""
        return self.base.knobs()

    def settings(self) -> Mapping[str, Setting]:
        """Read back from the server that serves; its memory as if it were alone."""
        return self._serving.settings()

    def measure(self, workload: Workload, window: Window) -> Measurement:
        """Run a window."""
        return self._serving.measure(workload, window)

    def probe(self, prompts: Sequence[str], max_tokens: int) -> list[ProbeAnswer]:
        """Greedy answers."""
        return self._serving.probe(prompts, max_tokens)

    def capture(self, workload: Workload, window: Window, folder: Path) -> Path | None:
        """A trace of a window."""
        return self._serving.capture(workload, window, folder)

    def answers(self, workload: Workload, count: int) -> list[TokenPair]:
        """Tokens of prompts and answers."""
        return self._serving.answers(workload, count)

    def follow(self, answers: Sequence[Given], tie: float) -> list[Followed | None]:
        """Lead the server along answers."""
        return self._serving.follow(answers, tie)

    # What a journal asks: the server is the one that was given, whatever runs beside it.

    @property
    def environment(self) -> Mapping[str, str]:
        """Set in every server that is started."""
        return self.base.environment

    @environment.setter
    def environment(self, given: Mapping[str, str]) -> None:
        self.base.environment = given

    @property
    def on_start(self) -> Callable[[ServerRecord], None] | None:
        """Called with the record of every server that is started."""
        return self.base.on_start

    @on_start.setter
    def on_start(self, call: Callable[[ServerRecord], None] | None) -> None:
        self.base.on_start = call

    @property
    def server(self) -> RunningServer:
        """The server that was given."""
        return self.base.server

    def restarting(self) -> RestartingEngine:
        """This engine."""
        return self

    def record_for(self, settings: Mapping[str, Setting]) -> ServerRecord:
        """A server with these settings and the whole memory, in the place of the one that was given."""
        return self.base.record_for(settings, like=self._serving)

    def launch_command(self, settings: Mapping[str, Setting]) -> str:
        """The command of such a server."""
        return self.base.launch_command(settings, like=self._serving)

    # Changes.

    def residents(self) -> Residents | None:
        """This engine, where it can be restarted."""
        return self if self.base.can_restart else None

    def is_live(self, changes: Mapping[str, Setting]) -> bool:
        """Whether a server of these settings runs."""
        return bool(self._members) and self._key({**dict(self._front), **changes}) in self._members

    def configure(self, changes: Mapping[str, Setting]) -> Undo:
        """Go to the server of these settings; without others beside it, restart the one there is."""
        if not self._members:
            return self.base.configure(changes)
        checked = self.base.adapter.check(changes)
        before = self._front
        self._go(self._key({**dict(before), **checked}))
        return lambda: self._go(before)

    def start_seconds(self) -> float:
        """Of the last start.

        One that was found on a GPU is started again: only then its log is known, and with it the
        memory that it has.
        """
        if self.base.server.start_seconds is None and self.base.gpu() is not None:
            self.base.restart(self.base.chosen)
        return self.base.server.start_seconds or 0.0

    def room(self, context_tokens: float) -> Room:
        """By the memory that the server states, or that of the host where it has no GPU."""
        return room_of(self.base, context_tokens)

    def start(
        self, wanted: Sequence[Mapping[str, Setting]], room: Room, *, anew: bool = False
    ) -> None:
        """Have servers of just these settings."""
        if not self._members:
            self._at_start = dict(self.base.settings())
            self._parts = parts_of(self.base, room)
            # Its memory is theirs from here on.
            self.base.server.stop()
        for key in list(self._members) if anew else ():
            self._dismiss(key, keep=0)
        self._have([self._key(changes) for changes in wanted])

    def take_turns(self, wanted: Sequence[Mapping[str, Setting]]) -> bool:
        """The same with the whole memory for each, one awake at a time."""
        if not self.base.adapter.residents.sleep or not self._members:
            return False
        for key in list(self._members):
            self._dismiss(key, keep=0)
        self._sleeps, self._parts = True, None
        self._have([self._key(changes) for changes in wanted])
        return True

    def leave(self) -> None:
        """The server that was given, started again."""
        chosen = dict(self._front)
        for key in list(self._members):
            self._dismiss(key, keep=0)
        self._front, self._failed = START, {}
        self.base.restart({**self.base.chosen, **chosen})

    def twin(self, settings: Mapping[str, Setting]) -> Engine | None:
        """The second server of these settings."""
        members = self._members.get(self._key(settings), [])
        return members[1] if len(members) > 1 else None

    def close(self) -> None:
        """Stop all servers; one that was found is left with the settings of now."""
        chosen = dict(self._front)
        raced = bool(self._members) or bool(self._at_start)
        for key in list(self._members):
            self._dismiss(key, keep=0)
        if raced:
            self.base.settle_for(chosen)
        self.base.close()

    def _key(self, changes: Mapping[str, Setting]) -> Key:
        return frozenset(
            (name, value) for name, value in changes.items() if value != self._at_start.get(name)
        )

    def _have(self, keys: Sequence[Key]) -> None:
        counts = {key: keys.count(key) for key in keys}
        for key in list(self._members):
            self._dismiss(key, keep=counts.get(key, 0))
        missing = [
            key
            for key, count in counts.items()
            for _ in range(count - len(self._members.get(key, ())))
            if key not in self._failed
        ]
        if self._sleeps:
            for key in missing:
                self._sleep_all()
                self._started(key)
            self._sleep_all()
        elif missing:
            with ThreadPoolExecutor(len(missing)) as pool:
                list(pool.map(self._started, missing))
        lost = self._failed.pop(START, None)
        if START not in self._members and START in counts:
            for key in list(self._members):
                self._dismiss(key, keep=0)
            raise lost or EngineLostError("the start is not served any more")
        if self._front not in self._members:
            self._front = next(iter(self._members))
        if self._sleeps:
            self._wake(self._front)

    def _started(self, key: Key) -> None:
        """Start a server and read its settings; one that fails is remembered as such.

        vLLM looks at its whole machine before it states them the first time: beside the other starts that
        costs nothing.
        """
        try:
            member = self._sibling(key)
            try:
                member.settings()
            except BaseException:
                # It has its part of the memory, and nobody else knows of it.
                member.close()
                raise
        except EngineLostError as error:
            self._failed[key] = error
        except InputError as error:
            self._failed[key] = EngineLostError(error.message, error.hint, failure="refused")
        else:
            self._members.setdefault(key, []).append(member)

    def _sibling(self, key: Key) -> HttpEngine:
        more = self.base.adapter.residents.sleep_argument if self._sleeps else ""
        return self.base.sibling(
            free_port(),
            {**self.base.chosen, **dict(key)},
            hidden={} if self._parts is None else self._parts.settings,
            more=shlex.split(more),
        )

    def _go(self, key: Key) -> None:
        if key in self._failed:
            error = self._failed[key]
            raise TrialFailedError(error.message, error.hint, failure=error.failure)
        if key not in self._members:
            # Not prepared: it takes the place of one that is neither the start nor in use.
            for other in list(self._members):
                if other not in (START, self._front):
                    self._dismiss(other, keep=0)
                    break
            self._have([*self._members, key])
            if key in self._failed:
                self._go(key)
        if self._sleeps and key != self._front:
            self._sleep_all()
            self._wake(key)
        self._front = key

    def _dismiss(self, key: Key, keep: int) -> None:
        members = self._members.pop(key, [])
        for member in members[keep:]:
            member.close()
        if members[:keep]:
            self._members[key] = members[:keep]

    def _sleep_all(self) -> None:
        for members in self._members.values():
            for member in members:
                _ask(member, self.base.adapter.residents.sleep)

    def _wake(self, key: Key) -> None:
        _ask(self._members[key][0], self.base.adapter.residents.wake)


def _ask(member: HttpEngine, path: str) -> None:
    try:
        exchange(member.address, path, method="POST", timeout_s=WAKE_S)
    except AssayError as error:
        raise EngineLostError(f"{path}: {error.message}", error.hint, failure="hang") from error


def with_residents(engine: HttpEngine) -> Engine:
    """The engine, able to have others of its kind beside it where its adapter says how."""
    return ResidentEngine(engine) if engine.can_restart else engine
