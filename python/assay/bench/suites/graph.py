"""The equation graph: bulk evaluation, Jacobians, loading, and process start."""

from __future__ import annotations

import functools
import subprocess
import sys
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from assay.bench.harness.case import Absent, Case, Check, PreparedCase, Settings, Subject, Suite
from assay.bench.harness.clocks import HostClock
from assay.bench.suites.generated_graphs import GeneratedGraph, generate, spread_point

RELATIONS: Final = 400
ROOTS: Final = 300
TARGETS: Final = 4
VARYING: Final = 32
BATCH: Final = 100_000
LOAD_RELATIONS: Final = 1500

_HOST: Final = HostClock()


def cases(settings: Settings) -> list[Case]:
    """Evaluation, derivatives, loading and starting, on one core."""
    relations = RELATIONS // 4 if settings.quick else RELATIONS
    load = LOAD_RELATIONS // 10 if settings.quick else LOAD_RELATIONS
    graph = functools.cache(lambda: generate(relations, ROOTS, TARGETS))
    return [
        *(
            Case(
                f"cone of {relations} relations, {varying} of {ROOTS} inputs varying",
                "points/s",
                functools.partial(_bulk, graph, varying, BATCH // 10 if settings.quick else BATCH),
            )
            for varying in (VARYING, ROOTS)
        ),
        Case(
            f"jacobian of {TARGETS} targets by {ROOTS} inputs",
            "ms",
            lambda: _jacobian(graph()),
        ),
        Case(f"declare, load and check {load} relations", "s", lambda: _load(load)),
        Case("assay resolve, warm, whole process", "ms", _warm_start),
    ]


def _bulk(graphs: Callable[[], GeneratedGraph], varying: int, batch: int) -> PreparedCase:
    graph = graphs()
    compiled = graph.registry.compile(graph.roots, graph.targets)
    source = np.random.default_rng(1)
    columns: dict[str, Any] = dict(graph.point)
    for name in graph.roots[:: ROOTS // varying][:varying]:
        columns[name] = graph.point[name] * source.uniform(0.8, 1.25, batch)
    out = np.empty((TARGETS, batch))

    def call(_: int) -> None:
        out[...] = compiled(columns)

    def error(_: int) -> float:
        out[...] = np.nan
        call(0)
        if not np.ptp(out, axis=1).min() > 0.0:
            # A constant output would not be evaluated at every point.
            return float("nan")
        return _largest_error(graph, columns, out)

    return PreparedCase(
        Subject("assay", call, _HOST, batch),
        Check("the resolver, at three points", error, 1e-12),
        rivals=[_sympy(graph)],
        note="one core",
    )


def _point(columns: dict[str, Any], index: int) -> dict[str, float]:
    return {
        name: float(value[index]) if np.ndim(value) else float(value)
        for name, value in columns.items()
    }


def _largest_error(graph: GeneratedGraph, columns: dict[str, Any], out: Any) -> float:
    """Largest relative error of the tape against the resolver, at three points."""
    worst = 0.0
    for index in (0, out.shape[1] // 2, out.shape[1] - 1):
        point = _point(columns, index)
        for target, value in zip(graph.targets, out[:, index], strict=True):
            exact = graph.registry.resolve(target, point).require_value()
            worst = max(worst, abs(float(value) - exact) / abs(exact))
    return worst


def _jacobian(graph: GeneratedGraph) -> PreparedCase:
    compiled = graph.registry.compile(graph.roots, graph.targets)
    other = spread_point(graph, 1)

    def error(_: int) -> float:
        exact = np.asarray(compiled.jacobian(other)).reshape(TARGETS, ROOTS)
        near = _central_differences(compiled, graph, other)
        return float(np.abs(exact - near).max() / np.abs(exact).max())

    return PreparedCase(
        Subject("assay", lambda _: compiled.jacobian(graph.point), _HOST),
        Check("central differences", error, 1e-6),
        rivals=[
            Subject(
                "central differences",
                lambda _: _central_differences(compiled, graph, graph.point),
                _HOST,
            )
        ],
        note="the rival is vectorized over the same tape",
    )


def _central_differences(compiled: Any, graph: GeneratedGraph, at: dict[str, float]) -> Any:
    base = np.array([at[name] for name in graph.roots])
    steps = np.diag(base * 1e-6)
    points = np.concatenate([base + steps, base - steps])
    values = compiled(*(np.ascontiguousarray(points[:, i]) for i in range(ROOTS)))
    return (values[:, :ROOTS] - values[:, ROOTS:]) / (2e-6 * base)


def _load(relations: int) -> PreparedCase:
    def call(number: int) -> GeneratedGraph:
        return generate(relations, relations // 2, TARGETS, scopes=15, seed=number)

    def error(number: int) -> float:
        registry = call(number).registry
        return abs(sum(1 for _ in registry.equations) - relations) / relations

    return PreparedCase(
        Subject("assay", call, _HOST),
        Check("the number of relations declared", error, 0.0),
        note="with all unit checks; a different graph each time",
    )


def _sympy(graph: GeneratedGraph) -> Subject | Absent:
    """One point by symbolic substitution, relation by relation."""
    try:
        import sympy
    except ImportError:
        return Absent("SymPy", "not installed")
    order = []
    for target in graph.targets:
        order += [step.relation for step in graph.registry.resolve(target, graph.point).trace]
    relations = list(dict.fromkeys(relation for relation in order if relation is not None))
    equations = [(relation.variable, relation.as_sympy().rhs) for relation in relations]

    def call(_: int) -> None:
        values = {sympy.Symbol(name, real=True): value for name, value in graph.point.items()}
        for name, right in equations:
            values[sympy.Symbol(name, real=True)] = right.subs(
                {symbol: values[symbol] for symbol in right.free_symbols}
            )

    return Subject("SymPy", call, _HOST, 1)


def _warm_start() -> PreparedCase:
    command = [
        sys.executable, "-m", "assay",
        "resolve", "econ.cost.per_token", "--preset", "dense_training_cost_fixture", "--json",
    ]  # fmt: skip
    numpy = [sys.executable, "-c", "import numpy"]

    def error(_: int) -> float:
        done = subprocess.run(command, capture_output=True, check=False)
        return 0.0 if done.returncode == 0 and b'"value"' in done.stdout else float("nan")

    return PreparedCase(
        Subject("assay", lambda _: _start(command), _HOST),
        Check("an answer and exit code 0", error, 0.0),
        rivals=[Subject("import numpy", lambda _: _start(numpy), _HOST)],
    )


def _start(command: list[str]) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


SUITE = Suite(
    "graph",
    "the equation graph: evaluation, derivatives, loading, starting",
    cases,
    devices=("cpu",),
)
