"""Fit the constants of serving engines, score them on models left out, and write them.

    python scripts/fit_serving.py CASES POINTS [--rows FILE] [--write]
    python scripts/fit_serving.py CASES POINTS --no-rows --write-folds

CASES is a file of published cases, POINTS measured decode steps; the rows of the installed
tables (extra `validate`) are added. Kernel and link constants are fixed.
`--write-folds` writes the constants of the fits that leave one group of cases out, which
`assay validate` predicts that group with.
"""

from __future__ import annotations

import argparse
import datetime
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from assay import json_records
from assay.catalog import engines, models
from assay.errors import AssayError, InputError
from assay.model.tapes.compile import Compiled
from assay.validate.cases import Case, read_cases
from assay.validate.points import Group, compile_known
from assay.validate.serving import measured_rows
from assay.validate.serving import predict as serving
from assay.validate.serving.deployments import Deployment, deployment_of
from calibration_covariance import correlation_block

Vector = NDArray[np.float64]

ENGINES = ("trtllm", "vllm", "sglang")
SYSTEMS = ("h100_sxm", "h200_sxm")
SCALES = {"step_time": 0.08, "time_to_first_token": 0.2}
OTHER_SCALE = 0.08
POINT_SCALE = 0.02
QUANTILE = 0.9
GROUP_WEIGHT = 30
MOST_OF_A_KIND = 14
MOST_APART = 1.3
SERVER = ("inferencex", "closed_loop")
CLIENTS = {"": (*SERVER, "offline"), "server": SERVER}
"""Groups of clients that share a constant: all, and those with a streaming server."""


@dataclass(frozen=True)
class Free:
    """A constant to fit, with a hierarchical prior.

    `value` and `spread` are the prior of all engines together, `own_spread` that of one engine's
    deviation; all spreads are of logarithms. `client` restricts it, `most` bounds it.
    """

    name: str
    value: float
    spread: float
    own_spread: float
    unit: str
    client: str = ""
    most: float = np.inf


SHARED = (
    Free("host_time", 2e-4, 0.8, 0.6, "s"),
    Free("host_sequence_time", 3e-6, 1.0, 0.4, "s", "server"),
    Free("host_sequence_time", 2e-6, 1.0, 0.5, "s", "offline"),
    Free("request_time", 0.02, 0.7, 0.5, "s", "inferencex"),
    Free("request_time", 0.04, 0.4, 0.2, "s", "closed_loop"),
    Free("layer_kernels", 5.0, 0.3, 0.08, "1"),
    Free("expert_kernels", 4.0, 0.4, 0.1, "1"),
    Free("reduction_wait", 1e-6, 1.0, 0.25, "s"),
    Free("expert_slowdown", 1.0, 0.3, 0.1, "1"),
    Free("prompt_expert_slowdown", 1.5, 0.4, 0.15, "1"),
    Free("decode_slowdown", 1.0, 0.1, 0.1, "1"),
    Free("casting", 0.4, 0.5, 0.2, "1", most=1.0),
    Free("queue_factor", 0.3, 0.7, 0.3, "1"),
    Free("burst_share", 0.15, 0.5, 0.5, "1", "closed_loop", 1.0),
    Free("step_share", 0.1, 0.7, 0.3, "1", "closed_loop", 1.0),
    Free("first_iterations", 2.0, 0.3, 0.2, "1", "closed_loop"),
)
"""Constants of every engine, each with a deviation."""

OWN = {
    # Times over 8-bit keys as the decode tables of the three engines have them; InferenceX sets
    # TensorRT-LLM's stream_interval to 10 or 20.
    "vllm": (
        Free("narrow_key_time", 0.97, 0.05, 0.0, "1"),
        Free("first_iterations", 2.0, 0.7, 0.0, "1", "inferencex"),
    ),
    "sglang": (
        Free("narrow_key_time", 0.88, 0.05, 0.0, "1"),
        Free("first_iterations", 2.0, 0.7, 0.0, "1", "inferencex"),
    ),
    "trtllm": (
        Free("narrow_key_time", 0.55, 0.05, 0.0, "1"),
        Free("first_iterations", 4.0, 0.7, 0.0, "1", "inferencex"),
    ),
}
"""Constants of one engine only."""


