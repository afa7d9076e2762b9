"""Cost and energy of a token with the equations behind them, from the stack."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

COST: Final = "econ.cost.per_output_token"
ENERGY: Final = "econ.energy.per_output_token"
_RATE: Final = "econ.serving.rate"
_POWER: Final = "econ.serving.dc_power"
_THROUGHPUT: Final = "serving.throughput"
_LOAD: Final = "econ.serving.load"
_HOUR: Final = 3600.0
_FULL: Final = "the measured window: the deployment is busy all of the time"


def cost_per_token(tokens_per_second: float, usd_per_hour: float) -> float:
    """USD for an output token at this rate and price, by the stack's equation.

    >>> round(1e6 * cost_per_token(100.0, 3.6), 6)
    10.0
    """
    return _value(COST, {_RATE: usd_per_hour / _HOUR}, tokens_per_second)


def energy_per_token(tokens_per_second: float, watts: float) -> float:
    """J for an output token at this rate and power, by the stack's equation."""
    return _value(ENERGY, {_POWER: watts}, tokens_per_second)


def receipt(
    target: str, tokens_per_second: float, given: float, source: str, measured: str
) -> list[dict[str, Any]]:
    """The provenance of a cost or energy: entries with value, unit, equation and source.

    `given` is USD an hour for `COST` and W for `ENERGY`.
    """
    from assay.model.resolving.provenance import explain
    from assay.stack import registry

    stack = registry()
    name = _RATE if target == COST else _POWER
    base = given / _HOUR if target == COST else given
    resolved = stack.resolve(target, given=_given({name: base}, tokens_per_second))
    sources = {name: source, _THROUGHPUT: measured, _LOAD: _FULL}
    return [entry.to_data() for entry in explain(stack, resolved, sources=sources).entries]


def _given(values: Mapping[str, float], tokens_per_second: float) -> dict[str, float]:
    return {**values, _THROUGHPUT: tokens_per_second, _LOAD: 1.0}


def _value(target: str, values: Mapping[str, float], tokens_per_second: float) -> float:
    from assay.stack import registry

    equation = registry().equations[target]
    return float(equation.evaluate_rhs(_given(values, tokens_per_second)))
