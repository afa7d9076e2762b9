"""Power of the site: IT power, transformers, overhead and PUE."""

from __future__ import annotations

from assay.model import by_definition, cited, number, total
from assay.stack import works
from assay.stack.cluster import power as cluster_power
from assay.stack.thermal.flows import cooling_power
from assay.stack.thermal.supply import scope, ups_loss

_PUE = cited(works.ISO_PUE, "definition of PUE")
_TRANSFORMER = cited(
    "10 CFR 431 subpart K appendix A, Uniform Test Method for Distribution Transformers",
    "no-load loss, and load loss by the square of the load",
)

transformer_sizing = scope.declare(
    "transformer.sizing, r_tr: capacity of the transformers over the machines' design power",
    bounds=(1, None),
    reference=_TRANSFORMER,
    boundary="scenario",
)
transformer_capacity = scope.declare(
    "transformer.capacity, S_tr [W]: capacity of all transformers",
    equals=transformer_sizing * cluster_power.design_power,
    reference=_TRANSFORMER,
)
other_power = scope.declare(
    "dc.other_power, P_oth [W]: power of lighting, offices and controls; unless given, none",
    equals=number("0 W"),
    reference=_PUE,
)
transformer_load = scope.declare(
    "transformer.load, x_tr: load of the transformers over their capacity",
    equals=total(cluster_power.it_power, ups_loss, cooling_power, other_power) / transformer_capacity,
    reference=_TRANSFORMER,
)
transformer_idle_share = scope.declare(
    "transformer.idle_share, b_0 [1 as %]: no-load loss of the transformers over their capacity",
    reference=_TRANSFORMER,
    boundary="primitive",
)
transformer_load_share = scope.declare(
    "transformer.load_share, b_2 [1 as %]: load loss of the transformers at full load over capacity",
    reference=_TRANSFORMER,
    boundary="primitive",
)
transformer_loss = scope.declare(
    "dc.transformer_loss, P_tr [W]: power lost in transformers",
    equals=transformer_capacity * (transformer_idle_share + transformer_load_share * transformer_load**2),
    reference=_TRANSFORMER,
)
overhead_power = scope.declare(
    "dc.overhead_power, P_over [W]: facility power beyond IT power",
    equals=total(cooling_power, ups_loss, transformer_loss, other_power),
    reference=_PUE,
)
stated_pue = scope.declare(
    "dc.stated_pue, PUE_0: PUE published by the operator", bounds=(1, None), reference=_PUE, boundary="scenario"
)
scope.approximation(
    overhead_power,
    (stated_pue - 1) * cluster_power.it_power,
    name="dc.overhead_stated",
    valid=stated_pue >= 1,
    meaning="published PUE, independent of load",
    reference=_PUE,
)
site_power = scope.declare(
    "dc.power, P_DC [W]: power at the site's meter", equals=cluster_power.it_power + overhead_power, reference=_PUE
)
pue = scope.declare(
    "dc.pue, PUE: power usage effectiveness (PUE)",
    bounds=(1, None),
    equals=site_power / cluster_power.it_power,
    reference=_PUE,
    target=True,
)
scope.inequality(
    "dc.machines_draw_power", cluster_power.it_power > 0, "PUE is undefined without load", reference=by_definition()
)
feed_power = scope.declare(
    "dc.feed_power, P_feed [W as MW]: power that the grid connection supplies",
    reference=by_definition(),
    boundary="scenario",
)
scope.inequality(
    "dc.within_feed", site_power <= feed_power, "site power is within its grid connection", reference=by_definition()
)
