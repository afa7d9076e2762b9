"""The geometry of a process: pitches of gates, fins and metal, the cells that they make, and how many fit.

A name such as 5 nm is no length. What can be measured are pitches: a gate pitch is a gate, a contact and two spacers; a
metal pitch a line and a space, both bound by what a scanner resolves in one exposure or several. Standard cells are
a few metal tracks high and a few gate pitches wide; a mix of two of them gives the density by which processes are
compared.
"""

from __future__ import annotations

from assay.model import ANY_SIGN, POSITIVE, Scope, Variable, ceil, cited, sqrt
from assay.stack import transistor, works
from assay.stack.manufacturing import wafers

scope = Scope("geometry", "Pitches, cells and density of a process")

_PITCHES = cited("IEEE International Roadmap for Devices and Systems 2022, More Moore", "ground rules: pitches by node")
_MASK = cited(
    "Mack 2007, Fundamental Principles of Optical Lithography",
    "ch. 8, lithographic control: mask error enhancement and bias",
)
_OVERLAY = cited("Mack 2007, Fundamental Principles of Optical Lithography", "ch. 8, lithographic control: overlay")
_CELLS = cited(works.CMOS_VLSI, "sec. 1.5 and 3.3, layout of standard cells")
_DENSITY = cited(
    "Bohr 2017, Moore's Law Leadership, Intel Technology and Manufacturing Day",
    "density of logic: 0.6 of NAND2 and 0.4 of scan flip-flops",
)
_MULTIPLE = cited(
    "Mack 2007, Fundamental Principles of Optical Lithography", "ch. 10, double patterning: pitch division"
)
_NODE = cited(
    "Moore et al. 2020, A Better Way to Measure Progress in Semiconductors, IEEE Spectrum 57(8)",
    "gate pitch, metal pitch and tiers instead of a node",
)


def _length(heading: str, bounds: tuple[str | float | None, None] = POSITIVE) -> Variable:
    return scope.declare(heading, bounds=bounds, reference=_PITCHES, boundary="primitive")


