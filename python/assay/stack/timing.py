"""Timing: how many gates fit into a cycle, what variation takes of it, and the least energy that computing needs.

A cycle holds a path of gates, each as slow as an inverter that drives four others, and the overhead of the registers at
its ends. Gates differ; a chip has millions of paths, and the slowest of them sets the clock. Far below what
gates switch lies the heat that erasing a bit must give off.
"""

from __future__ import annotations

import math

from assay.model import POSITIVE, Scope, by_definition, cited, number
from assay.stack import physics, transistor, works
from assay.stack.gpu import power as gpu_power, rates as gpu_rates
from assay.stack.order_statistics import expected_largest

scope = Scope("timing", "Gates in a cycle, variation and the least energy")

_EFFORT = cited(works.CMOS_VLSI, "sec. 4.4 and 4.5, linear delay model and logical effort of paths")
_SEQUENCING = cited(works.CMOS_VLSI, "sec. 10.2, sequencing static circuits: max-delay constraint")
_VARIATION = cited(works.CMOS_VLSI, "ch. 7, robustness: variability and its statistics")
_LARGEST = cited("David and Nagaraja 2003, Order Statistics, 3rd edition", "sec. 3.1")
_LANDAUER = cited(
    "Landauer 1961, Irreversibility and heat generation in the computing process, IBM Journal of Research and "
    "Development 5(3)",
    "heat of erasing a bit",
)

fanout_delay = scope.declare(
    "fanout_delay, FO4 [s as ps]: delay of an inverter that drives four of its kind, at the boost clock's voltage",
    bounds=POSITIVE,
    reference=_EFFORT,
    boundary="primitive",
)
depth = scope.declare(
    "depth, n_g: gates in a path between registers, as inverters that drive four",
    bounds=POSITIVE,
    reference=_EFFORT,
    boundary="primitive",
)
overhead = scope.declare(
    "overhead, t_seq [s as ps]: time of a cycle that registers, skew and jitter take",
    reference=_SEQUENCING,
    boundary="primitive",
)
setup = scope.declare(
    "register.setup, t_su [s as ps]: time before an edge for which data must be steady", reference=_SEQUENCING,
    boundary="primitive",
)  # fmt: skip
propagation = scope.declare(
    "register.propagation, t_pcq [s as ps]: time after an edge at which a register's output is steady",
    reference=_SEQUENCING,
    boundary="primitive",
)
hold = scope.declare(
    "register.hold, t_hd [s as ps]: time after an edge for which data must stay", reference=_SEQUENCING,
    boundary="primitive",
)  # fmt: skip
contamination = scope.declare(
    "register.contamination, t_ccq [s as ps]: time after an edge at which a register's output may change; unless "
    "given, half of when it is steady",
    equals=propagation / 2,
    reference=_SEQUENCING,
)
skew = scope.declare(
    "clock.skew, t_sk [s as ps]: difference of edges at two registers, with jitter", reference=_SEQUENCING,
    boundary="primitive",
)  # fmt: skip
scope.equation(
    overhead,
    setup + propagation + skew,
    name="overhead_of_registers",
    meaning="setup, propagation and skew",
    reference=_SEQUENCING,
)
race_margin = scope.declare(
    "register.race_margin, t_rm [s as ps]: how much later than a register needs its data may change, with nothing "
    "between two registers",
    equals=contamination - hold - skew,
    bounds=(None, None),
    reference=cited(works.CMOS_VLSI, "sec. 10.2, sequencing static circuits: min-delay constraint"),
    target=True,
)
gate_delay = scope.declare(
    "gate_delay, t_g [s as ps]: delay of such a gate at this supply voltage and temperature",
    equals=fanout_delay / transistor.speed,
    reference=_EFFORT,
)
path_mean = scope.declare(
    "path.mean, t_p [s as ps]: mean delay of a critical path", equals=depth * gate_delay, reference=_EFFORT
)
gate_spread = scope.declare(
    "gate_spread, s_g [1 as %]: standard deviation of a gate's delay over its mean",
    reference=_VARIATION,
    boundary="primitive",
)
path_spread = scope.declare(
    "path.spread, s_p [s as ps]: standard deviation of the delay of a path: variations of its gates average out",
    equals=gate_spread * path_mean / depth**0.5,
    reference=_VARIATION,
)
path_delay = scope.declare(
    "path.delay, t_path [s as ps]: delay of one critical path", reference=_VARIATION, target=True
)
scope.stochastic(
    path_delay,
    "normal",
    path_mean,
    path_spread,
    name="path.variation",
    meaning="drawn anew for each path",
    reference=_VARIATION,
)
paths = scope.declare(
    "paths, N_p: critical paths of a chip", bounds=(1, None), reference=_VARIATION, boundary="primitive"
)
margin = scope.declare(
    "path.margin, m_p: expected delay of the slowest path over the mean of all",
    equals=1 + gate_spread / depth**0.5 * expected_largest(paths),
    reference=_LARGEST,
)
slowest = scope.declare(
    "path.slowest, t_max [s as ps]: expected delay of the slowest path",
    equals=path_mean * margin,
    reference=_LARGEST,
    target=True,
)
period = scope.declare(
    "period, T_min [s as ps]: shortest period of the clock",
    equals=slowest + overhead,
    bounds=POSITIVE,
    reference=_SEQUENCING,
    target=True,
)
clock = scope.declare(
    "clock, f_max [Hz as GHz]: highest clock that all paths meet", equals=1 / period, reference=_SEQUENCING, target=True
)
scope.approximation(
    gpu_power.top_clock,
    clock,
    name="top_clock",
    valid=clock > number("0 Hz"),
    meaning="the slowest path bounds the clock",
    reference=_SEQUENCING,
)
erasure = scope.declare(
    "erasure, E_min [J]: least energy of erasing a bit at this temperature",
    equals=physics.boltzmann * transistor.temperature * math.log(2),
    bounds=POSITIVE,
    reference=_LANDAUER,
)
operation_energy = scope.declare(
    "operation_energy, E_op [J/FLOP as pJ/FLOP]: energy switched for an operation of dense 16-bit GEMMs, at the boost "
    "clock's voltage",
    equals=gpu_power.cycle_energy / (gpu_rates.multiprocessors * gpu_rates.flops_per_cycle),
    reference=by_definition("energy over operations of a cycle"),
    target=True,
)
above_floor = scope.declare(
    "above_floor, x_E: energy of an operation over that of erasing a bit",
    equals=operation_energy * number("1 FLOP") / erasure,
    reference=_LANDAUER,
    target=True,
)
