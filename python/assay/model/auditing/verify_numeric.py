"""The numeric rules of `verify`: every evaluation path gives the same number.

Relations are evaluated one by one at random points within the bounds of their variables, of the
magnitude of their display units; cones of targets are resolved and compiled. The random generator
is seeded with the relation's name, so runs are reproducible.
"""

from __future__ import annotations

import importlib.util
import json
import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from random import Random
from typing import TYPE_CHECKING, Any

from assay._native import Tape
from assay.errors import AssayError, ConvergenceError, EvaluationError
from assay.model.auditing.differences import difference_quotients, rounding_error
from assay.model.auditing.formulas import (
    ATTEMPTS,
    Formula,
    Point,
    finite_points,
    formulas,
    random_value,
)
from assay.model.auditing.rules import Rule, RuleOutcome, collect
from assay.model.language.encoding import decode, encode
from assay.model.language.expression import Expression, Number, as_sympy, evaluate, substitute
from assay.model.language.relations import Inequality, Relation
from assay.model.store import fingerprint
from assay.model.tapes.compile import Compiled, Lowering
from assay.model.tapes.program import TapeProgram

if TYPE_CHECKING:
    from assay.model.registry import Registry

_RESOLVED_POINTS = 4
"""Points at which a cone is resolved, which takes far longer than running its tape."""
_TOLERANCE = 1e-9
"""Relative difference that rounding may make; wrong operations make far larger ones."""
_DERIVATIVE_TOLERANCE = 1e-6
_MOST_INPUTS_SHOWN = 12
"""Inputs of a point that a finding lists."""

FindFormulas = Callable[["Registry"], list[Formula]]
"""Finds the formulas of a registry; cached, since several rules need them."""


def numeric_rules(*, read_only: bool) -> list[Rule]:
    """The rules that compute."""
    cones = partial(_cones, read_only=read_only)
    find_formulas = cache(formulas)
    return [
        Rule("encoding", "expressions survive being written and read", _encoding),
        Rule("data", "the registry survives being written and read", _data),
        Rule("tapes", "tapes compute what the relations say", partial(_tapes, find_formulas)),
        Rule(
            "derivatives",
            "exact derivatives agree with central differences",
            partial(_derivatives, find_formulas),
        ),
        Rule("sympy", "SymPy computes the same values", partial(_sympy, find_formulas)),
        Rule("cones", "targets compile to what they resolve to", cones),
    ]


def lower(relation: Relation, expression: Expression) -> Compiled:
    """One relation as a tape, bypassing the cache."""
    program = TapeProgram(len(relation.inputs))
    values = {name: program.input(index) for index, name in enumerate(relation.inputs)}
    tape = program.finish([program.expression(expression, values.__getitem__)])
    return Compiled(tape, relation.inputs, [relation.name], {})


def _encoding(registry: Registry) -> RuleOutcome:
    findings, count = [], 0
    for relation in registry.relations.values():
        for name, text in relation.parts.items():
            count += 1
            if encode(decode(text)) != text:
                findings.append(f"{relation.name}, {name} changes when written and read")
    return RuleOutcome(count, findings)


def _data(registry: Registry) -> RuleOutcome:
    again = type(registry)(json.loads(json.dumps(registry.to_data())))
    findings = [] if again.key == fingerprint(registry.to_data()) else ["the digest differs"]
    findings += collect(lambda r: r.check(), [again])
    mine, theirs = _facts(registry), _facts(again)
    names = [name for name in {**mine, **theirs} if mine.get(name) != theirs.get(name)]
    return RuleOutcome(len(mine), [*findings, *(f"{name} differs" for name in names)])