resolution = scope.declare(
    "half_pitch, h_p [m as nm]: smallest half pitch of one exposure", bounds=POSITIVE, reference=_MULTIPLE,
    boundary="primitive",
)  # fmt: skip
printed_gate = _length("gate.printed, CD_g [m as nm]: length of a gate as it is printed")
gate_bias = scope.declare(
    "gate.bias, b_g [m as nm]: length that etching adds to a gate; unless given, none",
    equals=0 * printed_gate,
    bounds=ANY_SIGN,
    reference=_MASK,
)
gate_length = scope.declare(
    "gate.length, L_d [m as nm]: length of a gate",
    equals=printed_gate + gate_bias,
    bounds=POSITIVE,
    reference=_MASK,
    target=True,
)
printed_contact = _length("contact.printed, CD_c [m as nm]: width of a contact as it is printed")
contact_bias = scope.declare(
    "contact.bias, b_c [m as nm]: width that etching adds to a contact; unless given, none",
    equals=0 * printed_contact,
    bounds=ANY_SIGN,
    reference=_MASK,
)
contact_width = scope.declare(
    "contact.width, W_c [m as nm]: width of a contact",
    equals=printed_contact + contact_bias,
    bounds=POSITIVE,
    reference=_MASK,
)
overlay = _length("overlay, d_ov [m as nm]: how far one layer may lie off another")
enclosure = _length("enclosure, d_en [m as nm]: insulation between gate and contact", (0, None))
gate_space = scope.declare(
    "gate.space, S_gc [m as nm]: space between gate and contact", equals=overlay + enclosure, reference=_OVERLAY
)
gate_pitch = scope.declare(
    "gate.pitch, CPP [m as nm]: contacted gate pitch", bounds=POSITIVE, reference=_PITCHES, boundary="primitive"
)
scope.equation(
    gate_pitch,
    gate_length + contact_width + 2 * gate_space,
    name="gate.pitch_of_parts",
    meaning="a gate, a contact, and a space on either side",
    reference=_PITCHES,
)
fin_pitch = _length("fin.pitch, FP [m as nm]: pitch of fins, or of half a stack of sheets")
metal_width = _length("metal.width, W_m [m as nm]: width of the narrowest lines")
metal_space = _length("metal.space, S_m [m as nm]: space between the narrowest lines")
metal_pitch = scope.declare(
    "metal.pitch, MMP [m as nm]: minimum metal pitch", bounds=POSITIVE, reference=_PITCHES, boundary="primitive"
)
scope.equation(
    metal_pitch,
    metal_width + metal_space,
    name="metal.pitch_of_parts",
    meaning="a line and a space",
    reference=_PITCHES,
)
exposures = scope.declare(
    "metal.exposures, n_e: exposures of the densest metal layer: the pitch of each is twice the smallest half pitch",
    equals=ceil(2 * resolution / metal_pitch - 1e-9),
    bounds=POSITIVE,
    reference=_MULTIPLE,
    target=True,
)
mean_pitch = scope.declare(
    "mean_pitch, p_m [m as nm]: geometric mean of gate and metal pitch",
    equals=sqrt(gate_pitch * metal_pitch),
    reference=_NODE,
    target=True,
)
label_factor = scope.declare("label.factor, k_n: name of a node over that mean", reference=_NODE, boundary="primitive")
label = scope.declare(
    "label, L_node [m as nm]: the length that a node is named by",
    equals=label_factor * mean_pitch,
    reference=_NODE,
    target=True,
)
# Cells.
tracks = scope.declare(
    "cell.tracks, n_tr: metal tracks of a standard cell", bounds=POSITIVE, reference=_CELLS, boundary="primitive"
)
cell_height = scope.declare(
    "cell.height, H_c [m as nm]: height of a standard cell",
    equals=tracks * metal_pitch,
    bounds=POSITIVE,
    reference=_CELLS,
    target=True,
)
fins = scope.declare(
    "cell.fins, n_fin: fins, or half stacks of sheets, of a transistor of a standard cell",
    bounds=POSITIVE,
    reference=_CELLS,
    boundary="primitive",
)
fin_width = scope.declare(
    "fin.width, w_fin [m as nm]: width of channel by fin: both sides and the top",
    bounds=POSITIVE,
    reference=_CELLS,
    boundary="primitive",
)
channel_width = scope.declare(
    "channel.width, W_ch [m as nm]: width of the channel of a standard cell's transistor",
    equals=fins * fin_width,
    reference=_CELLS,
    target=True,
)
broken = scope.declare(
    "cell.breaks, n_br: gate pitches between cells: 1 of a double diffusion break; unless given, none of a single one",
    equals=0,
    reference=_CELLS,
)
nand_pitches = scope.declare(
    "nand.pitches, n_na: gate pitches of a NAND of two inputs; unless given, 3", equals=3, bounds=POSITIVE,
    reference=_DENSITY,
)  # fmt: skip
nand_area = scope.declare(
    "nand.area, A_na [m^2 as um^2]: area of a NAND of two inputs",
    equals=(nand_pitches + broken) * gate_pitch * cell_height,
    bounds=POSITIVE,
    reference=_DENSITY,
    target=True,
)
flop_pitches = scope.declare(
    "flop.pitches, n_ff: gate pitches of a scan flip-flop; unless given, 19", equals=19, bounds=POSITIVE,
    reference=_DENSITY,
)  # fmt: skip
flop_transistors = scope.declare(
    "flop.transistors, T_ff: transistors of a scan flip-flop; unless given, 32", equals=32, bounds=POSITIVE,
    reference=_DENSITY,
)  # fmt: skip
flop_area = scope.declare(
    "flop.area, A_ff [m^2 as um^2]: area of a scan flip-flop",
    equals=(flop_pitches + broken) * gate_pitch * cell_height,
    bounds=POSITIVE,
    reference=_DENSITY,
    target=True,
)
pitch_density = scope.declare(
    "density, rho_p [1/m^2 as 1/um^2]: transistors by area of 0.6 NANDs and 0.4 flip-flops",
    equals=0.6 * 4 / nand_area + 0.4 * flop_transistors / flop_area,
    reference=_DENSITY,
    target=True,
)
packing = scope.declare(
    "density.packing, k_d: density that is published for a process over that of these two cells; unless given, 1",
    equals=1,
    bounds=POSITIVE,
    reference=_DENSITY,
)
scope.equation(
    wafers.density_limit,
    packing * pitch_density,
    name="density_of_cells",
    meaning="cells of these pitches, as densely packed as is published",
    reference=_DENSITY,
)
scope.equation(
    transistor.width, channel_width, name="width_of_channel", meaning="fins by their width", reference=_CELLS
)
scope.equation(
    transistor.length, gate_length, name="length_of_channel", meaning="the length of a gate", reference=_MASK
)
