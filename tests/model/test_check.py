"""The unit checker: what it must refuse, and what it must let through."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, strategies as st

from assay.errors import UnitError
from assay.model import (
    ANY_SIGN,
    Registry,
    Scope,
    Symbol,
    exp,
    floor,
    log,
    maximum,
    number,
    sqrt,
    where,
)
from assay.model.language.expression import Expression

Table = dict[str, str]

# Each row: units of variables, the defined variable first, and the right-hand side. All are wrong.
WRONG: list[tuple[str, Table, Callable[..., Expression]]] = [
    ("bits are not bytes", {"size": "B", "bits": "bit"}, lambda bits: bits * 1),
    ("bits over eight are still bits", {"rate": "B/s", "line": "bit/s"}, lambda line: line / 8),
    (
        "eight bits are not converted by a bare 8",
        {"bits": "bit", "size": "B"},
        lambda size: size * 8,
    ),
    ("gigabit link taken as gigabytes", {"bw": "GB/s", "line": "Gbit/s"}, lambda line: line * 1),
    ("GB and GiB", {"used": "GiB", "size": "GB"}, lambda size: size * 1),
    ("KiB per token as kB per token", {"a": "kB/token", "b": "KiB/token"}, lambda b: b * 1),
    ("dollars per second as FLOP per second", {"a": "USD/s", "b": "FLOP/s"}, lambda b: b * 1),
    ("watt-hours as joules", {"energy": "J", "p": "W", "t": "h"}, lambda p, t: p * t),
    ("kWh as joules", {"energy": "J", "kwh": "kWh"}, lambda kwh: kwh * 1),
    ("kWh from kW and seconds", {"e": "kWh", "p": "kW", "t": "s"}, lambda p, t: p * t),
    ("price per kWh times joules", {"c": "USD", "p": "USD/kWh", "e": "J"}, lambda p, e: p * e),
    ("GPU-hours as hours", {"t": "h", "work": "GPU*h"}, lambda work: work * 1),
    ("hours as GPU-hours", {"work": "GPU*h", "t": "h"}, lambda t: t * 1),
    ("GPU-hours with GPUs forgotten", {"w": "GPU*s", "n": "1", "t": "s"}, lambda n, t: n * t),
    ("power of one GPU as of all", {"p": "W", "each": "W/GPU"}, lambda each: each * 1),
    ("all power as per GPU", {"each": "W/GPU", "p": "W"}, lambda p: p * 1),
    ("nodes as GPUs", {"gpus": "GPU", "nodes": "node"}, lambda nodes: nodes * 8),
    (
        "GPUs per node times GPUs",
        {"n": "GPU", "per": "GPU/node", "g": "GPU"},
        lambda per, g: per * g,
    ),
    ("tokens as requests", {"r": "request", "t": "token"}, lambda t: t * 1),
    (
        "tokens per second as requests per second",
        {"r": "request/s", "t": "token/s"},
        lambda t: t * 1,
    ),
    ("tokens as a pure number", {"n": "1", "t": "token"}, lambda t: t * 1),
    ("6ND without the FLOP", {"f": "FLOP", "n": "1", "d": "token"}, lambda n, d: 6 * n * d),
    ("FLOP per token forgotten", {"f": "FLOP", "d": "token"}, lambda d: number("6 FLOP") * d),
    ("FLOP over bytes per second", {"t": "s", "f": "FLOP", "bw": "B/s"}, lambda f, bw: f / bw),
    ("bytes over FLOP per second", {"t": "s", "b": "B", "r": "FLOP/s"}, lambda b, r: b / r),
    ("rate instead of time", {"t": "s", "b": "B", "bw": "B/s"}, lambda b, bw: bw / b),
    ("latency plus bytes", {"t": "s", "a": "s", "b": "B"}, lambda a, b: a + b),
    (
        "latency plus inverse bandwidth",
        {"t": "s", "a": "s", "beta": "s/B"},
        lambda a, beta: a + beta,
    ),
    ("milliseconds plus seconds", {"t": "s", "a": "s", "b": "ms"}, lambda a, b: a + b),
    ("microseconds as milliseconds", {"a": "ms", "b": "us"}, lambda b: b * 1),
    ("sum of watts and joules", {"p": "W", "a": "W", "e": "J"}, lambda a, e: a + e),
    ("maximum of time and bytes", {"t": "s", "a": "s", "b": "B"}, lambda a, b: maximum(a, b)),
    ("difference of USD and USD/h", {"c": "USD", "a": "USD", "b": "USD/h"}, lambda a, b: a - b),
    ("exponential of seconds", {"x": "1", "t": "s"}, lambda t: exp(t)),
    ("logarithm of bytes", {"x": "1", "b": "B"}, lambda b: log(b)),
    ("empirical power of a dimensioned base", {"l": "1", "d": "token"}, lambda d: d**-0.095),
    ("exponent with a unit", {"x": "1", "a": "1", "t": "s"}, lambda a, t: a**t),
    ("variable power of a dimensioned base", {"x": "s", "t": "s", "k": "1"}, lambda t, k: t**k),
    ("square root of an energy", {"v": "m/s", "e": "J"}, lambda e: sqrt(e)),
    (
        "checkpoint interval without the root",
        {"t": "s", "d": "s", "m": "s"},
        lambda d, m: 2 * d * m,
    ),
    ("percent as a share", {"share": "1", "p": "%"}, lambda p: p * 1),
    ("share as percent", {"p": "%", "a": "B", "b": "B"}, lambda a, b: a / b),
    ("PUE as power", {"p": "W", "dc": "W", "it": "W"}, lambda dc, it: dc / it),
    ("temperature rise without power", {"dt": "K", "theta": "K/W"}, lambda theta: theta * 1),
    ("Celsius-like offset as a number", {"t": "K", "a": "K"}, lambda a: a + 273.15),
    ("voltage times resistance as current", {"i": "A", "v": "V", "r": "ohm"}, lambda v, r: v * r),
    ("CV as energy", {"e": "J", "c": "F", "v": "V"}, lambda c, v: c * v),
    ("dynamic power without the clock", {"p": "W", "c": "F", "v": "V"}, lambda c, v: c * v**2),
    ("hertz as seconds", {"t": "s", "f": "Hz"}, lambda f: f * 1),
    ("per month as per second", {"r": "USD/s", "m": "USD/month"}, lambda m: m * 1),
    ("per year as per hour", {"r": "USD/h", "y": "USD/year"}, lambda y: y * 1),
    ("tonnes of carbon as kilograms", {"kg": "kg", "t": "t"}, lambda t: t * 1),
    ("liters per kWh as cubic meters per joule", {"w": "m^3/J", "u": "L/kWh"}, lambda u: u * 1),
    (
        "cost per token from cost per request",
        {"c": "USD/token", "r": "USD/request"},
        lambda r: r * 1,
    ),
    ("cost per million tokens", {"c": "USD/token", "m": "USD/Mtoken"}, lambda m: m * 1),
    ("floor of gigabytes", {"n": "GB", "b": "GB"}, lambda b: floor(b)),
    (
        "choice between seconds and bytes",
        {"x": "s", "a": "s", "b": "B"},
        lambda a, b: where(a > 0, a, b),
    ),
    (
        "condition compares seconds with bytes",
        {"x": "s", "a": "s", "b": "B"},
        lambda a, b: where(a > b, a, a),
    ),
    ("choice on a quantity", {"x": "s", "a": "s"}, lambda a: where(a, a, a)),
    ("truth value as a number", {"x": "1", "a": "s"}, lambda a: a > 0),
    ("literal of the wrong kind", {"p": "W", "a": "W"}, lambda a: a + number("5 s")),
    ("literal minutes in a product of hours", {"e": "Wh", "p": "W"}, lambda p: p * number("5 min")),
    ("remainder across units", {"x": "GPU", "a": "GPU", "b": "node"}, lambda a, b: a % b),
]

RIGHT: list[tuple[str, Table, Callable[..., Expression]]] = [
    ("6ND", {"f": "FLOP", "n": "1", "d": "token"}, lambda n, d: number("6 FLOP/token") * n * d),
    ("watt-hours from watts and hours", {"e": "W*h", "p": "W", "t": "h"}, lambda p, t: p * t),
    ("kWh from kW and hours", {"e": "kWh", "p": "kW", "t": "h"}, lambda p, t: p * t),
    ("bits converted by a literal", {"b": "B", "x": "bit"}, lambda x: x / number("8 bit/B")),
    ("literal in another scale", {"p": "W", "a": "W"}, lambda a: maximum(a, number("1 kW"))),
    ("zero fits everything", {"t": "s", "a": "s", "b": "s"}, lambda a, b: maximum(0, a - b)),
    ("Young's interval", {"t": "s", "d": "s", "m": "s"}, lambda d, m: sqrt(2 * d * m)),
    (
        "empirical power over a unit",
        {"l": "1", "d": "token"},
        lambda d: (d / number("1 token")) ** -0.095,
    ),
    (
        "roofline",
        {"r": "FLOP/s", "p": "FLOP/s", "b": "B/s", "i": "FLOP/B"},
        lambda p, b, i: where(p < b * i, p, b * i),
    ),
    ("half-integer power", {"v": "m/s", "e": "J", "m": "kg"}, lambda e, m: (2 * e / m) ** 0.5),
]


def declare(units: Table, build: Callable[..., Expression]) -> Registry:
    scope = Scope("t", "one relation")
    defined, *others = units
    operands = {name: scope.variable(name, name, units[name], "operand") for name in others}
    scope.variable(
        defined, defined, units[defined], "defined", equals=build(**operands), bounds=ANY_SIGN
    )
    return Registry.from_scopes([scope])


@pytest.mark.parametrize(("why", "units", "build"), WRONG, ids=[row[0] for row in WRONG])
def test_wrong_equation_is_refused(
    why: str, units: Table, build: Callable[..., Expression]
) -> None:
    with pytest.raises(UnitError) as caught:
        declare(units, build)
    assert "\n" not in caught.value.message


@pytest.mark.parametrize(("why", "units", "build"), RIGHT, ids=[row[0] for row in RIGHT])
def test_right_equation_passes(why: str, units: Table, build: Callable[..., Expression]) -> None:
    declare(units, build)


def test_table_is_long_enough() -> None:
    assert len(WRONG) >= 50


def test_message_names_both_sides() -> None:
    with pytest.raises(UnitError) as caught:
        declare({"energy": "J", "p": "W", "t": "h"}, lambda p, t: p * t)
    assert caught.value.message == (
        "equation t.energy: left side is J, right side is Wh: same dimension, scale differs by a factor of 3600"
    )
    with pytest.raises(UnitError) as caught:
        declare({"a": "USD/s", "b": "FLOP/s"}, lambda b: b * 1)
    assert caught.value.message == "equation t.a: left side is USD/s, right side is FLOP/s"


_UNITS = [
    "s",
    "ms",
    "h",
    "B",
    "bit",
    "GiB",
    "FLOP",
    "USD",
    "token",
    "GPU",
    "W",
    "kW",
    "J",
    "kWh",
    "1",
    "%",
]


@given(
    st.sampled_from(_UNITS),
    st.sampled_from(_UNITS),
    st.sampled_from(_UNITS),
    st.sampled_from("+-*/"),
)
def test_checker_agrees_with_unit_algebra(left: str, a: str, b: str, operation: str) -> None:
    """The checker accepts a two-operand relation exactly if exact arithmetic on scales does."""
    from assay.model.language.units import parse_unit

    x, y = parse_unit(a), parse_unit(b)
    expected = {"+": x, "-": x, "*": x * y, "/": x / y}[operation]
    sound = expected == parse_unit(left) and (operation in "*/" or x == y)
    build = {
        "+": lambda a, b: a + b,
        "-": lambda a, b: a - b,
        "*": lambda a, b: a * b,
        "/": lambda a, b: a / b,
    }[operation]
    units = {"left": left, "a": a, "b": b}
    if sound:
        declare(units, build)
    else:
        with pytest.raises(UnitError):
            declare(units, build)


def test_every_kind_of_relation_is_checked() -> None:
    """A wrong unit in any part of any kind of relation is refused."""

    def attempt(state: Callable[[Scope, dict[str, Symbol]], object]) -> None:
        scope = Scope("t", "one relation")
        names = {"s": "s", "W": "W", "J": "J", "one": "1"}
        variables: dict[str, Symbol] = {
            n: scope.variable(n, n, u, "operand") for n, u in names.items()
        }
        state(scope, variables)
        with pytest.raises(UnitError):
            Registry.from_scopes([scope])

    attempt(lambda t, v: t.approximation(v["J"], v["W"] * v["s"], name="a", valid=v["W"] > v["s"]))  # type: ignore[arg-type]
    attempt(lambda t, v: t.approximation(v["J"], v["W"], name="a", valid=v["W"] > 0))  # type: ignore[arg-type]
    attempt(lambda t, v: t.piecewise(v["J"], [(v["s"] > v["W"], v["J"])]))  # type: ignore[arg-type]
    attempt(lambda t, v: t.piecewise(v["J"], [(v["s"] > 0, v["W"])]))  # type: ignore[arg-type]
    attempt(lambda t, v: t.piecewise(v["J"], [(v["s"] > 0, v["W"] * v["s"])], otherwise=v["W"]))  # type: ignore[arg-type]
    attempt(lambda t, v: t.iterative(v["J"], v["J"] / 2 + v["W"], start=v["W"] * v["s"]))  # type: ignore[arg-type]
    attempt(lambda t, v: t.iterative(v["J"], v["J"] / 2, start=v["W"]))  # type: ignore[arg-type]
    attempt(lambda t, v: t.stochastic(v["J"], "normal", v["W"] * v["s"], v["one"]))  # type: ignore[arg-type]
    attempt(lambda t, v: t.stochastic(v["J"], "lognormal", v["W"] * v["s"], v["W"]))  # type: ignore[arg-type]
    attempt(lambda t, v: t.inequality("i", v["W"] > v["s"], "compares power with time"))
    tau = Symbol("tau")
    good = {"time": tau, "initial": number("1 J"), "start": number("0 s"), "end": number("1 s")}
    for wrong in (
        {"rate": Symbol("t.J")},
        {"rate": Symbol("t.W"), "initial": number("1 W")},
        {"rate": Symbol("t.W"), "end": number("1 J")},
        {"rate": Symbol("t.W") * tau},
    ):
        attempt(lambda t, v, w=wrong: t.differential(v["J"], time_like=v["s"], **{**good, **w}))  # type: ignore[arg-type, misc]
