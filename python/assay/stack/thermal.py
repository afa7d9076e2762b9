"""Cooling and the losses between the meter and the machines."""

from __future__ import annotations

from assay.model import Scope, by_definition, cited, total
from assay.stack import cluster

scope = Scope("thermal", "Cooling, losses, and power usage effectiveness")

_PUE = cited("ISO/IEC 30134-2:2016, Power usage effectiveness", "clause 4")

cooling_power = scope.variable(
    "cooling.power", "P_cool", "W", "power of chillers, pumps, towers and fans",
    reference=_PUE, boundary="decompose",
)  # fmt: skip
ups_loss = scope.variable(
    "dc.ups_loss", "P_UPS", "W", "power lost in the uninterruptible supplies",
    reference=_PUE, boundary="decompose",
)  # fmt: skip
transformer_loss = scope.variable(
    "dc.transformer_loss", "P_tr", "W", "power lost in transformers",
    reference=_PUE, boundary="decompose",
)  # fmt: skip
overhead_power = scope.variable(
    "dc.overhead_power", "P_over", "W", "power that reaches no machine",
    equals=total(cooling_power, ups_loss, transformer_loss), reference=_PUE,
)  # fmt: skip
site_power = scope.variable(
    "dc.power", "P_DC", "W", "power at the site's meter",
    equals=cluster.it_power + overhead_power, reference=_PUE,
)  # fmt: skip
pue = scope.variable(
    "dc.pue", "PUE", "1", "site power over the power of its machines", bounds=(1, None),
    equals=site_power / cluster.it_power, reference=_PUE, target=True,
)  # fmt: skip
scope.inequality(
    "dc.machines_draw_power", cluster.it_power > 0, "a site without load has no effectiveness",
    reference=by_definition(),
)  # fmt: skip
