"""Tools and masks: exposures by each kind of light, what a pass costs, and the set of masks that a design needs.

A wafer passes the scanners some eighty times, and after each pass it is etched, filled, polished, cleaned and
measured. A tool costs its price over the wafers of its life, so that throughput and uptime are money. Masks are paid
once for a design: few wafers make them dear.
"""

from __future__ import annotations

from assay.model import POSITIVE, Variable, by_definition, cited, maximum
from assay.stack.fab.silicon import scope
from assay.stack.lithography import scanner

_OWNERSHIP = cited(
    "SEMI E35, Guide to Calculate Cost of Ownership Metrics for Semiconductor Equipment", "cost by good unit"
)
_PASSES = cited("Mack 2007, Fundamental Principles of Optical Lithography", "ch. 1, lithography in the process flow")
_MASKS = cited("Mack 2007, Fundamental Principles of Optical Lithography", "ch. 1 and 8, photomasks")
_EQUIPMENT = cited(
    "SEMI E10, Specification for Equipment Reliability, Availability, and Maintainability", "states of a tool"
)


def _datum(heading: str) -> Variable:
    return scope.declare(heading, bounds=POSITIVE, reference=_OWNERSHIP, boundary="primitive")


layers = scope.declare(
    "masks.layers, n_ml: layers of a process that are printed", bounds=POSITIVE, reference=_PASSES,
    boundary="primitive",
)  # fmt: skip
immersion_layers = scope.declare(
    "immersion.layers, n_im: layers printed by immersion scanners", reference=_PASSES, boundary="primitive"
)
immersion_passes = scope.declare(
    "immersion.passes, k_im: exposures of such a layer, on average: two where pitches are halved",
    bounds=(1, None),
    reference=_PASSES,
    boundary="primitive",
)
finest_layers = scope.declare(
    "finest.layers, n_fin: layers that take one exposure by extreme ultraviolet light or several by immersion; unless "
    "given, none",
    equals=0,
    reference=_PASSES,
)
finest_passes = scope.declare(
    "finest.passes, k_fin: exposures by immersion of such a layer; unless given, 1",
    equals=1,
    bounds=(1, None),
    reference=_PASSES,
)
immersion_exposures = scope.declare(
    "immersion.exposures, N_im: exposures of a wafer by immersion scanners, those in place of extreme ultraviolet "
    "light among them",
    equals=immersion_layers * immersion_passes + maximum(finest_layers - scanner.layers, 0) * finest_passes,
    reference=_PASSES,
)
dry_layers = scope.declare(
    "dry.layers, n_dry: layers that neither need extreme ultraviolet light nor immersion",
    equals=layers - maximum(scanner.layers, finest_layers) - immersion_layers,
    reference=_PASSES,
)
exposures = scope.declare(
    "exposures, N_exp: exposures of a wafer",
    equals=scanner.layers + immersion_exposures + dry_layers,
    bounds=POSITIVE,
    reference=_PASSES,
    target=True,
)
# Uptime of a tool, by its states.
failure_interval = _datum("tool.failure_interval, t_f [s as h]: time between failures of a tool")
repair_time = _datum("tool.repair_time, t_r [s as h]: time of a repair")
scheduled = scope.declare(
    "tool.scheduled_share, s_pm [1 as %]: share of time that planned maintenance takes",
    bounds=(0, 1),
    reference=_EQUIPMENT,
    boundary="primitive",
)
availability = scope.declare(
    "tool.availability, a_t [1 as %]: share of time in which a tool could work",
    equals=failure_interval / (failure_interval + repair_time) * (1 - scheduled),
    bounds=(0, 1),
    reference=_EQUIPMENT,
    target=True,
)
loading = scope.declare(
    "tool.loading, u_l [1 as %]: share of that time for which there is work",
    bounds=("positive", 1),
    reference=_EQUIPMENT,
    boundary="primitive",
)
scope.approximation(
    scanner.tool_uptime,
    availability * loading,
    name="tool.uptime",
    valid=availability > 0,
    meaning="available, and with wafers to print",
    reference=_EQUIPMENT,
)
# What a pass costs.
immersion_price = _datum("immersion.price, c_imt [USD]: price of an immersion scanner")
immersion_rate = _datum("immersion.rate, r_im [1/s as 1/h]: wafers that it prints, by time")
lifetime = _datum("tool.lifetime, t_T [s as year]: time in which tools are written off")
immersion_pass = scope.declare(
    "immersion.pass_price, c_im [USD]: cost of an exposure by immersion",
    equals=immersion_price / (lifetime * immersion_rate * availability * loading),
    reference=_OWNERSHIP,
    target=True,
)
dry_price = _datum("dry.price, c_dry [USD]: cost of an exposure of another layer")
process_price = _datum(
    "processing.price, c_pr [USD]: price of the tools that etch, fill, polish, clean and measure a layer"
)
process_rate = _datum("processing.rate, r_pr [1/s as 1/h]: layers of wafers that they work on, by time")
process_pass = scope.declare(
    "processing.pass_price, c_prp [USD]: cost of those steps by exposure",
    equals=process_price / (lifetime * process_rate * availability * loading),
    reference=_OWNERSHIP,
    target=True,
)
printing = scope.declare(
    "printing.cost, C_lit [USD]: cost of all exposures of a wafer",
    equals=scanner.layers * scanner.pass_price + immersion_exposures * immersion_pass + dry_layers * dry_price,
    reference=_OWNERSHIP,
    target=True,
)
processing = scope.declare(
    "processing.cost, C_pr [USD]: cost of all other steps of a wafer",
    equals=exposures * process_pass,
    reference=_OWNERSHIP,
    target=True,
)
printing_share = scope.declare(
    "printing.share, s_lit [1 as %]: share of the cost of tools that is of exposures",
    equals=printing / (printing + processing),
    bounds=(0, 1),
    reference=by_definition("exposures over all steps"),
    target=True,
)
# Masks.
euv_mask = _datum("masks.euv_price, c_me [USD]: price of a reflective mask")
duv_mask = _datum("masks.duv_price, c_md [USD]: price of a transparent mask")
mask_set = scope.declare(
    "masks.set_price, C_m [USD]: price of the masks of a design",
    equals=scanner.layers * euv_mask + (immersion_exposures + dry_layers) * duv_mask,
    reference=_MASKS,
    target=True,
)
design_wafers = scope.declare(
    "masks.wafers, N_des: wafers that a design is printed on", bounds=POSITIVE, reference=_MASKS, boundary="scenario"
)
mask_cost = scope.declare(
    "masks.wafer_cost, c_mw [USD]: masks by wafer", equals=mask_set / design_wafers, reference=_MASKS, target=True
)
