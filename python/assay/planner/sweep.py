"""Steps of many configurations through one tape: every combination of some settings."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import product
from typing import TYPE_CHECKING, Any, Final

from assay.errors import InputError, unknown_name
from assay.lazy_import import np
from assay.planner import evaluation as e, fit
from assay.planner.plan import plan_step
from assay.planner.specs import BatchConfig, HardwareSpec, ModelSpec

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from assay.model.tapes.compile import Compiled

_POINTS_PER_THREAD: Final = 8192
"""Fewer points are evaluated faster than a thread starts."""

MOST: Final = 20_000_000
"""Configurations of the largest sweep: more would not fit in memory."""

_COLUMNS: Final = {
    "sequences": f"{e.STEP}sequences",
    "context": f"{e.STEP}context",
    "prefill_tokens": f"{e.STEP}prefill_tokens",
    "prompt": f"{e.STEP}prompt",
    "speculative_tokens": f"{e.STEP}draft_tokens",
    "acceptance": f"{e.STEP}acceptance",
}
"""Settings that vary along a tape's points, and the input each is."""

_OUTPUTS: Final = (
    f"{e.STEP}wall_time", f"{e.STEP}floor_time", f"{e.STEP}tokens_per_second",
)  # fmt: skip
SETTINGS: Final = tuple(field.name for field in fields(BatchConfig) if field.name != "settings")
"""Settings of a batch that a sweep may vary, besides hardware."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """Configurations and their steps, one row each."""

    settings: Mapping[str, Sequence[Any]]
    """The values of each setting that varies, by row; `hardware` has names."""
    step_ns: NDArray[np.float64]
    floor_ns: NDArray[np.float64]
    tokens_per_second: NDArray[np.float64]
    seconds: float
    """Time that the evaluation took."""
    left_out: Mapping[str, int] = field(default_factory=dict)
    """Configurations that no server could run, by the first constraint that they break."""

    def __len__(self) -> int:
        return len(self.step_ns)

    @property
    def configurations_per_second(self) -> float:
        """Rate of the evaluation."""
        return len(self) / max(self.seconds, 1e-9)


def sweep(
    model: ModelSpec,
    hardware: HardwareSpec | Sequence[HardwareSpec],
    batch: BatchConfig | None = None,
    over: Mapping[str, Sequence[Any]] | None = None,
    *,
    only_fitting: bool = False,
) -> Sweep:
    """Predict the step of every combination of the values in `over`, and of all hardware.

    `only_fitting` leaves out those that break a constraint of the graph on layout or memory.

    >>> from assay.planner import hardware_spec, model_spec
    >>> swept = sweep(model_spec("llama-3.1-8b"), hardware_spec("h200"), over={"sequences": [1, 8]})
    >>> len(swept), bool(swept.step_ns[0] < swept.step_ns[1])
    (2, True)
    """
    chosen, over = batch or BatchConfig(), dict(over or {})
    machines = [hardware] if isinstance(hardware, HardwareSpec) else list(hardware)
    _check(over, machines)
    along = [name for name in _COLUMNS if name not in _fused_by(chosen, over)]
    outer = {name: values for name, values in over.items() if name not in along}
    inner = {name: values for name, values in over.items() if name in along}
    grid = _grid(inner)
    count = len(next(iter(grid.values()))) if grid else 1
    results: list[NDArray[np.float64]] = []
    verdicts: list[NDArray[np.float64]] = []
    rows: dict[str, list[Any]] = {name: [] for name in ("hardware", *outer)}
    columns: dict[str, list[NDArray[np.float64]]] = {name: [] for name in inner}
    started = time.perf_counter()
    for machine in machines:
        for values in product(*outer.values()):
            configuration = replace(chosen, **dict(zip(outer, values, strict=True)))
            results.append(_evaluate(model, machine, configuration, grid, count))
            if only_fitting:
                verdicts.append(_verdicts(model, machine, configuration, grid, count))
            for name, value in zip(rows, (machine.name, *values), strict=True):
                rows[name] += [value] * count
            for name in inner:
                columns[name].append(grid[name])
    step, floor, rate = np.concatenate(results, axis=1)
    seconds = time.perf_counter() - started
    settings: dict[str, Any] = {
        **rows,
        **{name: np.concatenate(parts) for name, parts in columns.items()},
    }
    if len(machines) == 1:
        del settings["hardware"]
    swept = Sweep(settings, 1e9 * step, 1e9 * floor, rate, seconds)
    return _fitting(swept, np.concatenate(verdicts, axis=1)) if only_fitting else swept


def _fitting(swept: Sweep, verdicts: NDArray[np.float64]) -> Sweep:
    """The rows that break no constraint."""
    holds = verdicts > 0
    kept: NDArray[np.bool_] = np.all(holds, axis=0, keepdims=True)[0]
    first = np.argmin(holds, axis=0)
    left_out = {
        name: int(count)
        for row, name in enumerate(fit.CONSTRAINTS)
        if (count := np.count_nonzero(~kept & (first == row)))
    }
    settings = {
        name: [value for value, keep in zip(column, kept, strict=True) if keep]
        for name, column in swept.settings.items()
    }
    return Sweep(
        settings, swept.step_ns[kept], swept.floor_ns[kept], swept.tokens_per_second[kept],
        swept.seconds, left_out,
    )  # fmt: skip


def _fused_by(batch: BatchConfig, over: Mapping[str, Sequence[Any]]) -> tuple[str, ...]:
    """Settings that decide which kernels an engine fuses, so that each has inputs of its own."""
    if "assay" not in (batch.engine, *over.get("engine", ())):
        return ()
    return ("sequences", "prefill_tokens", "speculative_tokens")


def _check(over: Mapping[str, Sequence[Any]], machines: Sequence[HardwareSpec]) -> None:
    count = len(machines)
    for name, values in over.items():
        if name not in SETTINGS:
            raise unknown_name("setting of a sweep", name, SETTINGS)
        if not len(values):
            raise InputError(f"sweep of {name}: expected values, got none")
        count *= len(values)
    if count > MOST:
        raise InputError(f"sweep: expected at most {MOST:,} configurations, got {count:,}")


def _grid(inner: Mapping[str, Sequence[Any]]) -> dict[str, NDArray[np.float64]]:
    """Every combination, one array a setting."""
    if not inner:
        return {}
    axes = [np.asarray(values, dtype=np.float64) for values in inner.values()]
    for name, axis in zip(inner, axes, strict=True):
        if axis.ndim != 1 or not np.isfinite(axis).all() or (axis < 0).any():
            raise InputError(f"sweep of {name}: expected numbers of 0 or more")
    meshes = np.meshgrid(*axes, indexing="ij")
    return {name: mesh.ravel() for name, mesh in zip(inner, meshes, strict=True)}


def _evaluate(
    model: ModelSpec, machine: HardwareSpec, batch: BatchConfig,
    grid: Mapping[str, NDArray[np.float64]], count: int,
) -> NDArray[np.float64]:  # fmt: skip
    """Step, floor and rate of all points of one combination of the other settings."""
    if "context" in grid and isinstance(batch.context, tuple):
        batch = replace(batch, context=0)
    # Points without a sequence have a prefill token at least, which `inputs` asks for.
    probe = replace(batch, sequences=max(batch.sequences, 1)) if "sequences" in grid else batch
    plan = plan_step(model, probe, on_gpu=machine.is_gpu)
    given, _ = e.inputs(model, machine, probe, plan)
    names = sorted(given)
    function = e.compiled(names, _OUTPUTS, {})
    values: dict[str, Any] = dict(given)
    for name, column in grid.items():
        values[_COLUMNS[name]] = _as_input(name, column, batch)
    if "prefill_tokens" in grid and "prompt" not in grid and not batch.prompt:
        values[_COLUMNS["prompt"]] = np.maximum(grid["prefill_tokens"], 1.0)
    columns = [values[name] for name in names]
    if not grid:
        return function(*columns).reshape(-1, 1)
    return _on_all_cores(function, columns, count)


def _verdicts(
    model: ModelSpec, machine: HardwareSpec, batch: BatchConfig,
    grid: Mapping[str, NDArray[np.float64]], count: int,
) -> NDArray[np.float64]:  # fmt: skip
    """Truth of every constraint at all points of one combination of the other settings."""
    if "context" in grid and isinstance(batch.context, tuple):
        batch = replace(batch, context=0)
    probe = replace(batch, sequences=max(batch.sequences, 1)) if "sequences" in grid else batch
    given, _ = e.inputs(model, machine, probe, plan_step(model, probe, on_gpu=machine.is_gpu))
    values: dict[str, Any] = {**given, **fit.held(probe)}
    if "sequences" in grid:
        requests = np.maximum(grid["sequences"], 1.0)
        values["serving.concurrency"] = requests
        values["serving.batch_limit"] = np.maximum(requests, fit.LEAST_RUNNING)
    if "context" in grid and probe.sequences:
        tokens = grid["context"] / batch.context_parallel - 1.0
        values["serving.prompt"] = np.maximum(tokens, 1.0)
    names = sorted(values)
    verdicts = fit.judge_rows(names, [values[name] for name in names])
    return np.broadcast_to(
        np.reshape(verdicts, (len(fit.CONSTRAINTS), -1)), (len(fit.CONSTRAINTS), count)
    )


def _on_all_cores(function: Compiled, columns: list[Any], count: int) -> NDArray[np.float64]:
    """Outputs at all points; a tape runs without the GIL, so that threads share the points."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    parts = min(cores, -(-count // _POINTS_PER_THREAD))
    if parts < 2:
        return function(*columns)
    from concurrent.futures import ThreadPoolExecutor

    edges = [count * part // parts for part in range(parts + 1)]

    def run(part: int) -> NDArray[np.float64]:
        cut = slice(edges[part], edges[part + 1])
        return function(*(c[cut] if isinstance(c, np.ndarray) else c for c in columns))

    with ThreadPoolExecutor(parts) as pool:
        return np.concatenate(list(pool.map(run, range(parts))), axis=1)


def _as_input(name: str, column: NDArray[np.float64], batch: BatchConfig) -> NDArray[np.float64]:
    if name == "sequences":
        return column / batch.pipeline
    if name == "context":
        return column + 1.0
    return np.maximum(column, 1.0) if name == "prompt" else column
