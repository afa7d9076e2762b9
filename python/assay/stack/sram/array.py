"""The array: rows and columns of cells, what surrounds them, and how long and how much energy a read takes."""

from __future__ import annotations

from assay.model import POSITIVE, Variable, cited, log, log2
from assay.stack import floorplan, timing, transistor, wires, works
from assay.stack.gpu import rates as gpu_rates
from assay.stack.sram.cell import access, area, gate_width, scope, supply

_BITLINE = cited(works.CMOS_VLSI, "sec. 12.2, SRAM: bitline and wordline delay")
_DECODER = cited(works.CMOS_VLSI, "sec. 12.2.2, row circuitry: decoders by logical effort")
_EFFICIENCY = cited("Balasubramonian et al. 2017, CACTI 7", "area of subarrays: cells, decoders, sense amplifiers")
_ENERGY = cited(works.CMOS_VLSI, "sec. 5.2, dynamic power: charge by swing by supply")
_SENSE = cited(works.CMOS_VLSI, "sec. 12.2.3, sense amplifiers: regenerative feedback")
_PIPELINE = cited(works.CMOS_VLSI, "sec. 10.2, sequencing static circuits: cycles of a pipelined access")


def _datum(heading: str) -> Variable:
    return scope.declare(heading, bounds=POSITIVE, reference=_BITLINE, boundary="primitive")


rows = _datum("array.rows, n_r: cells on a bitline")
columns = _datum("array.columns, n_c: cells on a wordline")
drain = _datum("array.drain, C_d [F as fF]: capacitance that a cell's access transistor adds to its bitline")
swing = _datum("array.swing, dV_b [V as mV]: fall of a bitline that a sense amplifier needs")
fin_current = _datum("array.fin_current, I_f [A as uA]: read current of a cell by fin of its access transistor")
cell_height = scope.declare(
    "cell.height, h_c [m as nm]: length of bitline by cell; a cell is twice as wide as it is high",
    equals=(area / 2) ** 0.5,
    reference=_EFFICIENCY,
)
bits = scope.declare(
    "array.bits, n_a: cells of an array", equals=rows * columns, bounds=POSITIVE, reference=_EFFICIENCY
)
bitline = scope.declare(
    "array.bitline, C_b [F as fF]: capacitance of a bitline: drains and wire",
    equals=rows * (drain + wires.capacitance * cell_height),
    reference=_BITLINE,
)
read_current = scope.declare(
    "array.read_current, I_r [A as uA]: current with which a cell discharges its bitline",
    equals=fin_current * access,
    bounds=POSITIVE,
    reference=_BITLINE,
)
bitline_delay = scope.declare(
    "array.bitline_delay, t_b [s as ps]: time in which a bitline falls by what a sense amplifier needs",
    equals=bitline * swing / read_current,
    reference=_BITLINE,
    target=True,
)
wordline = scope.declare(
    "array.wordline, L_w [m as um]: length of a wordline", equals=columns * 2 * cell_height, reference=_BITLINE
)
_gates = transistor.oxide_capacitance * transistor.length * gate_width * 2 * access
wordline_capacitance = scope.declare(
    "array.wordline_capacitance, C_w [F as fF]: capacitance of a wordline: two gates by cell, and wire",
    equals=columns * _gates + wires.capacitance * wordline,
    reference=_BITLINE,
)
wordline_delay = scope.declare(
    "array.wordline_delay, t_w [s as ps]: time in which the far end of a wordline rises",
    equals=0.38 * wires.resistance * wordline * wordline_capacitance,
    reference=_BITLINE,
    target=True,
)
decoder_delay = scope.declare(
    "array.decoder_delay, t_dec [s as ps]: time of a decoder, a stage for each factor of four of its rows and load",
    equals=timing.fanout_delay / transistor.speed * (log2(rows) / 2 + 1),
    reference=_DECODER,
    target=True,
)
sense_constant = _datum("array.sense_constant, tau_a [s as ps]: time in which a sense amplifier multiplies by e")
sense_delay = scope.declare(
    "array.sense_delay, t_sa [s as ps]: time of a sense amplifier from that swing to the supply",
    equals=sense_constant * log(supply / swing),
    reference=_SENSE,
    target=True,
)
access_time = scope.declare(
    "array.access_time, t_acc [s as ps]: time of a read of one array",
    equals=decoder_delay + wordline_delay + bitline_delay + sense_delay,
    bounds=POSITIVE,
    reference=_BITLINE,
    target=True,
)
access_cycles = scope.declare(
    "array.access_cycles, c_acc: that time in cycles of the boost clock",
    equals=access_time * gpu_rates.clock,
    reference=_PIPELINE,
    target=True,
)
read_energy = scope.declare(
    "array.read_energy, E_r [J as fJ]: energy of reading a row: its bitlines by their swing, and its wordline",
    equals=columns * bitline * swing * supply + wordline_capacitance * supply**2,
    reference=_ENERGY,
    target=True,
)
bit_energy = scope.declare(
    "array.bit_energy, e_b [J as fJ]: energy of reading a bit",
    equals=read_energy / columns,
    reference=_ENERGY,
    target=True,
)
decoder_strip = _datum("array.decoder_strip, k_d: width of a decoder, in cells of a row")
sense_strip = _datum("array.sense_strip, k_s: height of sense amplifiers and drivers, in cells of a column")
efficiency = scope.declare(
    "array.efficiency, eta_a [1 as %]: share of an array's area that is cells",
    equals=1 / ((1 + decoder_strip / columns) * (1 + sense_strip / rows)),
    bounds=("positive", 1),
    reference=_EFFICIENCY,
    target=True,
)
routing_share = scope.declare(
    "cache.routing_share, s_rt [1 as %]: share of a cache's area that is arrays; the rest is tags, slices and their "
    "network",
    bounds=("positive", 1),
    reference=_EFFICIENCY,
    boundary="primitive",
)
scope.equation(
    floorplan.bit_cell, area, name="bit_cell", meaning="the densest cell of these pitches", reference=_EFFICIENCY
)
scope.equation(
    floorplan.array_share,
    efficiency * routing_share,
    name="array_share",
    meaning="cells of arrays, arrays of a cache",
    reference=_EFFICIENCY,
)
