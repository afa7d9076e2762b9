"""What a workload takes at the least on an accelerator, also under a power limit: from its work and the graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, Unpack

from assay.answers import Answer
from assay.errors import CheckFailedError, InputError
from assay.keywords import takes
from assay.model.language.figures import figure
from assay.model.language.units import parse_unit
from assay.model.resolving.resolution import ConditionVerdict
from assay.scenario.question import GIVEN, Given, Question, problem_with, read_question
from assay.scenario.questions.remarks import remarks
from assay.workloads.contract import Step, Work
from assay.workloads.registry import workload as workload_named

_PEAK: Final = "gpu.peak_flops"
_LIMITED_RATE: Final = "gpu.power_limited_peak_flops"
_RATED_CLOCK: Final = "gpu.throttle_reference"
_DENSE_USE: Final = "gpu.dense_use"
_BANDWIDTH: Final = "gpu.memory.bandwidth"
_LIMIT: Final = "gpu.power.limit"
_LAUNCH: Final = "kernels.passes.launch_time"
_COOLANT: Final = "gpu.coolant_temperature"
_USUAL_COOLANT: Final = "gpu.reference.coolant_temperature"
_TENSOR_USE: Final = "gpu.work.tensor_use"
_MEMORY_USE: Final = "gpu.work.memory_use"
_CLOCK_SHARE: Final = "gpu.work.clock_share"
_WITHIN_RATED: Final = "predict_workload.limit_within_rated"
"""What is judged here beside the constraints of the graph."""
_ROUNDING: Final = 1e-9
_ROUNDS: Final = 40
"""Of the clock with the use of the tensor cores that it leaves."""
_CLOSE: Final = 1e-3
_CLOCK: Final = "gpu.clock"
_RATED: Final = "gpu.power.rated"
_DRAWN: Final = "gpu.power.busy"
_NOTES: Final = (
    "a floor: arithmetic as of dense GEMMs with 16-bit operands, bytes as of float32, each read or written once",
)
_CHAINS: Final[Mapping[Step, str]] = {
    "kernel": "the chain: a kernel for each of its steps; one launch that does several of them is not bound by it",
    "load": "the chain: one kernel, and a clock cycle for each load that needs the one before; real loads "
    "take tens of cycles",
}


class Limit(NamedTuple):
    """What bounds a workload, and the seconds that it takes at the least."""

    limit: str
    seconds: float


@dataclass(frozen=True)
class WorkloadFloor(Answer):
    """A workload on an accelerator: its work, what bounds it, and what that gives."""

    workload: str
    unit: str
    units: int
    gflop: float
    megabytes: float
    serial_steps: float
    """Of which each needs the one before."""
    step: Step
    launch_s: float
    """Of a kernel without work."""
    power_limit_w: float
    drawn_w: float
    """While kernels run: less than the limit where that lowers no clock."""
    tflops: float
    """At the clock that the power limit leaves."""
    tensor_use: float
    """Of the peak at boost, under the rated limit."""
    memory_use: float
    limits: Sequence[Limit]
    bound: str
    """The limit that takes longest."""
    seconds: float
    units_per_second: float
    joules_per_unit: float
    """At the power that is drawn."""
    violated: Sequence[ConditionVerdict] = ()
    """Constraints that do not hold here."""

    def headline(self) -> str:
        """The rate, what bounds it, and what a unit takes."""
        said = f"at most {self.rate}, bound by {self.bound}, at {self.power_limit_w:g} W, {self.energy}"
        names = ", ".join(verdict.name for verdict in self.violated)
        return f"{said}; violated: {names}" if names else said

    @property
    def rate(self) -> str:
        """Units of work a second, as text."""
        return f"{_short(self.units_per_second)} {self.unit}s/s"

    @property
    def energy(self) -> str:
        """What a unit takes, as text."""
        article = "an" if self.unit[0] in "aeiou" else "a"
        return f"{in_unit(self.joules_per_unit, 'J')} {article} {self.unit}"


def in_unit(value: float, unit: str) -> str:
    """A value with the prefix that fits.

    >>> in_unit(1.5e-8, "J"), in_unit(1.44e6, "byte"), in_unit(2.56e10, "FLOP")
    ('15 nJ', '1.44 MB', '25.6 GFLOP')
    """
    return figure(value, parse_unit(unit)).text


def _short(value: float) -> str:
    """A rate with as many digits as a floor has.

    >>> _short(1348.9), _short(46_527_777_777.8), _short(0.51234)
    ('1,349', '46.53 G', '0.5123')
    """
    if value >= 1e9:
        return f"{value / 1e9:,.4g} G"
    return f"{value:,.0f}" if value >= 1_000 else f"{value:.4g}"


@takes(GIVEN)
def predict_workload(
    workload: str,
    *,
    size: int | None = None,
    seed: int = 1,
    fail_on_violated: bool = False,
    **given: Unpack[Given],
) -> WorkloadFloor:
    """Predict the most that a workload reaches on an accelerator that is given, as questions about the model give it.

    `size` units of work, the workload's quick size if not given, are generated and counted; nothing runs. The
    clock under the power limit depends on how busy tensor cores and memory are, and that on the clock: both are
    solved together, unless given. Constraints that do not hold are `violated`, and with `fail_on_violated` a problem.
    """
    chosen = workload_named(workload)
    size = chosen.sizes.quick if size is None else size
    if size < 1:
        raise InputError(f"size: expected 1 {chosen.unit} or more, got {size}")
    if not any(given.values()):
        raise InputError(
            f"{workload}: expected an accelerator, got none",
            "--with accelerators/NAME; assay catalog list has them",
        )
    question = read_question(**given)
    work = chosen.work(chosen.generate(seed, size))
    notes = [*_NOTES, *question.notes]
    assigned: dict[str, float] = {}
    if _COOLANT not in question.given:
        assigned[_COOLANT] = _value(question, _USUAL_COOLANT, {})
        notes.append(
            f"{_COOLANT}: assumed {assigned[_COOLANT] - 273.15:.0f} degC, as where kernels were measured"
        )
    use = _solve(question, work, assigned)
    there = replace(question, given={**question.given, **use.busy})
    launch_s = _value(there, _LAUNCH)
    notes.append(_CHAINS[work.step])
    limits = (
        Limit("arithmetic", use.arithmetic_s),
        Limit("memory", use.memory_s),
        Limit("chain", _chain_s(there, work, launch_s)),
    )
    bound, seconds = max(limits, key=lambda limit: limit.seconds)
    drawn = _value(there, _DRAWN)
    violated, remarked = _judged(there)
    return WorkloadFloor(
        workload=workload,
        unit=chosen.unit,
        units=size,
        gflop=work.flops / 1e9,
        megabytes=work.bytes / 1e6,
        serial_steps=work.serial_steps,
        step=work.step,
        launch_s=launch_s,
        power_limit_w=_value(there, _LIMIT),
        drawn_w=drawn,
        tflops=use.rate / 1e12,
        tensor_use=use.tensor,
        memory_use=use.memory,
        limits=limits,
        bound=bound,
        seconds=seconds,
        units_per_second=size / seconds,
        joules_per_unit=drawn * seconds / size,
        violated=violated,
        notes=[*notes, *(text for text in remarked if text not in notes)],
        problem=_problem(violated) if fail_on_violated else None,
    )


def _chain_s(question: Question, work: Work, launch_s: float) -> float:
    """Seconds of steps that wait for each other; a workload takes a kernel at least."""
    if work.step == "kernel":
        return max(work.serial_steps, 1.0) * launch_s
    return launch_s + work.serial_steps / _value(question, _CLOCK)


def _judged(question: Question) -> tuple[list[ConditionVerdict], list[str]]:
    """Constraints on what was computed that do not hold, and remarks on it, each once."""
    violated: dict[str, ConditionVerdict] = {}
    remarked: dict[str, None] = {}
    for target in (_LIMITED_RATE, _BANDWIDTH, _LAUNCH, _DRAWN):
        resolution = question.resolve(target, intervals=False)
        violated.update((verdict.name, verdict) for verdict in resolution.violated)
        remarked.update(dict.fromkeys(remarks(resolution)))
    values = tuple(
        (question.registry.variables[name], _value(question, name)) for name in (_LIMIT, _RATED)
    )
    (_, limit), (_, rated) = values
    if limit > rated * (1.0 + _ROUNDING):
        verdict = ConditionVerdict(
            _WITHIN_RATED,
            f"{_LIMIT} <= {_RATED}",
            "false",
            "a board is not fed beyond the limit that it is made for",
            values=values,
        )
        violated[verdict.name] = verdict
    return list(violated.values()), list(remarked)


def _problem(violated: Sequence[ConditionVerdict]) -> CheckFailedError | None:
    names = ", ".join(verdict.name for verdict in violated)
    return CheckFailedError(f"violated: {names}") if names else None


class _Use(NamedTuple):
    rate: float
    tensor: float
    memory: float
    arithmetic_s: float
    memory_s: float
    busy: Mapping[str, float]
    """What was solved for or assumed, by variable."""


def _solve(question: Question, work: Work, assigned: Mapping[str, float]) -> _Use:
    """How busy tensor cores and memory are under the rated limit, and the clock that another limit then leaves.

    Kernels are as good as the dense GEMMs of the graph, unless the use of tensor cores is given.
    """
    memory_s = work.bytes / _value(question, _BANDWIDTH, assigned)
    peak = _value(question, _PEAK, assigned)
    given_tensor, given_memory = (_given(question, name) for name in (_TENSOR_USE, _MEMORY_USE))
    dense = _value(question, _DENSE_USE, assigned)
    tensor, memory, share = given_tensor or dense / 2, given_memory or 0.5, 1.0
    busy: dict[str, float] = {}
    efficiency = dense
    for _ in range(_ROUNDS):
        busy = {**assigned, _TENSOR_USE: tensor, _MEMORY_USE: memory}
        if _CLOCK_SHARE not in question.given:
            busy[_CLOCK_SHARE] = share
        clock = _value(question, _RATED_CLOCK, busy)
        if given_tensor is not None:
            efficiency = min(given_tensor / clock, 1.0)
        arithmetic_s = work.flops / (efficiency * clock * peak)
        longer = max(arithmetic_s, memory_s)
        before = tensor, memory
        # Half of each step: the clock falls as use rises, and the other way.
        tensor = given_tensor or (tensor + work.flops / (longer * peak)) / 2
        memory = given_memory or (memory + memory_s / longer) / 2
        share = 1.0 if arithmetic_s >= memory_s else 0.0
        if abs(tensor - before[0]) + abs(memory - before[1]) < _CLOSE:
            break
    rate = efficiency * _value(question, _LIMITED_RATE, busy)
    return _Use(rate, tensor, memory, work.flops / rate, memory_s, busy)


def _given(question: Question, name: str) -> float | None:
    """A share that was given."""
    value = question.given.get(name)
    if value is None:
        return None
    if not isinstance(value, (int, float)) or not 0 < value <= 1:
        raise InputError(f"{name}: expected a number above 0 and up to 1, got {value}")
    return float(value)


def _value(question: Question, target: str, more: Mapping[str, float] | None = None) -> float:
    """A variable in base units."""
    there = replace(question, given={**question.given, **(more or {})})
    resolution = there.resolve(target, intervals=False)
    problem = problem_with(resolution, stated=there.stated)
    if problem is not None or resolution.value is None:
        raise problem or InputError(f"{target}: expected a value, got none")
    return float(resolution.value)
