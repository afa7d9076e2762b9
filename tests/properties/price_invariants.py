"""What holds for prices, energy and carbon anywhere: sums, order by price, scale of units, notes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

from property_harness import SLACK, Answers, Bug, Draw, Invariant, Violation
from statements import Check, not_below, scaled

from assay.errors import AssayError
from assay.scenario.questions.resolving import ResolveAnswer, resolve
from assay.stack import registry

COST, OUTPUT_COST = "econ.run.total_cost", "econ.cost.per_output_token"
RENT, RENTED = "econ.rent.price", "econ.rented"
HARDWARE, POWER = "econ.run.hardware_cost", "econ.run.power_cost"
ENERGY, JOB_POWER, DURATION = "econ.run.energy", "econ.job.dc_power", "econ.run.duration"
CARBON, OPERATIONAL, EMBODIED = "carbon.run.total", "carbon.run.operational", "carbon.run.embodied"
INTENSITY, PEOPLE, NODES = "carbon.grid.intensity", "econ.staff.people", "cluster.nodes"
DESIGN_POWER = "cluster.design_power"
SITE_POWER, IT_POWER, PUE = "thermal.dc.power", "cluster.it_power", "thermal.dc.pue"
REQUEST, INPUT, GENERATED, CACHED = (
    f"econ.cost.per_{what}"
    for what in ("request", "input_token", "generated_token", "cached_token")
)
PRICES = (
    "econ.gpu.price", "econ.electricity.energy_price", "econ.staff.salary", "econ.server.price",
    "econ.water.price", "econ.site.price_by_power", RENT,
)  # fmt: skip


def sum_of(total: str, parts: Callable[[Draw, Answers], Sequence[float]]) -> Check:
    """A figure that is the sum of others."""

    def check(draw: Draw, answers: Answers) -> Violation | None:
        whole, added = answers.value(draw, total), math.fsum(parts(draw, answers))
        if math.isclose(whole, added, rel_tol=1e-9):
            return None
        return Violation(f"{total} is {whole:.9g}, its parts add up to {added:.9g}", total, (draw,))

    return check


def _values(names: Sequence[str], draw: Draw, answers: Answers) -> list[float]:
    return [answers.value(draw, name) for name in names]


def _product(names: Sequence[str], draw: Draw, answers: Answers) -> list[float]:
    return [math.prod(_values(names, draw, answers))]


def _request(draw: Draw, answers: Answers) -> list[float]:
    return [
        draw.given("serving.prompt") * answers.value(draw, INPUT),
        draw.given("serving.output") * answers.value(draw, GENERATED),
    ]


def proportional(name: str, change: str, when: Callable[[Draw], bool] = lambda _: True) -> Check:
    """A figure that doubles with a value of the draw."""

    def check(draw: Draw, answers: Answers) -> Violation | None:
        if not when(draw):
            return None
        more = draw.changed({change: 2 * draw.given(change)})
        before, after = answers.value(draw, name), answers.value(more, name)
        if math.isclose(after, 2 * before, rel_tol=1e-9):
            return None
        text = f"{name}: {before:.6g}, {after:.6g} with twice {change}"
        return Violation(text, name, (draw, more))

    return check


def rising(name: str) -> Check:
    """A cost that falls with no price."""

    def check(draw: Draw, answers: Answers) -> Violation | None:
        for price in PRICES:
            if violation := not_below(name, price)(draw, answers):
                return violation
        return None

    return check


def operators(draw: Draw, answers: Answers) -> Violation | None:
    """A larger site has more operators, and no more for each watt of its design power."""
    more = draw.changed({NODES: 2 * draw.given(NODES)})
    before, after = answers.value(draw, PEOPLE), answers.value(more, PEOPLE)
    growth = answers.value(more, DESIGN_POWER) / answers.value(draw, DESIGN_POWER)
    if before < after <= growth * before * (1 + SLACK):
        return None
    text = f"operators: {before:.6g}, {after:.6g} with {growth:.6g} times the power"
    return Violation(text, PEOPLE, (draw, more))


def order_of_tokens(draw: Draw, answers: Answers) -> Violation | None:
    """A cached token costs no more than a deployment that prefills only."""
    cached, rate = answers.value(draw, CACHED), answers.value(draw, "econ.serving.rate")
    load, throughput = (
        draw.given("econ.serving.load"),
        answers.value(draw, "serving.prompt_throughput"),
    )
    alone = rate / (throughput * load)
    if 0 <= cached <= alone * (1 + SLACK) and answers.value(draw, INPUT) > 0:
        return None
    text = f"cached {cached:.6g}, prefill alone {alone:.6g} USD/token"
    return Violation(text, CACHED, (draw,))


def said(main: str, draw: Draw, answers: Answers) -> Violation | None:
    """A value that a note calls not used does not change the answer; one without a note exists."""
    names = sorted(set(draw.values) | {RENT, "thermal.dc.stated_pue", "carbon.contracted.share"})
    name = names[int(1e6 * draw.given("econ.utilisation")) % len(names)]
    variable = registry().variables[name]
    now = draw.values.get(name, 1.0)
    other = 1 - now if variable.cases else now + 1 if variable.is_count else 0.9 * now
    if not variable.lower <= other <= variable.upper:
        return None
    changed = draw.changed({name: other})
    before, after = (_resolved(main, each) for each in (draw, changed))
    if before is None or after is None or name == main:
        return None
    notes = " ".join(after.notes)
    is_said = f"{name}: not used" in notes and answers.seen(draw, "note", 1.0) > 0
    values = before.resolution.value, after.resolution.value
    if is_said and name in draw.values and values[0] != values[1]:
        text = f"{name} is said to be not used, and changes {main} from {values[0]} to {values[1]}"
        return Violation(text, main, (draw, changed))
    if not is_said and name not in registry().graph.ancestors(main):
        return Violation(
            f"{name}: {main} does not depend on it, and no note says so", main, (changed,)
        )
    return None


def units(draw: Draw, answers: Answers) -> Violation | None:
    """A price by the hour is the same as 3,600 times less by the second."""
    hourly = f"{RENT}={3600 * draw.given(RENT)!r} USD/(h*GPU)"
    rented = draw.changed({RENTED: 1.0, RENT: draw.given(RENT)})
    by_second = _resolved(OUTPUT_COST, rented)
    by_hour = _resolved(OUTPUT_COST, replaced(rented, RENT), hourly)
    if by_second is None or by_hour is None:
        return None
    first, second = by_second.resolution.value or 0.0, by_hour.resolution.value or 0.0
    second = answers.seen(draw, "by the hour", second)
    if math.isclose(first, second, rel_tol=1e-9):
        return None
    return Violation(f"{first:.9g} by the second, {second:.9g} by the hour", OUTPUT_COST, (rented,))


def replaced(draw: Draw, without: str) -> Draw:
    values = {name: value for name, value in draw.values.items() if name != without}
    return Draw(draw.kind, draw.entries, values)


def _resolved(target: str, draw: Draw, *more: str) -> ResolveAnswer | None:
    assign = [
        f"{name}={value!r}"
        + ("" if (unit := str(registry().variables[name].unit)) == "1" else f" {unit}")
        for name, value in draw.values.items()
    ]
    includes = [f"{group}/{name}" for group, name in draw.entries.items()]
    try:
        return resolve(
            target,
            preset=draw.kind.preset,
            assign=[*assign, *more],
            includes=includes,
            intervals=False,
        )
    except AssayError:
        return None


def rented(draw: Draw) -> bool:
    return draw.given(RENTED) == 1 and draw.given("econ.rent.includes_power") == 1


def _bug(name: str, factor: float = 1.1) -> Bug:
    return scaled(name, lambda _: factor)


def _silent(_: Draw, name: str, number: float) -> float:
    return 0.0 if name == "note" else number


def _ignores(name: str, price: str) -> Bug:
    """A product in which a figure falls with a price."""
    return lambda draw, what, number: number / draw.given(price) ** 2 if what == name else number


INVARIANTS = (
    Invariant("cost of a run is hardware and electricity", "priced training",
              sum_of(COST, partial(_values, (HARDWARE, POWER))), _bug(POWER), (COST, HARDWARE, POWER)),
    Invariant("energy of a run is power by time", "priced training",
              sum_of(ENERGY, partial(_product, (JOB_POWER, DURATION))), _bug(ENERGY),
              (ENERGY, JOB_POWER, DURATION)),
    Invariant("carbon of a run is operational and embodied", "priced training",
              sum_of(CARBON, partial(_values, (OPERATIONAL, EMBODIED))), _bug(CARBON),
              (CARBON, OPERATIONAL, EMBODIED)),
    Invariant("operational carbon follows the grid", "priced training",
              proportional(OPERATIONAL, INTENSITY), _ignores(OPERATIONAL, INTENSITY), (OPERATIONAL,)),
    Invariant("cost of a run falls with no price", "priced training",
              rising(COST), _ignores(COST, "econ.gpu.price"), (COST,)),
    Invariant("a rented run costs in proportion to its rent", "priced training",
              proportional(COST, RENT, rented), scaled(COST, lambda d: 1 + d.given(RENT)), (COST,)),
    Invariant("operators grow with the site", "priced training", operators,
              scaled(PEOPLE, lambda d: 1 / d.given(NODES)), (PEOPLE, DESIGN_POWER)),
    Invariant("a value of a run is used or said not to be", "priced training",
              partial(said, COST), _silent, (COST,), 20),
    Invariant("power at the meter is IT power by PUE", "priced serving",
              sum_of(SITE_POWER, partial(_product, (IT_POWER, PUE))), _bug(PUE), (SITE_POWER, IT_POWER, PUE)),
    Invariant("prompt and answer add up to a request", "priced serving",
              sum_of(REQUEST, _request), _bug(INPUT), (REQUEST, INPUT, GENERATED)),
    Invariant("cost of a token falls with no price", "priced serving",
              rising(OUTPUT_COST), _ignores(OUTPUT_COST, "econ.gpu.price"), (OUTPUT_COST,)),
    Invariant("a rented token costs in proportion to its rent", "priced serving",
              proportional(OUTPUT_COST, RENT, rented), scaled(OUTPUT_COST, lambda d: 1 + d.given(RENT)),
              (OUTPUT_COST,)),
    Invariant("a cached token costs no more than prefill", "priced serving", order_of_tokens,
              _bug(CACHED, 1e3), (CACHED, INPUT, "econ.serving.rate", "serving.prompt_throughput")),
    Invariant("a price has no unit but its own", "priced serving", units,
              scaled("by the hour", lambda _: 3600.0), (OUTPUT_COST,), 20),
    Invariant("a value of a deployment is used or said not to be", "priced serving",
              partial(said, OUTPUT_COST), _silent, (OUTPUT_COST,), 20),
)  # fmt: skip
