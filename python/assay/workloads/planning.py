"""What a workload takes at the least on an accelerator, also under a power limit: from its work and the graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, Unpack

from assay.answers import Answer
from assay.errors import InputError
from assay.scenario.question import Given, Question, problem_with, read_question
from assay.workloads.contract import Work
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
_ROUNDS: Final = 40
"""Of the clock with the use of the tensor cores that it leaves."""
_CLOSE: Final = 1e-3
_NOTES: Final = (
    "a floor: arithmetic as of dense GEMMs with 16-bit operands, bytes as of float32, each read or written once",
)


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
    """Not in the floor: a kernel may do several of them."""
    launch_s: float
    """Of a kernel without work."""
    power_limit_w: float
    tflops: float
    """At the clock that the power limit leaves."""
    tensor_use: float
    """Of the peak at boost, under the rated limit."""
    memory_use: float
    limits: Sequence[Limit]
    seconds: float
    units_per_second: float
    joules_per_unit: float
    """At the power limit."""

    def headline(self) -> str:
        """The rate, and what a unit takes."""
        return (
            f"at most {self.units_per_second:,.1f} {self.unit}s/s at {self.power_limit_w:g} W, "
            f"{self.joules_per_unit:.3g} J a {self.unit}"
        )


def predict_workload(
    workload: str, *, size: int = 1, seed: int = 1, **given: Unpack[Given]
) -> WorkloadFloor:
    """Predict the most that a workload reaches on an accelerator that is given, as questions about the model give it.

    `size` units of work are generated and counted; nothing runs. The clock under the power limit depends on
    how busy tensor cores and memory are, and that on the clock: both are solved together, unless given.
    """
    chosen = workload_named(workload)
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
    limits = (Limit("arithmetic", use.arithmetic_s), Limit("memory", use.memory_s))
    seconds = max(limit.seconds for limit in limits)
    power = _value(question, _LIMIT, assigned)
    return WorkloadFloor(
        workload=workload,
        unit=chosen.unit,
        units=size,
        gflop=work.flops / 1e9,
        megabytes=work.bytes / 1e6,
        serial_steps=work.serial_steps,
        launch_s=_value(question, _LAUNCH, assigned),
        power_limit_w=power,
        tflops=use.rate / 1e12,
        tensor_use=use.tensor,
        memory_use=use.memory,
        limits=limits,
        seconds=seconds,
        units_per_second=size / seconds,
        joules_per_unit=power * seconds / size,
        notes=notes,
    )


class _Use(NamedTuple):
    rate: float
    tensor: float
    memory: float
    arithmetic_s: float
    memory_s: float


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
    return _Use(rate, tensor, memory, work.flops / rate, memory_s)


def _given(question: Question, name: str) -> float | None:
    """A share that was given."""
    value = question.given.get(name)
    if value is None:
        return None
    if not isinstance(value, (int, float)) or not 0 < value <= 1:
        raise InputError(f"{name}: expected a number above 0 and up to 1, got {value}")
    return float(value)


def _value(question: Question, target: str, more: Mapping[str, float]) -> float:
    """A variable in base units."""
    there = replace(question, given={**question.given, **more})
    resolution = there.resolve(target, intervals=False)
    problem = problem_with(resolution, stated=there.stated)
    if problem is not None or resolution.value is None:
        raise problem or InputError(f"{target}: expected a value, got none")
    return float(resolution.value)
