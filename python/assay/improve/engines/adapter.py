"""Adapters: how a kind of server is started, asked for health, and told and asked its settings."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal

from assay.errors import InputError, unknown_name
from assay.files import read_yaml
from assay.improve.engines.protocol import EngineKnob
from assay.load.workloads.measurement import Setting

FOLDER: Final = Path(__file__).with_name("adapters")
"""The adapters that come with Assay, one YAML file each."""

Kind = Literal["integer", "number", "boolean", "text"]
KINDS: Final[tuple[Kind, ...]] = ("integer", "number", "boolean", "text")

VALUE: Final = "{value}"


@dataclass(frozen=True, slots=True)
class Source:
    """One place where a running server states the value of a knob."""

    endpoint: str = ""
    """A path that answers with JSON."""
    path: str = ""
    """Names and positions on the way to the value, joined by slashes."""
    metric: str = ""
    """A metric of the metrics path, in place of an endpoint."""
    label: str = ""
    """The label of the metric that holds the value; empty takes the metric's value."""
    log: str = ""
    """Text of the start-up log that the value follows; the last line that has it counts."""
    values: Mapping[str, Setting] = field(default_factory=dict)
    """What the server writes, to what the knob is called."""

    def __str__(self) -> str:
        if self.endpoint:
            return self.endpoint
        return f"metric {self.metric}" if self.metric else "start-up log"


@dataclass(frozen=True, slots=True)
class AdapterKnob:
    """A knob of a server: its schema, how it is passed, and where it is read back."""

    name: str
    meaning: str
    kind: Kind
    default: Setting = None
    """None leaves the choice to the server."""
    least: float | None = None
    most: float | None = None
    choices: tuple[Setting, ...] | None = None
    argument: str = ""
    """Arguments of the command with {value} in them, such as `--threads {value}`."""
    arguments: Mapping[str, str] = field(default_factory=dict)
    """Arguments for each value, where they do not contain it: true, --mlock."""
    aliases: tuple[str, ...] = ()
    """Other spellings of the flag, for reading a command line."""
    environment: str = ""
    """An environment variable in place of an argument."""
    read: tuple[Source, ...] = ()
    needs: str = ""
    """A field of the schema that a release must have for this knob, which is no field itself."""

    def check(self, value: Setting) -> Setting:
        """The value, if the knob takes it."""
        if value is None:
            return None
        if self.choices is not None and value not in self.choices:
            listed = ", ".join(map(spell, self.choices))
            raise InputError(f"{self.name}: expected one of {listed}, got {value!r}")
        if not _is_of(self.kind, value):
            raise InputError(f"{self.name}: expected {_A[self.kind]}, got {value!r}")
        if isinstance(value, int | float) and not isinstance(value, bool):
            low, high = self.least, self.most
            if (low is not None and value < low) or (high is not None and value > high):
                raise InputError(f"{self.name}: expected {_range(low, high)}, got {value}")
        return value

    def parse(self, text: str) -> Setting:
        """A value as a server writes it; raises `ValueError` where it is not of the knob's kind."""
        word = text.strip().strip("'\"")
        if self.kind == "boolean":
            if word.lower() in ("true", "1", "on", "yes", "enabled"):
                return True
            if word.lower() in ("false", "0", "off", "no", "disabled"):
                return False
            raise ValueError(word)
        if self.kind == "integer":
            return int(word)
        return float(word) if self.kind == "number" else word

    def to_arguments(self, value: Setting) -> list[str]:
        """Arguments of the command for a value; none where the server is to choose."""
        if value is None or self.environment:
            return []
        if self.arguments:
            return shlex.split(self.arguments[spell(value)])
        if self.kind == "boolean" and VALUE not in self.argument:
            return shlex.split(self.argument) if value else []
        return [part.replace(VALUE, spell(value)) for part in shlex.split(self.argument)]

    def to_knob(self) -> EngineKnob:
        """The knob as the loop sees it."""
        return EngineKnob(
            self.name, self.meaning, self.default, False, self.least, self.most, self.choices
        )


@dataclass(frozen=True, slots=True)
class ResidentKnobs:
    """How several servers run on one GPU at once."""

    share: str = ""
    """The knob that says which share of the GPU's memory a server takes; empty where none does."""
    cache: str = ""
    """The knob that gives it bytes of KV cache, whatever others take of the memory meanwhile."""
    cache_gib: Source | None = None
    """Where a server states its KV cache in GiB,"""
    cache_blocks: Source | None = None
    """in blocks,"""
    block_tokens: Source | None = None
    """and the tokens of a block."""
    sleep_argument: str = ""
    """What lets a server sleep."""
    sleep: str = ""
    """A path whose POST takes a server's memory from it; empty where it cannot sleep."""
    wake: str = ""
    """A path whose POST gives it back."""

    @property
    def knobs(self) -> frozenset[str]:
        """The knobs of memory."""
        return frozenset(filter(None, (self.share, self.cache)))


