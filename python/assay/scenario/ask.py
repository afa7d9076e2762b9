"""What a question in words is about: a variable, entries of the catalog, and a scenario.

Words are matched with names, meanings and aliases; nothing is guessed. Each word of the question has
a role in the result, and those without one are listed as not understood.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final

from assay.catalog import entries
from assay.model.registry import Registry
from assay.scenario.named_scenario import Preset
from assay.scenario.variable_search import VariableSearch, meanings, parts, plain

LONGEST: Final = 400
"""Characters of a question that are read."""
_LONGEST_NAME: Final = 6
"""Words of the longest name of an entry."""
_GROUPS: Final = ("models", "accelerators", "sites", "tariffs", "grids", "rents")
"""Groups of the catalog that people name in questions."""

_WORD: Final = re.compile(r"[a-z0-9]+(?:[.\-_/][a-z0-9]+)*")
_NOT_IN_NAME: Final = re.compile(r"[^a-z0-9]+")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_FILLER: Final = _words(
    """a an the of on in at for to by with from is are was be does do did it its this that my our we
    i you what which how when where who and or as can could would should will if me show tell so
    give please under using use one per during while there has have get gets take takes need needs
    needed see sees"""
)
"""Words that carry no meaning here."""
_COMMON: Final = _words("gpu gpus model models system run running whole")
"""Words that say little, which nobody expects in the list of those not understood."""

INTENTS: Final[Mapping[str, frozenset[str]]] = {
    "explain": _words(
        """sets set drives drive driven makes make made explain why breakdown dominates determines
        determine limits limit limited bottleneck composed consists goes into behind"""
    ),
    "value": _words("much many value number fast slow long large big high low"),
    "compare": _words("compare compared versus vs difference differ against than"),
    "reduce": _words("reduce lower cut cheapest cheaper lowest minimize improve faster"),
}
"""What is asked for, by the words that say so."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A variable that the question may be about."""

    name: str
    meaning: str
    unit: str
    score: float
    """Its probability among all variables."""
    words: tuple[str, ...]
    """Words of the question that it explains."""


@dataclass(frozen=True, slots=True)
class NamedEntry:
    """An entry of the catalog that the question names."""

    path: str
    title: str
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Understanding:
    """A question, and what was understood of it."""

    question: str
    intent: str
    candidates: tuple[Candidate, ...]
    entries: tuple[NamedEntry, ...]
    presets: tuple[str, ...]
    """Scenarios that fit, the best first."""
    unknown: tuple[str, ...]
    """Words without a role."""

    def to_data(self) -> dict[str, Any]:
        """The understanding as JSON."""
        return {
            "question": self.question,
            "intent": self.intent,
            "candidates": [
                {
                    "name": candidate.name,
                    "meaning": candidate.meaning,
                    "unit": candidate.unit,
                    "score": round(candidate.score, 3),
                    "words": list(candidate.words),
                }
                for candidate in self.candidates
            ],
            "entries": [
                {"entry": entry.path, "title": entry.title, "words": list(entry.words)}
                for entry in self.entries
            ],
            "presets": list(self.presets),
            "not_understood": list(self.unknown),
        }


def understand(registry: Registry, presets: Sequence[Preset], question: str) -> Understanding:
    """Match the words of a question with variables, entries and scenarios."""
    text = _shortened(question)
    named, rest = _read(text)
    intent = next(
        (name for name, known in INTENTS.items() if any(word in known for word in rest)), "value"
    )
    asked, groups = asked_words(question)
    candidates = _candidates(registry, presets, asked, groups)
    known = set(candidates[0].words) if candidates else set()
    intent_words = frozenset().union(*INTENTS.values())
    topics = {topic for preset in presets for topic in _topics(preset)}
    unknown = [
        word
        for word in asked
        if word not in known | intent_words | _COMMON and plain(word) not in topics
    ]
    target = candidates[0].name if candidates else None
    return Understanding(
        question=text,
        intent=intent,
        candidates=tuple(candidates),
        entries=tuple(entry for _, entry in named),
        presets=tuple(_ranked(presets, target, rest, [entry for _, entry in named])),
        unknown=tuple(dict.fromkeys(unknown)),
    )


