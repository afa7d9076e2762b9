"""The numeric half of `verify`: the same number by every way there is to compute it.

Relations are tried one by one at random points within the bounds of their variables, about
the size of their display units; whole cones of targets are resolved and compiled. Points are
drawn from the relation's name, so that a run can be repeated.
"""

from __future__ import annotations

import importlib.util
import json
import math
from collections.abc import Mapping
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from assay._native import Tape
from assay.errors import AssayError, ConvergenceError, EvaluationError
from assay.model.auditing.verify import Outcome, Rule, collect
from assay.model.language.expression import Expression, as_sympy, decode, encode, evaluate
from assay.model.language.relations import Inequality, Relation
from assay.model.language.variables import Constant, Variable
from assay.model.store import fingerprint
from assay.model.tapes.compile import Compiled, Lowering
from assay.model.tapes.program import Program

if TYPE_CHECKING:
    from assay.model.registry import Registry

POINTS = 3
_TRIES = 40
_TOLERANCE = 1e-9
"""Relative difference that rounding may make; wrong operations make far larger ones."""
_STEP = 1e-4
_DERIVATIVE_TOLERANCE = 1e-6
_SMOOTH = 1e-3
"""Relative change between two step sizes beyond which a difference quotient tells nothing."""

Point = dict[str, float]


def numeric_rules(*, read_only: bool) -> list[Rule]:
    """The rules that compute."""
    cones = partial(_cones, read_only=read_only)
    return [
        Rule("encoding", "expressions survive being written and read", _encoding),
        Rule("data", "the registry survives being written and read", _data),
        Rule("tapes", "tapes compute what the relations say", _tapes),
        Rule("derivatives", "exact derivatives agree with central differences", _derivatives),
        Rule("sympy", "SymPy computes the same values", _sympy),
        Rule("cones", "targets compile to what they resolve to", cones),
    ]


def draw(variable: Variable, random: Random, decades: float = 2.0) -> float:
    """A value within the variable's bounds, within some decades of its display unit."""
    if isinstance(variable, Constant):
        return variable.value
    lower, upper = variable.lower, variable.upper
    if math.isfinite(lower) and math.isfinite(upper):
        return lower + random.random() * (upper - lower)
    size = float(variable.display.scale) * math.pow(10.0, random.uniform(-decades, decades))
    if math.isfinite(lower):
        return lower + size
    if math.isfinite(upper):
        return upper - size
    return random.choice((-size, size))


def finite_points(registry: Registry, relation: Relation, expression: Expression) -> list[Point]:
    """Points at which an expression of the relation has a finite value."""
    random = Random(relation.name)
    variables = [registry.variable(name) for name in relation.inputs]
    points: list[Point] = []
    for attempt in range(_TRIES):
        decades = 2.0 if attempt < _TRIES // 2 else 9.0
        point = {v.name: draw(v, random, decades) for v in variables}
        if math.isfinite(evaluate(expression, point)):
            points.append(point)
        if len(points) == POINTS:
            break
    return points


def algebraic(registry: Registry) -> list[tuple[Relation, Expression]]:
    """Relations with a closed right-hand side or condition, and that."""
    return [(r, r.expression) for r in registry.relations.values() if r.expression is not None]


def lower(relation: Relation, expression: Expression) -> Compiled:
    """One relation as a tape of its own, which goes into no cache."""
    program = Program(len(relation.inputs))
    values = {name: program.input(index) for index, name in enumerate(relation.inputs)}
    tape = program.finish([program.expression(expression, values.__getitem__)])
    return Compiled(tape, relation.inputs, [relation.name], {})


def _encoding(registry: Registry) -> Outcome:
    findings, count = [], 0
    for relation in registry.relations.values():
        for name, text in relation.parts.items():
            count += 1
            if encode(decode(text)) != text:
                findings.append(f"{relation.name}, {name} changes when written and read")
    return Outcome(count, findings)


def _data(registry: Registry) -> Outcome:
    again = type(registry)(json.loads(json.dumps(registry.to_data())))
    findings = [] if again.key == fingerprint(registry.to_data()) else ["the digest differs"]
    findings += collect(lambda r: r.check(), [again])
    mine, theirs = _facts(registry), _facts(again)
    names = [name for name in {**mine, **theirs} if mine.get(name) != theirs.get(name)]
    return Outcome(len(mine), [*findings, *(f"{name} differs" for name in names)])


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


def _tapes(registry: Registry) -> Outcome:
    findings, notes, count = [], [], 0
    for relation, expression in algebraic(registry):
        points = finite_points(registry, relation, expression)
        if not points:
            notes.append(_no_point(relation))
            continue
        compiled = lower(relation, expression)
        for point in points:
            count += 1
            found, expected = float(compiled(point)[0]), evaluate(expression, point)
            if not math.isclose(found, expected, rel_tol=_TOLERANCE):
                findings.append(_mismatch(relation, "the tape", found, expected, point))
    return Outcome(count, findings, notes)