@dataclass(frozen=True, slots=True)
class Adapter:
    """A kind of server."""

    name: str
    description: str
    knobs: Mapping[str, AdapterKnob]
    always: tuple[str, ...] = ()
    """Arguments of every start of a run: what makes the server state its settings. They are
    instrumentation, of which nothing is left when the run is over."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables of every start of a run, for the same."""
    health: str = "/health"
    metrics: str = ""
    start_timeout_s: float = 120.0
    hang_timeout_s: float = 60.0
    """How long the server may leave a health check unanswered before it counts as hung."""
    stop_grace_s: float = 10.0
    release: Source | None = None
    synthetic: Source | None = None
    """Where the server says whether its weights are random."""
    reset: str = ""
    """A path whose POST empties the prefix cache."""
    uncached: Mapping[str, Any] = field(default_factory=dict)
    """Fields of a request that uses nothing of the prefix cache."""
    profile: str = ""
    """The kind of trace that /start_profile makes: assay or kineto; empty where there is none."""
    probe: Mapping[str, Any] = field(default_factory=dict)
    """Fields of a completion request of the correctness gate, besides OpenAI's."""
    tokenize: str = ""
    """The field of a request to /tokenize that holds the text; empty where there is no such path."""
    refusals: tuple[str, ...] = ()
    """Texts of the log with which the server refuses its arguments."""
    capabilities: tuple[str, ...] = ()
    pins: bool = True
    """Whether a change gives all other knobs the values that the server states. False where values
    follow from each other: the largest CUDA graph is 0 under enforce_eager."""
    schema: str = ""
    """Where knobs come from besides this file: assay or vllm."""
    residents: ResidentKnobs = ResidentKnobs()
    """How several of them share a GPU."""
    source: str = ""
    skipped: Mapping[str, str] = field(default_factory=dict)
    """Knobs of the file that the installed release lacks, and why they were left out."""

    def arguments(self, settings: Mapping[str, Setting], *, instrumented: bool = True) -> list[str]:
        """What {settings} of a command becomes."""
        arguments = list(self.always) if instrumented else []
        for name, knob in self.knobs.items():
            arguments += knob.to_arguments(settings.get(name))
        return arguments

    def variables(
        self, settings: Mapping[str, Setting], *, instrumented: bool = True
    ) -> dict[str, str]:
        """Environment variables for the settings."""
        variables = dict(self.environment) if instrumented else {}
        for name, value in settings.items():
            knob = self.knob(name)
            if knob.environment and value is not None:
                variables[knob.environment] = spell(value)
        return variables

    def knob(self, name: str) -> AdapterKnob:
        """A knob by name."""
        if name not in self.knobs:
            if name in self.skipped:
                raise InputError(f"{name}: {self.skipped[name]}")
            raise unknown_name("knob", name, self.knobs)
        return self.knobs[name]

    def check(self, changes: Mapping[str, Setting]) -> dict[str, Setting]:
        """The changes, if every knob takes its value."""
        return {name: self.knob(name).check(value) for name, value in changes.items()}


def spell(value: Setting) -> str:
    """A value as servers write it on command lines and in files."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def names() -> list[str]:
    """The adapters that come with Assay."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def load(name: str | Path) -> Adapter:
    """An adapter by name, or from a file; knobs of its schema are added by `schemas.complete`."""
    if str(name) in names():
        return _adapter(FOLDER / f"{name}.yaml")
    path = Path(name)
    if path.suffix not in (".yaml", ".yml"):
        raise unknown_name("adapter", str(name), names())
    return _adapter(path)


def with_knobs(adapter: Adapter, knobs: Mapping[str, AdapterKnob], lacking: str = "") -> Adapter:
    """The adapter with the knobs that a schema knows.

    A knob of the file keeps where it is read back; `lacking` says why others are left out.
    """
    merged = {
        name: replace(
            knob,
            read=adapter.knobs[name].read if name in adapter.knobs else knob.read,
            least=_first(adapter.knobs, name, "least", knob.least),
            most=_first(adapter.knobs, name, "most", knob.most),
        )
        for name, knob in knobs.items()
    }
    skipped = {name: lacking for name in adapter.knobs if name not in knobs}
    return replace(adapter, knobs=merged, skipped={**adapter.skipped, **skipped})


def _first(knobs: Mapping[str, AdapterKnob], name: str, limit: str, otherwise: Any) -> Any:
    own = getattr(knobs[name], limit) if name in knobs else None
    return otherwise if own is None else own


_A: Final[Mapping[Kind, str]] = {
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "text": "text",
}
_PYTHON: Final[Mapping[Kind, tuple[type, ...]]] = {
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "text": (str,),
}


def _is_of(kind: Kind, value: Setting) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    return isinstance(value, _PYTHON[kind])


def _range(low: float | None, high: float | None) -> str:
    if high is None:
        return f"at least {low}"
    return f"at most {high}" if low is None else f"from {low} to {high}"


