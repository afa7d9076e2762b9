"""An estimate from four words: a model, an accelerator, a number of tokens and a place.

Everything else is a default of a bundled scenario or is searched for: the parallelism layout with the
highest throughput among those that fit, and the fewest nodes that finish in time. Each is listed.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from assay.catalog import entries
from assay.errors import InputError, unknown_name
from assay.scenario.given_values import ON_COMMAND_LINE
from assay.scenario.includes import include
from assay.scenario.layout_search import GPUS, LayoutSearch
from assay.scenario.named_scenario import Preset
from assay.scenario.offers import with_offer
from assay.scenario.workloads import Fitted, Method, given_values, training_defaults, with_numbers

if TYPE_CHECKING:
    from assay.model.resolving.resolution import Resolution
    from assay.scenario.report import ScenarioReport

BASES = {"training": "llama3_8b_8_h100_training", "serving": "llama3_8b_h200_serving"}
"""The bundled scenario whose values an estimate of each kind starts from."""

MAX_DAYS = 90.0
SERVING_GROUPS = (1.0, 2.0, 4.0, 8.0, 16.0)

_SUFFIXES = {"": 1.0, "k": 1e3, "m": 1e6, "b": 1e9, "t": 1e12}
_TOKENS = re.compile(r"(\d{1,30}(?:\.\d{1,30})?(?:e\+?\d{1,3})?)([kmbt]?)", re.IGNORECASE)
_DAY = 86400.0

TARGETS: Mapping[str, tuple[tuple[str, str], ...]] = {
    "training": (
        ("cost", "econ.run.total_cost"),
        ("cost per token", "econ.cost.per_token"),
        ("time to train", "econ.run.duration"),
        ("time of its steps", "training.time_to_train"),
        ("GPU-hours", "training.gpu_hours"),
        ("throughput", "training.tokens_per_second"),
        ("MFU", "training.mfu"),
        ("electricity", "econ.run.power_cost"),
        ("energy", "econ.run.energy"),
        ("emissions", "carbon.run.total"),
        ("emissions of electricity", "carbon.run.operational"),
        ("water", "carbon.run.water"),
        ("memory of a GPU", "parallelism.memory.total"),
        ("interruptions", "cluster.run.interruptions"),
    ),
    "serving": (
        ("cost per output token", "econ.cost.per_output_token"),
        ("time per output token", "serving.time_per_output_token"),
        ("time to first token", "serving.time_to_first_token"),
        ("throughput", "serving.throughput"),
        ("emissions per output token", "carbon.per_output_token"),
    ),
}


@dataclass(frozen=True, slots=True)
class Default:
    """A value that nobody asked for: taken from a catalog entry, assumed, or searched for.

    `value` has all digits, `figure` those that people read.
    """

    name: str
    value: str
    figure: str
    reason: str

    def to_data(self) -> dict[str, Any]:
        """The default as plain data."""
        return {"name": self.name, "value": self.value, "reason": self.reason}


@dataclass(frozen=True)
class Estimate:
    """The scenario behind an estimate, its report, and every default."""

    workload: str
    tokens: float
    preset: Preset
    report: ScenarioReport
    defaults: tuple[Default, ...]

    @property
    def served_cost(self) -> float | None:
        """Cost of serving all tokens in USD; None for training, whose report has it."""
        price = self._price_of_a_token
        return None if price is None or price.value is None else price.value * self.tokens

    @property
    def served_cost_interval(self) -> tuple[float, float] | None:
        """The 90 % interval of the cost of serving all tokens."""
        price = self._price_of_a_token
        if price is None or price.lower is None or price.upper is None:
            return None
        return price.lower * self.tokens, price.upper * self.tokens

    @property
    def utilization(self) -> float | None:
        """MFU of a training run."""
        mfu = self._resolution("training.mfu")
        return None if mfu is None else mfu.value

    @property
    def losses(self) -> dict[str, float]:
        """Shares of a training step in which the GPUs do not compute, by what takes them."""
        step = _value(self.preset, "training.step_time")
        stages, passes = (
            int(_value(self.preset, f"parallelism.{name}"))
            for name in ("pipeline", "micro_batches")
        )
        bubble = f"pipeline bubbles ({passes} micro-batches on {stages} stages)"
        return {
            bubble: _value(self.preset, "training.bubble_time") / step,
            "exposed communication": _value(self.preset, "training.exposed_communication_time")
            / step,
        }

    @property
    def _price_of_a_token(self) -> Resolution | None:
        return self._resolution("econ.cost.per_output_token")

    def _resolution(self, name: str) -> Resolution | None:
        resolutions = (target.resolution for target in self.report.targets if target.target == name)
        return next(resolutions, None)

    def to_data(self) -> dict[str, Any]:
        """The estimate as plain data."""
        return {
            "workload": self.workload,
            "tokens": self.tokens,
            "cost_of_all_tokens": self.served_cost,
            "cost_of_all_tokens_interval": self.served_cost_interval,
            "report": self.report.to_data(),
            "defaults": [default.to_data() for default in self.defaults],
        }


def read_tokens(text: str) -> float:
    """A number of tokens, such as 15T, 300B, 2e12.

    >>> read_tokens("15T")
    15000000000000.0
    """
    match = _TOKENS.fullmatch(text.strip()) if len(text) <= 64 else None
    number = float(match[1]) * _SUFFIXES[match[2].lower()] if match else 0.0
    if not 0 < number < math.inf:
        raise InputError(
            f'tokens: expected a number such as 15T, 300B or 2e12, got "{text[:80]}"',
            "K, M, B and T stand for 10^3, 10^6, 10^9 and 10^12",
        )
    return number


_PLACES_NAMED = 5
"""Most places that the error of an unknown one names."""


def read_place(word: str) -> tuple[str, str]:
    """The tariff and the grid of a place: a country, or a state of the US."""
    place = word.strip().lower().replace(" ", "_").replace("-", "_")
    tariffs, grids = entries.names("tariffs"), entries.names("grids")
    tariff = next((name for name in (place, f"us_{place}") if name in tariffs), None)
    if tariff is None:
        short = [name.removeprefix("us_") for name in tariffs]
        error = unknown_name("place", word, [*tariffs, *short])
        # Unlike what is misspelled: the alphabet's neighbors of a place that the catalog lacks.
        named = dict(zip(short, tariffs, strict=True))
        near = [
            named[name]
            for name in difflib.get_close_matches(place, named, n=_PLACES_NAMED, cutoff=0.0)
        ]
        error.hint = (
            error.hint
            or f"nearest of {len(tariffs)} places: {', '.join(near)}; assay catalog list tariffs "
            "lists all"
        )
        raise error
    fitting = (tariff, place, *(["us_average"] if tariff.startswith("us_") else []))
    grid = next((name for name in fitting if name in grids), None)
    if grid is None:
        raise InputError(
            f"the catalog has a tariff of {tariff}, but no grid", "assay catalog grids"
        )
    return tariff, grid


def estimate(
    base: Preset,
    workload: str,
    words: tuple[str, str, str, str],
    *,
    gpus: int | None = None,
    days: float = MAX_DAYS,
    method: Method | None = None,
    given: Mapping[str, str] | None = None,
    offer: str | None = None,
) -> Estimate:
    """Estimate cost, time and emissions of a workload from model, accelerator, tokens and place.

    `given` are values of the caller's own, by variable, which replace those of the scenario;
    `offer` rents the GPUs, as `PROVIDER` or `PROVIDER:TERMS`.
    """
    model, accelerator, tokens_text, where = words
    tokens = read_tokens(tokens_text)
    tariff, grid = read_place(where)
    named = [f"models/{model}", f"accelerators/{accelerator}", f"tariffs/{tariff}", f"grids/{grid}"]
    method = method or Method()
    scenario = replace(
        base.with_includes([include(path, base.registry) for path in named]),
        name=f"{method.verb(workload)} of {model} on {accelerator}, {tokens_text} tokens, {where}",
    )
    if offer:
        scenario = with_offer(scenario, offer)
    chosen: dict[str, Fitted] = {}
    if workload == "training":
        scenario, chosen = training_defaults(scenario, tokens, method)
        scenario = given_values(scenario, given or {})
        scenario, layout = _with_training_layout(scenario, gpus, days)
    else:
        scenario, chosen = method.serving(scenario)
        scenario = given_values(scenario, given or {})
        scenario, layout = _with_serving_layout(scenario)
    report = scenario.evaluate_targets(TARGETS[workload])
    asked = {path.partition("/")[0] for path in named}
    defaults = (*_entry_defaults(scenario, asked), *_value_defaults(scenario, {**chosen, **layout}))
    return Estimate(workload, tokens, scenario, report, defaults)


def _with_training_layout(
    scenario: Preset, gpus: int | None, days: float
) -> tuple[Preset, dict[str, Fitted]]:
    """The fewest nodes that hold the model and finish in time, with their fastest layout."""
    search = LayoutSearch(scenario)
    if gpus:
        found, why = search.fastest(gpus), "as asked"
    else:
        found, why = search.fewest(days * _DAY), f"fewest in {days:g} days, with interruptions"
    tokens = found.values["training.batch"] * scenario.inputs.values["architecture.sequence"]
    reasons = {
        "training.batch": f"{tokens / 1e6:.3g} million tokens a step, shared evenly by replicas",
        "cluster.nodes": "the scenario's, or those of the job",
        "thermal.dc.feed_power": "the scenario's, or twice the design power of its nodes",
    }
    layout = {
        name: (value, reasons.get(name, "layout with the highest throughput of those that fit"))
        for name, value in found.values.items()
    }
    layout[GPUS] = (float(found.gpus), why)
    return with_numbers(scenario, layout), layout


def _with_serving_layout(scenario: Preset) -> tuple[Preset, dict[str, Fitted]]:
    """The tensor-parallel ranks with the lowest cost among those that fit."""
    best = scenario.registry.minimize(
        "econ.cost.per_output_token", {"serving.tensor": list(SERVING_GROUPS)},
        scenario.given, scenario.variants,
    )  # fmt: skip
    reason = "ranks with the lowest cost among those that fit"
    layout = {n: (float(v), reason) for n, v in best.choices.items() if not isinstance(v, str)}
    return with_numbers(scenario, layout), layout


def _value(scenario: Preset, name: str) -> float:
    return scenario.registry.resolve(name, scenario.exact_inputs, scenario.variants).require_value()


def _entry_defaults(scenario: Preset, asked: set[str]) -> list[Default]:
    """Catalog entries that no word names."""
    return [
        Default(part.group or part.path, part.path, part.path, "default entry")
        for part in scenario.included
        if part.group not in asked
    ]


def _value_defaults(scenario: Preset, chosen: Mapping[str, Fitted]) -> list[Default]:
    """Values of the scenario's own, and those that the estimate chose."""
    registry = scenario.registry
    defaults = []
    for name in sorted(scenario.own):
        variable, value = registry.variables[name], scenario.inputs.values[name]
        reason = chosen[name][1] if name in chosen else scenario.assignments[name].source
        if not reason.endswith(("as asked", ON_COMMAND_LINE)):
            text = variable.figure(value).text
            defaults.append(Default(name, variable.format(value), text, reason))
    return defaults
