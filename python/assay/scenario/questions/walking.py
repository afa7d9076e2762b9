"""A walk from one variable to another, with the elasticity of each step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Unpack

from assay.answers import Answer
from assay.errors import InputError, MissingInputsError
from assay.keywords import takes
from assay.scenario.question import GIVEN, Given, Question, read_pairs, read_question

if TYPE_CHECKING:
    from assay.model.comparing.walks import WalkStep
    from assay.model.language.relations import Relation

SCENARIO: Final = "llama3_8b_8_h100_training"
"""The scenario of a walk that names none."""
PACKS: Final = ("packs/h100_floor", "packs/euv_tin")
"""Entries that state what lies below a GPU's pins, where a walk names none."""


@dataclass(frozen=True)
class WalkAnswer(Answer):
    """The steps of a walk, and the variants that it chose beside the scenario's."""

    steps: Sequence[WalkStep]
    total: float | None
    """The elasticity of the end by the start along all ways together; None where it has no slope."""
    chosen: dict[str, str]
    command: str

    @property
    def layers(self) -> list[str]:
        """The layers that the walk passes, in order."""
        from assay.model.comparing.walks import layers_of

        return layers_of(self.steps)

    def to_json(self) -> dict[str, Any]:
        """The walk as JSON data."""
        return {
            "from": self.steps[0].variable.name,
            "to": self.steps[-1].variable.name,
            "elasticity": self.steps[-1].carried,
            "total_elasticity": self.total,
            "layers": self.layers,
            "variants": self.chosen,
            "steps": [step.to_data() for step in self.steps],
            "command": self.command,
            "notes": list(self.notes),
        }


MOST_TRIES: Final = 24
"""Walks that are tried before one whose inputs are not all known is reported."""


@takes(GIVEN)
def walk(start: str, target: str, **given: Unpack[Given]) -> WalkAnswer:
    """The chain of relations from a variable, or a word in its name, to another, step by step.

    Along the relations in use it is the walk that carries most; where none leads on, of the walks
    whose inputs the scenario states, the one that takes the fewest relations beside those in use.
    """
    from assay.model.comparing.walks import find_walk, starts_of, strongest_walk
    from assay.model.resolving.resolve import make_resolver

    notes = []
    if not given.get("preset"):
        given["preset"] = SCENARIO
        notes.append(f"no --preset given: {SCENARIO}")
        if not given.get("includes"):
            given["includes"] = list(PACKS)
            notes.append(f"no --with given: {', '.join(PACKS)}")
    asked = read_question(**given)
    starts = starts_of(asked.registry, start)
    asked.registry.variable(target)
    in_use = make_resolver(asked.registry, asked.inputs, asked.variants)
    strongest = strongest_walk(in_use, starts, target)
    if strongest is not None:
        return _take(asked, *strongest, given, notes)
    left_out: set[str] = set()
    unknown: MissingInputsError | None = None
    for _ in range(MOST_TRIES):
        try:
            first, way = find_walk(asked.registry, starts, target, asked.variants, left_out)
        except InputError:
            if unknown is None:
                raise
            break
        try:
            return _take(asked, first, way, given, notes)
        except _UnknownStepError as error:
            unknown = unknown or error.missing
            left_out.add(error.relation)
    assert unknown is not None
    raise unknown


class _UnknownStepError(Exception):
    """A step whose relation has inputs that nothing states."""

    def __init__(self, relation: str, missing: MissingInputsError) -> None:
        super().__init__(relation)
        self.relation = relation
        self.missing = missing


def _take(
    asked: Question, first: str, way: Sequence[Relation], given: Given, notes: Sequence[str]
) -> WalkAnswer:
    """Walk a way, with the variants that it needs beside those asked for."""
    from assay.model.comparing.walks import choices_of, make_walk
    from assay.model.resolving.resolve import make_resolver

    target = way[-1].variable if way else first
    own = read_pairs("--variant", "variable=relation", given.get("variant"))
    chosen = {
        name: relation
        for name, relation in choices_of(asked.registry, way, asked.given).items()
        if asked.variants.get(name) != relation
    }
    given = {**given, "variant": {**own, **chosen}}
    question = read_question(**given)
    # What the scenario states on the way would end the walk.
    passed = {relation.variable for relation in way}
    kept = {name: value for name, value in question.given.items() if name not in passed}
    question = replace(question, given=kept)
    resolver = make_resolver(question.registry, question.inputs, question.variants)
    try:
        steps, total = make_walk(resolver, first, way)
    except MissingInputsError as error:
        unknown = next((r for r in way if resolver.value(r.variable) is None), way[-1])
        raise _UnknownStepError(unknown.name, error) from error
    preset = given["preset"] or ""
    words = [
        "assay resolve",
        target,
        f"--preset {preset if isinstance(preset, str) else preset[0]}",
    ]
    words += [f"--with {entry}" for entry in given.get("includes") or ()]
    stated = read_pairs("--assign", 'name="value unit"', given.get("assign"))
    words += [f'--set {name}="{text}"' for name, text in stated.items()]
    words += [f"--variant {name}={relation}" for name, relation in {**own, **chosen}.items()]
    return WalkAnswer(steps, total, chosen, " ".join(words), notes=[*notes, *question.notes])
