"""Text of `assay plan`: the plan of a traffic, and mixed fleets."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from assay.cli import styles
from assay.cli.output import Canvas, Line, count, facts, table
from assay.planner.capacity.option import LEAST_RISK

if TYPE_CHECKING:
    from assay.intervals import Interval
    from assay.load.capacity import CapacityPlan, GrowthMonth
    from assay.planner.capacity.by_limits import RatesByLimits
    from assay.planner.capacity.fleet_plan import FleetPlan, Servers
    from assay.planner.capacity.option import Option
    from assay.planner.capacity.places import Placed
    from assay.planner.capacity.planning import Floor

_LATENCIES = {"TTFT ms": "first_token", "TPOT ms": "output_token", "E2E s": "end_to_end"}
_MOST_HOURS = 24
_SHOWN_FIRST_TOKEN = (0.2, 0.5, 1.0, 2.0, 5.0)


def dollars(value: float) -> str:
    """An amount of money: cents up to a hundred, three digits of less than a cent.

    >>> dollars(11310.4), dollars(20.367), dollars(0.0000566)
    ('$11,310', '$20.37', '$0.0000566')
    """
    if value >= 100:
        return f"${value:,.0f}"
    if value >= 1 or not value:
        return f"${value:.2f}"
    digits = f"{value:.2e}"
    return f"${value:.{2 - int(digits.partition('e')[2])}f}"


def plan_text(plan: "CapacityPlan", canvas: Canvas) -> Iterator[Line]:
    """The plan, its latencies, schedule, floor and second best, and what it costs to be faster."""
    traffic, best = plan.traffic, plan.best
    heading = [
        ("model", plan.model),
        ("traffic", str(traffic["name"])),
        ("peak", _peak(traffic)),
        ("lengths", f"{traffic['input']['mean']:,.0f} in and {traffic['output']['mean']:,.0f} out on average"),
        ("arrivals", _arrivals(traffic)),
        ("SLO", plan.objective),
        ("assumed", "; ".join(plan.assumed)),
    ]  # fmt: skip
    yield from facts(heading, canvas)
    yield ""
    yield ((best.text, styles.VALUE),)
    yield from facts(list(_figures(best)), canvas)
    yield ""
    rows = [
        (name, *(_cell(best.latencies[figure][level], name) for level in ("p50", "p90", "p99")))
        for name, figure in _LATENCIES.items()
    ]
    yield from table(("", "p50", "p90", "p99"), rows, canvas, right=(1, 2, 3))
    if len(best.schedule) > 1:
        yield ""
        yield from _schedule(best, canvas)
    if plan.places:
        yield ""
        yield from _places(plan.places, canvas)
    if plan.growth:
        yield ""
        yield from _growth(plan.growth, canvas)
    if plan.simulation is not None:
        yield ""
        yield from _simulation(plan, canvas)
    yield ""
    yield from _others(plan, canvas)
    yield "in brackets: 90 % intervals by the errors of step times and of the queue model"


def _rounded(value: float, count: int) -> str:
    """So many digits, and all of those before the point.

    >>> _rounded(0.65312, 3), _rounded(12345.6, 3)
    ('0.653', '12,346')
    """
    return f"{value:,.0f}" if value >= 10 ** (count - 1) else f"{value:.{count}g}"


def _peak(traffic: "dict[str, Any]") -> str:
    """The busiest stretch of a recording, or the rate."""
    peak, mean, stretch = traffic["peak_rate"], traffic["mean_rate"], traffic["busiest"]
    rate = f"{_rounded(peak, 4)} {'request' if peak == 1 else 'requests'}/s"
    if stretch is None:
        return (
            rate
            if peak <= 1.001 * mean
            else f"{rate} in the busiest period, {_rounded(mean, 4)} on average"
        )
    when = f"{lasting(stretch['seconds'])} from {clock(stretch['start'])} after its start"
    return f"{rate} in the busiest stretch ({when}), {_rounded(mean, 4)} on average"


def _arrivals(traffic: "dict[str, Any]") -> str:
    """How much arrivals bunch; nothing where they were assumed to be Poisson."""
    if traffic["busiest"] is None and traffic["dispersion"] == 1:
        return ""
    return (
        f"dispersion {traffic['dispersion']:.3g} (variance over mean of counts in 10 s while the rate stays; "
        "1 is Poisson)"
    )


def clock(seconds: float) -> str:
    """A time after the start: hours and minutes, and seconds where there are some.

    >>> clock(600.0), clock(93_784.0)
    ('00:10', '26:03:04')
    """
    minutes, rest = divmod(round(seconds), 60)
    text = f"{minutes // 60:02d}:{minutes % 60:02d}"
    return f"{text}:{rest:02d}" if rest else text


def lasting(seconds: float) -> str:
    """A length of time in the unit that fits it.

    >>> lasting(70.0), lasting(1800.0), lasting(3600.0)
    ('70 s', '30 min', '1 h')
    """
    for unit, size in (("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * size or seconds == size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"


def share_text(risk: float) -> str:
    """A risk in percent; below what the error of step times can tell, that it is less.

    >>> share_text(0.1), share_text(1e-6)
    ('10 %', '< 0.0032 %')
    """
    return f"< {100 * LEAST_RISK:.2g} %" if risk <= LEAST_RISK else f"{100 * risk:.2g} %"


def _figures(option: "Option") -> Iterator[tuple[str, str]]:
    yield "risk", f"{share_text(option.risk)} that the SLO is missed; {option.binds} binds first"
    yield "within SLO", _within(option.attained)
    if option.spare:
        spares = count(option.spare, "replica")
        yield "spare", f"{spares}, in the cost; latencies are those of the others alone"
    yield "headroom", f"{_digits(100 * option.headroom)} % more requests at the likely step times"
    if option.prefix_hits > 0.0005:
        yield "prefix hits", f"{100 * option.prefix_hits:.3g} % of input tokens"
    yield "cost", _cost(option)
    if option.watts is not None:
        yield (
            "energy",
            (
                f"{option.watts / 1e3:,.3g} kW at the meter, {option.joules_per_token:.3g} J/token in and out, "
                f"{option.kilograms_per_hour:,.3g} kg CO2e/h"
            ),
        )
    if option.rated_watts is not None:
        yield "power", f"{option.rated_watts / 1e3:,.3g} kW at most"


def _within(attained: "Interval") -> str:
    """A share of requests; all is no more than can be told."""
    if attained.lo > 0.9999:
        return "over 99.99 % of requests"
    return f"{100 * attained.value:.4g} % of requests ({100 * attained.lo:.4g} to {100 * attained.hi:.4g})"


def _cost(option: "Option") -> str:
    if option.usd_per_hour is None:
        return f"UNKNOWN: needs a rent of {option.gpu}"
    known = [
        (option.usd_per_hour, "an hour"),
        (option.usd_per_month, "a month"),
        (option.usd_per_million_input, "a million input and"),
        (option.usd_per_million_output, "a million output tokens"),
        (option.usd_per_request, "a request"),
    ]
    amounts = ", ".join(f"{dollars(value or 0.0)} {words}" for value, words in known)
    return f"{amounts.replace('and, ', 'and ')}; {option.terms}"


def _cell(value: "Interval", name: str) -> str:
    scale = 1.0 if name.endswith(" s") else 1e3
    digits = [_digits(scale * part) for part in (value.value, value.lo, value.hi)]
    return f"{digits[0]} ({digits[1]} to {digits[2]})"


def _digits(value: float) -> str:
    """Three digits, or all before the point; no end where there is none."""
    if value > 1e9:
        return "no end"
    return f"{value:,.{0 if value >= 100 else 1 if value >= 10 else 2}f}"


def _schedule(option: "Option", canvas: Canvas) -> Iterator[Line]:
    hours = option.schedule[:_MOST_HOURS]
    rows = [
        (clock(hour.start), f"{hour.rate:,.3g}", f"{hour.busiest:,.3g}", f"{hour.replicas:,}",
         f"{hour.replicas * option.replica_gpus:,}")
        for hour in hours
    ]  # fmt: skip
    header = ("from", "requests/s", "busiest", "replicas", "GPUs")
    yield from table(header, rows, canvas, right=(0, 1, 2, 3, 4))
    if option.starts:
        yield f"{count(option.starts, 'replica')} started after the first period (--start-time is paid)"
    if len(option.schedule) > len(hours):
        yield f"and {len(option.schedule) - len(hours):,} periods more (--json)"


def _places(places: "Sequence[Placed]", canvas: Canvas) -> Iterator[Line]:
    rows = [
        (place.place, f"{place.replicas:,}",
         f"{place.rated_watts / 1e3:,.4g}"
         + ("" if place.limit_watts is None else f" of {place.limit_watts / 1e3:,.6g}"),
         "UNKNOWN" if place.usd_per_hour is None else dollars(place.usd_per_hour),
         f"{place.kilograms_per_hour:,.3g}")
        for place in places
    ]  # fmt: skip
    header = ("place", "replicas", "kW at most", "electricity an hour", "kg CO2e an hour")
    yield from table(header, rows, canvas, right=(1, 2, 3, 4))


def _growth(months: "Sequence[GrowthMonth]", canvas: Canvas) -> Iterator[Line]:
    rows = [
        (f"{row.month}", f"{row.peak_rate:,.4g}", f"{row.replicas:,}", f"{row.gpus:,}",
         "UNKNOWN" if row.usd_per_hour is None else dollars(row.usd_per_hour), row.excess)
        for row in months
    ]  # fmt: skip
    header = ("month", "requests/s", "replicas", "GPUs", "an hour", "beyond the budgets")
    has_excess = any(row.excess for row in months)
    columns = len(header) if has_excess else len(header) - 1
    shown = [row[:columns] for row in rows]
    yield from table(header[:columns], shown, canvas, right=(0, 1, 2, 3, 4))


def _simulation(plan: "CapacityPlan", canvas: Canvas) -> Iterator[Line]:
    assert plan.simulation is not None
    replayed = plan.simulation
    agreeing = sum(replayed.agrees.values())
    stretch = (
        f"(of the {replayed.compared:,} of the busiest stretch) "
        if replayed.compared < replayed.requests and plan.traffic["busiest"]
        else ""
    )
    yield (
        f"replayed {replayed.requests:,} requests in {replayed.steps:,} steps: "
        f"{100 * replayed.attained.value:.4g} % within the SLO, {agreeing} of {len(replayed.agrees)} "
        f"percentiles {stretch}within each other's intervals"
    )
    rows = [
        (name, *(_cell(replayed.latencies[figure][level], name) for level in ("p50", "p90", "p99")))
        for name, figure in _LATENCIES.items()
    ]
    yield from table(("replay", "p50", "p90", "p99"), rows, canvas, right=(1, 2, 3))


def _others(plan: "CapacityPlan", canvas: Canvas) -> Iterator[Line]:
    yield f"floor (no plan uses fewer at the peak): {_floors(plan.floors)}"
    if plan.second is None:
        yield "second best: none, no other accelerator or layout keeps the SLO and the budgets"
    else:
        cost = plan.second.usd_per_hour
        mean = " on average" if len(plan.second.schedule) > 1 else ""
        price = "" if cost is None else f", {dollars(cost)} an hour{mean}"
        yield f"second best: {plan.second.text}{price}"
    yield ""
    has_engines = len({option.engine for option in plan.options}) > 1
    rows = [
        (f"{option.gpu} {option.layout} {option.weight_dtype}"
         + (f" {option.engine}" if has_engines else ""), f"{option.gpus:,}",
         "" if option.usd_per_hour is None else dollars(option.usd_per_hour),
         _digits(1e3 * option.latencies["output_token"]["p50"].value),
         share_text(option.risk))
        for option in plan.front
    ]  # fmt: skip
    yield from table(
        ("cost against interactivity", "GPUs", "an hour", "TPOT p50 ms", "risk"), rows, canvas,
        right=(1, 2, 3, 4),
    )  # fmt: skip


def _floors(floors: "Sequence[Floor]") -> str:
    return ", ".join(f"{_rounded(floor.gpus, 3)} {floor.gpu}" for floor in floors)


def fleet_text(plan: "FleetPlan", canvas: Canvas) -> Iterator[Line]:
    """Fleets by period, the floors of their models, and the next best fleet of the peak."""
    models = ", ".join(
        f"{_rounded(rate, 4)} requests/s of {name}" for name, rate in plan.models.items()
    )
    cost = "" if plan.usd_per_hour is None else f", {dollars(plan.usd_per_hour)} an hour"
    heading = [("peak", models), ("SLO", plan.objective), ("assumed", "; ".join(plan.assumed))]
    if plan.alone is not None:
        heading.append(("one kind each", f"{dollars(plan.alone)} an hour without the budgets"))
    yield from facts(heading, canvas)
    yield ""
    drawn = [hour.rated_watts for hour in plan.hours if hour.rated_watts is not None]
    power = f", {max(drawn) / 1e3:,.3g} kW at most" if drawn else ""
    yield ((f"{count(plan.gpus, 'GPU')} at the peak{cost}{power}", styles.VALUE),)
    rows = [
        (clock(hour.start) if not index else "", servers.model, _servers(servers),
         f"{servers.gpus:,}",
         "" if index or hour.usd_per_hour is None else dollars(hour.usd_per_hour))
        for hour in plan.hours[:_MOST_HOURS]
        for index, servers in enumerate(hour.servers)
    ]  # fmt: skip
    yield from table(("from", "model", "servers", "GPUs", "an hour"), rows, canvas, right=(0, 3, 4))
    if len(plan.hours) > _MOST_HOURS:
        yield f"and {len(plan.hours) - _MOST_HOURS:,} periods more (--json)"
    if plan.starts:
        yield f"{count(plan.starts, 'server')} started after the first period (--start-time is paid)"
    gap = max(hour.gap for hour in plan.hours)
    yield f"no fleet of these servers is cheaper by more than {100 * gap:.2g} %"
    yield ""
    for model, floors in plan.floors.items():
        yield f"floor of {model} (no plan uses fewer at its peak): {_floors(floors)}"
    if plan.second is None:
        yield "second best at the peak: none, each kind of server of this fleet is needed"
        return
    second = ", ".join(f"{servers.model}: {_servers(servers)}" for servers in plan.second.servers)
    price = plan.second.usd_per_hour
    price_text = "" if price is None else f", {dollars(price)} an hour"
    yield f"second best at the peak: {count(plan.second.gpus, 'GPU')}{price_text}: {second}"


def by_limits_text(rates: "RatesByLimits", canvas: Canvas) -> Iterator[Line]:
    """The cheapest plan by limits of TTFT and TPOT."""
    heading = [
        ("model", rates.model),
        ("peak", f"{_rounded(rates.peak_rate, 4)} requests/s"),
        ("limits", f"kept by {100 * rates.share:g} % of the requests"),
        ("assumed", "; ".join(rates.assumed)),
    ]
    yield from facts(heading, canvas)
    yield ""
    columns = [rates.first_token.index(limit) for limit in _SHOWN_FIRST_TOKEN]
    rows = [
        (f"{1e3 * token:g} ms", *(_cheapest(rates, column, row) for column in columns))
        for row, token in enumerate(rates.output_token)
    ]
    header = ("TPOT", *(f"TTFT {limit:g} s" for limit in _SHOWN_FIRST_TOKEN))
    yield from table(header, rows, canvas, right=tuple(range(len(header))))
    yield "an hour of the cheapest servers, and their GPUs; - where none keep the limits"


def _cheapest(rates: "RatesByLimits", row: int, column: int) -> str:
    plan = rates.cheapest(row, column)
    if plan is None:
        return "-"
    usd, replicas, server = plan
    return f"{dollars(usd)} ({replicas * server.gpus:,})"


def _servers(servers: "Servers") -> str:
    return f"{servers.replicas:,} x {servers.gpu} {servers.layout} {servers.weight_dtype}"
