"""`assay estimate` answers what `resolve` answers of the scenario that it chose, and chooses one that exists."""

from __future__ import annotations

import math

from property_harness import Answers, Draw, Invariant, RefusedError, Violation
from statements import scaled

from assay.scenario.estimate import BASES, Estimate
from assay.scenario.questions.estimating import estimate
from assay.scenario.questions.resolving import resolve

SPEED = {"training": "training.tokens_per_second", "serving": "serving.time_per_output_token"}
AGREE = 1e-6


def _estimate(draw: Draw, answers: Answers) -> Estimate:
    values, entries = draw.values, draw.entries

    def ask() -> Estimate:
        chosen = {"serving": True} if values.get("serving") else {"gpus": int(values["gpus"])}
        return estimate(
            entries["models"], entries["accelerators"], f"{values['tokens']:.12g}", entries["tariffs"],
            **chosen,
        ).estimate  # fmt: skip

    answer = answers.once(("estimate", tuple(entries.items()), tuple(values.items())), ask)
    assert isinstance(answer, Estimate)
    return answer


def _figure(found: Estimate, name: str) -> float:
    for target in found.report.targets:
        if target.target == name and target.resolution is not None:
            value = target.resolution.value
            return math.nan if value is None else value
    raise RefusedError(f"no {name}")


def resolved(draw: Draw, answers: Answers) -> Violation | None:
    """The speed of an estimate is that of its scenario, given to `assay resolve` value by value."""
    found = _estimate(draw, answers)
    name, scenario = SPEED[found.workload], found.preset
    said = answers.seen(draw, "estimate", _figure(found, name))
    if math.isnan(said):
        raise RefusedError(f"no {name}")

    def ask() -> float:
        answer = resolve(
            name, preset=BASES[found.workload], intervals=False, allow_conflicts=True,
            includes=[part.path for part in scenario.included],
            assign={key: str(scenario.assignments[key].text) for key in scenario.own},
        )  # fmt: skip
        return answer.resolution.require_value()

    key = "estimate resolved", tuple(draw.entries.items()), tuple(draw.values.items())
    value = float(answers.once(key, ask))
    if math.isclose(said, value, rel_tol=AGREE):
        return None
    return Violation(f"{name}: {said:.9g} estimated, {value:.9g} resolved", name, (draw,))


def possible(draw: Draw, answers: Answers) -> Violation | None:
    """An estimate is of GPUs that hold the model: no constraint of its figures is violated."""
    found = _estimate(draw, answers)
    for target in found.report.targets:
        if target.resolution is None:
            continue
        broken = [verdict.name for verdict in target.resolution.violated]
        if answers.seen(draw, "broken", float(len(broken))):
            return Violation(
                f"{target.target}: violates {', '.join(broken)}", target.target, (draw,)
            )
    return None


def whole_run(draw: Draw, answers: Answers) -> Violation | None:
    """Tokens over the throughput are the time of the steps."""
    found = _estimate(draw, answers)
    if found.workload != "training":
        return None
    rate, time = (
        _figure(found, f"training.{name}") for name in ("tokens_per_second", "time_to_train")
    )
    time = answers.seen(draw, "time", time)
    if math.isclose(rate * time, found.tokens, rel_tol=1e-6):
        return None
    return Violation(
        f"{found.tokens:.6g} tokens, {rate * time:.6g} in the time", "", (draw,)
    )  # fmt: skip


INVARIANTS = (
    Invariant("resolve of an estimate is the estimate", "estimate", resolved, scaled("estimate", lambda _: 1.04)),
    Invariant(
        "an estimate violates nothing", "estimate", possible,
        lambda _, name, number: number + 1 if name == "broken" else number,
    ),
    Invariant("an estimated run has its tokens", "estimate", whole_run, scaled("time", lambda _: 1.01)),
)  # fmt: skip
