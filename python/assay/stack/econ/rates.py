"""Cost of a GPU-hour, owned or rented."""

from __future__ import annotations

from assay.model import cited, number, total, where
from assay.stack import works
from assay.stack.cluster import nodes, power as cluster_power
from assay.stack.econ.capital import capital_rate, machine_capex, site_capex, year
from assay.stack.econ.tariff import electricity_price, scope
from assay.stack.thermal import site, water

_OPERATION = cited(works.DATA_CENTER_COST, "annual operating expenses")
_ANNUAL = cited(works.DATA_CENTER_COST, "total annualised costs")
_BURDEN = cited(
    "Patel and Shah 2005, Cost Model for Planning, Development and Operation of a Data Center",
    "amortization, maintenance and staff over utilized GPU time",
)
_STAFFING = cited("Broadstaff, Data Center Staffing Levels: How Many People Does a Facility Need", "staff by megawatts")
_RENT = cited(works.DEEPSEEK_V3, "Table 1, rental price by GPU hour")

maintenance_share = scope.declare(
    "maintenance.share, s_mnt [1 as %]: repairs, insurance and taxes in a year over capital",
    reference=_BURDEN,
    boundary="scenario",
)
maintenance_rate = scope.declare(
    "maintenance.rate, m [USD/s as USD/h]: repairs, insurance and taxes",
    equals=maintenance_share * (machine_capex + site_capex) / year,
    reference=_BURDEN,
)
staff_of_megawatt = scope.declare(
    "staff.of_megawatt, n_1: operators of a site of one megawatt", reference=_STAFFING, boundary="scenario"
)
staff_exponent = scope.declare(
    "staff.exponent, x_staff: growth of operators with the power of a site above one megawatt, as an exponent",
    bounds=(0, 1),
    reference=_STAFFING,
    boundary="scenario",
)
_megawatts = cluster_power.design_power / number("1e6 W")
# Below a megawatt the machines stand in a larger site, whose operators others pay for as well.
staff = scope.declare(
    "staff.people, n_staff: operators of the site",
    equals=staff_of_megawatt * where(_megawatts > 1, _megawatts**staff_exponent, _megawatts),
    reference=_STAFFING,
)
salary = scope.declare(
    "staff.salary, w [USD/s as USD/year]: cost of one operator of the site", reference=_BURDEN, boundary="scenario"
)
staff_rate = scope.declare(
    "staff.rate, W [USD/s as USD/h]: cost of all operators of the site", equals=staff * salary, reference=_OPERATION
)
water_price = scope.declare(
    "water.price, c_w [USD/m^3]: price of fresh water and of its discharge", reference=_OPERATION, boundary="scenario"
)
water_rate = scope.declare(
    "water.rate, v [USD/s as USD/h]: cost of the site's water", equals=water.makeup * water_price, reference=_OPERATION
)
transit_rate = scope.declare(
    "transit.rate, n_ext [USD/s as USD/h]: cost of traffic between the site and the world; unless given, none",
    equals=number("0 USD/s"),
    reference=_OPERATION,
)
traffic = scope.declare(
    "transit.traffic, B_ext [byte/s as GB/s]: traffic that is paid for", reference=_OPERATION, boundary="scenario"
)
traffic_price = scope.declare(
    "transit.price, c_ext [USD/byte as USD/GB]: price of that traffic", reference=_OPERATION, boundary="scenario"
)
scope.approximation(
    transit_rate,
    traffic * traffic_price,
    name="transit.by_traffic",
    valid=traffic > number("0 byte/s"),
    meaning="paid by the byte",
    reference=_OPERATION,
)
ownership_rate = scope.declare(
    "site.rate, c_own [USD/s as USD/h]: cost of owning and running the site, without electricity",
    equals=total(capital_rate, maintenance_rate, staff_rate, water_rate, transit_rate),
    reference=_ANNUAL,
)
utilisation = scope.declare(
    "utilisation, u [1 as %]: utilization of the site's GPUs",
    bounds=("positive", 1),
    reference=_BURDEN,
    boundary="scenario",
)
gpu_ownership_rate = scope.declare(
    "gpu.owned_rate, c_o [USD/(s*GPU) as USD/(h*GPU)]: cost of one owned GPU per utilized time",
    equals=ownership_rate / (nodes.gpus * utilisation),
    reference=_BURDEN,
)
gpu_power_rate = scope.declare(
    "gpu.power_rate, c_p [USD/(s*GPU) as USD/(h*GPU)]: electricity of one GPU and its share of the site",
    equals=site.site_power / nodes.gpus * electricity_price,
    reference=_OPERATION,
)
rented = scope.flag(
    "rented, b_rent: 1 where GPUs are rented, 0 where they are owned", reference=_RENT, boundary="scenario"
)
rent = scope.declare(
    "rent.price, c_rent [USD/(s*GPU) as USD/(h*GPU)]: rent of one GPU", reference=_RENT, boundary="scenario"
)
rent_includes_power = scope.flag(
    "rent.includes_power, b_p: 1 where the rent includes electricity, else 0", reference=_RENT, boundary="scenario"
)
gpu_rate = scope.declare(
    "gpu.rate, c_g [USD/(s*GPU) as USD/(h*GPU)]: cost of one GPU, owned or rented, without electricity",
    bounds=(None, None),
    equals=where(rented, rent - rent_includes_power * gpu_power_rate, gpu_ownership_rate),
    reference=_RENT,
)
