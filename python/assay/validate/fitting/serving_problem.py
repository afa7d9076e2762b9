"""Fit of the constants of serving engines: log residuals of published figures, and their priors."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from assay.array_types import Floats
from assay.catalog.checkpoint_formats import DRAFTING
from assay.errors import AssayError, InputError
from assay.model.tapes.compile import Compiled
from assay.validate.cases import Case
from assay.validate.fitting.serving_constants import ENGINES, OWN, SHARED, Free
from assay.validate.points import Group, compile_known
from assay.validate.serving import predict as serving
from assay.validate.serving.deployments import Deployment, deployment_of
from assay.validate.sources import source_of

Vector = Floats

SCALES = {"step_time": 0.08, "time_to_first_token": 0.2}
OTHER_SCALE = 0.08
POINT_SCALE = 0.02
"""Scales of the soft-L1 loss, as logarithms: beyond them errors count linearly."""

SOURCE_WEIGHT = 150
"""Figures that a source counts as, at most: a long table is one machine and one client."""

MOST_OF_A_KIND = 8
MOST_APART = 1.3


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
        self.count = len(deployments)
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
        clients = free.clients
        return np.array([d.engine == engine and d.client in clients for d in self.deployments])

    def values(self, unknowns: Vector) -> Vector:
        """The constants, in the order of `uses`."""
        values: Vector = np.exp(np.minimum(self.map @ unknowns, self.most))
        return values

    def columns(self, group: Group, unknowns: Vector) -> Vector:
        """Inputs of a group of points with some constants."""
        own: Vector = group.columns.copy()
        for (free, _, mask), value in zip(self.uses, self.values(unknowns), strict=True):
            own[group.names.index(f"serving.{free.name}"), mask[group.positions]] = value
        return own

    def errors(self, unknowns: Vector) -> Vector:
        """Logarithms of predicted over observed, one per figure."""
        predicted = np.full((len(_OUTPUTS), self.points.count), np.nan)
        for group in self.points.groups:
            predicted[:, group.positions] = _function(group)(*self.columns(group, unknowns))
        row, column = self.index
        errors: Vector = np.log(predicted)[row, column] - self.observed
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

    def solve(self, start: Vector | None = None) -> Vector:
        """The maximum a posteriori constants, searched from the priors or from a start."""
        optimize = importlib.import_module("scipy.optimize")
        unknowns: Vector = optimize.least_squares(
            self.residuals,
            self.center if start is None else start,
            jac=self.jacobian,
            max_nfev=40,
            xtol=1e-4,
            ftol=1e-5,
        ).x
        return unknowns


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
    shrunk: Vector = np.sign(errors) * np.sqrt(2 * (np.sqrt(1 + errors**2) - 1))
    return shrunk


def _shrink_slope(errors: Vector) -> Vector:
    root = np.sqrt(1 + errors**2)
    slope: Vector = np.sqrt((root + 1) / 2) / root
    return slope


def _targets(deployments: Sequence[Deployment]) -> list[Target]:
    sources = [source_of(deployment.case) for deployment in deployments]
    figures: dict[str, int] = {}
    for source, deployment in zip(sources, deployments, strict=True):
        figures[source] = figures.get(source, 0) + len(deployment.figures)
    targets = []
    behind = len(deployments)
    for index, (deployment, source) in enumerate(zip(deployments, sources, strict=True)):
        weight = min(1.0, (SOURCE_WEIGHT / figures[source]) ** 0.5)
        is_apart = deployment.prompt_values is not None
        for figure in deployment.figures:
            scale = SCALES.get(figure.variable, OTHER_SCALE)
            if figure.quantity == "step_ms":
                scale = POINT_SCALE
            of_prompts = is_apart and figure.variable in serving.PROMPT_FIGURES
            targets.append(
                Target(
                    index, behind if of_prompts else index,
                    serving.FIGURES.index(figure.variable),
                    float(np.log(figure.observed / figure.scale)), scale, weight,
                )
            )  # fmt: skip
        behind += is_apart
    return targets


def constants_of(problem: Problem, unknowns: Vector) -> dict[str, dict[str, dict[str, float]]]:
    """Values by engine, by client (empty for all), by full name."""
    constants: dict[str, dict[str, dict[str, float]]] = {}
    for (free, engine, _), value in zip(problem.uses, problem.values(unknowns), strict=True):
        for client in free.clients if free.client else ("",):
            named = constants.setdefault(engine, {}).setdefault(client, {})
            named[f"serving.{free.name}"] = float(f"{value:.5g}")
    return constants


def read_deployments(cases: Iterable[Case], gaps: dict[str, str] | None = None) -> list[Deployment]:
    """Deployments of the cases that can be predicted; `gaps` collects why others cannot.

    Loaded servers are left out of the fits: they are what their constants are judged by.
    """
    deployments = []
    for case in cases:
        try:
            deployment = deployment_of(case)
        except AssayError as error:
            if gaps is not None:
                gaps[case.id] = error.message
            continue
        if deployment.figures and not any(figure.group for figure in deployment.figures):
            deployments.append(deployment)
    return deployments


def settled(deployments: Iterable[Deployment]) -> list[Deployment]:
    """Without rows whose figures hang on what they do not state.

    That is whether a model with layers that draft tokens used them, and among how many workers a
    disaggregated deployment spreads its requests.
    """
    selected = []
    for d in deployments:
        drafts = d.model.startswith(DRAFTING)
        is_open = drafts and d.client != "offline" and "speculative" not in d.case.inputs
        has_workers = d.prompt_values is None or d.case.inputs.get("decode_num_workers")
        if not is_open and has_workers:
            selected.append(d)
    return selected


def reproduced(deployments: Sequence[Deployment]) -> list[Deployment]:
    """Without rows that state the same inputs and differ: the cause is not stated."""
    runs: dict[tuple[object, ...], list[Deployment]] = {}
    for d in deployments:
        stated = tuple(sorted(d.values.items()))
        runs.setdefault((d.engine, d.system, d.client, stated), []).append(d)
    selected = []
    for same in runs.values():
        observed: dict[str, list[float]] = {}
        for figure in (figure for d in same for figure in d.figures):
            observed.setdefault(figure.quantity, []).append(figure.observed)
        if all(max(values) < MOST_APART * min(values) for values in observed.values()):
            selected += same
    return selected


def thinned(deployments: Sequence[Deployment]) -> list[Deployment]:
    """No duplicates, and at most `MOST_OF_A_KIND` of one source, model, engine, client and chip."""
    unique: dict[tuple[object, ...], Deployment] = {}
    for d in reproduced(settled(deployments)):
        observed = tuple(figure.observed for figure in d.figures)
        unique.setdefault((d.engine, d.system, observed, d.values["serving.tensor"]), d)
    random = np.random.default_rng(0)
    kinds: dict[tuple[str, ...], list[Deployment]] = {}
    for d in unique.values():
        kinds.setdefault(kind_of(d), []).append(d)
    selected = []
    for members in kinds.values():
        order = random.permutation(len(members))[:MOST_OF_A_KIND]
        selected += [members[index] for index in sorted(order)]
    return selected


def kind_of(deployment: Deployment) -> tuple[str, ...]:
    """What rows of a table have in common: a further one of a kind says little."""
    case = deployment.case
    return (
        source_of(case), case.suite, str(case.inputs.get("model", "")), deployment.engine,
        deployment.client, deployment.system,
    )  # fmt: skip
