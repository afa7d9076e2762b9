"""Relations without a closed right-hand side: iterated, integrated or drawn."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from assay.errors import ConvergenceError, EvaluationError
from assay.lazy_import import LazyModule
from assay.model.language.distributions import KINDS, Distribution, median
from assay.model.language.expression import as_sympy, evaluate, to_text
from assay.model.language.relations import Relation
from assay.model.language.units import DIMENSIONLESS, Unit

if TYPE_CHECKING:
    from assay.model.language import check
else:
    # Only declarations are checked; those of a stored registry were.
    check = LazyModule("assay.model.language.check", globals(), "check")


class Iterative(Relation):
    """The limit of x <- g(x, ...), run to convergence from a start."""

    kind = "iterative"

    @property
    def own_symbols(self) -> tuple[str, ...]:
        """The iterate itself."""
        return (self.variable,)

    @property
    def expression(self) -> None:
        """No closed right-hand side: the update refers to the variable itself."""
        return None

    @cached_property
    def text(self) -> str:
        """The relation as one line of text."""
        update, start = to_text(self.part("update")), to_text(self.part("start"))
        return f"{self.variable} = limit of {self.variable} <- {update} from {start}"

    def evaluate_rhs(self, values: Mapping[str, float]) -> float:
        """Iterate to convergence; raises ConvergenceError with the last iterates."""
        tolerance, limit = self.options["tolerance"], self.options["max_iterations"]
        point = dict(values)
        current = evaluate(self.part("start"), point)
        recent: list[float] = [current]
        for iteration in range(1, limit + 1):
            point[self.variable] = current
            following = evaluate(self.part("update"), point)
            if not math.isfinite(following):
                raise self._diverged(
                    f"leaves the finite numbers after {iteration} iterations", recent
                )
            if abs(following - current) <= tolerance * max(abs(following), abs(current)):
                return following
            current = following
            recent = [*recent[-3:], current]
        raise self._diverged(f"does not converge in {limit} iterations", recent)

    def _diverged(self, how: str, recent: list[float]) -> ConvergenceError:
        return ConvergenceError(
            f"{self.name} {how}: last iterates {', '.join(f'{value:.6g}' for value in recent)}",
            "check the inputs, or damp the update",
        )

    def check_units(self, units: Mapping[str, Unit]) -> None:
        """Check update and start against the variable."""
        for part in ("update", "start"):
            unit = check.infer_unit(self.part(part), units)
            check.require_same(f"{self.kind} {self.name}, {part}", units[self.variable], unit)

    def as_sympy(self) -> Any:
        """The fixed-point condition x = g(x) as a SymPy equality."""
        import sympy

        left = sympy.Symbol(self.variable, real=True)
        return sympy.Eq(left, as_sympy(self.part("update")), evaluate=False)


class Differential(Relation):
    """The value at `end` of dx/dt = f(x, t, ...), integrated from `initial` at `start`."""

    kind = "differential"

    @property
    def time(self) -> str:
        """Name of the independent variable."""
        return str(self.options["time"])

    @property
    def own_symbols(self) -> tuple[str, ...]:
        """The state and the independent variable."""
        return (self.variable, self.time)

    @property
    def expression(self) -> None:
        """No closed right-hand side: the value is integrated."""
        return None

    @cached_property
    def text(self) -> str:
        """The relation as one line of text."""
        rate, start, end = (to_text(self.part(p)) for p in ("rate", "start", "end"))
        return f"d {self.variable} / d {self.time} = {rate}, from {start} to {end}"

    def evaluate_rhs(self, values: Mapping[str, float]) -> float:
        """Integrate with SciPy's adaptive implicit-explicit solver."""
        from scipy.integrate import solve_ivp

        rate, point = self.part("rate"), dict(values)

        def derivative(time: float, state: Any) -> list[float]:
            point[self.variable], point[self.time] = float(state[0]), float(time)
            value = evaluate(rate, point)
            if not math.isfinite(value):
                raise EvaluationError(
                    f"{self.name} has no finite rate at {self.time} = {float(time):g}",
                    f"in: {self.text}",
                )
            return [value]

        start, end = evaluate(self.part("start"), values), evaluate(self.part("end"), values)
        initial = evaluate(self.part("initial"), values)
        if not all(map(math.isfinite, (start, end, initial))):
            raise EvaluationError(f"{self.name}: start, end and initial value must be finite")
        if start == end:
            return initial
        tolerance = self.options["tolerance"]
        # A state that starts at zero has the size of its change; without any size to measure
        # errors by, the solver's steps would never grow.
        times = (start, (start + end) / 2, end) if initial == 0.0 else ()
        change = max(
            (abs(derivative(time, [initial])[0] * (end - start)) for time in times), default=0.0
        )
        solution = solve_ivp(
            derivative, (start, end), [initial], method="LSODA",
            rtol=tolerance, atol=tolerance * max(abs(initial), change, 1e-90),
        )  # fmt: skip
        result = float(solution.y[0][-1])
        if not solution.success or not math.isfinite(result):
            raise ConvergenceError(f"{self.name} cannot be integrated: {solution.message}")
        return result

    def check_units(self, units: Mapping[str, Unit]) -> None:
        """The rate times the independent variable must be the variable's unit."""
        bound = {**units, self.time: units[self.options["time_like"]]}
        time_unit = bound[self.time]
        rate = check.infer_unit(self.part("rate"), bound)
        what = f"{self.kind} {self.name}"
        check.require_same(f"{what}, rate", units[self.variable] / time_unit, rate)
        check.require_same(
            f"{what}, initial value",
            units[self.variable],
            check.infer_unit(self.part("initial"), units),
        )
        for part in ("start", "end"):
            check.require_same(
                f"{what}, {part}", time_unit, check.infer_unit(self.part(part), units)
            )

    def as_sympy(self) -> Any:
        """The differential equation in SymPy."""
        import sympy

        time = sympy.Symbol(self.time, real=True)
        state = sympy.Function(self.variable)(time)
        rate = as_sympy(self.part("rate")).subs(sympy.Symbol(self.variable, real=True), state)
        return sympy.Eq(sympy.Derivative(state, time), rate, evaluate=False)