@dataclass(frozen=True)
class Target:
    """One figure: the output and deployment it belongs to, its scale and weight."""

    deployment: int
    column: int
    output: int
    log_observed: float
    scale: float
    weight: float


_OUTPUTS = tuple(f"serving.{name}" for name in serving.FIGURES)


def _function(group: Group) -> Compiled:
    """All figures by the inputs of a group of points."""
    cone = compile_known(group.names, _OUTPUTS)
    if cone.function is None or cone.missing:
        raise InputError(
            f"missing inputs: {', '.join(sorted(set().union(*cone.missing.values())))}"
        )
    return cone.function


class Problem:
    """Log residuals of figures, as a function of shared log constants and deviations."""

    def __init__(self, deployments: Sequence[Deployment]) -> None:
        """Bind the graph to the deployments."""
        # Prefill GPUs of disaggregated deployments are extra columns at the end.
        disaggregated = [d for d in deployments if d.prompt_values is not None]
        self.deployments = [*deployments, *disaggregated]
        self.points = serving.points_of(self.deployments, prompts=len(disaggregated))
        self.targets = _targets(deployments)
        self.uses = [
            (free, engine, self._mask(free, engine))
            for engine in ENGINES
            for free in (*SHARED, *OWN[engine])
        ]
        self.index = np.array([[t.output, t.column] for t in self.targets]).T
        self.observed = np.array([t.log_observed for t in self.targets])
        self.scale = np.array([t.scale for t in self.targets])
        self.weight = np.array([t.weight for t in self.targets])
        self.center, self.spread, self.most, self.map = _unknowns(self.uses)

    def _mask(self, free: Free, engine: str) -> Vector:
        clients = _clients_of(free)
        return np.array([d.engine == engine and d.client in clients for d in self.deployments])

    def values(self, unknowns: Vector) -> Vector:
        """The constants, in the order of `uses`."""
        found: Vector = np.exp(np.minimum(self.map @ unknowns, self.most))
        return found

    def columns(self, group: Group, unknowns: Vector) -> Vector:
        """Inputs of a group of points with some constants."""
        own: Vector = group.columns.copy()
        for (free, _, mask), value in zip(self.uses, self.values(unknowns), strict=True):
            own[group.names.index(f"serving.{free.name}"), mask[group.positions]] = value
        return own

    def errors(self, unknowns: Vector) -> Vector:
        """Logarithms of predicted over observed, one per figure."""
        found = np.full((len(_OUTPUTS), self.points.count), np.nan)
        for group in self.points.groups:
            found[:, group.positions] = _function(group)(*self.columns(group, unknowns))
        row, column = self.index
        errors: Vector = np.log(found)[row, column] - self.observed
        return errors

    def residuals(self, unknowns: Vector) -> Vector:
        """Weighted errors, then deviations from the prior."""
        own = _shrink(self.errors(unknowns) / self.scale)
        return np.concatenate([self.weight * own, (unknowns - self.center) / self.spread])

    def jacobian(self, unknowns: Vector) -> Vector:
        """Exact derivatives of the residuals."""
        names = list(dict.fromkeys(f"serving.{free.name}" for free, _, _ in self.uses))
        row, column = self.index
        slopes = np.full((len(_OUTPUTS), len(names), self.points.count), np.nan)
        for group in self.points.groups:
            function, own = _function(group), self.columns(group, unknowns)
            values = function(*own)
            slopes[:, :, group.positions] = function.jacobian(*own, wrt=names) / values[:, None, :]
        free_to_move = self.map @ unknowns < self.most
        parts = []
        for (free, _, mask), value, moves in zip(
            self.uses, self.values(unknowns), free_to_move, strict=True
        ):
            k = names.index(f"serving.{free.name}")
            parts.append(slopes[row, k, column] * value * mask[column] * moves)
        errors = self.errors(unknowns) / self.scale
        slope = np.array(parts).T @ self.map
        slope *= (self.weight * _shrink_slope(errors) / self.scale)[:, None]
        return np.vstack([np.nan_to_num(slope), np.diag(1 / self.spread)])

    def solve(self) -> Vector:
        """The maximum a posteriori constants."""
        found: Vector = least_squares(self.residuals, self.center, jac=self.jacobian, max_nfev=40).x
        return found