def _adapter(path: Path) -> Adapter:
    table = _Table(f"adapter {path}", read_yaml("adapter", path))
    adapter = Adapter(
        name=table.take("name", str),
        description=table.take("description", str, ""),
        always=tuple(shlex.split(table.take("always", str, ""))),
        environment={
            name: spell(value) for name, value in table.take("environment", dict, {}).items()
        },
        health=table.take("health", str, "/health"),
        metrics=table.take("metrics", str, ""),
        start_timeout_s=float(table.take("start_timeout_s", (int, float), 120.0)),
        hang_timeout_s=float(table.take("hang_timeout_s", (int, float), 60.0)),
        stop_grace_s=float(table.take("stop_grace_s", (int, float), 10.0)),
        release=table.source("release"),
        synthetic=table.source("synthetic"),
        reset=table.take("reset", str, ""),
        uncached=table.take("uncached", dict, {}),
        profile=table.take("profile", str, ""),
        probe=table.take("probe", dict, {}),
        tokenize=table.take("tokenize", str, ""),
        refusals=tuple(table.take("refusals", list, [])),
        capabilities=tuple(table.take("capabilities", list, [])),
        pins=table.take("pins", bool, True),
        schema=table.take("schema", str, ""),
        residents=_residents(_Table(f"{table.what}: residents", table.take("residents", dict, {}))),
        source=str(path),
        knobs={
            name: _knob(name, _Table(f"{table.what}: knob {name}", entry))
            for name, entry in table.take("knobs", dict, {}).items()
        },
    )
    table.end()
    return adapter


def _residents(table: _Table) -> ResidentKnobs:
    texts = ("share", "cache", "sleep_argument", "sleep", "wake")
    sources = ("cache_gib", "cache_blocks", "block_tokens")
    given: dict[str, Any] = {name: table.take(name, str, "") for name in texts}
    given |= {name: table.source(name) for name in sources}
    residents = ResidentKnobs(**given)
    table.end()
    return residents


def _knob(name: str, table: _Table) -> AdapterKnob:
    choices = table.take("choices", list, None)
    kind: Kind = table.take("type", str, "text" if choices else "integer")
    if kind not in KINDS:
        raise InputError(f"{table.what}: expected type to be one of {', '.join(KINDS)}, got {kind}")
    flag = f"--{name.replace('_', '-')}"
    arguments = {key: str(value) for key, value in table.take("arguments", dict, {}).items()}
    environment = table.take("environment", str, "")
    derived = "" if arguments or environment else flag if kind == "boolean" else f"{flag} {VALUE}"
    knob = AdapterKnob(
        name=name,
        meaning=table.take("meaning", str),
        kind=kind,
        default=table.take("default", (int, float, str, bool, type(None)), None),
        least=table.take("least", (int, float), None),
        most=table.take("most", (int, float), None),
        choices=None if choices is None else tuple(choices),
        argument=table.take("argument", str, derived),
        arguments=arguments,
        aliases=tuple(table.take("aliases", list, [])),
        environment=environment,
        read=tuple(table.sources("read")),
        needs=table.take("needs", str, ""),
    )
    table.end()
    knob.check(knob.default)
    values = (True, False) if kind == "boolean" else knob.choices or ()
    if lacking := [spell(value) for value in values if arguments and spell(value) not in arguments]:
        raise InputError(f"{table.what}: expected arguments for {', '.join(lacking)}, got none")
    if not (environment or arguments or kind == "boolean" or VALUE in knob.argument):
        raise InputError(f"{table.what}: expected {VALUE} in argument, got {knob.argument}")
    return knob


_REQUIRED: Final = object()


class _Table:
    """A mapping of a YAML file whose every key must be known."""

    def __init__(self, what: str, data: object) -> None:
        if not isinstance(data, dict):
            raise InputError(f"{what}: expected a mapping, got {type(data).__name__}")
        self.what = what
        self._data = dict(data)

    def take(self, key: str, kind: type | tuple[type, ...], default: Any = _REQUIRED) -> Any:
        """The value of a key, which must be of a type."""
        if key not in self._data:
            if default is _REQUIRED:
                raise InputError(f"{self.what}: expected {key}, got none")
            return default
        value = self._data.pop(key)
        if not isinstance(value, kind) and value is not default:
            raise InputError(f"{self.what}: unexpected type of {key}: {type(value).__name__}")
        return value

    def source(self, key: str) -> Source | None:
        """A place to read a value from."""
        return next(iter(self.sources(key)), None)

    def sources(self, key: str) -> Sequence[Source]:
        """Places to read a value from, best first."""
        given = self.take(key, (list, dict), [])
        sources = []
        for entry in [given] if isinstance(given, dict) else given:
            table = _Table(f"{self.what}: {key}", entry)
            texts = ("endpoint", "path", "metric", "label", "log")
            given_texts = {name: table.take(name, str, "") for name in texts}
            sources.append(Source(**given_texts, values=table.take("values", dict, {})))
            table.end()
            if sum(map(bool, (sources[-1].endpoint, sources[-1].metric, sources[-1].log))) != 1:
                raise InputError(
                    f"{self.what}: {key}: expected one of endpoint, metric and log, got "
                    f"{', '.join(entry) or 'none'}"
                )
        return sources

    def end(self) -> None:
        """Refuse keys that nobody asked for."""
        if self._data:
            raise InputError(f"{self.what}: unknown key {next(iter(self._data))}")
