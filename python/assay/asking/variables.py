"""Questions that name a variable of the model: found by its words, answered where all are explained."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from assay import stack
from assay.asking import dividing
from assay.asking.case import Case
from assay.asking.cases import place_entries
from assay.asking.commands import SERVING, TRAINING
from assay.asking.outcome import Outcome
from assay.asking.reading import COMMON, FILLER, NO_FIGURE, Reading, read
from assay.asking.text import words
from assay.scenario import built_in
from assay.scenario.variable_search import VariableMatch, VariableSearch

LEAST_PROBABILITY: Final = 0.5
"""Probability among all variables from which the likeliest one is answered with."""
_GROUPS: Final = {
    "model": "models",
    "accelerator": "accelerators",
    "site": "sites",
    "engine": "engines",
    "node": "nodes",
}
_TRAINED: Final = (
    "training.",
    "parallelism.",
    "cluster.",
    "econ.run.",
    "econ.job.",
    "carbon.run.",
    "optimizer.",
)
_OF_A_RUN: Final = (
    "training.gpu_hours",
    "training.tokens",
    "econ.run.",
    "carbon.run.",
    "cluster.run.",
)
PER: Final = ("per_gpu", "per_time", "per_tokens")
"""What a figure is wanted for each of: words that a variable may explain."""
_EACH: Final = re.compile(r"(?:\bper |\b(?:and|of an?|of one|of each) |[/*(])([a-z]+)")
"""What a variable is for each of, by its meaning and its unit."""
SLOTS: Final = frozenset((*_GROUPS, "place", *PER))


def asked_words(question: str) -> tuple[list[str], set[str]]:
    """Words of a question that a variable may explain, and groups of the entries that it names."""
    return words_of(read(question))


def words_of(reading: Reading) -> tuple[list[str], set[str]]:
    """The same of a question that was read."""
    groups = {_GROUPS[slot] for slot in reading.slots if slot in _GROUPS}
    per = [word for part in reading.mentions if part.slot in PER for word in words(part.words)]
    return [word for word in (*reading.words(), *per) if word not in FILLER | NO_FIGURE], groups


def likeliest(reading: Reading) -> Sequence[VariableMatch]:
    """The variables that a question may be about, the likeliest first."""
    presets = [built_in.preset(name) for name in built_in.presets()]
    return VariableSearch(stack.registry(), presets).find(*words_of(reading))


def unexplained(reading: Reading, match: VariableMatch) -> list[str]:
    """The words that the variable does not explain."""
    asked = [word for word in words_of(reading)[0] if word not in COMMON]
    if len(asked) == 1 and asked[0] != match.name.rpartition(".")[2]:
        # One word in a sentence about the variable is too little; its name is enough.
        return asked
    return [word for word in asked if word not in match.words] + [
        word for word in reading.words() if word in NO_FIGURE
    ]


def not_divided(reading: Reading, match: VariableMatch) -> list[str]:
    """What the figure is wanted for each of, and the variable is not by its meaning or unit."""
    variable = stack.registry().variables[match.name]
    text = f"{variable.meaning} {variable.display.text}".lower()
    own = set(_EACH.findall(text))
    return [
        left
        for left in dividing.not_divided(reading, None)
        if not {left.split()[-1], left.split()[-1].removesuffix("s")} & own
    ]


def answer(reading: Reading, match: VariableMatch) -> Outcome | None:
    """The variable in the scenario of its layer, with the entries that the question names."""
    paths = [f"{_GROUPS[slot]}/{value}" for slot in _GROUPS for value in reading.values(slot)[:1]]
    preset = TRAINING if match.name.startswith(_TRAINED) else SERVING
    if match.name in built_in.preset(preset).own or match.name.startswith(_OF_A_RUN):
        # What a scenario assumes is no answer, nor is a run of as many tokens as it assumes.
        return None
    case = Case(preset, (*paths, *place_entries(reading.get("place"))))
    result = case.resolve(match.name).run()
    if result.value is None:
        return None
    return Outcome(f"{result.meaning}: {result.text}", result, assumed=(f"the scenario {preset}",))