def asked_words(question: str) -> tuple[list[str], set[str]]:
    """Words of a question that a variable may explain, and groups of the entries that it names."""
    named, rest = _read(_shortened(question))
    groups = {entry.path.split("/")[0] for _, entry in named}
    return [word for word in rest if word not in _FILLER], groups


def _shortened(question: str) -> str:
    return " ".join(question.split())[:LONGEST]


def _read(text: str) -> tuple[list[tuple[range, NamedEntry]], list[str]]:
    """The entries that a text names, and its other words."""
    words = _WORD.findall(text.lower())
    named = _named_entries(words)
    taken = {place for places, _ in named for place in places}
    return named, [word for place, word in enumerate(words) if place not in taken]


def _named_entries(words: Sequence[str]) -> list[tuple[range, NamedEntry]]:
    """Entries whose whole name stands in the question, the longest names first."""
    named: list[tuple[range, NamedEntry]] = []
    taken: set[int] = set()
    groups: set[str] = set()
    for length in range(min(_LONGEST_NAME, len(words)), 0, -1):
        for start in range(len(words) - length + 1):
            places = range(start, start + length)
            part = words[start : start + length]
            if taken & set(places) or any(word in _FILLER for word in (part[0], part[-1])):
                continue
            path = _spellings().get(_NOT_IN_NAME.sub("", "".join(part)))
            if path is None or path.split("/")[0] in groups:
                continue
            groups.add(path.split("/")[0])
            taken |= set(places)
            named.append((places, NamedEntry(path, _titles()[path], tuple(part))))
    return sorted(named, key=lambda pair: pair[0].start)


@cache
def _catalog() -> tuple[tuple[str, str, tuple[str, ...]], ...]:
    """Path, title and spellings of every entry that a question may name."""
    folder = files("assay.catalog").joinpath("data")
    listed = []
    for group in _GROUPS:
        if group not in entries.groups():
            continue
        for name in entries.names(group):
            data = json.loads(folder.joinpath(group, f"{name}.json").read_text("utf-8"))
            title = str(data.get("title", name))
            listed.append((f"{group}/{name}", title, (name, title, *data.get("aliases", ()))))
    return tuple(listed)


@cache
def _titles() -> dict[str, str]:
    return {path: title for path, title, _ in _catalog()}


@cache
def _spellings() -> dict[str, str]:
    """Entries by spelling, without punctuation; the first entry keeps a spelling."""
    by_spelling: dict[str, str] = {}
    for path, _, spellings in _catalog():
        for spelling in spellings:
            key = _NOT_IN_NAME.sub("", spelling.lower())
            # A single letter or a bare number is a word of the question, not a name.
            if len(key) > 1 and not key.isdigit():
                by_spelling.setdefault(key, path)
    return by_spelling


def _candidates(
    registry: Registry, presets: Sequence[Preset], asked: Sequence[str], groups: Collection[str]
) -> list[Candidate]:
    matches = VariableSearch(registry, presets).find(asked, groups)
    variables = registry.variables
    return [
        Candidate(
            match.name,
            variables[match.name].meaning,
            variables[match.name].display.text,
            match.probability,
            match.words,
        )
        for match in matches
    ]


def _topics(preset: Preset) -> Iterator[str]:
    yield from parts(preset.name)


def _ranked(
    presets: Sequence[Preset], target: str | None, words: Sequence[str], named: Sequence[NamedEntry]
) -> list[str]:
    """Scenarios that report on the target first, then those that share words and entries."""
    asked = {part for word in words for part in meanings(word)}
    paths = {entry.path for entry in named}
    groups = {entry.path.split("/")[0] for entry in named}

    def rank(preset: Preset) -> tuple[float, str]:
        score = 4.0 * any(target == variable for _, variable in preset.targets)
        score += 2.0 * len(asked & set(_topics(preset)))
        score += 1.0 * len(paths & {part.path for part in preset.included})
        # In a scenario without a model, a model that is named would change nothing.
        score += 3.0 * len(groups & {part.group for part in preset.included})
        # Any scenario of the same layer is nearer than one of another.
        score += 0.5 * any(
            target is not None and target.split(".")[0] == variable.split(".")[0]
            for _, variable in preset.targets
        )
        return (-score, preset.name)

    return [preset.name for preset in sorted(presets, key=rank)]
