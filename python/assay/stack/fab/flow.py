"""The flow of a fab: how long a wafer is under way, how many are, and how a process learns.

A wafer takes days of work and months of waiting: the fuller the tools, the longer the queues before them. What is
under way follows from rate and time (Little's law). A young process has many defects, which engineers remove at a pace
set by how soon they see the outcome of a change; costs fall with every doubling of what was made.
"""

from __future__ import annotations

import math

from assay.model import POSITIVE, Symbol, Variable, cited, log, number
from assay.stack import works
from assay.stack.fab.silicon import scope
from assay.stack.fab.tools import layers, loading
from assay.stack.manufacturing import packages, wafers

_FACTORY = cited("Hopp and Spearman 2011, Factory Physics, 3rd edition", "ch. 8, variability: the VUT equation")
_LITTLE = cited(works.LITTLES_LAW, "L = lambda W")
_LEARNING = cited(
    "Weber 2004, Yield Learning and the Sources of Profitability in Semiconductor Manufacturing and Process "
    "Development, IEEE Transactions on Semiconductor Manufacturing 17(4)",
    "exponential decline of defects with time",
)
_WRIGHT = cited(
    "Wright 1936, Factors Affecting the Cost of Airplanes, Journal of the Aeronautical Sciences 3(4)", "curves"
)


def _datum(heading: str) -> Variable:
    return scope.declare(heading, bounds=POSITIVE, reference=_FACTORY, boundary="primitive")


raw_layer_time = _datum("flow.layer_time, t_l [s as day]: work on a layer, without waiting")
raw_time = scope.declare(
    "flow.raw_time, t_0 [s as day]: work on a wafer, without waiting",
    equals=layers * raw_layer_time,
    bounds=POSITIVE,
    reference=_FACTORY,
    target=True,
)
arrival_variation = scope.declare(
    "flow.arrival_variation, c_a: squared variation of the times between arrivals; unless given, 1, at random",
    equals=1,
    reference=_FACTORY,
)
process_variation = scope.declare(
    "flow.process_variation, c_e: squared variation of the times of steps; unless given, 1",
    equals=1,
    reference=_FACTORY,
)
queue_factor = scope.declare(
    "flow.queue_factor, k_q: waiting over work, by variation and by loading",
    equals=(arrival_variation + process_variation) / 2 * loading / (1 - loading),
    reference=_FACTORY,
    target=True,
)
cycle_time = scope.declare(
    "flow.cycle_time, t_c [s as day]: time of a wafer in the fab",
    equals=raw_time * (1 + queue_factor),
    bounds=POSITIVE,
    reference=_FACTORY,
    target=True,
)
under_way = scope.declare(
    "flow.under_way, N_wip: wafers under way for this die",
    equals=packages.wafer_rate * cycle_time,
    reference=_LITTLE,
    target=True,
)
# Learning in time.
age = scope.declare(
    "learning.age, t_a [s as year]: time since a process went into production", reference=_LEARNING,
    boundary="scenario",
)  # fmt: skip
first_defects = scope.declare(
    "learning.first, D_1 [1/m^2 as 1/cm^2]: killer defects at the start", reference=_LEARNING, boundary="primitive"
)
last_defects = scope.declare(
    "learning.last, D_inf [1/m^2 as 1/cm^2]: killer defects that remain", reference=_LEARNING, boundary="primitive"
)
changes = scope.declare(
    "learning.changes, n_l: cycle times in which defects above those that remain fall by e",
    bounds=POSITIVE,
    reference=_LEARNING,
    boundary="primitive",
)
pace = scope.declare(
    "learning.pace, tau_l [s as year]: time in which they fall by e: engineers learn once a cycle",
    equals=changes * cycle_time,
    bounds=POSITIVE,
    reference=_LEARNING,
    target=True,
)
defects = scope.declare(
    "learning.defects, D_t [1/m^2 as 1/cm^2]: killer defects at this age", reference=_LEARNING, target=True
)
scope.differential(
    defects,
    -(defects - last_defects) / pace,
    time=Symbol("t"),
    time_like=age,
    initial=first_defects,
    start=number("0 s"),
    end=age,
    name="learning.removal",
    meaning="a share of what is left is removed in each cycle",
    reference=_LEARNING,
)
scope.equation(
    wafers.defect_density,
    defects,
    name="defect_density",
    meaning="what a process of this age has left",
    reference=_LEARNING,
)
mature = scope.declare(
    "learning.mature, t_95 [s as year]: age at which a twentieth of the avoidable defects is left",
    equals=pace * math.log(20),
    reference=_LEARNING,
    target=True,
)
# Learning by doing.
progress = scope.declare(
    "learning.progress, p_2 [1 as %]: cost after a doubling of all that was made, over that before; unless given, 1",
    equals=1,
    bounds=("positive", 1),
    reference=_WRIGHT,
)
exponent = scope.declare(
    "learning.exponent, b_2: exponent by which costs fall with what was made",
    equals=-log(progress) / math.log(2),
    reference=_WRIGHT,
)
made = scope.declare(
    "learning.made, x_m: wafers made so far over those at which costs are stated; unless given, 1",
    equals=1,
    bounds=POSITIVE,
    reference=_WRIGHT,
)
experience = scope.declare(
    "learning.experience, k_w: cost by wafer over that at which costs are stated",
    equals=made ** (-exponent),
    bounds=POSITIVE,
    reference=_WRIGHT,
    target=True,
)
