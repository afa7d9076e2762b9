"""What the loop needs of an engine: describe, read and change settings, measure, trace, answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, runtime_checkable

from assay.errors import AssayError
from assay.improve.engines.process import ServerRecord
from assay.improve.levers.lever import Lever
from assay.load.workloads.measurement import Measurement, Setting
from assay.load.workloads.workload import PlannedRequest, Window, Workload

if TYPE_CHECKING:
    from assay.engine import Engine as AssayEngine

Failure = Literal["crash", "OOM", "hang", "timeout", "refused"]
"""How an engine fails: it ended, ran out of memory, stopped answering, did not start in time, or
refused its settings. Failed trials become constraints of the search."""


RESIDENT: Final = "resident_bytes"
"""A detail of a window: memory of the engine's processes at its end."""
FLOOR: Final = "floor_s"
"""A detail of a description: seconds of a request, on average, if every operation that was counted ran
at the machine's best rate."""
NOT_IN_FLOOR: Final = "not_in_floor"
"""A detail of a description: what of a request's time the floor leaves out, in words; empty for nothing."""


class EngineLostError(AssayError):
    """The engine crashed, hangs or does not start; the loop goes back to the safe state."""

    exit_code = 4

    def __init__(
        self, message: str, hint: str | None = None, *, failure: Failure = "crash"
    ) -> None:
        """Store the message, the hint and how the engine failed."""
        super().__init__(message, hint)
        self.failure = failure


class TrialFailedError(EngineLostError):
    """New settings did not start; the engine serves again with the settings it had before."""


@dataclass(frozen=True, slots=True)
class EngineDescription:
    """What is tuned: the parts of the fingerprint, and what the engine can do."""

    engine: str
    """assay, vllm, llama.cpp or another server's name."""
    release: str
    model: str
    device: str
    hardware: Mapping[str, Any]
    """The machine, as `assay.runtime.fingerprint.machine` describes it."""
    capabilities: frozenset[str] = frozenset()
    """What predicates of levers ask for: cuda, cuda-graphs, speculation, prefix-cache, ..."""
    context_limit: int | None = None
    synthetic: bool = False
    """Whether the weights are random: text means nothing, times do."""
    details: Mapping[str, Any] = field(default_factory=dict)
    degradations: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EngineKnob:
    """A setting, as the engine's own schema describes it."""

    name: str
    meaning: str
    default: Setting
    hot: bool
    """Whether it changes while the engine runs; else by restart."""
    least: float | None = None
    most: float | None = None
    choices: tuple[Setting, ...] | None = None


@dataclass(frozen=True, slots=True)
class ProbeAnswer:
    """A greedy answer to a probe of the correctness gate, token by token."""

    token_ids: tuple[int, ...]
    """Empty where the server gives text only; `texts` has a piece for each token then."""
    texts: tuple[str, ...]
    logprobs: tuple[float, ...]
    """Of the chosen tokens; empty where the engine gives none."""
    margins: tuple[float, ...]
    """Log-probability of the best token less that of the second best, at each position."""
    top_logprobs: tuple[Mapping[str, float], ...] = ()
    """The best tokens with log-probabilities at each position, for KL divergences."""


@dataclass(frozen=True, slots=True)
class Followed:
    """What an engine makes of an answer that it is led along, token by token."""

    gaps: tuple[float, ...] = ()
    """Log-probability of the token that the engine would choose less that of the answer's token; 0
    where they are one. Of a token that is not among the best ones, no less than this."""
    logprobs: tuple[float, ...] = ()
    """Of the answer's tokens; empty where the engine tells gaps only."""
    is_whole: bool = True
    """Whether the engine was led to the answer's end."""


Given = tuple[PlannedRequest, str | tuple[int, ...]]
"""A request and an answer that was given to it."""
TokenPair = tuple[tuple[int, ...], tuple[int, ...]]
"""Tokens of a prompt and of its answer."""
Undo = Callable[[], None]
"""Sets the knobs back to what they were before a change."""