def _unknowns(uses: Sequence[tuple[Free, str, Vector]]) -> tuple[Vector, Vector, Vector, Vector]:
    """The unknowns: a shared value and a deviation for each engine, or one value."""
    center: list[float] = []
    spread: list[float] = []
    common: dict[Free, int] = {}
    rows: list[dict[int, float]] = []
    for free, _, _ in uses:
        if free not in common or free not in SHARED:
            common[free] = len(center)
            center.append(float(np.log(free.value)))
            spread.append(free.spread)
        row = {common[free]: 1.0}
        if free in SHARED:
            row[len(center)] = 1.0
            center.append(0.0)
            spread.append(free.own_spread)
        rows.append(row)
    matrix = np.zeros((len(uses), len(center)))
    for number, row in enumerate(rows):
        for column, value in row.items():
            matrix[number, column] = value
    most = np.log([free.most for free, _, _ in uses])
    return np.array(center), np.array(spread), most, matrix


def _shrink(errors: Vector) -> Vector:
    """Soft-L1 residuals: squares grow linearly beyond one, so that outliers do not dominate."""
    found: Vector = np.sign(errors) * np.sqrt(2 * (np.sqrt(1 + errors**2) - 1))
    return found


def _shrink_slope(errors: Vector) -> Vector:
    root = np.sqrt(1 + errors**2)
    found: Vector = np.sqrt((root + 1) / 2) / root
    return found


def group_of(deployment: Deployment) -> str:
    """Group of the cross-validation: the model, or the suite of offline cases."""
    name = str(deployment.case.inputs.get("model", ""))
    if deployment.client == "offline":
        return deployment.case.suite
    return models.find(name).name


def _targets(deployments: Sequence[Deployment]) -> list[Target]:
    groups = [group_of(deployment) for deployment in deployments]
    found = []
    behind = len(deployments)
    for index, (deployment, group) in enumerate(zip(deployments, groups, strict=True)):
        weight = min(1.0, (GROUP_WEIGHT / groups.count(group)) ** 0.5)
        is_apart = deployment.prompt_values is not None
        for figure in deployment.figures:
            scale = SCALES.get(figure.variable, OTHER_SCALE)
            if figure.quantity == "step_ms":
                scale = POINT_SCALE
            of_prompts = is_apart and figure.variable in serving.PROMPT_FIGURES
            found.append(
                Target(
                    index, behind if of_prompts else index,
                    serving.FIGURES.index(figure.variable),
                    float(np.log(figure.observed / figure.scale)), scale, weight,
                )
            )  # fmt: skip
        behind += is_apart
    return found


def reproduced(deployments: Sequence[Deployment]) -> list[Deployment]:
    """Without rows that state the same inputs and differ: the cause is not stated."""
    runs: dict[tuple[object, ...], list[Deployment]] = {}
    for d in deployments:
        stated = tuple(sorted(d.values.items()))
        runs.setdefault((d.engine, d.system, d.client, stated), []).append(d)
    selected = []
    for same in runs.values():
        pairs = zip(*([figure.observed for figure in d.figures] for d in same), strict=True)
        if all(max(values) < MOST_APART * min(values) for values in pairs):
            selected += same
    return selected


