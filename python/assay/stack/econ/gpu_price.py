"""What a GPU sells for, where its price is not stated: cost and what the seller adds to it.

A stated price is used unless one of these relations is chosen. They differ in what a dearer wafer does:
a seller who keeps a share of the price passes on a multiple of the cost, one who adds an amount passes on
the cost alone.
"""

from __future__ import annotations

from assay.model import by_definition
from assay.stack.econ.capital import gpu_price
from assay.stack.econ.tariff import scope
from assay.stack.manufacturing import packages

_MARGIN = by_definition("gross margin: price less manufacturing cost, over price")
_MARKUP = by_definition("price less manufacturing cost")

margin = scope.declare(
    "gpu.margin, m_GPU [1 as %]: gross margin of a GPU: share of its price above its manufacturing cost",
    bounds=(0, 0.999),
    reference=_MARGIN,
    boundary="scenario",
)
markup = scope.declare(
    "gpu.markup, M_GPU [USD/GPU]: amount above its manufacturing cost for which a GPU sells",
    reference=_MARKUP,
    boundary="scenario",
)
scope.equation(
    gpu_price,
    packages.gpu_cost / (1 - margin),
    name="gpu.price_by_margin",
    meaning="the seller keeps a share of the price",
    reference=_MARGIN,
)
scope.equation(
    gpu_price,
    packages.gpu_cost + markup,
    name="gpu.price_by_markup",
    meaning="the seller adds an amount to the cost",
    reference=_MARKUP,
)
