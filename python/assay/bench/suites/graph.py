"""The equation graph: bulk evaluation, Jacobians, loading, and process start."""

from __future__ import annotations

import functools
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from assay.bench.harness.case import Absent, Case, Check, PreparedCase, Settings, Subject, Suite
from assay.bench.harness.clocks import HostClock, SelfTimedClock
from assay.bench.harness.seeding import shifted
from assay.bench.harness.table import TIMES_AT_MOST
from assay.bench.rivals.process_start import environment
from assay.bench.suites.generated_graphs import GeneratedGraph, generate, spread_point

RELATIONS: Final = 400
ROOTS: Final = 300
TARGETS: Final = 4
VARYING: Final = 32
BATCH: Final = 100_000
LOAD_RELATIONS: Final = 1500

_TARGET: Final = "econ.cost.per_token"
_TRAINING: Final = ("--preset", "llama3_8b_8_h100_training")
_SERVING: Final = ("--preset", "llama3_8b_h200_serving")
COMMANDS: Final = (
    ("assay resolve", ("resolve", _TARGET, "--preset", "dense_training_cost_fixture"), 2),
    (
        "assay resolve of training, --no-interval",
        ("resolve", _TARGET, *_TRAINING, "--no-interval"),
        2,
    ),
    ("assay resolve of training", ("resolve", _TARGET, *_TRAINING), 4),
    ("assay resolve of serving", ("resolve", "econ.cost.per_output_token", *_SERVING), 4),
    ("assay explain of training", ("explain", _TARGET, *_TRAINING), 6),
    ("assay scenario-report, seven targets", ("scenario-report", _TRAINING[1]), 8),
)
"""Commands of real scenarios, and how many times as long as `import numpy` each may take."""

_SLOW_ROUNDS: Final = 7
"""Rounds of cases that take a good part of a second: enough for an interval of the median."""

_HOST: Final = HostClock()
_SELF_TIMED: Final = SelfTimedClock()
"""For calls so long that none is made to warm up: the check has filled the caches."""


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
        Case(f"jacobian of {TARGETS} targets by {ROOTS} inputs", "ms", lambda: _jacobian(graph())),
        Case(
            f"declare, load and check {load} relations",
            "s",
            lambda: _load(load),
            rounds=_SLOW_ROUNDS,
        ),
        *(
            Case(
                f"{name}, warm, whole process",
                "ms",
                functools.partial(_command, words),
                {TIMES_AT_MOST: most},
                rounds=_SLOW_ROUNDS,
            )
            for name, words, most in COMMANDS
        ),
    ]


def _bulk(graphs: Callable[[], GeneratedGraph], varying: int, batch: int) -> PreparedCase:
    graph = graphs()
    compiled = graph.registry.compile(graph.roots, graph.targets)
    source = np.random.default_rng(shifted(1))
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
        # SymPy takes as long for a point, whatever varies: once is enough.
        rivals=[_sympy(graph)] if varying == VARYING else (),
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

    def call(_: int) -> float:
        begun = time.perf_counter()
        values = {sympy.Symbol(name, real=True): value for name, value in graph.point.items()}
        for name, right in equations:
            values[sympy.Symbol(name, real=True)] = right.subs(
                {symbol: values[symbol] for symbol in right.free_symbols}
            )
        return time.perf_counter() - begun

    return Subject("SymPy", call, _SELF_TIMED, 1)


def _command(words: Sequence[str]) -> PreparedCase:
    """A command from start to end, its caches warm, beside the import of NumPy."""
    command = [sys.executable, "-m", "assay", *words]
    numpy = [sys.executable, "-c", "import numpy"]

    def error(_: int) -> float:
        done = subprocess.run([*command, "--json"], capture_output=True, check=False)
        answered = done.returncode == 0 and b'"value"' in done.stdout
        return 0.0 if answered else float("nan")

    return PreparedCase(
        Subject("assay", lambda _: _start(command), _SELF_TIMED),
        Check("an answer and exit code 0", error, 0.0),
        rivals=[Subject("import numpy", lambda _: _start(numpy), _SELF_TIMED)],
    )


def _start(command: list[str]) -> float:
    """Seconds of a process from start to end."""
    begun = time.perf_counter()
    subprocess.run(
        command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment()
    )
    return time.perf_counter() - begun


SUITE = Suite("graph", cases, devices=("cpu",))
