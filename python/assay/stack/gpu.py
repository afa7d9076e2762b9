"""One GPU: what it can compute and what it draws."""

from __future__ import annotations

from assay.model import POSITIVE, Scope, by_definition, cited

scope = Scope("gpu", "One GPU")

_H100 = cited("NVIDIA H100 Tensor Core GPU Architecture, whitepaper 2022", "Table 2")

multiprocessors = scope.variable(
    "multiprocessors",
    "n_SM",
    "1/GPU",
    "streaming multiprocessors",
    reference=_H100,
    boundary="primitive",
)
flops_per_cycle = scope.variable(
    "flops_per_cycle", "F_SM", "FLOP", "floating-point operations of one multiprocessor in a clock cycle",
    reference=_H100, boundary="primitive",
)  # fmt: skip
clock = scope.variable(
    "clock", "f", "Hz", "boost clock of the multiprocessors", display="GHz", bounds=POSITIVE,
    reference=_H100, boundary="primitive",
)  # fmt: skip
peak_flops = scope.variable(
    "peak_flops", "P_peak", "FLOP/(s*GPU)", "peak rate at the boost clock", display="TFLOP/(s*GPU)",
    equals=multiprocessors * flops_per_cycle * clock, reference=_H100, target=True,
)  # fmt: skip
throttle = scope.variable(
    "throttle", "eta_P", "1", "share of the boost clock that the power limit leaves", bounds=(0, 1),
    reference=by_definition("clock under load over boost clock"), boundary="decompose",
)  # fmt: skip
power_limited_peak_flops = scope.variable(
    "power_limited_peak_flops", "P_lim", "FLOP/(s*GPU)", "peak rate at the clock the power limit leaves",
    display="TFLOP/(s*GPU)", equals=throttle * peak_flops,
    reference=by_definition("peak rate at the throttled clock"),
)  # fmt: skip
power = scope.variable(
    "power", "P_GPU", "W/GPU", "power drawn by one GPU under the workload",
    reference=by_definition("board power"), boundary="decompose",
)  # fmt: skip
