"""The settings that a running server states: endpoints, metrics, start-up log, else its command."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from assay.http_client import ServerError
from assay.improve.engines.adapter import VALUE, Adapter, AdapterKnob, Source
from assay.load.workloads.measurement import Setting
from assay.observe.telemetry.sources import exposition
from assay.openai_api.address import ServerAddress
from assay.openai_api.exchange import exchange, exchange_json

COMMAND_LINE: Final = "command line"
DEFAULT: Final = "not on the command line: the server's default"

_LOG_BYTES: Final = 4 << 20
"""The part of a log that is read for settings: servers state them at the start."""
_ENDS: Final = " \t,;)|]}"
"""A value of a log ends at any of these."""


@dataclass(slots=True)
class ReadBack:
    """Values of knobs, and where each was read."""

    settings: dict[str, Setting] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    """Places that should state a value and did not."""

    @property
    def unconfirmed(self) -> list[str]:
        """Knobs whose value only the command line states: asked for, not confirmed."""
        return [name for name, where in self.sources.items() if where in (COMMAND_LINE, DEFAULT)]


def read_back(
    adapter: Adapter,
    address: ServerAddress,
    argv: Sequence[str],
    environment: Mapping[str, str],
    log: Path | None,
) -> ReadBack:
    """Every knob's value, from the best source that states it."""
    sources = _Sources(adapter, address, log)
    stated = ReadBack()
    for name, knob in adapter.knobs.items():
        for source in knob.read:
            if (text := sources.text(source)) is None:
                continue
            try:
                stated.settings[name] = _value(knob, source, text)
            except ValueError:
                stated.problems.append(
                    f"{name}: expected a value of its kind in {source}, got {text[:60]!r}"
                )
                continue
            stated.sources[name] = str(source)
            break
        else:
            stated.settings[name], stated.sources[name] = _given(knob, argv, environment)
    stated.problems += sources.problems
    return stated


def state_of(
    source: Source | None, adapter: Adapter, address: ServerAddress, log: Path | None
) -> str | None:
    """What one source says, as text; None where it says nothing."""
    return None if source is None else _Sources(adapter, address, log).text(source)


def given_in(
    adapter: Adapter, argv: Sequence[str], environment: Mapping[str, str]
) -> dict[str, Setting]:
    """The knobs that a command sets."""
    given = {name: _given(knob, argv, environment) for name, knob in adapter.knobs.items()}
    return {name: value for name, (value, where) in given.items() if where == COMMAND_LINE}


def _value(knob: AdapterKnob, source: Source, text: str) -> Setting:
    if source.values:
        if text not in source.values:
            raise ValueError(text)
        return source.values[text]
    # As Python servers write what is not set.
    return None if text in ("None", "null") else knob.parse(text)


class _Sources:
    """Each endpoint, the metrics and the log are read once."""

    def __init__(self, adapter: Adapter, address: ServerAddress, log: Path | None) -> None:
        self._adapter, self._address, self._log_path = adapter, address, log
        self._answers: dict[str, Any] = {}
        self._series: Mapping[str, float] | None = None
        self._log: list[str] | None = None
        self.problems: list[str] = []

    def text(self, source: Source) -> str | None:
        """What a source says; None where it says nothing."""
        if source.endpoint:
            return _walk(self._answer(source.endpoint), source.path)
        if source.metric:
            return self._metric(source)
        return self._logged(source.log)

    def _answer(self, path: str) -> Any:
        if path not in self._answers:
            self._answers[path] = self._try(lambda: exchange_json(self._address, path))
        return self._answers[path]

    def _metric(self, source: Source) -> str | None:
        if self._series is None:
            said = self._try(lambda: exchange(self._address, self._adapter.metrics)) or b""
            self._series = exposition.Parser().parse(said.decode("utf-8", "replace")).series
        for key, value in self._series.items():
            name, labels = exposition.split(key)
            if name == source.metric:
                return labels.get(source.label) if source.label else str(value)
        return None

    def _logged(self, before: str) -> str | None:
        if self._log is None:
            self._log = [] if self._log_path is None else _head(self._log_path)
        for line in reversed(self._log):
            at = line.find(before)
            if at >= 0:
                rest = line[at + len(before) :].lstrip(" \t=:")
                end = next((i for i, character in enumerate(rest) if character in _ENDS), len(rest))
                return rest[:end] or None
        return None

    def _try(self, ask: Callable[[], Any]) -> Any:
        try:
            return ask()
        except ServerError as error:
            self.problems.append(error.message)
            return None


def _head(path: Path) -> list[str]:
    try:
        with path.open("rb") as file:
            return file.read(_LOG_BYTES).decode("utf-8", "replace").splitlines()
    except OSError:
        return []


def _walk(data: Any, path: str) -> str | None:
    """The value at the end of a path of names and positions, as text."""
    for step in path.split("/"):
        if isinstance(data, Mapping):
            data = data.get(step)
        elif isinstance(data, list) and step.isdecimal() and int(step) < len(data):
            data = data[int(step)]
        else:
            return None
    return None if data is None or isinstance(data, Mapping | list) else str(data)


def _given(
    knob: AdapterKnob, argv: Sequence[str], environment: Mapping[str, str]
) -> tuple[Setting, str]:
    """What the command line or the environment asks for; the last mention counts."""
    text: str | None = None
    if knob.environment:
        text = environment.get(knob.environment)
    elif knob.arguments:
        spoken = {words: value for value, words in knob.arguments.items()}
        text = next((spoken[word] for word in reversed(argv) if word in spoken), None)
    elif knob.kind == "boolean" and VALUE not in knob.argument:
        text = "true" if knob.argument in argv else None
    else:
        text = _argument(knob, argv)
    if text is None:
        return knob.default, DEFAULT
    try:
        return knob.parse(text), COMMAND_LINE
    except ValueError:
        return knob.default, DEFAULT


def _argument(knob: AdapterKnob, argv: Sequence[str]) -> str | None:
    """The value that follows a flag: `--threads 2`, `--threads=2`, `--knob threads=2`."""
    flag, _, pattern = knob.argument.rpartition(" ")
    prefix = pattern.partition(VALUE)[0]
    argument = None
    for name in (flag, *knob.aliases):
        for at, word in enumerate(argv):
            if word == name and at + 1 < len(argv) and argv[at + 1].startswith(prefix):
                argument = argv[at + 1][len(prefix) :]
            elif word.startswith(f"{name}={prefix}"):
                argument = word[len(name) + 1 + len(prefix) :]
    return argument
