"""What a question in words is about: a variable, entries of the catalog, and a scenario.

Words are matched with names, meanings and aliases; nothing is guessed. Each word of the question has
a role in the result, and those without one are listed as not understood.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final

from assay.catalog import entries
from assay.model.registry import Registry
from assay.scenario.preset import Preset

LONGEST: Final = 400
"""Characters of a question that are read."""
MOST_CANDIDATES: Final = 5
_LONGEST_NAME: Final = 6
"""Words of the longest name of an entry."""
_GROUPS: Final = ("models", "accelerators", "sites", "tariffs", "grids", "rents")
"""Groups of the catalog that people name in questions."""

_WORD: Final = re.compile(r"[a-z0-9]+(?:[.\-_/][a-z0-9]+)*")
_PART: Final = re.compile(r"[a-z]+|[0-9]+")
_NOT_IN_NAME: Final = re.compile(r"[^a-z0-9]+")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_FILLER: Final = _words(
    """a an the of on in at for to by with from is are was be does do did it its this that my our we
    i you what which how when where who and or as can could would should will if me show tell
    give please under using use run running gpu gpus model system one"""
)
"""Words that carry no meaning here."""

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

SYNONYMS: Final[Mapping[str, str]] = {
    "ttft": "time first token",
    "tpot": "time per output token",
    "itl": "time per output token",
    "mfu": "mfu",
    "price": "cost",
    "prices": "cost",
    "dollars": "cost",
    "usd": "cost",
    "expensive": "cost",
    "co2": "carbon",
    "emissions": "carbon",
    "emission": "carbon",
    "watts": "power",
    "electricity": "energy",
    "speed": "throughput",
    "generating": "output",
    "inference": "serving",
    "serve": "serving",
    "train": "training",
    "trained": "training",
    "latency": "time",
    "hbm": "hbm",
}
"""Words of the field for words that variables are described in."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A variable that the question may be about."""

    name: str
    meaning: str
    unit: str
    score: float
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
                    "name": one.name,
                    "meaning": one.meaning,
                    "unit": one.unit,
                    "score": round(one.score, 3),
                    "words": list(one.words),
                }
                for one in self.candidates
            ],
            "entries": [
                {"entry": one.path, "title": one.title, "words": list(one.words)}
                for one in self.entries
            ],
            "presets": list(self.presets),
            "not_understood": list(self.unknown),
        }


