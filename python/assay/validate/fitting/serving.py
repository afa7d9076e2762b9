"""Fit the constants of serving engines, score them on sources left out, and write them.

    python -m assay.validate.fitting.serving [--points FILE] [--write]

Reads the published cases that ship with Assay and, where the extra `validate` is installed, the
measured rows of its tables. `--points` adds measured decode steps under vLLM on an H200. Kernel and
link constants are fixed. `--write` writes the constants, and those of the fits that leave one
source out, which `assay validate` predicts that source with.
"""

from __future__ import annotations

import argparse
import datetime
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from assay import json_records
from assay.catalog import engines
from assay.errors import AssayError
from assay.validate.cases import Case, published_cases, read_cases
from assay.validate.fitting import serving_problem, serving_rows
from assay.validate.fitting.covariance import correlation_block
from assay.validate.fitting.serving_constants import CLIENTS, ENGINES
from assay.validate.fitting.serving_problem import Problem, Vector
from assay.validate.folds import folds_file, inputs_hash
from assay.validate.serving import predict as serving
from assay.validate.serving.deployments import Deployment
from assay.validate.sources import source_of

QUANTILE = 0.9
_SAME_SHAPE = {"llama8b": "llama-3.1-8b"}


def point_cases(path: Path) -> list[Case]:
    """Measured decode steps of a model's shape on one H200 under vLLM, as cases."""
    return [
        Case(
            f"points-{p['model']}-b{p['batch']}-c{p['context_start']}", "inference",
            {"system": "h200_sxm", "model": _SAME_SHAPE.get(p["model"], p["model"]),
             "backend": "vllm",
             "backend_version": "0.24.0", "precision": "bf16",
             "isl": p["context_mean"] - 1, "osl": 2, "batch": p["batch"], "tp": 1,
             "mode": "static batch"},
            {"step_ms": p["step_ms"]},
            {"title": "measured decode steps"},
        )
        for p in json.loads(path.read_text())
    ]  # fmt: skip


def all_cases(points: Sequence[Path], rows: Path | None, published_only: bool) -> list[Case]:
    """Published cases of serving, measured steps, and rows of the installed tables."""
    published = [c for c in read_cases(published_cases()) if c.kind == "inference"]
    cases = [*published, *(case for path in points for case in point_cases(path))]
    if not published_only:
        cases += serving_rows.read_rows(rows or serving_rows.rows_file())
    return list({case.id: case for case in reversed(cases)}.values())[::-1]


@dataclass(frozen=True)
class Labeled:
    """The error of one figure, as a logarithm."""

    source: str
    suite: str
    system: str
    quantity: str
    is_row: bool
    error: float


def labeled(deployments: Sequence[Deployment], unknowns: Vector) -> list[Labeled]:
    """The errors of all figures of deployments."""
    problem = Problem(deployments)
    return [
        Labeled(
            source_of(d.case), d.case.suite, d.system, serving.FIGURES[target.output],
            "silicon_sample" in str(d.case.source.get("title")), float(error),
        )
        for target, error in zip(problem.targets, problem.errors(unknowns), strict=True)
        for d in (problem.deployments[target.deployment],)
    ]  # fmt: skip


def score(label: str, rows: Sequence[Labeled]) -> None:
    """Print errors by suite and quantity."""
    keys = sorted({(row.suite + (" rows" if row.is_row else ""), row.quantity) for row in rows})
    for suite, quantity in keys:
        errors = np.expm1(
            [r.error for r in rows
             if (r.suite + (" rows" if r.is_row else ""), r.quantity) == (suite, quantity)]
        )  # fmt: skip
        size = np.abs(errors)
        print(
            f"{label:9} {suite:12} {quantity:20} {len(size):5d}  median {np.median(size):.3f}  "
            f"mean {size.mean():.3f}  p90 {np.quantile(size, 0.9):.3f}  bias {np.median(errors):+.3f}",
            flush=True,
        )


@dataclass(frozen=True)
class Fold:
    """A source left out of a fit, its scored cases, constants without it, and their errors."""

    source: str
    cases: tuple[str, ...]
    constants: dict[str, dict[str, dict[str, float]]]
    errors: list[Labeled]


def left_out(
    deployments: Sequence[Deployment],
    start: Vector,
    scored: frozenset[str],
    group_of: Callable[[Case], str] = source_of,
) -> list[Fold]:
    """For every source with scored cases, constants fitted without it, and its errors with them."""
    folds = []
    for source in dict.fromkeys(group_of(d.case) for d in deployments):
        rest = [d for d in deployments if group_of(d.case) != source]
        own = [d for d in deployments if group_of(d.case) == source and d.case.id in scored]
        if not own:
            continue
        problem = Problem(serving_problem.thinned(rest))
        unknowns = problem.solve(start)
        errors = labeled(own, unknowns)
        score("left out", errors)
        cases = tuple(d.case.id for d in own)
        folds.append(Fold(source, cases, serving_problem.constants_of(problem, unknowns), errors))
    return folds


def covariance_at(problem: Problem, unknowns: Vector) -> Vector:
    """Covariance of the logarithms of the constants, in the order of `uses`."""
    jacobian = problem.jacobian(unknowns)
    covariance: Vector = problem.map @ np.linalg.inv(jacobian.T @ jacobian) @ problem.map.T
    return covariance


def correlations_of(problem: Problem, covariance: Vector) -> dict[str, dict[str, list[Any]]]:
    """Correlations by engine and client, of the constants that are free there."""
    blocks: dict[str, dict[str, list[Any]]] = {}
    for engine in ENGINES:
        for client in CLIENTS[""]:
            rows = [
                row
                for row, (free, owner, _) in enumerate(problem.uses)
                if owner == engine and client in free.clients
            ]
            names = [f"serving.{problem.uses[row][0].name}" for row in rows]
            block = correlation_block(names, covariance[np.ix_(rows, rows)])
            blocks.setdefault(engine, {})[client] = [block]
    return blocks


