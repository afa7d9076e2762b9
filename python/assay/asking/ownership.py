"""What an hour of an owned GPU is made of: its share of a cluster with servers, network, site and staff."""

from __future__ import annotations

from typing import Final

from assay.asking.amounts import amount
from assay.asking.case import Case
from assay.errors import InputError

_HOUR: Final = 3600.0
_NAMES: Final = (
    "cluster.gpus", "econ.gpu.price", "econ.capex.machines", "econ.machines.recovery", "econ.capex.site",
    "econ.site.recovery", "econ.year", "econ.maintenance.rate", "econ.staff.rate", "econ.site.rate",
    "econ.machines.lifetime", "econ.machines.residual_share", "econ.site.lifetime", "econ.interest",
)  # fmt: skip


def parts(case: Case) -> tuple[str, tuple[tuple[str, str], ...]]:
    """What owning is taken to be, and its parts by the GPU-hour at full use; electricity is apart."""
    said, hourly = hourly_parts(case)
    whole = f"{amount(sum(hourly.values()), 'USD')} per GPU-hour"
    rows = tuple((name, f"{amount(rate, 'USD')} per GPU-hour") for name, rate in hourly.items())
    return f"{said}; at full use {whole}", (*rows, ("whole, at full use", whole))


def hourly_parts(case: Case) -> tuple[str, dict[str, float]]:
    """What owning is taken to be, and its parts in USD by the GPU-hour at full use."""
    values = dict(zip(_NAMES, case.values(*_NAMES), strict=True))
    if missing := [name for name, value in values.items() if value is None]:
        raise InputError(f"an owned GPU needs more inputs: {', '.join(missing)}")
    own = {name: value for name, value in values.items() if value is not None}
    gpus, year = own["cluster.gpus"], own["econ.year"]
    machines = own["econ.machines.recovery"] / year
    cards = gpus * own["econ.gpu.price"]
    rates = {
        "the GPU": cards * machines,
        "server, network and rack": (own["econ.capex.machines"] - cards) * machines,
        "site": own["econ.capex.site"] * own["econ.site.recovery"] / year,
        "maintenance": own["econ.maintenance.rate"],
        "staff": own["econ.staff.rate"],
    }
    rates["water and transit"] = own["econ.site.rate"] - sum(rates.values())
    hourly = {name: _HOUR * rate / gpus for name, rate in rates.items()}
    machine_years, site_years = (
        own[f"econ.{name}.lifetime"] / year for name in ("machines", "site")
    )
    said = (
        f"owned: one of a cluster of {gpus:,.0f} GPUs, machines written off over {machine_years:.3g} years to "
        f"{own['econ.machines.residual_share']:.0%} of their price and the site over {site_years:.3g}, "
        f"at {own['econ.interest']:.2%} of interest a year"
    )
    return said, hourly
