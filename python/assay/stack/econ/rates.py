"""Cost of a GPU-hour, owned or rented."""

from __future__ import annotations

from assay.model import cited, total, where
from assay.stack import cluster, thermal
from assay.stack.econ.capital import (
    capital_rate,
    machine_capex,
    site_capex,
    year,
)
from assay.stack.econ.tariff import (
    electricity_price,
    scope,
)

_TCO = (
    "Koomey et al. 2008, A Simple Model for Determining True Total Cost of Ownership for Data "
    "Centers"
)
_OPERATION = cited(_TCO, "annual operating expenses")
_ANNUAL = cited(_TCO, "total annualised costs")
_BURDEN = cited(
    "Patel and Shah 2005, Cost Model for Planning, Development and Operation of a Data Center",
    "amortization, maintenance and staff over utilized GPU time",
)
_RENT = cited("DeepSeek-AI 2024, DeepSeek-V3 Technical Report", "Table 1, rental price by GPU hour")

maintenance_share = scope.variable(
    "maintenance.share", "s_mnt", "1", "repairs, insurance and taxes in a year over capital",
    display="%", reference=_BURDEN, boundary="scenario",
)  # fmt: skip
maintenance_rate = scope.variable(
    "maintenance.rate", "m", "USD/s", "repairs, insurance and taxes", display="USD/h",
    equals=maintenance_share * (machine_capex + site_capex) / year, reference=_BURDEN,
)  # fmt: skip
staff = scope.variable(
    "staff.people", "n_staff", "1", "operators of the site", reference=_BURDEN,
    boundary="scenario",
)  # fmt: skip
salary = scope.variable(
    "staff.salary", "w", "USD/s", "cost of one operator of the site",
    display="USD/year", reference=_BURDEN, boundary="scenario",
)  # fmt: skip
staff_rate = scope.variable(
    "staff.rate", "W", "USD/s", "cost of all operators of the site", display="USD/h",
    equals=staff * salary, reference=_OPERATION,
)  # fmt: skip
water_price = scope.variable(
    "water.price", "c_w", "USD/m^3", "price of fresh water and of its discharge",
    reference=_OPERATION, boundary="scenario",
)  # fmt: skip
water_rate = scope.variable(
    "water.rate", "v", "USD/s", "cost of the site's water", display="USD/h",
    equals=thermal.makeup * water_price, reference=_OPERATION,
)  # fmt: skip
ownership_rate = scope.variable(
    "site.rate", "c_own", "USD/s", "cost of owning and running the site, without electricity",
    display="USD/h", equals=total(capital_rate, maintenance_rate, staff_rate, water_rate),
    reference=_ANNUAL,
)  # fmt: skip
utilisation = scope.variable(
    "utilisation", "u", "1", "utilization of the site's GPUs",
    display="%", bounds=("positive", 1), reference=_BURDEN, boundary="scenario",
)  # fmt: skip
gpu_ownership_rate = scope.variable(
    "gpu.owned_rate", "c_o", "USD/(s*GPU)", "cost of one owned GPU per utilized time",
    display="USD/(h*GPU)", equals=ownership_rate / (cluster.gpus * utilisation), reference=_BURDEN,
)  # fmt: skip
gpu_power_rate = scope.variable(
    "gpu.power_rate", "c_p", "USD/(s*GPU)", "electricity of one GPU and its share of the site",
    display="USD/(h*GPU)", equals=thermal.site_power / cluster.gpus * electricity_price,
    reference=_OPERATION,
)  # fmt: skip
rented = scope.variable(
    "rented", "b_rent", "1", "1 where GPUs are rented, 0 where they are owned", bounds=(0, 1),
    reference=_RENT, boundary="scenario",
)  # fmt: skip
rent = scope.variable(
    "rent.price", "c_rent", "USD/(s*GPU)", "rent of one GPU", display="USD/(h*GPU)",
    reference=_RENT, boundary="scenario",
)  # fmt: skip
rent_includes_power = scope.variable(
    "rent.includes_power", "b_p", "1", "1 where the rent includes electricity, else 0",
    bounds=(0, 1), reference=_RENT, boundary="scenario",
)  # fmt: skip
gpu_rate = scope.variable(
    "gpu.rate", "c_g", "USD/(s*GPU)", "cost of one GPU, owned or rented, without electricity",
    display="USD/(h*GPU)", bounds=(None, None),
    equals=where(rented > 0.5, rent - rent_includes_power * gpu_power_rate, gpu_ownership_rate),
    reference=_RENT,
)  # fmt: skip
