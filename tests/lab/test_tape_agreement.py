"""The tape of the whole model against `assay resolve`: values, gaps, relations and verdicts.

The extension evaluates it everywhere; the page's own program does where there is Node.
"""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

from assay import stack
from assay.errors import AssayError, InputError
from assay.model.inputs import read_inputs
from assay.model.language.distributions import Distribution
from assay.model.resolving.constraint_verdicts import judge_constraints
from assay.model.resolving.resolve import make_resolver
from assay.scenario import built_in
from assay.scenario.lab import offered_entries
from assay.scenario.question import Question, read_question
from lab_questions import TOLERANCE, ask

GROUPS = (
    "accelerators", "models", "tariffs", "sites", "grids", "prices", "engines", "finance",
    "manufacturing", "supplies",
)  # fmt: skip


def read(question: dict[str, Any]) -> Question:
    """The same question as the command line asks it."""
    selection = question["selection"]
    variables = stack.registry().variables
    assign = []
    for name, assignment in selection["assign"].items():
        shown = repr(variables[name].shown(assignment["value"]))
        assign.append(f"{name}={shown} {variables[name].display.text}".removesuffix(" 1"))
    variants = [f"{name}={relation}" for name, relation in selection["variants"].items()]
    return read_question(selection["preset"] or None, assign, variants, selection["with"])


def expected(question: dict[str, Any]) -> dict[str, Any] | None:
    """What `assay resolve` answers; None where it refuses the scenario."""
    try:
        asked = read(question)
    except InputError:
        return None
    given = {name: value for name, value in asked.given.items() if name not in question["forget"]}
    values = {n: v.median() if isinstance(v, Distribution) else v for n, v in given.items()}
    registry = asked.registry
    resolver = make_resolver(registry, read_inputs(registry, values), asked.variants)
    verdicts = judge_constraints(resolver)
    found = []
    for target in question["targets"]:
        try:
            value = resolver.value(target)
        except AssayError as error:
            found.append({"error": error.message})
            continue
        cone = resolver.cone(target)
        switches = [switch for name, switch in resolver.switches.items() if name in cone]
        found.append(
            {
                "value": value,
                "missing": sorted(gap.variable.name for gap in resolver.missing(target)),
                "switches": sorted([s.variable, s.left, s.used] for s in switches),
                "validity": sorted([v.name, v.status] for v in resolver.validities(cone)),
            }
        )
    return {
        "targets": found,
        "constraints": [[verdict.name, verdict.status] for verdict in verdicts.verdicts],
        "conflicts": sorted(conflict.variable.name for conflict in resolver.conflicts()),
        "notes": list(asked.notes),
    }


def compare(question: dict[str, Any], page: dict[str, Any]) -> int:
    """Hold one answer of the page against Python's; the number of values compared."""
    python = expected(question)
    if python is None:
        assert page["refused"], question["selection"]
        return 0
    assert not page["refused"], (question["selection"], page["refused"])
    compared = 0
    for name, ours, theirs in zip(
        question["targets"], page["targets"], python["targets"], strict=True
    ):
        where = (name, question["selection"], question["forget"])
        if "error" in theirs:
            assert ours["value"] is None, (where, theirs["error"])
            assert ours["reason"], (where, theirs["error"])
            continue
        if theirs["value"] is None:
            assert ours["value"] is None, where
        else:
            assert ours["value"] is not None, where
            assert math.isclose(ours["value"], theirs["value"], rel_tol=TOLERANCE), where
            compared += 1
        for key in ("missing", "switches", "validity"):
            # The page shows switches of what has a value, and of validity what does not hold.
            if key in ours and (theirs["value"] is not None or key == "missing"):
                assert ours[key] == theirs[key], (key, where)
    if "invalid" in page:
        known = [found for found in python["targets"] if found.get("value") is not None]
        invalid = {n for found in known for n, status in found["validity"] if status == "false"}
        assert page["invalid"] == sorted(invalid), question["selection"]
    assert page["constraints"] == python["constraints"], question["selection"]
    assert page["conflicts"] == python["conflicts"], question["selection"]
    assert sorted(page["notes"]) == sorted(python["notes"])
    return compared


def random_question(draw: random.Random) -> dict[str, Any]:
    """A preset with other catalog entries, moved values and, sometimes, forgotten ones."""
    registry = stack.registry()
    preset = draw.choice(sorted(built_in.presets()))
    groups = draw.sample(GROUPS, draw.randint(0, 3))
    includes = tuple(draw.choice(offered_entries()[group])[0] for group in groups)
    try:
        given = read(ask(preset, includes)).given
    except InputError:
        return ask(preset, includes)
    assign = {}
    for name in draw.sample(sorted(given), min(len(given), draw.randint(0, 6))):
        variable, value = registry.variables[name], given[name]
        number = value.median() if isinstance(value, Distribution) else value
        moved = number * 2 ** draw.uniform(-2, 2)
        moved = min(max(moved, variable.lower), variable.upper)
        if variable.is_count or variable.cases:
            moved = float(max(round(moved), math.ceil(max(variable.lower, -1e9))))
        assign[name] = moved
    forget = tuple(draw.sample(sorted(given.keys() - assign), draw.choice((0, 0, 1, 3))))
    return ask(preset, includes, assign, forget)


def agree(answer: Any, questions: list[dict[str, Any]]) -> int:
    """Compare all answers; the number of values compared."""
    return sum(compare(q, a) for q, a in zip(questions, answer(questions), strict=True))


@pytest.fixture(params=["native", "page"])
def answer(request: pytest.FixtureRequest) -> Any:
    """What evaluates the tape."""
    return request.getfixturevalue(request.param)


def test_presets_agree(answer: Any) -> None:
    names = [name for name in built_in.presets() if "pythia_70m" not in name]
    assert agree(answer, [ask(name) for name in names]) > 30


def test_edges_agree(answer: Any) -> None:
    serving, training = "llama3_8b_h200_serving", "llama3_8b_8_h100_training"
    questions = [
        # A value of a computed variable replaces its equation, and contradicts it.
        ask(serving, assign={"serving.time_per_output_token": 0.01}),
        ask(serving, assign={"gpu.throttle": 0.8}),
        ask(training, assign={"gpu.power.busy": 500.0, "gpu.temperature": 340.0}),
        # Formats that the accelerator lacks, and tokens beyond the context, are refused.
        ask(serving, includes=("accelerators/a100_sxm",), assign={"serving.compute_bits": 8.0}),
        ask(serving, assign={"serving.prompt": 1e9}),
        # Nothing but a question.
        ask("", targets=("gpu.peak_flops", "econ.cost.per_token")),
        # A chosen relation.
        ask(training, variants={"training.compute_time": "training.at_peak"}),
        # Memory that is too small, and loads of nothing.
        ask(serving, assign={"serving.concurrency": 4096.0, "serving.batch_limit": 4096.0}),
        ask(serving, assign={"econ.serving.load": 0.0}),
    ]
    assert agree(answer, questions) > 20


def test_random_scenarios_agree(answer: Any) -> None:
    draw = random.Random(20)
    assert agree(answer, [random_question(draw) for _ in range(6)]) > 10


@pytest.mark.slow
def test_many_random_scenarios_agree(answer: Any) -> None:
    draw = random.Random(1)
    assert agree(answer, [random_question(draw) for _ in range(400)]) > 1000