def thinned(deployments: Sequence[Deployment]) -> list[Deployment]:
    """No duplicates, and at most `MOST_OF_A_KIND` rows of one model, engine and client."""
    unique: dict[tuple[object, ...], Deployment] = {}
    for d in reproduced(deployments):
        observed = tuple(figure.observed for figure in d.figures)
        unique.setdefault((d.engine, d.system, observed, d.values["serving.tensor"]), d)
    random = np.random.default_rng(0)
    kinds: dict[tuple[str, str, str], list[Deployment]] = {}
    for d in unique.values():
        kinds.setdefault((group_of(d), d.engine, d.client), []).append(d)
    selected = []
    for members in kinds.values():
        order = random.permutation(len(members))[:MOST_OF_A_KIND]
        selected += [members[index] for index in sorted(order)]
    return selected


def point_cases(path: Path) -> list[Case]:
    """Measured decode steps of a Llama-3-8B shape on one H200 under vLLM, as cases."""
    return [
        Case(
            f"points-b{p['batch']}-c{p['context_start']}", "inference",
            {"system": "h200_sxm", "model": "llama-3.1-8b", "backend": "vllm", "precision": "bf16",
             "isl": p["context_mean"] - 1, "osl": 2, "batch": p["batch"], "tp": 1,
             "mode": "static batch"},
            {"step_ms": p["step_ms"]},
        )
        for p in json.loads(path.read_text())
    ]  # fmt: skip


def read_deployments(cases: Iterable[Case]) -> list[Deployment]:
    """Deployments of the cases that can be predicted."""
    found = []
    for case in cases:
        try:
            deployment = deployment_of(case)
        except AssayError as error:
            print(f"gap  {case.id}: {error.message}")
            continue
        if deployment.figures:
            found.append(deployment)
    return found


def score(label: str, rows: Sequence[tuple[str, str, float]]) -> None:
    """Print errors by table or by quantity."""
    for key in sorted({(group, quantity) for group, quantity, _ in rows}):
        errors = np.expm1([e for g, q, e in rows if (g, q) == key])
        size = np.abs(errors)
        print(
            f"{label:10} {key[0]:18} {key[1]:28} {len(size):5d}  median {np.median(size):.3f}  "
            f"mean {size.mean():.3f}  p90 {np.quantile(size, 0.9):.3f}  max {size.max():.3f}  "
            f"bias {np.median(errors):+.3f}",
            flush=True,
        )


def labeled(problem: Problem, logs: Vector) -> list[tuple[str, str, str, float]]:
    """Group, table, quantity and error of every figure."""
    errors = problem.errors(logs)
    found = []
    for target, error in zip(problem.targets, errors, strict=True):
        deployment = problem.deployments[target.deployment]
        table = "rows" if deployment.case.suite == "aic" else deployment.case.suite
        quantity = serving.FIGURES[target.output]
        found.append((group_of(deployment), table, quantity, float(error)))
    return found


@dataclass(frozen=True)
class Fold:
    """Cases left out of a fit together, the constants of the fit without them, and their errors."""

    group: str
    cases: tuple[str, ...]
    constants: dict[str, dict[str, dict[str, float]]]
    """Values by engine, by client (empty for all), by name."""
    errors: list[tuple[str, str, str, float]]


def held_out(deployments: Sequence[Deployment]) -> list[Fold]:
    """For every group, constants fitted without it, and its errors with them."""
    folds = []
    for group in dict.fromkeys(map(group_of, deployments)):
        rest = [d for d in deployments if group_of(d) != group]
        left = [d for d in deployments if group_of(d) == group]
        problem = Problem(thinned(rest))
        unknowns = problem.solve()
        errors = labeled(Problem(left), unknowns)
        score("left out", [(g, q, e) for g, _, q, e in errors])
        cases = tuple(d.case.id for d in left)
        folds.append(Fold(group, cases, _fold_constants(problem, unknowns), errors))
    return folds


def _fold_constants(problem: Problem, unknowns: Vector) -> dict[str, dict[str, dict[str, float]]]:
    found: dict[str, dict[str, dict[str, float]]] = {}
    for (free, engine, _), value in zip(problem.uses, problem.values(unknowns), strict=True):
        for client in SERVER if free.client == "server" else (free.client,):
            named = found.setdefault(engine, {}).setdefault(client, {})
            named[f"serving.{free.name}"] = float(f"{value:.5g}")
    return found


