"""Evaluates training jobs through the graph, each in its fastest layout that fits."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from assay.array_types import Floats
from assay.catalog import accelerators, constants
from assay.model.inputs import Inputs
from assay.model.language.distributions import Distribution
from assay.model.tapes.compile import Compiled
from assay.model.tapes.cones import Cones
from assay.stack import registry
from assay.validate import intervals as sampled
from assay.validate.assumed import count_assumed
from assay.validate.kernels.operations import solved
from assay.validate.training.figures import ObservedFigure, StepWork, figures_of
from assay.validate.training.jobs import Job
from assay.validate.training.layouts import LAYOUT
from assay.validate.training.shapes import RATES

LIMIT, RATED = "gpu.power.limit", "gpu.power.rated"
WORK = (
    "training.kernels_flops",
    "training.kernels_size",
    "training.benchmark_busy_time",
    "training.clock_bound_time",
    "training.tensor_peak",
)
"""What the power of a step follows: outputs of the graph at the clock of the rated limit."""

_COOLANT = 312.0
"""Kelvin of the air at a GPU in a full machine, as fitted in docs/design/gpu-power.md."""


def has_own_limit(values: Mapping[str, float]) -> bool:
    """Whether a job states a power limit that is not the rated one."""
    return LIMIT in values and RATED in values and values[LIMIT] != values[RATED]


def clock_ratio(system: str, values: Mapping[str, float], work: Mapping[str, float]) -> float:
    """Clock under the stated limit over that under the rated one, for a step's work."""
    busy = work["training.benchmark_busy_time"]
    bandwidth = values["gpu.memory.bandwidth"]
    peak = work["training.tensor_peak"] / values["training.gpus"]
    given = {
        **accelerators.find(system).given,
        LIMIT: values[LIMIT],
        "gpu.memory.bandwidth": bandwidth,
        "gpu.coolant_temperature": _COOLANT,
        "gpu.reference.coolant_temperature": _COOLANT,
        "gpu.work.tensor_use": min(1.0, work["training.kernels_flops"] / (busy * peak)),
        "gpu.work.memory_use": min(1.0, work["training.kernels_size"] / (busy * bandwidth)),
        "gpu.work.clock_share": min(1.0, work["training.clock_bound_time"] / busy),
    }
    return solved("gpu.throttle", given) / solved("gpu.throttle_reference", given)


STEP = "training.step_time"
MEMORY = "parallelism.memory.total"
TERMS = {
    "kernels": "training.kernels_time",
    "bubble": "training.bubble_time",
    "traffic inside layers": "training.inner_traffic_time",
    "traffic between stages": "training.hop_traffic_time",
    "traffic between replicas": "training.data_traffic_time",
    "tied embedding": "training.pipeline.tied_time",
    "update": "training.update.time",
    "start": "training.step_start",
}
"""Named terms of a step; the remainder is straggling."""

OUTPUTS = (
    STEP,
    MEMORY,
    "training.gpu_hours",
    "training.time_to_train",
    "gpu.memory.capacity",
    "parallelism.memory.states",
    "parallelism.memory.activations",
    "architecture.active_parameters",
    "architecture.training.flops_per_token",
    "training.tensor_peak",
    *TERMS.values(),
    *(name for name in WORK if name != "training.tensor_peak"),
)
# Kernel constants were measured at the clock of dense GEMMs, which is that of training steps.
_SAME_CLOCK = {"gpu.throttle": 1.0, "gpu.throttle_reference": 1.0}
_GIVEN = (
    *RATES, "gpu.memory.capacity", "parallelism.expert_tensor", "parallelism.schedule",
    "training.run_yield",
)  # fmt: skip
_ANY_TOKENS = 1e12
_EXPERT_TENSOR, _TENSOR = "parallelism.expert_tensor", "parallelism.tensor"


@cache
def inputs() -> tuple[str, ...]:
    """Every variable that a prediction needs and nothing defines."""
    known = [*_SAME_CLOCK, *_GIVEN]
    cones = Cones(registry(), known, {}, switch=True)
    return (*sorted(set(cones.missing_inputs(list(OUTPUTS))) - set(known)), *known)


@cache
def compiled() -> Compiled:
    """All outputs as one function of all inputs."""
    return registry().compile(inputs=inputs(), outputs=OUTPUTS)


def columns(
    jobs: Sequence[Job],
    layouts: Sequence[dict[str, float]],
    override: dict[str, Floats] | None = None,
) -> dict[str, Floats]:
    """One column for every input: constants of the accelerator, values of the case, the layout."""
    changed = override or {}
    unique = list({id(job): job for job in jobs}.values())
    row_of = {id(job): position for position, job in enumerate(unique)}
    index = np.array([row_of[id(job)] for job in jobs])
    known = [_known(job) for job in unique]
    by_name = {}
    for name in inputs():
        if name in changed:
            by_name[name] = changed[name]
        elif name in LAYOUT:
            by_name[name] = np.array([layout[name] for layout in layouts])
        elif name == _EXPERT_TENSOR:
            pairs = zip(jobs, layouts, strict=True)
            by_name[name] = np.array([job.values.get(name, at[_TENSOR]) for job, at in pairs])
        else:
            by_name[name] = np.array([values.get(name, np.nan) for values in known])[index]
    return by_name


