"""The floorplan: what a compute die's area is made of, and what shrinks with the process.

Multiprocessors, the wires between them and controllers are logic and shrink with it; caches are memory cells, which
shrink less; the circuits at the edge that drive pins are analog and do not shrink at all. That is why a denser process
does not shrink a die by as much, and why area, caches, multiprocessors and stacks of memory are one budget, up to the
largest field of a scanner.
"""

from __future__ import annotations

from assay.model import POSITIVE, Scope, by_definition, cited, floor, number
from assay.stack import hbm
from assay.stack.gpu import rates as gpu_rates
from assay.stack.manufacturing import wafers

scope = Scope("floorplan", "Area of a compute die by its parts")

_PARTS = cited(
    "Zhang et al. 2024, LLMCompass: Enabling Efficient Hardware Design for Large Language Model Inference, ISCA",
    "area model: parts of a die, from annotated die photographs",
)
_SRAM = cited("Balasubramonian et al. 2017, CACTI 7", "area efficiency of memory arrays")
_SCALED = by_definition("logic by the density of its process")
_GPU = number("1 GPU")
_BITS = number("8 1/byte")

reference_density = scope.declare(
    "reference_density, rho_r [1/m^2 as 1/um^2]: densest logic of the process in which the parts were measured",
    bounds=POSITIVE,
    reference=_PARTS,
    boundary="primitive",
)
shrink = scope.declare(
    "shrink, k_s: density of the process over that in which the parts were measured",
    equals=wafers.density_limit / reference_density,
    bounds=POSITIVE,
    reference=_SCALED,
    target=True,
)
spare = scope.declare(
    "spare_share, s_sp [1 as %]: multiprocessors on a die that are not sold, over those that are",
    reference=_PARTS,
    boundary="primitive",
)
core_area = scope.declare(
    "core.area, a_SM [m^2 as mm^2]: area of a multiprocessor, in the process of the reference",
    reference=_PARTS,
    boundary="primitive",
)
dies = scope.declare(
    "dies, n_fd: compute dies over which multiprocessors, caches and stacks are spread; unless given, 1",
    equals=1,
    bounds=POSITIVE,
    reference=_PARTS,
)
cores = scope.declare(
    "cores, N_SM: multiprocessors on a die, those not sold among them",
    equals=gpu_rates.multiprocessors * _GPU * (1 + spare) / dies,
    reference=_PARTS,
    target=True,
)
cores_area = scope.declare(
    "cores.area, A_SM [m^2 as mm^2]: area of a die's multiprocessors",
    equals=cores * core_area / shrink,
    reference=_SCALED,
    target=True,
)
network_area_by_core = scope.declare(
    "network.area_by_core, a_x [m^2 as mm^2]: area of the network between multiprocessors and caches, by "
    "multiprocessor, in the process of the reference",
    reference=_PARTS,
    boundary="primitive",
)
network_area = scope.declare(
    "network.area, A_x [m^2 as mm^2]: area of the network between multiprocessors and caches",
    equals=cores * network_area_by_core / shrink,
    reference=_SCALED,
)
bit_cell = scope.declare(
    "cache.bit_cell, a_bit [m^2 as um^2]: area of a memory cell of the process",
    bounds=POSITIVE,
    reference=_SRAM,
    boundary="primitive",
)
array_share = scope.declare(
    "cache.array_share, e_a [1 as %]: share of a cache's area that is memory cells",
    bounds=("positive", 1),
    reference=_SRAM,
    boundary="primitive",
)
cache_bits = scope.declare(
    "cache.bits, n_bit: data bits of a die's second-level cache",
    equals=gpu_rates.cache_capacity * _GPU / dies * _BITS,
    reference=_PARTS,
)
cache_area = scope.declare(
    "cache.area, A_L2 [m^2 as mm^2]: area of a die's second-level cache",
    equals=cache_bits * bit_cell / array_share,
    reference=_SRAM,
    target=True,
)
phy_area = scope.declare(
    "memory.phy_area, a_phy [m^2 as mm^2]: area of the circuits that drive a stack's pins", reference=_PARTS,
    boundary="primitive",
)  # fmt: skip
controller_area = scope.declare(
    "memory.controller_area, a_mc [m^2 as mm^2]: area of a stack's controller, in the process of the reference",
    reference=_PARTS,
    boundary="primitive",
)
sites = scope.declare(
    "memory.sites, n_ms: stacks that a die has circuits for, over those that are sold; unless given, 1",
    equals=1,
    bounds=POSITIVE,
    reference=_PARTS,
)
memory_area = scope.declare(
    "memory.area, A_m [m^2 as mm^2]: area of circuits and controllers of a die's memory stacks",
    equals=hbm.stacks * _GPU * sites / dies * (phy_area + controller_area / shrink),
    reference=_PARTS,
    target=True,
)
link_area = scope.declare(
    "link.area, a_l [m^2 as mm^2]: area of the circuits of a link to another GPU", reference=_PARTS,
    boundary="primitive",
)  # fmt: skip
links_area = scope.declare(
    "links.area, A_l [m^2 as mm^2]: area of a die's links",
    equals=gpu_rates.link_count * _GPU / dies * link_area,
    reference=_PARTS,
)
other_area = scope.declare(
    "other.area, A_o [m^2 as mm^2]: area of all else: host interface, media, test", reference=_PARTS,
    boundary="primitive",
)  # fmt: skip
die_area = scope.declare(
    "die.area, A_f [m^2 as mm^2]: area of a compute die",
    equals=cores_area + network_area + cache_area + memory_area + links_area + other_area,
    reference=_PARTS,
    target=True,
)
logic_share = scope.declare(
    "logic_share, s_l [1 as %]: share of a die that shrinks with its logic",
    equals=(cores_area + network_area) / die_area,
    reference=by_definition("logic over all"),
    target=True,
)
scope.equation(wafers.die_area, die_area, name="area", meaning="the sum of its parts", reference=_PARTS)
budget = scope.declare(
    "budget, A_b [m^2 as mm^2]: area that a compute die may take; unless given, the reticle limit",
    equals=wafers.reticle_area,
    reference=_PARTS,
)
tile_area = scope.declare(
    "tile.area, a_t [m^2 as mm^2]: area of a multiprocessor with its share of the network, in this process",
    equals=(core_area + network_area_by_core) / shrink,
    bounds=POSITIVE,
    reference=_SCALED,
    target=True,
)
fitting = scope.declare(
    "fitting, N_fit [1/GPU]: multiprocessors that can be sold of what fits that area beside caches, memory and links",
    equals=floor((budget - cache_area - memory_area - links_area - other_area) / tile_area / (1 + spare)) * dies / _GPU,
    reference=_PARTS,
    target=True,
)
