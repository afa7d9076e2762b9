"""What the power of a serving GPU follows: utilization of its mix of iterations."""

from __future__ import annotations

from collections.abc import Callable

from assay.model import Expression, by_definition, cited, minimum, number, where
from assay.stack import works
from assay.stack.gpu import power as gpu_power
from assay.stack.kernels import device
from assay.stack.serving import deployment as d, engine, latency, loads
from assay.stack.serving.deployment import ONE_TOKEN, scope
from assay.stack.serving.iteration import Iteration

_ACTIVE = cited(works.DCGM, "profiling metrics")
_CHUNKED = cited(works.SARATHI_SERVE, "sec. 4")
_UTILIZATION = cited(works.POWER_PROVISIONING, "power as a straight line in utilization")


def _per_step(of: Callable[[Iteration], Expression]) -> Expression:
    """A quantity of iterations by decode step: with prefill of some, of a whole batch, or without."""
    decode, mixed, burst = of(loads.decode), of(loads.mixed), of(loads.burst)
    # Disaggregated, the mean over decode and prefill GPUs.
    return where(
        d.static | d.separate,
        decode + latency.bursts * burst * ONE_TOKEN / d.output,
        decode + loads.prompt_share * (mixed - decode),
    )


busy_time = scope.declare(
    "power.benchmark_busy_time, t_b0 [s as ms]: time with kernels by decode step, prefill included, at the "
    "clock of their benchmarks",
    equals=_per_step(lambda i: i.benchmark_time - i.host_time),
    reference=_CHUNKED,
)
_flops = _per_step(lambda i: i.issued)
_size = _per_step(lambda i: i.size)
scope.approximation(
    gpu_power.work_tensor_use,
    minimum(_flops / (busy_time * device.peak_flops * device.rate_multiple(d.compute_bits)), 1),
    valid=d.concurrency > number("0 request"),
    name="work.tensor_use",
    meaning="tensor-core utilization of an engine's iterations",
    reference=_ACTIVE,
)
scope.approximation(
    gpu_power.work_memory_use,
    minimum(_size / (busy_time * device.memory_bandwidth), 1),
    valid=d.concurrency > number("0 request"),
    name="work.memory_use",
    meaning="memory-bandwidth utilization of an engine's iterations",
    reference=_ACTIVE,
)
scope.approximation(
    gpu_power.work_clock_share,
    minimum(_per_step(lambda i: i.clock_bound) / busy_time, 1),
    valid=d.concurrency > number("0 request"),
    name="work.clock_share",
    meaning="clock-bound share of an engine's iterations",
    reference=by_definition("clock-bound time over busy time"),
)
duty = scope.declare(
    "duty, u: share of time in which kernels run while requests are served",
    bounds=(0, 1),
    equals=1 - _per_step(lambda i: i.host_time) / _per_step(lambda i: i.time),
    reference=_ACTIVE,
)
board_power = scope.declare(
    "board_power, P_g [W]: power of the boards of all GPUs while requests are served, without host and cooling",
    equals=engine.power_error
    * latency.gpus
    * (gpu_power.power_waiting + duty * (gpu_power.power_busy - gpu_power.power_waiting)),
    reference=_UTILIZATION,
    target=True,
)
board_energy = scope.declare(
    "board_energy, e_g [J/token]: energy of the boards of all GPUs per output token, prefill included",
    # A host that is slower than predicted lowers rate and power together, so that their errors are not those of energy.
    equals=engine.energy_error * board_power / engine.power_error / (latency.throughput * latency.step_error),
    reference=by_definition("power over rate"),
    target=True,
)