class Stochastic(Relation):
    """A variable drawn from a distribution whose parameters are expressions."""

    kind = "stochastic"

    @property
    def distribution(self) -> str:
        """The kind of distribution, such as `lognormal`."""
        return str(self.options["distribution"])

    @property
    def expression(self) -> None:
        """No right-hand side: the value is drawn."""
        return None

    def parameters(self, values: Mapping[str, float]) -> Distribution:
        """The distribution at a point."""
        count = len(KINDS[self.distribution][0])
        drawn = tuple(evaluate(self.part(f"parameter{i}"), values) for i in range(count))
        return Distribution(self.distribution, drawn)

    @cached_property
    def text(self) -> str:
        """The relation as one line of text."""
        count = len(KINDS[self.distribution][0])
        inner = ", ".join(to_text(self.part(f"parameter{i}")) for i in range(count))
        return f"{self.variable} ~ {self.distribution}({inner})"

    def evaluate_rhs(self, values: Mapping[str, float]) -> float:
        """The median of the distribution; sampling is the business of `uncertainty`."""
        at_point = self.parameters(values)
        return median(at_point.kind, at_point.parameters)

    def check_units(self, units: Mapping[str, Unit]) -> None:
        """Location and spread are measured like the variable, shapes are pure numbers."""
        names, measured = KINDS[self.distribution]
        for position, (name, in_unit) in enumerate(zip(names, measured, strict=True)):
            unit = check.infer_unit(self.part(f"parameter{position}"), units)
            expected = units[self.variable] if in_unit else DIMENSIONLESS
            check.require_same(f"{self.kind} {self.name}, {name}", expected, unit)

    def as_sympy(self) -> Any:
        """The variable as a SymPy random symbol equation."""
        import sympy
        from sympy import stats

        count = len(KINDS[self.distribution][0])
        inner = [as_sympy(self.part(f"parameter{i}")) for i in range(count)]
        build: Callable[[], Any] = {
            "normal": lambda: stats.Normal(self.variable, *inner),
            "lognormal": lambda: stats.LogNormal(self.variable, sympy.log(inner[0]), inner[1]),
            "uniform": lambda: stats.Uniform(self.variable, *inner),
            "triangular": lambda: stats.Triangular(self.variable, inner[0], inner[2], inner[1]),
        }[self.distribution]
        return sympy.Eq(sympy.Symbol(self.variable, real=True), build(), evaluate=False)