def _sympy(registry: Registry) -> Outcome:
    if importlib.util.find_spec("sympy") is None:
        return Outcome(0, skipped="SymPy is not installed")
    findings, notes, count = [], [], 0
    for relation, expression in algebraic(registry):
        points = finite_points(registry, relation, expression)
        if not points:
            notes.append(_no_point(relation))
            continue
        symbolic = as_sympy(expression)
        for point in points:
            count += 1
            found, expected = _sympy_value(symbolic, point), evaluate(expression, point)
            if not math.isclose(found, expected, rel_tol=_TOLERANCE):
                findings.append(_mismatch(relation, "SymPy", found, expected, point))
    return Outcome(count, findings, notes)


def _sympy_value(symbolic: Any, point: Mapping[str, float]) -> float:
    import sympy

    values = {sympy.Symbol(n, real=True): sympy.Float(v, 30) for n, v in point.items()}
    result = sympy.sympify(symbolic).xreplace(values)
    if result in (sympy.true, sympy.false):
        return float(bool(result))
    number = sympy.N(result, 20)
    return float(number) if number.is_real else math.nan


def _derivatives(registry: Registry) -> Outcome:
    findings, notes, count = [], [], 0
    for relation, expression in algebraic(registry):
        if isinstance(relation, Inequality):
            continue
        varying = [name for name in relation.inputs if name not in registry.constants]
        points = finite_points(registry, relation, expression) if varying else []
        compiled = lower(relation, expression)
        told = set()
        for point in points:
            exact = compiled.jacobian(point, wrt=varying)[0]
            for name, found in zip(varying, map(float, exact), strict=True):
                expected, error = difference_quotient(expression, point, name)
                if error is None:
                    continue
                told.add(name)
                count += 1
                limit = error + _DERIVATIVE_TOLERANCE * max(abs(found), abs(expected))
                if not abs(found - expected) <= limit:
                    what = f"the derivative by {name}"
                    findings.append(_mismatch(relation, what, found, expected, point))
        if missing := [name for name in varying if name not in told]:
            notes.append(f"{relation.name}: no difference quotient for {', '.join(missing)}")
    return Outcome(count, findings, notes)


def difference_quotient(
    expression: Expression, point: Point, name: str
) -> tuple[float, float | None]:
    """A derivative by central differences and what rounding may have done to it.

    Two step sizes give a better value (Richardson); where they disagree, at a kink or a jump or
    beside the edge of the domain, no error can be told and None is returned.
    """

    def at(value: float) -> float:
        return evaluate(expression, {**point, name: value})

    center, step = point[name], _STEP * abs(point[name])
    if step == 0.0:
        return math.nan, None
    ends = [at(center + shift) for shift in (-step, -step / 2, step / 2, step)]
    if not all(map(math.isfinite, ends)):
        return math.nan, None
    wide, narrow = (ends[3] - ends[0]) / (2 * step), (ends[2] - ends[1]) / step
    better = (4 * narrow - wide) / 3
    rounding = 1e-14 * max(map(abs, ends)) / step
    if abs(wide - narrow) > _SMOOTH * max(abs(wide), abs(narrow)) + rounding:
        return better, None
    return better, rounding


def _cones(registry: Registry, *, read_only: bool) -> Outcome:
    findings, notes, count = [], [], 0
    for target in registry.targets:
        roots = registry.graph.roots(target)
        try:
            fresh = Lowering(registry, roots, {}).tape([target], {})
            in_memory = Tape.from_bytes(fresh.to_bytes())
            stored = in_memory if read_only else registry.compile(roots, [target]).tape
        except AssayError as error:
            # A choice is wanted, or a relation that no tape can hold: not this rule's business.
            notes.append(f"{target} is not compiled: {error.message}")
            continue
        if stored.to_bytes() != fresh.to_bytes():
            # A tape of something else need not even take the same inputs.
            findings.append(f"the stored tape of {target} is not what lowering gives")
            continue
        compiled = Compiled(stored, roots, [target], {})
        outcome = _resolved_and_compiled(registry, target, roots, compiled)
        if outcome is None:
            notes.append(f"{target} has no finite value at {_TRIES} random points")
            continue
        count += 1
        expected, found, point = outcome
        if not math.isclose(found, expected, rel_tol=_TOLERANCE):
            findings.append(
                f"{target} resolves to {expected:.12g} and compiles to {found:.12g} at {_at(point)}"
            )
    return Outcome(count, findings, notes)


def _resolved_and_compiled(
    registry: Registry, target: str, roots: tuple[str, ...], compiled: Compiled
) -> tuple[float, float, Point] | None:
    random = Random(target)
    for _ in range(_TRIES):
        point = {name: draw(registry.variables[name], random) for name in roots}
        try:
            resolution = registry.resolve(target, point)
            found = float(compiled(point)[0])
        except (EvaluationError, ConvergenceError):
            continue
        return resolution.require_value(), found, point
    return None


def _no_point(relation: Relation) -> str:
    return f"{relation.name} has no finite value at {_TRIES} random points"


def _mismatch(relation: Relation, what: str, found: float, expected: float, point: Point) -> str:
    return f"{relation.name}: {what} gives {found:.12g}, expected {expected:.12g} at {_at(point)}"


def _at(point: Point) -> str:
    return ", ".join(f"{name} = {value:.6g}" for name, value in point.items())