def _known(job: Job) -> dict[str, float]:
    """Constants of the accelerator and values of the case."""
    return {**_constants(job.system), **job.values, **_clock(job), **_run(job)}


def values_at(job: Job, layout: dict[str, float]) -> dict[str, float]:
    """The inputs of a job in a layout that have a value, as `columns` has them for many jobs."""
    known = {_EXPERT_TENSOR: layout[_TENSOR]} | _known(job) | layout
    return {
        name: float(value)
        for name in inputs()
        if (value := known.get(name)) is not None and math.isfinite(value)
    }


def _clock(job: Job) -> dict[str, float]:
    """The clock over that of the kernels' benchmarks: theirs, but for a stated power limit."""
    if not has_own_limit(job.values):
        return _SAME_CLOCK
    key = job.system, tuple(sorted(job.values.items()))
    if key not in _ratios:
        _ratios[key] = 1.0
        layout = job.layouts[0]
        outputs = evaluate(columns([job], [layout]))
        values = {**job.values, **layout}
        work = {name: float(outputs[name][0]) for name in WORK}
        _ratios[key] = clock_ratio(job.system, values, work)
    return {**_SAME_CLOCK, "gpu.throttle": _ratios[key]}


_ratios: dict[tuple[str, tuple[tuple[str, float], ...]], float] = {}
"""Clock of jobs with a power limit of their own: found once, at the first layout."""


@cache
def _constants(system: str) -> dict[str, float]:
    return constants.given(calibration_of(system))


def calibration_of(system: str) -> str:
    """The system whose fitted constants an accelerator's entry names."""
    return str(accelerators.find(system).facts.get("calibration") or system)


def _run(job: Job) -> dict[str, float]:
    return {
        "training.total_tokens": job.total_tokens or _ANY_TOKENS,
        "training.model_error.unstated_inputs": float(count_assumed(job.notes)),
    }


def evaluate(table: dict[str, Floats]) -> dict[str, Floats]:
    """All outputs at all points."""
    values = compiled()(*(table[name] for name in inputs()))
    return dict(zip(OUTPUTS, values, strict=True))


def best_layouts(jobs: Sequence[Job], override: dict[str, Floats] | None = None) -> list[int]:
    """For each job the index of its fastest layout that fits in memory."""
    many = [job for job in jobs for _ in job.layouts]
    layouts = [layout for job in jobs for layout in job.layouts]
    if override:
        sizes = [len(job.layouts) for job in jobs]
        override = {name: np.repeat(column, sizes) for name, column in override.items()}
    outputs = evaluate(columns(many, layouts, override))
    cost = outputs[STEP] * np.where(
        [job.counts_gpus for job in many], [layout["training.gpus"] for layout in layouts], 1.0
    )
    fits = outputs[MEMORY] <= outputs["gpu.memory.capacity"]
    chosen, start = [], 0
    for job in jobs:
        part = slice(start, start + len(job.layouts))
        start += len(job.layouts)
        # If nothing fits, the memory estimate is wrong: the run did take place.
        usable = fits[part] if fits[part].any() else np.ones(len(job.layouts), dtype=bool)
        known = usable & np.isfinite(cost[part])
        chosen.append(int(np.argmin(np.where(known, cost[part], np.inf))))
    return chosen


@dataclass(frozen=True)
class Predicted:
    """A job in its best layout, with all outputs there."""

    job: Job
    layout: dict[str, float]
    values: dict[str, float]

    @property
    def tokens(self) -> float:
        """Tokens of a step."""
        return self.job.values["training.batch"] * self.job.values["architecture.sequence"]

    @property
    def gpus(self) -> float:
        """GPUs of the job."""
        return self.layout["training.gpus"]


def predict_jobs(jobs: Sequence[Job], override: dict[str, Floats] | None = None) -> list[Predicted]:
    """Every job at its best layout."""
    if not jobs:
        return []
    layouts = [
        job.layouts[index] for job, index in zip(jobs, best_layouts(jobs, override), strict=True)
    ]
    outputs = evaluate(columns(jobs, layouts, override))
    return [
        Predicted(job, layout, {name: float(outputs[name][row]) for name in OUTPUTS})
        for row, (job, layout) in enumerate(zip(jobs, layouts, strict=True))
    ]


def inputs_at(job: Job, layout: dict[str, float]) -> Inputs:
    """All inputs of a job as `resolve` takes them, with the distributions of fitted constants."""
    return sampled.with_distributions(
        values_at(job, layout), sampled.accelerator_inputs(job.system), _published_yield(job.system)
    )


@cache
def _published_yield(system: str) -> Inputs:
    """The yield of published runs; scenarios compute theirs from failures and restarts."""
    calibration = constants.find(calibration_of(system))
    name = "training.run_yield"
    value = calibration.values[name]
    spread = calibration.log_standard_errors[name]
    return Inputs({name: value}, {name: Distribution("lognormal", (value, spread))})


def figures(predicted: Predicted) -> list[ObservedFigure]:
    """The observed figures of a predicted job."""
    job = predicted.job
    flops = predicted.values["architecture.training.flops_per_token"] * predicted.tokens
    gpus = None if job.counts_gpus else predicted.gpus
    recomputes = predicted.layout["parallelism.recompute"] > 1.5
    step = StepWork(job.values["training.batch"], predicted.tokens, gpus, flops, recomputes)
    return figures_of(job.case, step, job.total_tokens)
