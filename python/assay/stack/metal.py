"""Metal: why narrow wires resist more, how long wires are, and how a signal crosses a die.

Electrons in a narrow wire hit its walls and the borders of its grains. At high frequency current keeps to the skin. The
mean length of wires follows from how many terminals a block of gates has (Rent's rule), and the way across a die
takes several cycles however it is driven.
"""

from __future__ import annotations

import math

from assay.model import POSITIVE, Scope, Variable, by_definition, cited, log, number, sqrt
from assay.stack import floorplan, geometry, multiprocessor, timing, wires, works
from assay.stack.gpu import rates as gpu_rates
from assay.stack.manufacturing import packages, wafers

scope = Scope("metal", "Resistivity, length and reach of wires")

_SURFACE = cited(
    "Sondheimer 1952, The mean free path of electrons in metals, Advances in Physics 1(1)",
    "thin films: surface scattering",
)
_GRAINS = cited(
    "Mayadas and Shatzkes 1970, Electrical-Resistivity Model for Polycrystalline Films, Physical Review B 1(4)", "eq. 5"
)
_SKIN = cited("Jackson 1998, Classical Electrodynamics, 3rd edition", "sec. 5.18, skin depth")
_RENT = cited(
    "Donath 1979, Placement and Average Interconnection Lengths of Computer Logic, IEEE Transactions on Circuits and "
    "Systems 26(4)",
    "average length by Rent's exponent",
)
_VIA = cited(works.CMOS_VLSI, "sec. 6.2.1, resistance: contacts and vias")
_CROSSING = cited(works.CMOS_VLSI, "sec. 6.3 and 6.4, delay of repeated wires across a chip")
_BISECTION = cited(
    "Dally and Towles 2004, Principles and Practices of Interconnection Networks",
    "ch. 3, topology basics: bisections and packaging",
)


def _datum(heading: str, bounds: tuple[float | str | None, float | str | None] = POSITIVE) -> Variable:
    return scope.declare(heading, bounds=bounds, reference=_SURFACE, boundary="primitive")


