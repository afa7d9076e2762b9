"""How fast the graph loads, resolves, evaluates in bulk and differentiates."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from assay.bench.generated import GeneratedGraph, generate, spread_point
from assay.bench.harness import Row, Timing, measure
from assay.errors import AssayError

RELATIONS, ROOTS, TARGETS = 400, 300, 4
VARYING = 32
BATCH = 100_000
LOAD_RELATIONS = 1500


def run(quick: bool, progress: Callable[[str], None]) -> list[Row]:
    """Measure the graph on one core of this machine."""
    seconds = 0.3 if quick else 2.0
    progress(f"generating a cone of {RELATIONS} relations over {ROOTS} inputs")
    graph = generate(RELATIONS, ROOTS, TARGETS)
    check_agreement(graph)
    progress("plain SymPy, one point")
    symbolic = _sympy_seconds(graph)
    rows = [
        _bulk(graph, VARYING, seconds, symbolic, progress),
        _bulk(graph, ROOTS, seconds, symbolic, progress),
        _jacobian(graph, seconds, progress),
        _load(progress),
        _warm_start(5 if quick else 15, progress),
    ]
    return rows


def check_agreement(graph: GeneratedGraph) -> None:
    """Tape and resolver must agree before either is timed."""
    compiled = graph.registry.compile(graph.roots, graph.targets)
    for seed in range(3):
        point = spread_point(graph, seed)
        bulk = compiled(point)
        for target, value in zip(graph.targets, bulk, strict=True):
            exact = graph.registry.resolve(target, point).require_value()
            if abs(value - exact) > 1e-12 * abs(exact):
                raise AssayError(f"tape and resolver disagree on {target}: {value!r} and {exact!r}")


def _bulk(
    graph: GeneratedGraph,
    varying: int,
    seconds: float,
    symbolic: float,
    progress: Callable[[str], None],
) -> Row:
    progress(f"tape, {varying} of {ROOTS} inputs varying, batches of {BATCH:,}")
    compiled = graph.registry.compile(graph.roots, graph.targets)
    source = np.random.default_rng(1)
    columns: dict[str, Any] = dict(graph.point)
    for name in graph.roots[:: ROOTS // varying][:varying]:
        columns[name] = graph.point[name] * source.uniform(0.8, 1.25, BATCH)
    result = compiled(columns)
    if not np.isfinite(result).all() or np.ptp(result, axis=1).min() == 0.0:
        raise AssayError("the generated cone does not vary, so its timing would mean nothing")
    timing = measure(lambda: compiled(columns), seconds=seconds)
    rate, rival = BATCH / timing.median, 1.0 / symbolic
    return Row(
        f"cone of {RELATIONS} relations, {varying} of {ROOTS} inputs varying", rate, "points/s",
        rival=rival, ratio=rate / rival, spread=timing.spread, note="one core; rival: SymPy subs",
    )  # fmt: skip


def _jacobian(graph: GeneratedGraph, seconds: float, progress: Callable[[str], None]) -> Row:
    progress(f"exact derivatives of {TARGETS} targets by {ROOTS} inputs at one point")
    compiled = graph.registry.compile(graph.roots, graph.targets)
    timing = measure(lambda: compiled.jacobian(graph.point), seconds=seconds)
    differences = measure(
        lambda: _central_differences(compiled, graph), seconds=seconds / 4, at_least=3
    )
    return Row(
        f"jacobian, {TARGETS} targets by {ROOTS} inputs, one point", timing.median * 1e3, "ms",
        rival=differences.median * 1e3, ratio=differences.median / timing.median, spread=timing.spread,
        note="rival: central differences over the same tape, vectorised",
    )  # fmt: skip


def _central_differences(compiled: Any, graph: GeneratedGraph) -> Any:
    base = np.array([graph.point[name] for name in graph.roots])
    steps = np.diag(base * 1e-6)
    points = np.concatenate([base + steps, base - steps])
    values = compiled(*(np.ascontiguousarray(points[:, i]) for i in range(ROOTS)))
    return (values[:, :ROOTS] - values[:, ROOTS:]) / (2e-6 * base)


def _load(progress: Callable[[str], None]) -> Row:
    progress(f"declaring and loading {LOAD_RELATIONS} relations with all unit checks")
    samples = []
    for seed in range(3):
        start = time.perf_counter()
        generate(LOAD_RELATIONS, 700, TARGETS, scopes=15, seed=seed)
        samples.append(time.perf_counter() - start)
    samples.sort()
    return Row(
        f"declare, load and check {LOAD_RELATIONS} relations", samples[1], "s",
        spread=(samples[2] - samples[0]) / samples[1],
    )  # fmt: skip


def _sympy_seconds(graph: GeneratedGraph) -> float:
    """One point by the plainest symbolic resolver: substitute relation by relation."""
    try:
        import sympy
    except ImportError:
        raise AssayError(
            "the graph suite compares with SymPy, which is not installed", "pip install sympy"
        ) from None
    order = [step.relation for step in graph.registry.resolve(graph.targets[0], graph.point).trace]
    for target in graph.targets[1:]:
        order += [step.relation for step in graph.registry.resolve(target, graph.point).trace]
    relations = list(dict.fromkeys(relation for relation in order if relation is not None))
    equations = [(relation.variable, relation.as_sympy().rhs) for relation in relations]
    start = time.perf_counter()
    values = {sympy.Symbol(name, real=True): value for name, value in graph.point.items()}
    for name, right in equations:
        values[sympy.Symbol(name, real=True)] = right.subs(
            {s: values[s] for s in right.free_symbols}
        )
    elapsed = time.perf_counter() - start
    exact = graph.registry.resolve(graph.targets[0], graph.point).require_value()
    ours = float(values[sympy.Symbol(graph.targets[0], real=True)])
    if abs(ours - exact) > 1e-9 * abs(exact):
        raise AssayError(
            f"SymPy and resolver disagree on {graph.targets[0]}: {ours!r} and {exact!r}"
        )
    return elapsed


def _warm_start(repeats: int, progress: Callable[[str], None]) -> Row:
    progress("assay resolve from a warm cache, beside importing NumPy")
    question = [
        "resolve",
        "econ.cost.per_token",
        "--preset",
        "dense_training_cost_fixture",
        "--json",
    ]
    ours = _process_time([sys.executable, "-m", "assay", *question], repeats)
    numpy = _process_time([sys.executable, "-c", "import numpy"], repeats)
    return Row(
        "assay resolve, warm, whole process", ours.median * 1e3, "ms", rival=numpy.median * 1e3,
        ratio=numpy.median / ours.median, spread=ours.spread, note='rival: python -c "import numpy"',
    )  # fmt: skip


def _process_time(command: list[str], repeats: int) -> Timing:
    def once() -> None:
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    return measure(once, seconds=0.0, at_least=repeats)
