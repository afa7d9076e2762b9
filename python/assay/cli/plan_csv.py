"""CSV of `assay plan`: its options, its replicas by period, or its months, for a spreadsheet."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from assay.answers import data_of
from assay.errors import InputError, unknown_name

if TYPE_CHECKING:
    from assay.load.capacity import CapacityPlan
    from assay.planner.capacity.fleet_plan import FleetPlan
    from assay.planner.capacity.option import Option

TABLES: Final = ("options", "schedule", "growth")
_OPTION: Final = (
    "gpu layout weight_dtype engine max_running replicas spare gpus usd_per_hour usd_per_month "
    "usd_per_request usd_per_million_input usd_per_million_output watts peak_watts rated_watts "
    "joules_per_token kilograms_per_hour risk headroom binds terms"
)


def plan_csv(plan: "CapacityPlan", name: str) -> str:
    """A table of a plan: units are those of its JSON."""
    if name == "options":
        return written([_option(option) for option in plan.options])
    if name == "schedule":
        gpus = plan.best.replica_gpus
        return written([{**data_of(h), "gpus": gpus * h.replicas} for h in plan.best.schedule])
    if name != "growth":
        raise unknown_name("table of --csv", name[:40], TABLES)
    if not plan.growth:
        raise InputError("--csv growth: expected --growth, got none", "--growth 5% --months 12")
    return written([data_of(row) for row in plan.growth])


def fleet_csv(plan: "FleetPlan", name: str) -> str:
    """The servers of a fleet by period."""
    if name != "schedule":
        raise InputError(f"--csv: expected schedule, which a fleet has, got {name[:40]!r}")
    return written(
        {
            "start": hour.start,
            "seconds": hour.seconds,
            "rate": hour.rates[servers.model],
            **data_of(servers),
        }
        for hour in plan.hours
        for servers in hour.servers
    )


def written(rows: Iterable[Mapping[str, Any]]) -> str:
    """Rows as CSV with a header; what is not known is an empty cell."""
    rows = list(rows)
    text = io.StringIO()
    names: Sequence[str] = list(rows[0]) if rows else ()
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _option(option: "Option") -> dict[str, Any]:
    latencies = {
        f"{short}_{level}_s": option.latencies[figure][level].value
        for short, figure in (
            ("ttft", "first_token"), ("tpot", "output_token"), ("e2el", "end_to_end")
        )
        for level in ("p50", "p90", "p99")
    }  # fmt: skip
    return {**data_of(option, _OPTION), "attained": option.attained.value, **latencies}
