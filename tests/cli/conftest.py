"""Running the command line inside the tests' own process."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from assay import stack
from assay.cli.app import run
from assay.model import Registry, Scope, cited, number
from assay.model.language.expression import Number
from assay.scenario import built_in


@dataclass(frozen=True)
class Outcome:
    """Exit code and output of a command line."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        """Stdout as strict JSON: NaN and infinities are refused."""

        def refuse(name: str) -> None:
            raise AssertionError(f"{name} is no JSON number")

        return json.loads(self.out, parse_constant=refuse)


Cli = Callable[..., Outcome]


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Runs a command line, 80 columns wide and without a terminal."""
    for name in ("NO_COLOR", "FORCE_COLOR", "ASSAY_TRACEBACK"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "80")

    def call(*arguments: str) -> Outcome:
        capsys.readouterr()
        code = run(arguments)
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return call


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> Registry:
    """Puts a small registry with every kind of trouble in the place of the stack's."""
    scope = Scope("toy", "a model with troubles")
    load = scope.variable("load", "L", "W", "power asked for", boundary="scenario")
    limit = scope.variable("limit", "M", "W", "power allowed", boundary="primitive")
    share = scope.variable("share", "s", "1", "load over limit", equals=load / limit)
    heat = scope.variable("heat", "h", "K", "warming", bounds=(0, "100 K"))
    scope.approximation(
        heat, 10 * share * _kelvin(), name="heat.linear", valid=share < 2, reference=cited("A")
    )
    scope.approximation(heat, share * share * 5 * _kelvin(), name="heat.square", valid=share >= 2)
    cost = scope.variable("cost", "c", "USD", "cost, twice defined", target=True)
    scope.equation(cost, load * number("1 USD/W"), name="cost.by_load")
    scope.equation(cost, limit * number("2 USD/W"), name="cost.by_limit")
    noise = scope.variable("noise", "n", "W", "what the meter adds")
    scope.stochastic(noise, "normal", load, number("1 W"))
    scope.variable("risk", "r", "W", "load and noise", equals=load + noise, target=True)
    scope.inequality("load.fits", load <= limit, "the load stays within the limit")
    loop = scope.variable("loop", "o", "1", "defined through its reverse")
    back = scope.variable("back", "b", "1", "the reverse", equals=1 - loop)
    scope.equation(loop, 1 - back)
    registry = Registry.from_scopes([scope])
    monkeypatch.setattr(stack, "registry", lambda: registry)
    monkeypatch.setattr(built_in, "presets", dict)
    return registry


def _kelvin() -> Number:
    return number("1 K")