def entries_of(problem: Problem, unknowns: Vector) -> dict[str, Any]:
    """Fitted constants by engine, as the calibration file has them."""
    covariance = covariance_at(problem, unknowns)
    errors = np.sqrt(np.diag(covariance))
    entries: dict[str, Any] = {engine: {"constants": {}, "clients": {}} for engine in ENGINES}
    for (free, engine, _), value, error in zip(
        problem.uses, problem.values(unknowns), errors, strict=True
    ):
        constant = {
            "value": float(f"{value:.5g}"), "unit": free.unit, "kind": "measured",
            "log_standard_error": float(f"{error:.2g}"), "prior": free.value,
            "prior_log_spread": free.spread,
        }  # fmt: skip
        for client in free.clients if free.client else ("",):
            entry = entries[engine]
            home = entry["clients"].setdefault(client, {}) if client else entry["constants"]
            home[f"serving.{free.name}"] = constant
    for engine, correlations in correlations_of(problem, covariance).items():
        entries[engine]["correlations"] = correlations
    return entries


def write(entries: dict[str, Any], left: Sequence[Labeled], counts: str) -> None:
    """Write fitted constants and intervals to the calibration file; settings are kept."""
    path = Path(engines.__file__).parent / "calibration" / "engines.json"
    data = json.loads(path.read_text())
    for engine, entry in entries.items():
        own = data["engines"].setdefault(engine, {"constants": {}, "clients": {}})
        own["constants"].update(entry["constants"])
        own["correlations"] = entry["correlations"]
        for client, values in entry["clients"].items():
            own["clients"].setdefault(client, {}).update(values)
    for quantity in serving.FIGURES:
        errors = [abs(row.error) for row in left if row.quantity == quantity]
        if len(errors) >= 10:
            width = float(np.quantile(errors, QUANTILE))
            data["intervals"][quantity] = {
                "value": float(f"{width:.3g}"), "figures": len(errors),
                "method": "nine in ten figures of sources left out are missed by less, as a logarithm",
            }  # fmt: skip
    data["provenance"] |= {"figures": counts, "date": datetime.date.today().isoformat()}
    path.write_text(json_records.dumps(data, depth=4) + "\n")


def write_folds(folds: Sequence[Fold], cases: Sequence[Case], counts: str) -> None:
    """Write the constants of every fold beside the calibration files."""
    document = {
        "provenance": {
            "kind": "fitted",
            "date": datetime.date.today().isoformat(),
            "command": "python -m assay.validate.fitting.serving --points POINTS --write",
            "method": "as engines.json, each time without one source",
            "figures": counts,
        },
        "inputs": inputs_hash(cases),
        "folds": [
            {"group": fold.source, "cases": list(fold.cases), "constants": fold.constants}
            for fold in folds
            if fold.cases
        ],
    }
    folds_file("serving").write_text(json_records.dumps(document, depth=2) + "\n")


def main() -> None:
    """Read, fit, score, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--points",
        type=Path,
        action="append",
        default=[],
        help="measured decode steps, a JSON list",
    )
    parser.add_argument("--rows", type=Path, help="rows of another file than the installed one")
    parser.add_argument("--no-rows", action="store_true", help="leave the tables' rows out")
    parser.add_argument("--write", action="store_true", help="write constants and folds")
    parser.add_argument("--quick", action="store_true", help="do not leave sources out")
    parser.add_argument(
        "--releases",
        action="store_true",
        help="only score: leave out the suites of a source one by one, which are its releases",
    )
    options = parser.parse_args()
    try:
        cases = all_cases(options.points, options.rows, options.no_rows)
    except AssayError as error:
        parser.error(f"{error.message} (or --no-rows)")
    gaps: dict[str, str] = {}
    deployments = serving_problem.read_deployments(cases, gaps)
    for case, reason in gaps.items():
        print(f"gap       {case}: {reason}")
    problem = Problem(serving_problem.thinned(deployments))
    unknowns = problem.solve()
    score("fitted", labeled(problem.deployments[: problem.count], unknowns))
    for (free, engine, _), value in zip(problem.uses, problem.values(unknowns), strict=True):
        print(
            f"constant  {engine:8} {free.name:22} {free.client:12} {value:.4g} ({free.value:.4g})"
        )
    published = frozenset(case.id for case in read_cases(published_cases()))
    # Measured steps are scored too, by tests and `validate --cases`: they need a fold.
    steps = frozenset(case.id for path in options.points for case in point_cases(path))
    if options.releases:
        for fold in left_out(deployments, unknowns, published, lambda case: case.suite):
            spread = np.sqrt(np.mean([row.error**2 for row in fold.errors]))
            print(
                f"release   {fold.source:12} {len(fold.errors):4d}  root mean square {spread:.3f}"
            )
        return
    folds = [] if options.quick else left_out(deployments, unknowns, published | steps)
    left = [
        error
        for fold in folds
        for error in fold.errors
        if not error.is_row and published.intersection(fold.cases)
    ]
    if left:
        score("held out", left)
    counts = f"{len(deployments)} cases" + (
        ", without rows of the tables" if options.no_rows else ", with rows of the tables"
    )
    if options.write:
        write(entries_of(problem, unknowns), left, counts)
        write_folds(folds, [d.case for d in deployments if d.case.id in published], counts)


if __name__ == "__main__":
    main()