def write_folds(folds: Sequence[Fold], counts: str) -> None:
    """Write the constants of every fold beside the calibration files."""
    document = {
        "provenance": {
            "kind": "fitted",
            "date": datetime.date.today().isoformat(),
            "command": "python scripts/fit_serving.py CASES POINTS --no-rows --write-folds",
            "method": "as engines.json, each time without one group of cases",
            "figures": counts,
        },
        "folds": [
            {"group": fold.group, "cases": list(fold.cases), "constants": fold.constants}
            for fold in folds
        ],
    }
    path = Path(engines.__file__).parent / "calibration" / "held_out_serving.json"
    path.write_text(json_records.dumps(document, depth=2) + "\n")


def covariance_at(problem: Problem, unknowns: Vector) -> Vector:
    """Covariance of the logarithms of the constants, in the order of `uses`."""
    jacobian = problem.jacobian(unknowns)
    covariance: Vector = problem.map @ np.linalg.inv(jacobian.T @ jacobian) @ problem.map.T
    return covariance


def stored_unknowns(problem: Problem) -> Vector:
    """Unknowns that give the constants of the calibration file."""
    logs = [
        np.log(engines.given(engine, _clients_of(free)[0])[f"serving.{free.name}"])
        for free, engine, _ in problem.uses
    ]
    found: Vector = np.linalg.lstsq(problem.map, np.array(logs), rcond=None)[0]
    return found


def _clients_of(free: Free) -> tuple[str, ...]:
    return CLIENTS.get(free.client, (free.client,))


def correlations_of(problem: Problem, covariance: Vector) -> dict[str, dict[str, list[Any]]]:
    """Correlations by engine and client, of the constants that are free there."""
    found: dict[str, dict[str, list[Any]]] = {}
    for engine in ENGINES:
        for client in CLIENTS[""]:
            rows = [
                row
                for row, (free, owner, _) in enumerate(problem.uses)
                if owner == engine and client in _clients_of(free)
            ]
            names = [f"serving.{problem.uses[row][0].name}" for row in rows]
            block = correlation_block(names, covariance[np.ix_(rows, rows)])
            found.setdefault(engine, {})[client] = [block]
    return found


def constants_of(problem: Problem, unknowns: Vector) -> dict[str, Any]:
    """Fitted constants by engine, as the calibration file has them."""
    covariance = covariance_at(problem, unknowns)
    errors = np.sqrt(np.diag(covariance))
    found: dict[str, Any] = {engine: {"constants": {}, "clients": {}} for engine in ENGINES}
    for (free, engine, _), value, error in zip(
        problem.uses, problem.values(unknowns), errors, strict=True
    ):
        constant = {
            "value": float(f"{value:.5g}"), "unit": free.unit, "kind": "measured",
            "log_standard_error": float(f"{error:.2g}"), "prior": free.value,
            "prior_log_spread": free.spread,
        }  # fmt: skip
        for client in _clients_of(free) if free.client else ("",):
            entry = found[engine]
            home = entry["clients"].setdefault(client, {}) if client else entry["constants"]
            home[f"serving.{free.name}"] = constant
    for engine, correlations in correlations_of(problem, covariance).items():
        found[engine]["correlations"] = correlations
    return found


