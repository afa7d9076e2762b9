"""A logic gate driving a wire: its delay, and whether it fits the clock."""

from __future__ import annotations

from assay.model import POSITIVE, Scope, by_definition, cited
from assay.stack import works

scope = Scope("logic", "Gates, wires and clock period")

_ELMORE = cited(works.CMOS_VLSI, "sec. 4.3, Elmore delay")

on_resistance = scope.declare(
    "gate.on_resistance, R_on [ohm]: effective resistance of the driving gate",
    reference=_ELMORE,
    boundary="decompose",
    library=True,
)
fan_out = scope.declare("gate.fan_out, h: gate inputs driven", reference=_ELMORE, boundary="decompose", library=True)
input_capacitance = scope.declare(
    "gate.input_capacitance, C_in [F]: capacitance of one driven input",
    reference=_ELMORE,
    boundary="decompose",
    library=True,
)
wire_length = scope.declare(
    "wire.length, L [m]: length of the driven wire", reference=_ELMORE, boundary="decompose", library=True
)
wire_resistance_per_length = scope.declare(
    "wire.resistance_per_length, r' [ohm/m]: wire resistance per length",
    reference=_ELMORE,
    boundary="decompose",
    library=True,
)
wire_capacitance_per_length = scope.declare(
    "wire.capacitance_per_length, c' [F/m]: wire capacitance per length",
    reference=_ELMORE,
    boundary="decompose",
    library=True,
)
wire_resistance = scope.declare(
    "wire.resistance, R_w [ohm]: resistance of the whole wire",
    equals=wire_resistance_per_length * wire_length,
    reference=_ELMORE,
    library=True,
)
wire_capacitance = scope.declare(
    "wire.capacitance, C_w [F]: capacitance of the whole wire",
    equals=wire_capacitance_per_length * wire_length,
    reference=_ELMORE,
    library=True,
)
load = scope.declare(
    "gate.load, C_L [F]: capacitance of all driven inputs",
    equals=fan_out * input_capacitance,
    reference=_ELMORE,
    library=True,
)
delay = scope.declare(
    "gate.delay, t_d [s]: Elmore delay of gate and wire, distributed wire as a pi model",
    equals=on_resistance * (load + wire_capacitance) + wire_resistance * (wire_capacitance / 2 + load),
    reference=_ELMORE,
    library=True,
)
clock = scope.declare(
    "clock.frequency, f [Hz as GHz]: clock frequency",
    bounds=POSITIVE,
    reference=by_definition(),
    boundary="scenario",
    library=True,
)
period = scope.declare(
    "clock.period, T [s]: time between clock edges", equals=1 / clock, reference=by_definition(), library=True
)
scope.inequality(
    "clock.timing",
    delay <= period,
    "the gate settles within one clock period",
    reference=cited(works.CMOS_VLSI, "ch. 10, sequencing"),
    library=True,
)