def _facts(registry: Registry) -> dict[str, Any]:
    variables = {
        name: (v.symbol, v.unit, v.display, v.meaning, v.lower, v.upper, v.reference, v.boundary,
               v.family, v.target, v.library, getattr(v, "value", None))
        for name, v in {**registry.constants, **registry.variables}.items()
    }  # fmt: skip
    relations = {
        f"relation {name}": (r.kind, r.text, r.inputs, r.reference, r.meaning, r.library, r.options)
        for name, r in registry.relations.items()
    }
    return {**variables, **relations, "blocks": registry.blocks}


def _tapes(find_formulas: FindFormulas, registry: Registry) -> RuleOutcome:
    findings, notes, count = [], [], 0
    for relation, expression, _ in find_formulas(registry):
        points = finite_points(registry, relation, expression)
        if not points:
            notes.append(_no_point(relation))
            continue
        compiled = lower(relation, expression)
        for point in points:
            count += 1
            got, expected = float(compiled(point)[0]), evaluate(expression, point)
            if not _agree(got, expected, expression, point):
                findings.append(_mismatch(relation, "the tape", got, expected, point))
    return RuleOutcome(count, findings, notes)


def _sympy(find_formulas: FindFormulas, registry: Registry) -> RuleOutcome:
    if importlib.util.find_spec("sympy") is None:
        return RuleOutcome(0, skipped="SymPy is not installed")
    findings, notes, count = [], [], 0
    for relation, expression, large in find_formulas(registry):
        points = finite_points(registry, relation, expression)
        if not points:
            notes.append(_no_point(relation))
            continue
        symbolic = None if large else as_sympy(expression)
        for point in points:
            count += 1
            if symbolic is not None:
                got = _sympy_value(symbolic, point)
            else:
                got = _sympy_value(as_sympy(substitute(expression, _numbers(point))), {})
            expected = evaluate(expression, point)
            if not _agree(got, expected, expression, point):
                findings.append(_mismatch(relation, "SymPy", got, expected, point))
    return RuleOutcome(count, findings, notes)


def _agree(got: float, expected: float, expression: Expression, point: Point) -> bool:
    if math.isclose(got, expected, rel_tol=_TOLERANCE):
        return True
    # Terms that cancel leave little but rounding.
    return abs(got - expected) <= 4 * rounding_error(expression, point)


def _numbers(point: Mapping[str, float]) -> dict[str, Expression]:
    return {name: Number(value) for name, value in point.items()}


def _sympy_value(symbolic: Any, point: Mapping[str, float]) -> float:
    import sympy

    values = {sympy.Symbol(n, real=True): sympy.Float(v, 30) for n, v in point.items()}
    result = sympy.sympify(symbolic).xreplace(values)
    if result in (sympy.true, sympy.false):
        return float(bool(result))
    number = sympy.N(result, 20)
    return float(number) if number.is_real else math.nan


def _derivatives(find_formulas: FindFormulas, registry: Registry) -> RuleOutcome:
    findings, notes, count = [], [], 0
    for relation, expression, _ in find_formulas(registry):
        if isinstance(relation, Inequality):
            continue
        varying = [name for name in relation.inputs if name not in registry.constants]
        points = finite_points(registry, relation, expression) if varying else []
        compiled = lower(relation, expression)
        checked = set()
        for point in points:
            exact = compiled.jacobian(point, wrt=varying)[0]
            for name, got, (expected, error) in zip(
                varying,
                map(float, exact),
                difference_quotients(compiled, expression, point, varying),
                strict=True,
            ):
                if error is None:
                    continue
                checked.add(name)
                count += 1
                limit = error + _DERIVATIVE_TOLERANCE * max(abs(got), abs(expected))
                if not abs(got - expected) <= limit:
                    what = f"the derivative by {name}"
                    findings.append(_mismatch(relation, what, got, expected, point))
        if missing := [name for name in varying if name not in checked]:
            notes.append(f"{relation.name}: no difference quotient for {', '.join(missing)}")
    return RuleOutcome(count, findings, notes)