def write(found: dict[str, Any], left: Sequence[tuple[str, str, str, float]], counts: str) -> None:
    """Write fitted constants and intervals to the calibration file; settings are kept."""
    path = Path(engines.__file__).parent / "calibration" / "engines.json"
    data = json.loads(path.read_text())
    for engine, entry in found.items():
        own = data["engines"].setdefault(engine, {"constants": {}, "clients": {}})
        own["constants"].update(entry["constants"])
        own["correlations"] = entry["correlations"]
        for client, values in entry["clients"].items():
            own["clients"].setdefault(client, {}).update(values)
    for quantity in serving.FIGURES:
        errors = [abs(e) for _, _, q, e in left if q == quantity]
        if len(errors) >= 10:
            width = float(np.quantile(errors, QUANTILE))
            data["intervals"][quantity] = {
                "value": float(f"{width:.3g}"), "figures": len(errors),
                "method": "nine in ten held-out figures are missed by less, as a logarithm",
            }  # fmt: skip
    data["provenance"] |= {"figures": counts, "date": datetime.date.today().isoformat()}
    path.write_text(json_records.dumps(data, depth=4) + "\n")


def write_correlations(correlations: dict[str, dict[str, list[Any]]]) -> None:
    """Write correlations at the constants that the calibration file has; those are kept."""
    path = Path(engines.__file__).parent / "calibration" / "engines.json"
    data = json.loads(path.read_text())
    for engine, found in correlations.items():
        data["engines"][engine]["correlations"] = found
    path.write_text(json_records.dumps(data, depth=4) + "\n")


def main() -> None:
    """Read, fit, score, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", type=Path)
    parser.add_argument("points", type=Path)
    parser.add_argument("--rows", type=Path, help="rows of another file than the installed one")
    parser.add_argument("--no-rows", action="store_true", help="leave the tables' rows out")
    parser.add_argument("--write", action="store_true", help="write the calibration file")
    parser.add_argument("--write-folds", action="store_true", help="write held-out constants")
    parser.add_argument(
        "--correlations", action="store_true", help="write correlations of the stored constants"
    )
    parser.add_argument("--quick", action="store_true", help="do not leave models out")
    options = parser.parse_args()
    published = [c for c in read_cases(options.cases) if c.kind == "inference"]
    rows = (
        []
        if options.no_rows
        else measured_rows.read_rows(options.rows or measured_rows.rows_file(), SYSTEMS)
    )
    seen = {case.id for case in rows}
    own = [case for case in published if case.id not in seen and case.tier == "A"]
    own = [case for case in own if case.inputs.get("system", "h100_sxm") in SYSTEMS]
    deployments = read_deployments([*own, *point_cases(options.points), *rows])
    problem = Problem(thinned(deployments))
    if options.correlations:
        write_correlations(
            correlations_of(problem, covariance_at(problem, stored_unknowns(problem)))
        )
        return
    unknowns = problem.solve()
    everything = labeled(Problem(deployments), unknowns)
    score("fitted", [(t, q, e) for _, t, q, e in everything])
    for (free, engine, _), value in zip(problem.uses, problem.values(unknowns), strict=True):
        print(
            f"constant  {engine:8} {free.name:22} {free.client:12} {value:.4g} ({free.value:.4g})"
        )
    folds = [] if options.quick else held_out(deployments)
    left = [error for fold in folds for error in fold.errors]
    if left:
        score("held out", [(t, q, e) for _, t, q, e in left])
        _print_coverage(left)
    counts = f"{len(deployments)} cases" + (
        ", without rows of the tables" if options.no_rows else ", rows on H100 and H200"
    )
    if options.write_folds:
        write_folds(folds, counts)
    if options.write:
        write(constants_of(problem, unknowns), left, counts)


def _print_coverage(left: Sequence[tuple[str, str, str, float]]) -> None:
    """Coverage of each group by an interval from the errors of the other groups."""

    def others_of(group: str, quantity: str) -> list[float]:
        return [abs(e) for g, _, q, e in left if g != group and q == quantity]

    for quantity in sorted({q for _, _, q, _ in left}):
        inside = []
        for group in {g for g, _, q, _ in left if q == quantity}:
            others = others_of(group, quantity)
            if len(others) < 10:
                continue
            width = np.quantile(others, QUANTILE)
            inside += [abs(e) <= width for g, _, q, e in left if g == group and q == quantity]
        if inside:
            print(f"interval   {quantity:28} covers {np.mean(inside):.3f} of {len(inside)}")


if __name__ == "__main__":
    main()