def understand(registry: Registry, presets: Sequence[Preset], question: str) -> Understanding:
    """Match the words of a question with variables, entries and scenarios."""
    text = " ".join(question.split())[:LONGEST]
    words = _WORD.findall(text.lower())
    named = _named_entries(words)
    taken = {place for places, _ in named for place in places}
    rest = [word for place, word in enumerate(words) if place not in taken]
    intent = next(
        (name for name, known in INTENTS.items() if any(one in known for one in rest)), "value"
    )
    asked = [one for one in rest if one not in _FILLER]
    candidates = _candidates(registry, presets, asked)
    known = set(candidates[0].words) if candidates else set()
    intent_words = frozenset().union(*INTENTS.values())
    topics = {topic for one in presets for topic in _topics(one)}
    unknown = [
        one
        for one in asked
        if one not in known and one not in intent_words and _plain(one) not in topics
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


def _named_entries(words: Sequence[str]) -> list[tuple[range, NamedEntry]]:
    """Entries whose whole name stands in the question, the longest names first."""
    found: list[tuple[range, NamedEntry]] = []
    taken: set[int] = set()
    groups: set[str] = set()
    for length in range(min(_LONGEST_NAME, len(words)), 0, -1):
        for start in range(len(words) - length + 1):
            places = range(start, start + length)
            part = words[start : start + length]
            if taken & set(places) or any(one in _FILLER for one in (part[0], part[-1])):
                continue
            path = _spellings().get(_NOT_IN_NAME.sub("", "".join(part)))
            if path is None or path.split("/")[0] in groups:
                continue
            groups.add(path.split("/")[0])
            taken |= set(places)
            found.append((places, NamedEntry(path, _titles()[path], tuple(part))))
    return sorted(found, key=lambda one: one[0].start)


@cache
def _catalog() -> tuple[tuple[str, str, tuple[str, ...]], ...]:
    """Path, title and spellings of every entry that a question may name."""
    folder = files("assay.catalog").joinpath("data")
    found = []
    for group in _GROUPS:
        if group not in entries.groups():
            continue
        for name in entries.names(group):
            data = json.loads(folder.joinpath(group, f"{name}.json").read_text("utf-8"))
            title = str(data.get("title", name))
            found.append((f"{group}/{name}", title, (name, title, *data.get("aliases", ()))))
    return tuple(found)


@cache
def _titles() -> dict[str, str]:
    return {path: title for path, title, _ in _catalog()}


@cache
def _spellings() -> dict[str, str]:
    """Entries by spelling, without punctuation; the first entry keeps a spelling."""
    found: dict[str, str] = {}
    for path, _, spellings in _catalog():
        for one in spellings:
            key = _NOT_IN_NAME.sub("", one.lower())
            # A single letter or a bare number is a word of the question, not a name.
            if len(key) > 1 and not key.isdigit():
                found.setdefault(key, path)
    return found


def _candidates(
    registry: Registry, presets: Sequence[Preset], asked: Sequence[str]
) -> list[Candidate]:
    """Variables by how much of the question they explain: rare words count more than common ones."""
    wanted: dict[str, set[str]] = {}
    for word in asked:
        for part in SYNONYMS.get(word, word).split():
            for one in _parts(part):
                wanted.setdefault(one, set()).add(word)
    if not wanted:
        return []
    described = {
        name: (_parts(name), _parts(variable.meaning))
        for name, variable in registry.variables.items()
    }
    labels: dict[str, list[set[str]]] = {}
    for preset in presets:
        for label, target in preset.targets:
            labels.setdefault(target, []).append(set(_parts(label)))
    counts = Counter(word for name, meaning in described.values() for word in {*name, *meaning})
    weight = {one: math.log(len(described) / (1 + counts[one])) for one in wanted if counts[one]}
    total = sum(weight.values())
    found = []
    for name, (in_name, in_meaning) in described.items():
        explained = {one for one in weight if one in in_name or one in in_meaning}
        if not explained:
            continue
        score = sum(weight[one] * (1.0 if one in in_name else 0.8) for one in explained) / total
        # Of two variables that explain the same words, the one that says less besides is meant.
        score -= 0.02 * len(set(in_name) - explained) + 0.004 * len(set(in_meaning) - explained)
        # Targets of scenarios are what people ask for.
        if any(label <= set(weight) | {"per"} for label in labels.get(name, ())):
            score += 0.3
        elif name in labels:
            score += 0.03
        # Unless it says training, a question is about a model in use.
        if "training" in {*in_name, *in_meaning} and "training" not in wanted:
            score -= 0.4
        variable = registry.variables[name]
        words = {word for one in explained for word in wanted[one]}
        ordered = tuple(one for one in dict.fromkeys(asked) if one in words)
        found.append(Candidate(name, variable.meaning, variable.display.text, score, ordered))
    best = sorted(found, key=lambda one: (-one.score, one.name))[:MOST_CANDIDATES]
    return [one for one in best if one.score > 0.25]


def _parts(text: str) -> list[str]:
    return [_plain(one) for one in _PART.findall(text.lower())]


def _plain(word: str) -> str:
    """A word without the ending of a plural.

    >>> _plain("tokens"), _plain("busses"), _plain("gas")
    ('token', 'buss', 'gas')
    """
    if len(word) > 4 and word.endswith("sses"):
        return word[:-2]
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def _topics(preset: Preset) -> Iterator[str]:
    yield from _parts(preset.name)


def _ranked(
    presets: Sequence[Preset],
    target: str | None,
    words: Sequence[str],
    named: Sequence[NamedEntry],
) -> list[str]:
    """Scenarios that report on the target first, then those that share words and entries."""
    asked = {part for word in words for part in _parts(SYNONYMS.get(word, word))}
    paths = {one.path for one in named}
    groups = {one.path.split("/")[0] for one in named}

    def rank(preset: Preset) -> tuple[float, str]:
        score = 4.0 * any(target == one for _, one in preset.targets)
        score += 2.0 * len(asked & set(_topics(preset)))
        score += 1.0 * len(paths & {one.path for one in preset.included})
        # In a scenario without a model, a model that is named would change nothing.
        score += 3.0 * len(groups & {one.group for one in preset.included})
        # Any scenario of the same layer is nearer than one of another.
        score += 0.5 * any(
            target is not None and target.split(".")[0] == one.split(".")[0]
            for _, one in preset.targets
        )
        return (-score, preset.name)

    return [one.name for one in sorted(presets, key=rank)]
