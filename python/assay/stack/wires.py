"""Wires: resistance and capacitance of a line, its delay with and without repeaters, and the energy of a bit.

A wire gets slower by the square of its length, because each further piece has to be charged through all before it.
Repeaters cut it into pieces and make its delay linear; the energy stays: every bit charges the wire. Narrow wires
resist more than their cross-section says, since electrons scatter at walls and grains and a barrier takes its share.
"""

from __future__ import annotations

from assay.model import POSITIVE, Scope, cited, number, sqrt
from assay.stack import dram, physics, works

scope = Scope("wires", "On-chip wires")

_CACTI = cited("Balasubramonian et al. 2017, CACTI 7", "wire resistance and capacitance by length")
_GEOMETRY = cited(works.CMOS_VLSI, "sec. 6.1.1, wire geometry")
_DELAY = cited(works.CMOS_VLSI, "sec. 6.3, interconnect impact: delay of a distributed line")
_REPEATERS = cited(works.CMOS_VLSI, "sec. 6.4.2, repeaters")
_CROSSTALK = cited(works.CMOS_VLSI, "sec. 6.3, interconnect impact: crosstalk")
_ENERGY = cited(works.CMOS_VLSI, "sec. 6.3, interconnect impact: energy of a wire")

pitch = scope.declare("pitch, p [m as nm]: pitch of wires", bounds=POSITIVE, reference=_GEOMETRY, boundary="primitive")
fill = scope.declare(
    "fill, f_w [1 as %]: width of a wire over its pitch; unless given, a half", equals=0.5, bounds=(0, 1),
    reference=_GEOMETRY,
)  # fmt: skip
width = scope.declare("width, w [m as nm]: width of a wire", equals=fill * pitch, bounds=POSITIVE, reference=_GEOMETRY)
spacing = scope.declare(
    "spacing, s [m as nm]: distance between wires", equals=pitch - width, bounds=POSITIVE, reference=_GEOMETRY
)
aspect = scope.declare(
    "aspect, AR: thickness of a wire over its width", bounds=POSITIVE, reference=_GEOMETRY, boundary="primitive"
)
thickness = scope.declare("thickness, t [m as nm]: thickness of a wire", equals=aspect * width, reference=_GEOMETRY)
barrier = scope.declare(
    "barrier, b [m as nm]: thickness of the barrier at sides and bottom", reference=_CACTI, boundary="primitive"
)
bulk_resistivity = scope.declare(
    "bulk_resistivity, rho_0 [ohm*m]: resistivity of the metal", reference=_CACTI, boundary="primitive"
)
scattering = scope.declare(
    "scattering, a_s: resistivity with surface and grain scattering over that of the metal",
    bounds=(1, None),
    reference=_CACTI,
    boundary="primitive",
)
section = scope.declare(
    "section, A_w [m^2 as nm^2]: conducting cross-section",
    equals=(width - 2 * barrier) * (thickness - barrier),
    bounds=POSITIVE,
    reference=_CACTI,
)
resistance = scope.declare(
    "resistance, r' [ohm/m]: resistance by length",
    equals=scattering * bulk_resistivity / section,
    reference=_CACTI,
    target=True,
)
side_permittivity = scope.declare(
    "side_permittivity, k_h: relative permittivity between wires of a layer", reference=_CACTI, boundary="primitive"
)
plate_permittivity = scope.declare(
    "plate_permittivity, k_v: relative permittivity between layers", reference=_CACTI, boundary="primitive"
)
height = scope.declare(
    "height, h [m as nm]: thickness of the dielectric between layers", bounds=POSITIVE, reference=_CACTI,
    boundary="primitive",
)  # fmt: skip
miller = scope.declare(
    "miller, M: factor of the capacitance to neighbors that switch the other way",
    reference=_CACTI,
    boundary="primitive",
)
fringe = scope.declare("fringe, c_f [F/m]: capacitance of edges by length", reference=_CACTI, boundary="primitive")
side_capacitance = scope.declare(
    "side_capacitance, c_s [F/m]: capacitance to both neighbors by length: of walls of the wire's thickness",
    equals=2 * side_permittivity * physics.vacuum_permittivity * thickness / spacing,
    reference=_CACTI,
)
plate_capacitance = scope.declare(
    "plate_capacitance, c_p [F/m]: capacitance to the layers above and below by length",
    equals=2 * plate_permittivity * physics.vacuum_permittivity * width / height,
    reference=_CACTI,
)
capacitance = scope.declare(
    "capacitance, c' [F/m]: capacitance by length",
    equals=miller * side_capacitance + plate_capacitance + fringe,
    bounds=POSITIVE,
    reference=_CACTI,
    target=True,
)
crosstalk = scope.declare(
    "crosstalk, s_x [1 as %]: voltage that switching neighbors put on a floating wire, over their swing",
    equals=side_capacitance / (side_capacitance + plate_capacitance + fringe),
    bounds=(0, 1),
    reference=_CROSSTALK,
    target=True,
)
length = scope.declare("length, L [m as mm]: length of a wire", reference=_DELAY, boundary="scenario")
delay = scope.declare(
    "delay, t_d [s as ps]: time in which the far end of a wire without repeaters reaches half of a step",
    equals=0.38 * resistance * capacitance * length**2,
    reference=_DELAY,
    target=True,
)
driver_resistance = scope.declare(
    "driver.resistance, R_0 [ohm]: resistance of the smallest inverter", bounds=POSITIVE, reference=_REPEATERS,
    boundary="primitive",
)  # fmt: skip
driver_input = scope.declare(
    "driver.input, C_0 [F as fF]: input capacitance of the smallest inverter", bounds=POSITIVE, reference=_REPEATERS,
    boundary="primitive",
)  # fmt: skip
driver_output = scope.declare(
    "driver.output, C_p [F as fF]: output capacitance of the smallest inverter", reference=_REPEATERS,
    boundary="primitive",
)  # fmt: skip
repeater_size = scope.declare(
    "repeater.size, W_r: size of the best repeater over the smallest inverter",
    equals=sqrt(driver_resistance * capacitance / (resistance * driver_input)),
    reference=_REPEATERS,
    target=True,
)
repeater_spacing = scope.declare(
    "repeater.spacing, L_r [m as um]: best distance between repeaters",
    equals=sqrt(2 * driver_resistance * (driver_input + driver_output) / (resistance * capacitance)),
    bounds=POSITIVE,
    reference=_REPEATERS,
    target=True,
)
_piece = driver_resistance / repeater_size * (
    repeater_size * (driver_input + driver_output) + capacitance * repeater_spacing
) + resistance * repeater_spacing * (repeater_size * driver_input + capacitance * repeater_spacing / 2)
repeated_delay = scope.declare(
    "repeated_delay, t_r [s as ps]: Elmore delay of a wire with the best repeaters",
    equals=length / repeater_spacing * _piece,
    reference=_REPEATERS,
    target=True,
)
swing = scope.declare("swing, V_w [V]: voltage swing of a wire", reference=_ENERGY, boundary="primitive")
toggle = scope.declare(
    "toggle, a_w [1 as %]: share of bits at which a wire changes; unless given, a half, of random data",
    equals=0.5,
    bounds=(0, 1),
    reference=_ENERGY,
)
bit_energy = scope.declare(
    "bit_energy, e_w [J/m as pJ/mm]: energy of a bit by length: half a charge at each change, and as much again in "
    "repeaters",
    equals=toggle * capacitance * swing**2,
    reference=_ENERGY,
    target=True,
)
distance = scope.declare(
    "distance, L_m [m as mm]: way of a bit from the pins of memory to a multiprocessor",
    reference=_ENERGY,
    boundary="primitive",
)
scope.equation(
    dram.device.transport_energy,
    bit_energy * distance * number("8 1/byte"),
    name="transport_energy",
    meaning="wires from the pins to a multiprocessor",
    reference=_ENERGY,
)
