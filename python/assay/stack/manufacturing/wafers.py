"""Compute dies: how many fit on a wafer, how many work, and what one costs."""

from __future__ import annotations

import math

from assay.model import POSITIVE, Expression, Scope, by_definition, cited, exp, maximum, sqrt, where
from assay.stack import works

scope = Scope("manufacturing", "Wafers, yield, packages and what can be made of them")

_COST = cited(works.COMPUTER_ARCHITECTURE, "sec. 1.6, cost of an integrated circuit")
_GROSS = cited(works.DIES_PER_WAFER, "first-order formula with the coefficient fitted to exact counts")
_BORDER = cited(
    "Flynn 1995, Computer Architecture: Pipelined and Parallel Processor Design",
    "ch. 2, die area and yield: the border of a wafer is lost",
)
_STAPPER = cited(
    "Stapper, Armstrong and Saji 1983, Integrated Circuit Yield Statistics",
    "negative binomial yield of clustered defects",
)
_MURPHY = cited(
    "Murphy 1964, Cost-Size Optima of Monolithic Integrated Circuits", "triangular distribution of the defect density"
)
_POISSON = cited(
    "Murphy 1964, Cost-Size Optima of Monolithic Integrated Circuits", "Poisson yield at one density of defects"
)
_SEEDS = cited(
    "Seeds 1967, Yield, Economic, and Logistic Models for Complex Digital Arrays",
    "exponential distribution of the defect density",
)
_WAFER = cited("SEMI M1, Specification for Polished Single Crystal Silicon Wafers", "300 mm wafers")
_FIELD = cited("Mack 2007, Fundamental Principles of Optical Lithography", "step-and-scan tools: field of a scanner")

reticle_width = scope.declare(
    "reticle.width, w_r [m as mm]: width of the largest field that a scanner exposes",
    bounds=POSITIVE,
    reference=_FIELD,
    boundary="primitive",
)
reticle_height = scope.declare(
    "reticle.height, h_r [m as mm]: height of the largest field that a scanner exposes",
    bounds=POSITIVE,
    reference=_FIELD,
    boundary="primitive",
)
reticle_area = scope.declare(
    "reticle.area, A_r [m^2 as mm^2]: reticle limit: area of the largest field",
    equals=reticle_width * reticle_height,
    reference=_FIELD,
)
die_area = scope.declare(
    "die.area, A_d [m^2 as mm^2]: area of a compute die", bounds=POSITIVE, reference=_COST, boundary="primitive"
)
reticle_share = scope.declare(
    "die.reticle_share, s_r [1 as %]: area of a compute die over the reticle limit",
    equals=die_area / reticle_area,
    reference=_FIELD,
    target=True,
)
scope.inequality("die.within_reticle", die_area <= reticle_area, "a compute die fits the reticle", reference=_FIELD)
transistors = scope.declare("die.transistors, n_T: transistors of a compute die", reference=_COST, boundary="primitive")
density = scope.declare(
    "die.density, rho_T [1/m^2 as 1/um^2]: transistors of a compute die by area; 1/um^2 is a million a mm^2",
    equals=transistors / die_area,
    reference=by_definition("transistors over area"),
    target=True,
)
density_limit = scope.declare(
    "process.density, rho_max [1/m^2 as 1/um^2]: densest logic of the process",
    reference=by_definition("mix of NAND2 and flip-flop cells"),
    boundary="primitive",
)
utilization = scope.declare(
    "die.utilization, u_d [1 as %]: density of a compute die over that of the densest logic of its process",
    bounds=("positive", 1),
    reference=by_definition("the mean of a die over its densest cells"),
    boundary="primitive",
)
scope.equation(
    die_area,
    transistors / (density_limit * utilization),
    name="die.area_by_density",
    meaning="the same transistors in this process, as densely packed",
    reference=by_definition("transistors over density"),
)
scope.inequality(
    "die.within_density",
    density <= density_limit,
    "the process can draw as many transistors on a die's area",
    reference=by_definition("the densest cells bound the mean of a die"),
)

diameter = scope.declare(
    "wafer.diameter, d_w [m as mm]: diameter of a wafer", bounds=POSITIVE, reference=_WAFER, boundary="primitive"
)
edge = scope.declare(
    "wafer.edge_exclusion, e_w [m as mm]: border of a wafer that holds no dies", reference=_WAFER, boundary="primitive"
)
scribe = scope.declare(
    "wafer.scribe, s_w [m as mm]: width of the scribe lines between dies", reference=_GROSS, boundary="primitive"
)
pitch_area = scope.declare(
    "die.pitch_area, A_p [m^2 as mm^2]: area of a die with its scribe lines, as a square",
    equals=(sqrt(die_area) + scribe) ** 2,
    reference=_GROSS,
)
usable_diameter = diameter - 2 * edge

