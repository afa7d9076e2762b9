"""Questions that name a variable of the model: found by its words, answered where all are explained."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from assay import stack
from assay.asking import dividing
from assay.asking.case import Case
from assay.asking.cases import place_entries
from assay.asking.commands import SERVING, TRAINING
from assay.asking.outcome import Outcome
from assay.asking.physical_changes import FLOOR
from assay.asking.reading import COMMON, FILLER, NO_FIGURE, Reading, read
from assay.asking.text import words
from assay.errors import InputError
from assay.scenario import built_in
from assay.scenario.variable_search import VariableMatch, VariableSearch

LEAST_PROBABILITY: Final = 0.5
"""Probability among all variables from which the likeliest one is answered with."""
_BEYOND_DOUBT: Final = 0.9
"""The same of one that only entries of its layer give a value of."""
_LIKELY: Final = 0.1
"""The same from which a variable is named in a refusal."""
_FEW: Final = 3
"""Inputs of a variable that are named beside it."""
_BELOW: Final = ((SERVING, "memories/hbm3e"), (TRAINING, FLOOR))
"""Scenarios with entries from below the pins of a GPU."""
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
    """The variable in the scenario of its layer, with the entries that the question names.

    What that scenario does not reach is that of the silicon below it, where the variable is beyond doubt.
    """
    paths = [f"{_GROUPS[slot]}/{value}" for slot in _GROUPS for value in reading.values(slot)[:1]]
    preset = TRAINING if match.name.startswith(_TRAINED) else SERVING
    if match.name in built_in.preset(preset).own or match.name.startswith(_OF_A_RUN):
        # What a scenario assumes is no answer, nor is a run of as many tokens as it assumes.
        return None
    paths += place_entries(reading.get("place"))
    of_what = "" if paths else f": {built_in.preset(preset).description.partition(':')[0]}"
    cases = [Case(preset, tuple(paths), assumed=(f"the scenario {preset}{of_what}",))]
    if not paths and match.probability >= _BEYOND_DOUBT:
        cases += [Case(below, (path,), assumed=(f"of {path}",)) for below, path in _BELOW]
    for case in cases:
        result = case.resolve(match.name).run()
        if result.value is not None:
            text = f"{result.meaning}: {result.text}"
            return Outcome(text, result, assumed=(*case.assumed, *_inputs(case, match.name)))
    return None


def _inputs(case: Case, name: str) -> Iterator[str]:
    """The values that a variable is computed from in one step, where they are few."""
    variables = stack.registry().variables
    near = [other for other in sorted(case.used_by(name)[1]) if other in variables]
    if len(near) > _FEW:
        return
    for other, value in zip(near, case.values(*near), strict=True):
        if value is not None:
            yield f"{other} {variables[other].figure(value).text}"


def in_doubt(matches: Sequence[VariableMatch]) -> InputError:
    """The refusal of words that name a variable, which has no value here or is one of several."""
    variables = stack.registry().variables
    likely = [match for match in matches if match.probability >= _LIKELY]
    if likely and likely[0].probability >= LEAST_PROBABILITY:
        name = likely[0].name
        return InputError(
            f"{name} ({variables[name].meaning}): no scenario of the questions has a value of it",
            f"assay show {name}",
        )
    named = "; ".join(f"{match.name} ({variables[match.name].meaning})" for match in likely)
    return InputError(f"which of these is asked for? {named or 'no variable is'}", "say more of it")