# The layer.
multiple = _datum("layer.multiple, k_p: pitch of a layer of metal over the smallest", (1, None))
scope.equation(
    wires.pitch,
    multiple * geometry.metal_pitch,
    name="pitch_of_layer",
    meaning="wires of upper layers are a multiple of the smallest pitch apart",
    reference=cited(works.CMOS_VLSI, "sec. 6.1, layers of metal by pitch"),
)
# Scattering.
free_path = scope.declare(
    "free_path, l_e [m as nm]: mean free path of electrons; unless given, 39 nm, of copper",
    equals=number("39e-9 m"),
    bounds=POSITIVE,
    reference=_SURFACE,
)
specular = scope.declare(
    "specular, p_s [1 as %]: share of electrons that walls reflect like mirrors; unless given, none", equals=0,
    bounds=(0, 1), reference=_SURFACE,
)  # fmt: skip
core_width = scope.declare(
    "core.width, w_c [m as nm]: width of a wire without its barrier",
    equals=wires.width - 2 * wires.barrier,
    bounds=POSITIVE,
    reference=_SURFACE,
)
surface_factor = scope.declare(
    "surface.factor, k_s: resistivity with the scattering of walls, over that of the metal",
    equals=1 + 3 / 8 * (1 - specular) * free_path / core_width,
    bounds=(1, None),
    reference=_SURFACE,
    target=True,
)
reflection = _datum("grains.reflection, R_g [1 as %]: share of electrons that a border of grains reflects", (0, 0.999))
grain = scope.declare(
    "grains.size, d_g [m as nm]: size of grains; unless given, the width of the wire",
    equals=core_width,
    bounds=POSITIVE,
    reference=_GRAINS,
)
grain_parameter = scope.declare(
    "grains.parameter, a_g: mean free path over grain size, by reflected over passed electrons",
    equals=free_path / grain * reflection / (1 - reflection),
    bounds=POSITIVE,
    reference=_GRAINS,
)
grain_factor = scope.declare(
    "grains.factor, k_g: resistivity with the scattering of grain borders, over that of the metal",
    equals=1
    / (3 * (1 / 3 - grain_parameter / 2 + grain_parameter**2 - grain_parameter**3 * log(1 + 1 / grain_parameter))),
    bounds=(1, None),
    reference=_GRAINS,
    target=True,
)
scope.equation(
    wires.scattering,
    surface_factor + grain_factor - 1,
    name="scattering",
    meaning="walls and grains add up",
    reference=_GRAINS,
)
# High frequency.
permeability = scope.declare(
    "permeability, mu_0 [H/m]: magnetic constant; unless given, 1.25664e-6 H/m",
    equals=number(f"{4e-7 * math.pi!r} H/m"),
    reference=_SKIN,
)
skin_depth = scope.declare(
    "skin.depth, d_s [m as nm]: depth to which current of the boost clock's frequency enters metal",
    equals=sqrt(wires.bulk_resistivity / (math.pi * gpu_rates.clock * permeability)),
    bounds=POSITIVE,
    reference=_SKIN,
    target=True,
)
high_resistance = scope.declare(
    "skin.resistance, r_s [ohm/m]: resistance by length at the boost clock's frequency", reference=_SKIN, target=True
)
scope.piecewise(
    high_resistance,
    [(wires.thickness <= 2 * skin_depth, wires.resistance)],
    otherwise=wires.resistance * wires.thickness / (2 * skin_depth),
    name="skin.regions",
    meaning="the whole wire carries where it is thinner than two skins",
    reference=_SKIN,
)
via_resistance = _datum("via.resistance, R_v [ohm]: resistance of a via")
via_count = _datum("via.count, n_v: vias of a path")
path_resistance = scope.declare(
    "path.resistance, R_p [ohm]: resistance of a wire with its vias",
    equals=wires.resistance * wires.length + via_count * via_resistance,
    reference=_VIA,
    target=True,
)
# Length.
hops = _datum("path.hops, n_h: blocks that a wire passes")
block_pitch = scope.declare(
    "path.pitch, p_b [m as um]: distance of neighboring blocks", bounds=POSITIVE, reference=_RENT
)
_cells = geometry.packing * geometry.pitch_density
scope.approximation(
    block_pitch,
    sqrt(geometry.nand_area),
    name="path.pitch_of_cells",
    valid=(wafers.density_limit <= 1.1 * _cells) & (wafers.density_limit >= 0.9 * _cells),
    meaning="a NAND of the stated pitches, where the density of the process is that of its cells",
    reference=_RENT,
)
detour = _datum("path.detour, k_d: length of a wire over the distance of its ends", (1, None))
span = scope.declare("path.span, L_s [m as um]: distance of a wire's ends", equals=hops * block_pitch, reference=_RENT)
scope.equation(
    wires.length, span * detour, name="length_of_span", meaning="blocks passed, with a detour", reference=_RENT
)
exponent = _datum("rent.exponent, p_R: Rent's exponent: growth of a block's terminals with its gates", (0.5001, 1))
gates = scope.declare(
    "rent.gates, N_g: gates of a GPU's logic, of four transistors each, on however many dies",
    equals=packages.dies * wafers.transistors / 4 * packages.ONE_GPU,
    bounds=POSITIVE,
    reference=_RENT,
)
_levels = 4 ** (exponent - 0.5) - 1
mean_hops = scope.declare(
    "rent.length, L_R: mean length of wires in gate pitches, by Donath's hierarchy",
    equals=2
    / 9
    * (7 * (gates ** (exponent - 0.5) - 1) / _levels - (1 - gates ** (exponent - 1.5)) / (1 - 4 ** (exponent - 1.5)))
    * (1 - 4 ** (exponent - 1))
    / (1 - gates ** (exponent - 1)),
    bounds=POSITIVE,
    reference=_RENT,
    target=True,
)
mean_length = scope.declare(
    "rent.mean_length, L_m [m as um]: mean length of wires",
    equals=mean_hops * block_pitch,
    reference=_RENT,
    target=True,
)
mean_capacitance = scope.declare(
    "rent.capacitance, C_m [F as fF]: capacitance of a mean wire",
    equals=mean_length * wires.capacitance,
    reference=_RENT,
    target=True,
)
# Crossing a die.
crossing = scope.declare(
    "crossing.time, t_x [s as ns]: time of a signal across a die, along both sides, with the best repeaters",
    equals=2 * sqrt(wafers.die_area) * wires.repeated_delay / wires.length,
    reference=_CROSSING,
    target=True,
)
crossing_cycles = scope.declare(
    "crossing.cycles, c_x: that time in cycles of the boost clock",
    equals=crossing * gpu_rates.clock,
    reference=_CROSSING,
    target=True,
)
tracks = _datum("bisection.layers, n_l: layers of metal that the network between multiprocessors and caches may use")
bisection_wires = scope.declare(
    "bisection.wires, N_b: wires that fit through the middle of a die",
    equals=tracks * sqrt(floorplan.die_area) / wires.pitch,
    reference=_BISECTION,
    target=True,
)
bisection = scope.declare(
    "bisection.bandwidth, B_b [byte/s as TB/s]: bytes that those wires carry, one bit in a cycle each",
    equals=bisection_wires * gpu_rates.clock * number("0.125 byte"),
    reference=_BISECTION,
    target=True,
)
shared_share = scope.declare(
    "bisection.share, s_b: that rate over the rate of all shared memory",
    equals=bisection / (multiprocessor.residency.shared_bandwidth * number("1 GPU")),
    reference=by_definition("ratio of rates"),
    target=True,
)
network_energy = scope.declare(
    "network.energy, E_n [J/byte as pJ/bit]: energy of a byte across half a die",
    equals=wires.bit_energy * sqrt(wafers.die_area) * number("8 1/byte"),
    reference=cited(works.CMOS_VLSI, "sec. 6.3, interconnect impact: energy of wires"),
    target=True,
)
cycle_path = scope.declare(
    "crossing.reach, L_c [m as mm]: way of a signal with the best repeaters in the shortest cycle",
    equals=wires.length * timing.period / wires.repeated_delay,
    reference=_CROSSING,
    target=True,
)