FITTED_EDGE = 0.58
"""Share of the sites along the edge that it cuts, fitted to exact counts (de Vries 2005)."""
FIRST_ORDER_EDGE = 1 / math.sqrt(2)
"""The same where every site along the edge is cut at its diagonal (Hennessy and Patterson)."""


def sites_on_wafer(area: Expression, edge_share: float = FITTED_EDGE) -> Expression:
    """Whole sites of an area on a wafer: pi d^2 / 4 A - k pi d / sqrt(A)."""
    whole = math.pi * usable_diameter**2 / (4 * area)
    cut = edge_share * math.pi * usable_diameter / sqrt(area)
    # Counts near one are below it. A square whose diagonal fits has one site; a larger one violates die.fits_wafer.
    return maximum(whole - cut, 1)


gross_dies = scope.declare("wafer.gross_dies, N_d: dies on a wafer, good and bad", reference=_GROSS)
scope.inequality(
    "die.fits_wafer",
    2 * die_area <= usable_diameter**2,
    "a square die fits the wafer without its border, by its diagonal",
    reference=by_definition("the diagonal of a square is the root of twice its area"),
)
scope.equation(
    gross_dies,
    sites_on_wafer(pitch_area),
    name="fitted_edge",
    meaning="area over die area, less the dies that the edge cuts, fitted to counts",
    reference=_GROSS,
)
scope.approximation(
    gross_dies,
    sites_on_wafer(pitch_area, FIRST_ORDER_EDGE),
    name="first_order",
    valid=pitch_area <= usable_diameter**2,
    meaning="area over die area, less one die for each diagonal along the edge",
    reference=_COST,
)
scope.approximation(
    gross_dies,
    math.pi * (usable_diameter - sqrt(pitch_area)) ** 2 / (4 * pitch_area),
    name="lost_border",
    valid=pitch_area <= usable_diameter**2,
    meaning="dies whose centers lie half a die from the edge",
    reference=_BORDER,
)

defect_density = scope.declare(
    "process.defect_density, D_0 [1/m^2 as 1/cm^2]: killer defects by area", reference=_STAPPER, boundary="primitive"
)
critical_share = scope.declare(
    "die.critical_share, s_c [1 as %]: share of a die where a defect makes it unsellable; spare and disabled "
    "units are not",
    bounds=(0, 1),
    reference=_STAPPER,
    boundary="primitive",
)
clustering = scope.declare(
    "process.clustering, alpha: clustering parameter of defects: 1 is strongly clustered, large ones are independent",
    bounds=POSITIVE,
    reference=_STAPPER,
    boundary="primitive",
)
faults = scope.declare(
    "die.faults, lambda: expected killer defects of a die",
    equals=die_area * critical_share * defect_density,
    reference=_STAPPER,
)
die_yield = scope.declare(
    "die.yield, Y_d [1 as %]: share of dies that can be sold", bounds=(0, 1), reference=_STAPPER, target=True
)
scope.equation(
    die_yield,
    (1 + faults / clustering) ** (-clustering),
    name="negative_binomial",
    meaning="defects cluster",
    reference=_STAPPER,
)
scope.approximation(
    die_yield, exp(-faults), name="poisson", valid=faults >= 0, meaning="defects fall independently", reference=_POISSON
)
scope.approximation(
    die_yield,
    where(faults > 0, ((1 - exp(-faults)) / faults) ** 2, 1),
    name="murphy",
    valid=faults >= 0,
    meaning="the density of defects varies, triangularly about its mean",
    reference=_MURPHY,
)
scope.approximation(
    die_yield,
    1 / (1 + faults),
    name="seeds",
    valid=faults >= 0,
    meaning="the density of defects varies exponentially",
    reference=_SEEDS,
)
line_yield = scope.declare(
    "wafer.line_yield, Y_w [1 as %]: share of wafers that leave the line",
    bounds=(0, 1),
    reference=_COST,
    boundary="primitive",
)
good_dies = scope.declare(
    "wafer.good_dies, N_g: good dies per wafer started",
    equals=gross_dies * line_yield * die_yield,
    reference=_COST,
    target=True,
)
wafer_price = scope.declare("wafer.price, c_w [USD]: price of a processed wafer", reference=_COST, boundary="scenario")
die_cost = scope.declare(
    "die.cost, c_d [USD]: cost of a good compute die", equals=wafer_price / good_dies, reference=_COST, target=True
)
