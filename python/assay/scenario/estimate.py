"""An estimate from four words: a model, an accelerator, a number of tokens and a place.

Everything else is a default of a bundled scenario or is searched for: the parallelism layout with the
shortest step among those that fit, and the fewest nodes that finish in time. Each is listed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from assay.catalog import entries
from assay.catalog.sourced_value import SourcedValue
from assay.errors import InfeasibleError, InputError, unknown_name
from assay.scenario.includes import include
from assay.scenario.named_scenario import Preset

if TYPE_CHECKING:
    from assay.model.resolving.resolution import Resolution
    from assay.scenario.report import ScenarioReport

BASES = {"training": "llama3_8b_8_h100_training", "serving": "llama3_8b_h200_serving"}
"""The bundled scenario whose values an estimate of each kind starts from."""

TOKENS_PER_STEP = 2**22
"""Tokens of a step up to 10^23 FLOP, doubled for each factor of ten up to 16 million, as the Llama 3
models were trained (8B with 4 million, 405B with 16 million at the end)."""
LONGEST_SEQUENCE = 8192
MAX_DAYS = 90.0
MAX_GPUS = 2**17

_SUFFIXES = {"": 1.0, "k": 1e3, "m": 1e6, "b": 1e9, "t": 1e12}
_TOKENS = re.compile(r"(\d{1,30}(?:\.\d{1,30})?(?:e\+?\d{1,3})?)([kmbt]?)", re.IGNORECASE)
_GUESSED_UTILIZATION = 0.4
_DAY = 86400.0
_FEED_PER_NODE = 30e3

TARGETS: Mapping[str, tuple[tuple[str, str], ...]] = {
    "training": (
        ("cost", "econ.run.total_cost"),
        ("cost per token", "econ.cost.per_token"),
        ("time to train", "training.time_to_train"),
        ("throughput", "training.tokens_per_second"),
        ("MFU", "training.mfu"),
        ("electricity", "econ.run.power_cost"),
        ("energy", "econ.run.energy"),
        ("emissions", "carbon.run.total"),
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


def read_place(word: str) -> tuple[str, str]:
    """The tariff and the grid of a place: a country, or a state of the US."""
    place = word.strip().lower().replace(" ", "_").replace("-", "_")
    tariffs, grids = entries.names("tariffs"), entries.names("grids")
    tariff = next((name for name in (place, f"us_{place}") if name in tariffs), None)
    if tariff is None:
        short = [name.removeprefix("us_") for name in tariffs]
        error = unknown_name("place", word, [*tariffs, *short])
        error.hint = error.hint or f"places with a tariff: {', '.join(tariffs)}"
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
) -> Estimate:
    """Estimate cost, time and emissions of a workload from model, accelerator, tokens and place."""
    model, accelerator, tokens_text, where = words
    tokens = read_tokens(tokens_text)
    tariff, grid = read_place(where)
    named = [f"models/{model}", f"accelerators/{accelerator}", f"tariffs/{tariff}", f"grids/{grid}"]
    scenario = replace(
        base.with_includes([include(path, base.registry) for path in named]),
        name=f"{workload} of {model} on {accelerator}, {tokens_text} tokens, {where}",
    )
    if workload == "training":
        chosen = _training_defaults(scenario, tokens)
        scenario = _with_values(scenario, chosen)
        scenario, layout = _with_training_layout(scenario, tokens, gpus, days)
    else:
        chosen = {}
        scenario, layout = _with_serving_layout(scenario)
    report = scenario.evaluate_targets(TARGETS[workload])
    asked = {path.partition("/")[0] for path in named}
    defaults = (*_entry_defaults(scenario, asked), *_value_defaults(scenario, {**chosen, **layout}))
    return Estimate(workload, tokens, scenario, report, defaults)


def _training_defaults(scenario: Preset, tokens: float) -> dict[str, tuple[float, str]]:
    """Values that follow from the words, with the reason of each."""
    from assay.catalog import models

    path = next(part.path for part in scenario.included if part.group == "models")
    context = models.find(path.partition("/")[2]).context or LONGEST_SEQUENCE
    sequence = float(min(context, LONGEST_SEQUENCE))
    return {
        "training.total_tokens": (tokens, "as asked"),
        "architecture.sequence": (sequence, "the model's context, at most 8,192 tokens"),
        "training.batch": (_batch(scenario, tokens, sequence), ""),
    }


def _batch(scenario: Preset, tokens: float, sequence: float) -> float:
    """Sequences of a step, by the FLOPs of the whole run."""
    sized = _with_values(scenario, {"architecture.sequence": (sequence, "")})
    flops = _value(sized, "architecture.training.flops_per_token") * tokens
    doublings = min(2, max(0, math.floor(math.log10(flops)) - 23))
    return float(max(1, 2**doublings * TOKENS_PER_STEP // int(sequence)))


def _with_training_layout(
    scenario: Preset, tokens: float, gpus: int | None, days: float
) -> tuple[Preset, dict[str, tuple[float, str]]]:
    """The fewest nodes that hold the model and finish in time, with their fastest layout."""
    per_node = int(_value(scenario, "cluster.node.gpus"))
    count = gpus or _guess(scenario, tokens, days, per_node)
    last = ""
    while count <= MAX_GPUS:
        try:
            sized, chosen = _fastest(_sized(scenario, count, per_node), count)
        except InfeasibleError as error:
            if gpus:
                raise
            last = error.message
        else:
            taken = sized.resolve("training.time_to_train").require_value()
            if gpus:
                return sized, chosen
            if taken <= days * _DAY:
                return sized, {
                    "training.gpus": (float(count), f"fewest in {days:g} days"),
                    **chosen,
                }
            last = f"{taken / _DAY:.0f} days"
        count *= 2
    raise InfeasibleError(
        f"no cluster of up to {MAX_GPUS:,} GPUs does it; the largest: {last}", "raise --days"
    )


def _sized(scenario: Preset, count: int, per_node: int) -> Preset:
    """The scenario with this many GPUs, on a site large enough for them."""
    nodes = max(_value(scenario, "cluster.nodes"), math.ceil(count / per_node))
    feed = max(_value(scenario, "thermal.dc.feed_power"), nodes * _FEED_PER_NODE)
    return _with_values(
        scenario,
        {
            "training.gpus": (float(count), "as asked"),
            "cluster.nodes": (nodes, "the scenario's, or those of the job"),
            "thermal.dc.feed_power": (feed, "the scenario's, or 30 kW for each node"),
        },
    )


def _fastest(scenario: Preset, count: int) -> tuple[Preset, dict[str, tuple[float, str]]]:
    """The layout with the shortest step; a larger batch where none divides the usual one."""
    batch = scenario.inputs.values["training.batch"]
    for multiple in (1, 2, 4):
        tokens = multiple * batch * scenario.inputs.values["architecture.sequence"]
        reason = f"about {tokens / 2**20:.0f} million tokens a step, by the FLOPs of the run"
        sized = _with_values(scenario, {"training.batch": (multiple * batch, reason)})
        try:
            best = sized.registry.minimize(
                "training.step_time", _layouts(sized, count), sized.exact_inputs.values,
                sized.variants,
            )  # fmt: skip
        except InfeasibleError:
            if multiple == 4:
                raise
            continue
        why = "layout with the shortest step among those that fit"
        layout = {n: (float(v), why) for n, v in best.choices.items() if not isinstance(v, str)}
        return _with_values(sized, layout), {"training.batch": (multiple * batch, reason), **layout}
    raise AssertionError("the last multiple returns or raises")


def _with_serving_layout(scenario: Preset) -> tuple[Preset, dict[str, tuple[float, str]]]:
    """The tensor-parallel ranks with the lowest cost among those that fit."""
    best = scenario.registry.minimize(
        "econ.cost.per_output_token", {"serving.tensor": [1.0, 2.0, 4.0, 8.0]},
        scenario.given, scenario.variants,
    )  # fmt: skip
    reason = "ranks with the lowest cost among those that fit"
    layout = {n: (float(v), reason) for n, v in best.choices.items() if not isinstance(v, str)}
    return _with_values(scenario, layout), layout


def _layouts(scenario: Preset, gpus: int) -> dict[str, list[float]]:
    """Layouts to try; constraints rule out those that do not divide or fit."""
    experts = _value(scenario, "architecture.experts")
    powers = [float(2**i) for i in range(8)]
    return {
        "parallelism.tensor": [n for n in powers if n <= min(8, gpus)],
        "parallelism.pipeline": [n for n in powers if n <= min(16, gpus)],
        "parallelism.interleave": powers[:4],
        "parallelism.expert": [n for n in powers if n <= min(64, gpus)] if experts else [1.0],
        "parallelism.zero_stage": [1.0, 3.0],
        "parallelism.sequence_parallel": [0.0, 1.0],
        "parallelism.recompute": [1.0, 2.0],
        "parallelism.micro_batch": [1.0, 2.0, 4.0],
    }


def _guess(scenario: Preset, tokens: float, days: float, per_node: int) -> int:
    """Nodes, as a power of two, from six FLOPs a parameter and token at 40 % of the peak."""
    flops = _value(scenario, "architecture.training.flops_per_token") * tokens
    rate = _GUESSED_UTILIZATION * _value(scenario, "gpu.peak_flops") * days * _DAY
    nodes: int = 1 << max(0, math.floor(math.log2(max(1.0, flops / rate / per_node / 2))))
    return nodes * per_node


def _value(scenario: Preset, name: str) -> float:
    return scenario.registry.resolve(name, scenario.exact_inputs, scenario.variants).require_value()


def _with_values(scenario: Preset, values: Mapping[str, tuple[float, str]]) -> Preset:
    """The scenario with values of the estimate's own."""
    stated = {
        name: SourcedValue.from_number(
            scenario.registry.variables[name], number, f"estimate: {reason}", "assumed", 0.0
        )
        for name, (number, reason) in values.items()
    }
    return scenario.with_values(stated)


def _entry_defaults(scenario: Preset, asked: set[str]) -> list[Default]:
    """Catalog entries that no word names."""
    return [
        Default(part.group or part.path, part.path, part.path, "default entry")
        for part in scenario.included
        if part.group not in asked
    ]


def _value_defaults(scenario: Preset, chosen: Mapping[str, tuple[float, str]]) -> list[Default]:
    """Values of the scenario's own, and those that the estimate chose."""
    registry = scenario.registry
    defaults = []
    for name in sorted(scenario.own):
        variable, value = registry.variables[name], scenario.inputs.values[name]
        reason = chosen[name][1] if name in chosen else scenario.assignments[name].source
        if not reason.endswith("as asked"):
            text = variable.figure(value).text
            defaults.append(Default(name, variable.format(value), text, reason))
    return defaults