def _cones(registry: Registry, *, read_only: bool) -> RuleOutcome:
    try:
        # Cones overlap, so all of them together are little larger than the largest.
        return _compare_cones(registry, registry.targets, read_only)
    except AssayError:
        pass
    findings: list[str] = []
    notes: list[str] = []
    count = 0
    for target in registry.targets:
        try:
            outcome = _compare_cones(registry, (target,), read_only)
        except AssayError as error:
            # An ambiguous variable or a relation that cannot be lowered: other rules report it.
            notes.append(f"{target} is not compiled: {error.message}")
            continue
        count += outcome.count
        findings += outcome.findings
        notes += outcome.notes
    return RuleOutcome(count, findings, notes)


def _compare_cones(registry: Registry, targets: Sequence[str], read_only: bool) -> RuleOutcome:
    """Resolve targets and run their tape; an error where they cannot be compiled."""
    cones = {target: registry.graph.roots(target) for target in targets}
    needed = {root for roots in cones.values() for root in roots}
    roots = tuple(name for name in registry.roots if name in needed)
    fresh = Lowering(registry, roots, {}).tape(targets, {})
    in_memory = Tape.from_bytes(fresh.to_bytes())
    stored = in_memory if read_only else registry.compile(roots, targets).tape
    if stored.to_bytes() != fresh.to_bytes():
        # A tape of another cone may not even have the same inputs.
        return RuleOutcome(
            0, [f"the stored tape of {', '.join(targets)} is not what lowering gives"]
        )
    compiled = Compiled(stored, roots, targets, {})
    random = Random(" ".join(targets))
    points: list[Point] = [
        {name: random_value(registry.variables[name], random) for name in roots}
        for _ in range(ATTEMPTS if roots else 1)
    ]
    columns = {name: [point[name] for point in points] for name in roots}
    rows = compiled(columns).tolist() if roots else [[value] for value in compiled()]
    findings, notes, count = [], [], 0
    for target, row in zip(targets, rows, strict=True):
        outcome = _resolve_one(registry, target, cones[target], points, row)
        if outcome is None:
            notes.append(f"{target} has no finite value at {ATTEMPTS} random points")
            continue
        count += 1
        expected, got, point = outcome
        if not math.isclose(got, expected, rel_tol=_TOLERANCE):
            findings.append(
                f"{target} resolves to {expected:.12g} and compiles to {got:.12g} at {_at(point)}"
            )
    return RuleOutcome(count, findings, notes)


def _resolve_one(
    registry: Registry, target: str, roots: Sequence[str], points: list[Point], row: list[float]
) -> tuple[float, float, Point] | None:
    """A target resolved at a point where it has a value, preferably a finite one of the tape."""
    finite_first = sorted(
        zip(points, row, strict=True), key=lambda pair: not math.isfinite(pair[1])
    )
    for point, got in finite_first[:_RESOLVED_POINTS]:
        given = {name: point[name] for name in roots}
        try:
            expected = registry.resolve(target, given).require_value()
            if not math.isfinite(got):
                # Evaluating one point raises if a block does not converge; else the tape is wrong.
                got = float(
                    Compiled(_lower_target(registry, target, roots), roots, [target], {})(given)[0]
                )
        except (EvaluationError, ConvergenceError):
            continue
        return expected, got, given
    return None


def _lower_target(registry: Registry, target: str, roots: Sequence[str]) -> Tape:
    return Lowering(registry, roots, {}).tape([target], {})


def _no_point(relation: Relation) -> str:
    return f"{relation.name} has no finite value at {ATTEMPTS} random points"


def _mismatch(relation: Relation, what: str, got: float, expected: float, point: Point) -> str:
    return f"{relation.name}: {what} gives {got:.12g}, expected {expected:.12g} at {_at(point)}"


def _at(point: Point) -> str:
    shown = [f"{name} = {value:.6g}" for name, value in list(point.items())[:_MOST_INPUTS_SHOWN]]
    more = len(point) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")