@runtime_checkable
class Engine(Protocol):
    """An engine under control of the loop; the last questions are answered for subclasses."""

    def describe(self) -> EngineDescription:
        """What it is, now."""

    def knobs(self) -> Mapping[str, EngineKnob]:
        """Its knobs by name, read from its own schema."""

    def settings(self) -> Mapping[str, Setting]:
        """The value of every knob, read back from the engine itself."""

    def configure(self, changes: Mapping[str, Setting]) -> Undo:
        """Change knobs, live or by restart; returns when the engine serves again.

        Raises `InputError` for values outside a knob's schema, `TrialFailedError` where the engine
        fails with the new settings and runs the old ones again, and `EngineLostError` where it
        does not come back at all.
        """

    def measure(self, workload: Workload, window: Window) -> Measurement:
        """Run a window of a workload."""

    def probe(self, prompts: Sequence[str], max_tokens: int) -> list[ProbeAnswer]:
        """Greedy answers with log-probabilities, for the correctness gate."""

    def capture(self, workload: Workload, window: Window, folder: Path) -> Path | None:
        """Record a trace of a window; None where this engine cannot be traced, which it notes."""

    def launch_command(self, settings: Mapping[str, Setting]) -> str:
        """The command that starts this engine with these settings."""

    def close(self) -> None:
        """Stop what this object started, and nothing else."""

    def answers(self, workload: Workload, count: int) -> list[TokenPair]:
        """Tokens of the first prompts of a workload and of their answers; none where unknown."""
        return []

    def follow(self, answers: Sequence[Given], tie: float) -> list[Followed | None]:
        """Lead the engine along answers to requests, along each up to a gap above `tie`.

        None for those that it gives no log-probabilities of.
        """
        return [None for _ in answers]

    def in_process(self) -> AssayEngine | None:
        """The own engine of this process, whose counters telemetry samples."""
        return None

    def restarting(self) -> RestartingEngine | None:
        """This engine, if its changes restart a server, which outlives this process."""
        return None

    def residents(self) -> Residents | None:
        """Servers of several settings at once, where this engine can have them."""
        return None

    def levers(self) -> Sequence[Lever]:
        """Levers of its own, beside those of the library."""
        return []

    def is_live(self, changes: Mapping[str, Setting]) -> bool:
        """Whether a change is made without a restart: of hot knobs, or to a server that runs."""
        knobs = self.knobs()
        return all(knobs[name].hot for name in changes if name in knobs)


Memory = Literal["own", "shared", "asleep"]
"""How servers that run at once have their memory: each as much as it wants, a part of it each, or all
of it in turn, while the others sleep."""


@dataclass(frozen=True, slots=True)
class Room:
    """How many servers may run at once, and what each of them has."""

    servers: int
    memory: Memory
    sentence: str
    """For people: what is shared out, and what each server gets; or why there is no room."""


class Residents(Protocol):
    """Servers of several settings that run at once: to go from one to another is no restart.

    Settings are given as changes of those that the engine had when the first of them was started.
    """

    alone: frozenset[str]
    """Knobs that say how much memory a server takes: they cannot be compared side by side."""

    def start_seconds(self) -> float:
        """How long a start takes; a server that was found may be started once to know it."""

    def room(self, context_tokens: float) -> Room:
        """How many servers may run at once, each with so many tokens in its KV cache."""

    def start(
        self, wanted: Sequence[Mapping[str, Setting]], room: Room, *, anew: bool = False
    ) -> None:
        """Have servers of just these settings, and start those that are missing, all at once.

        `anew` starts every one of them, whatever runs. One that does not start is told when the
        engine is configured so (`TrialFailedError`).
        """

    def take_turns(self, wanted: Sequence[Mapping[str, Setting]]) -> bool:
        """Have servers of just these settings with the whole memory each, all but one asleep.

        False where the server cannot sleep: nothing has changed then.
        """

    def leave(self) -> None:
        """Back to one server, of the settings of now, with the whole memory."""

    def twin(self, settings: Mapping[str, Setting]) -> Engine | None:
        """Another start of these settings, where one was asked for twice and serves."""


class RunningServer(Protocol):
    """The server of an engine that restarts it."""

    @property
    def record(self) -> ServerRecord | None:
        """How it was started; None for a server on another machine, or of another user."""

    @property
    def was_found(self) -> bool:
        """Whether it ran before: then it is left running in the end."""


class RestartingEngine(Engine, Protocol):
    """An engine whose changes restart a server; every start is written down before it serves."""

    environment: Mapping[str, str]
    """Set in every server that is started, besides what is inherited."""
    on_start: Callable[[ServerRecord], None] | None
    """Called with the record of every server that is started, before it is waited for."""

    @property
    def server(self) -> RunningServer:
        """The server that runs."""

    def record_for(self, settings: Mapping[str, Setting]) -> ServerRecord:
        """A server with these settings that is not started yet."""
