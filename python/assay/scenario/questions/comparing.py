"""What carries the difference of two scenarios, and what moves a value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Unpack

from assay import stack
from assay.answers import Answer
from assay.errors import InputError, MissingInputsError, one_of
from assay.files import read_json
from assay.keywords import takes
from assay.model.language.variables import Variable
from assay.scenario.given_values import ON_COMMAND_LINE
from assay.scenario.question import GIVEN, Given, Pairs, Question, read_pairs, read_question
from assay.scenario.questions.missing import MissingAnswer, missing_answer
from assay.scenario.questions.remarks import remarks

if TYPE_CHECKING:
    from assay.model.comparing.difference import Difference
    from assay.model.comparing.sensitivity import Sensitivities

GROUPINGS: Final = ("source", "input")
_LARGEST_RESULT: Final = 50_000_000


@dataclass(frozen=True)
class SensitivityAnswer(Answer):
    """What moves a variable, the strongest input first; `violated` are constraints at the point."""

    sensitivities: Sensitivities
    violated: Sequence[str]

    def headline(self) -> str:
        """The value, and the input that moves it most."""
        moved = self.sensitivities
        said = f"{moved.target.name} = {moved.target.figure(moved.value).text}"
        if not moved.inputs:
            return said
        first = moved.inputs[0]
        share = "" if first.elasticity is None else f", {first.elasticity:+.3g} % for each per cent"
        return f"{said}; {first.variable.name} moves it most{share}"

    def to_json(self) -> dict[str, Any]:
        """The elasticities and effects as JSON data."""
        return {**self.sensitivities.to_data(), "violated": list(self.violated)}


@takes(GIVEN)
def sensitivity(
    target: str, *, step: float = 0.1, switch: bool = True, **given: Unpack[Given]
) -> SensitivityAnswer | MissingAnswer:
    """List what moves a variable most.

    Each input has its elasticity, and the variable at both ends of the input's 90 % interval, or of
    a relative change of `step` where it has none.
    """
    from assay.model.comparing.sensitivity import sensitivities

    question = read_question(**given)
    try:
        moved = sensitivities(
            question.registry, target, question.inputs, question.variants, step=step, switch=switch
        )
    except MissingInputsError as error:
        return missing_answer(question.registry, error)
    point = _Point("", question, target, switch=switch)
    notes = [*point.notes, *question.notes, *moved.notes]
    return SensitivityAnswer(moved, point.violated, notes=notes)


@dataclass(frozen=True)
class DiffAnswer(Answer):
    """The difference of a variable between two scenarios, by what contributes to it."""

    difference: Difference
    variables: Mapping[str, Variable]
    violated_before: Sequence[str]
    violated_after: Sequence[str]

    def headline(self) -> str:
        """The value before and after, and what contributes most of the difference."""
        found = self.difference
        before, after = (found.target.figure(end).text for end in (found.before, found.after))
        if found.before == found.after:
            return f"{found.target.name}: {before} before and after"
        said = f"{found.target.name}: {before} before, {after} after"
        if found.before:
            said += f" ({found.after / found.before - 1:+.1%})"
        first = max(found.contributions, key=lambda item: abs(item.amount), default=None)
        return f"{said}, most by {first.label}" if first else said

    def to_json(self) -> dict[str, Any]:
        """The contributions as JSON data."""
        return {
            **self.difference.to_data(self.variables),
            "violated_before": list(self.violated_before),
            "violated_after": list(self.violated_after),
        }


def diff(
    before: str,
    after: str,
    target: str | None = None,
    *,
    by: str = "source",
    with_before: Sequence[str] | None = None,
    assign_before: Pairs = None,
    with_after: Sequence[str] | None = None,
    assign_after: Pairs = None,
    variant_before: Pairs = None,
    variant_after: Pairs = None,
) -> DiffAnswer | MissingAnswer:
    """Attribute the difference of two scenarios, or results of `assay resolve --json`, to inputs.

    Contributions are Shapley values and sum to the difference. Without a target it is that of a
    result, or the first that both scenarios have.
    """
    from assay.model.comparing.difference import Side, difference

    grouping = one_of("grouping", by, GROUPINGS)
    first = _read_side(before, with_before, assign_before, variant_before)
    second = _read_side(after, with_after, assign_after, variant_after)
    registry = first.question.registry
    chosen = target or _shared_target(first, second)
    start, end = (Side(s.question.inputs.values, s.question.variants) for s in (first, second))
    labels = _labels(first.question, second.question) if grouping == "source" else {}
    try:
        attributed = difference(registry, chosen, start, end, labels)
    except MissingInputsError as error:
        return missing_answer(registry, error)
    points = [_Point("A: ", first.question, chosen), _Point("B: ", second.question, chosen)]
    beside = [note for point in points for note in point.notes]
    of_entries = [*first.question.notes, *second.question.notes]
    return DiffAnswer(
        attributed,
        registry.variables,
        points[0].violated,
        points[1].violated,
        notes=[*dict.fromkeys([*beside, *of_entries, *attributed.notes])],
    )


class _Point:
    """Constraints and validity at the point of a question, whose value is computed elsewhere."""

    def __init__(self, side: str, question: Question, target: str, *, switch: bool = True) -> None:
        resolution = question.resolve(target, switch=switch, intervals=False)
        self.violated = [verdict.name for verdict in resolution.violated]
        broken = [f"violated: {v.name}: {v.meaning or v.text}" for v in resolution.violated]
        given_notes = question.notes_on_given([target], switch=switch)
        self.notes = [f"{side}{note}" for note in (*broken, *given_notes, *remarks(resolution))]


@dataclass(frozen=True)
class _ReadSide:
    """One side of a comparison: its question, and the targets that it names."""

    question: Question
    targets: Sequence[str]


def _read_side(
    text: str, includes: Sequence[str] | None, assign: Pairs, variant: Pairs
) -> _ReadSide:
    if not text.endswith(".json"):
        question = read_question(preset=text, assign=assign, variant=variant, includes=includes)
        targets = [name for _, name in question.preset.targets] if question.preset else []
        return _ReadSide(question, targets)
    if includes:
        raise InputError("--with: expected a scenario as B, got a result", "use --assign")
    values, chosen, target = _read_result(Path(text))
    if isinstance(assign, Mapping):
        assign = [f"{name}={value}" for name, value in assign.items()]
    given = [*values, *(assign or ())]
    variants = {**chosen, **read_pairs("--variant", "variable=relation", variant)}
    return _ReadSide(read_question(assign=given, variant=variants), [target])


def _read_result(path: Path) -> tuple[list[str], dict[str, str], str]:
    """What a result of `assay resolve --json` was given, as assignments and variants, and its target."""
    data: Any = read_json("result", path, _LARGEST_RESULT)
    try:
        steps = [step for step in data["trace"] if step["kind"] == "given"]
        values = [f"{step['name']}={step['value']!r} {step['unit']}" for step in steps]
        relations = {str(s["name"]): str(s["relation"]) for s in data["trace"] if s["relation"]}
        return values, _alternatives(relations), str(data["target"])
    except (KeyError, TypeError):
        raise InputError(
            f"result {path.name}: expected the keys target and trace of assay resolve --json",
            f"assay resolve VARIABLE --preset PRESET --json > {path.name}",
        ) from None


def _alternatives(relations: Mapping[str, str]) -> dict[str, str]:
    """Of the relations that were used those that are used only where they are chosen."""
    variables = stack.registry().variables
    chosen = {}
    for name, relation in relations.items():
        variable = variables.get(name)
        if variable is None or len(variable.defining_equations) < 2:
            continue
        identities = [r.name for r in variable.defining_equations if r.is_identity]
        if identities != [relation] or variable.is_root:
            chosen[name] = relation
    return chosen


def _shared_target(first: _ReadSide, second: _ReadSide) -> str:
    for name in first.targets:
        if name in second.targets:
            return name
    raise InputError("the two have no target in common", "name one with --target")


def _labels(first: Question, second: Question) -> dict[str, str]:
    """The catalog entries that give a value or choose a relation on both sides, by variable."""
    origins = [_origins(question) for question in (first, second)]
    entries = [_entries(question) for question in (first, second)]
    labels = {}
    for name in {*origins[0], *origins[1]}:
        before, after = origins[0].get(name), origins[1].get(name)
        if before == after or before is None or after is None:
            path = before or after or ""
            # An entry that only one side has brings the values that the other lacks.
            labels[name] = path
        elif before.partition("/")[0] == after.partition("/")[0]:
            labels[name] = f"{before} -> {after.partition('/')[2] or after}"
        elif after not in entries[0]:
            labels[name] = after
        elif before not in entries[1]:
            labels[name] = before
    return labels


def _entries(question: Question) -> set[str]:
    """The catalog entries of a scenario."""
    return set() if question.preset is None else {part.path for part in question.preset.included}


def _origins(question: Question) -> dict[str, str]:
    """The catalog entry behind each value and relation that no one states directly."""
    if question.preset is None:
        return {}
    paths = {
        name: part.path
        for part in question.preset.included
        for name in (*part.values, *part.variants)
    }
    stated = {n for n, source in question.sources.items() if source == ON_COMMAND_LINE}
    return {n: path for n, path in paths.items() if n not in question.preset.own | stated}
