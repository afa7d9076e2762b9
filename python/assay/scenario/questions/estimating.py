"""Cost, time and emissions from a model, an accelerator, tokens and a place."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypedDict, Unpack

from assay.answers import Answer
from assay.catalog import constants
from assay.errors import InputError, unknown_name
from assay.keywords import takes
from assay.model.language.figures import figure
from assay.model.language.units import parse_unit
from assay.scenario import built_in
from assay.scenario.estimate import BASES, MAX_DAYS, Estimate, estimate as estimate_workload
from assay.scenario.layout_search import GPUS
from assay.scenario.question import read_pairs
from assay.scenario.questions.reporting import target_problem
from assay.scenario.workloads import DEFAULT_RANK, Method

LOW_UTILIZATION: Final = 0.25
"""MFU below which the answer says where the time goes."""

_NORMAL_95 = 1.645
"""Standard deviations from the median of a normal distribution to its 95th percentile."""


@dataclass(frozen=True)
class EstimateAnswer(Answer):
    """The targets of the workload, and every default that was taken."""

    estimate: Estimate

    def headline(self) -> str:
        """The cost with its interval, and of a training run the time."""
        found = self.estimate
        if found.served_cost is not None:
            ends = found.served_cost_interval or (None, None)
            cost = figure(found.served_cost, parse_unit("USD"), *ends)
            return f"{cost.text}{cost.interval} for all output tokens: {found.report.preset}"
        said = [
            f"{target.resolution.said} {_IN_WORDS[target.target]}".strip()
            for target in found.report.targets
            if target.target in _IN_WORDS and target.resolution and target.resolution.said
        ]
        return f"{', '.join(said)}: {found.report.preset}" if said else ""

    def view(self) -> list[Any]:
        """What the terminal prints: the targets, what does not hold, and the defaults."""
        found = self.estimate
        targets = [
            {
                "target": target.label, "value": target.resolution.said if target.resolution else "",
                "variable": target.target, "issues": "; ".join(target.issues),
            }
            for target in found.report.targets
        ]  # fmt: skip
        defaults = [
            {"default": each.name, "value": each.figure, "why": each.reason}
            for each in found.defaults
        ]
        return [targets, {"violated": found.report.violated, "defaults": defaults}]

    def to_json(self) -> dict[str, Any]:
        """The estimate as JSON data."""
        return self.estimate.to_data()


class Tariffs(TypedDict, total=False):
    """Prices and a PUE of one's own, each optional."""

    electricity: float
    """USD per kWh, all charges and taxes included."""
    pue: float
    price: float
    """USD for one GPU."""
    rent: float
    """USD per GPU-hour, electricity included: the GPUs are rented."""


_IN_WORDS: Final = {"econ.run.total_cost": "", "econ.run.duration": "to train"}
"""Targets of the headline of a training run, and what follows their values."""
_SAID: Final = {"set": "assign", "values": "assign", "at": "where", "gpu": "accelerator"}
"""Words of the command line, by the keywords of the function."""
METHODS: Final = ("pretraining", "full", "lora")


@takes(Tariffs.__annotations__, _SAID)
def estimate(
    model: str,
    accelerator: str,
    tokens: str,
    where: str,
    *,
    serving: bool = False,
    gpus: int | None = None,
    days: float | None = None,
    method: str = "pretraining",
    rank: int | None = None,
    format: str | None = None,
    assign: Sequence[str] | Mapping[str, str] | None = None,
    offer: str | None = None,
    fail_on_violated: bool = False,
    **tariffs: Unpack[Tariffs],
) -> EstimateAnswer:
    """Estimate what training on, or serving, so many tokens costs; every default is listed.

    `method` is pretraining, full (fine-tuning of all weights) or lora (of adapters of a `rank`);
    `format` that of the GEMMs in training (bf16, fp8, fp4) or of the weights in serving, the
    model's own if not given. `assign` gives any variable a value; `offer` rents the GPUs, as
    `PROVIDER` or `PROVIDER:TERMS`.
    """
    if gpus is not None and not 1 <= gpus <= 10_000_000:
        raise InputError(f"gpus: expected 1 to 10,000,000, got {gpus}")
    if days is not None and not 0 < days < 1e5:
        raise InputError(f"days: expected a number above 0, got {days:g}")
    if method not in METHODS:
        raise unknown_name("method", method, METHODS)
    if rank is not None and not 1 <= rank <= 65_536:
        raise InputError(f"rank: expected 1 to 65,536, got {rank}")
    if rank is not None and method != "lora":
        raise InputError(
            f"rank: expected --method lora, got {method}", "other methods train all weights"
        )
    trains_only = {
        "gpus": gpus,
        "days": days,
        "method": None if method == "pretraining" else method,
    }
    for name, value in trains_only.items():
        if serving and value is not None:
            raise InputError(
                f"{name}: expected a training job, got --serving",
                "--set serving.tensor=N gives the GPUs of a deployment",
            )
    workload = "serving" if serving else "training"
    given = {**_stated(tariffs), **read_pairs("--set", 'name="value unit"', assign)}
    estimated = estimate_workload(
        built_in.preset(BASES[workload]),
        workload,
        (model, accelerator, tokens, where),
        gpus=gpus,
        days=MAX_DAYS if days is None else days,
        method=Method(
            method, (rank or DEFAULT_RANK) if method == "lora" else 0, format and format.lower()
        ),
        given=given,
        offer=offer,
    )
    problem = target_problem(
        estimated.report.targets, fail_on_violated=fail_on_violated, allow_conflicts=False
    )
    late = _late(estimated, gpus, days)
    published = _published_hours(estimated) if method == "pretraining" and not serving else []
    return EstimateAnswer(estimated, problem=problem, notes=[*published, *late, *_notes(estimated)])


def _published_hours(estimated: Estimate) -> list[str]:
    """GPU-hours by what published runs were charged for, which is more than steps and failures.

    An estimate is of the best layout in today's software, stopped by failures only. Hours of whole
    runs have older software, slower phases and evaluation in them, on every accelerator alike:
    `assay validate` scores them with a yield that is fitted to them.
    """
    preset, name = estimated.preset, "training.run_yield"
    hours = preset.registry.resolve(
        "training.time_to_train", preset.exact_inputs, preset.variants, intervals=False
    ).value
    if hours is None:
        return []
    calibration = constants.find(constants.COMMON)
    times = 1 / calibration.values[name]
    spread = math.exp(_NORMAL_95 * calibration.log_standard_errors[name])
    charged = times * hours * preset.inputs.values[GPUS] / 3600
    return [
        f"published runs were charged for {times:.1f} times the GPU-hours that their steps are "
        f"predicted to take (90 %: {times / spread:.1f} to {times * spread:.1f}): a run like them "
        f"takes {float(f'{charged:.3g}'):,.0f} GPU*h"
    ]


def _late(estimated: Estimate, gpus: int | None, days: float | None) -> list[str]:
    """That the GPUs asked for take longer than the days asked for."""
    if gpus is None or days is None:
        return []
    taken = estimated.preset.registry.resolve(
        "econ.run.duration", estimated.preset.exact_inputs, estimated.preset.variants,
        intervals=False,
    ).require_value() / 86400  # fmt: skip
    if taken <= days:
        return []
    return [
        f"{gpus:,} GPUs take {taken:.3g} days with interruptions, more than the {days:g} asked for"
    ]


def _stated(tariffs: Tariffs) -> dict[str, str]:
    """Values of the graph that prices of one's own are."""
    given: dict[str, str] = {}
    for name, number in tariffs.items():
        if not isinstance(number, int | float) or not 0 <= number < 1e12:
            raise InputError(f"{name}: expected a number of 0 or more, got {number}")
    if "electricity" in tariffs:
        given["econ.electricity.price"] = f"{tariffs['electricity']!r} USD/kWh"
    if "pue" in tariffs:
        if tariffs["pue"] < 1:
            raise InputError(f"pue: expected 1 or more, got {tariffs['pue']:g}")
        given["thermal.dc.pue"] = repr(tariffs["pue"])
    if "price" in tariffs:
        given["econ.gpu.price"] = f"{tariffs['price']!r} USD/GPU"
    if "rent" in tariffs:
        given |= {
            "econ.rent.price": f"{tariffs['rent']!r} USD/(h*GPU)", "econ.rented": "1",
            "econ.rent.includes_power": "1",
        }  # fmt: skip
    return given


def _notes(estimated: Estimate) -> list[str]:
    notes = list(estimated.report.notes)
    if estimated.utilization is not None and estimated.utilization < LOW_UTILIZATION:
        losses = [
            f"{what} {share:.0%}" for what, share in estimated.losses.items() if share >= 0.01
        ]
        notes.insert(
            0,
            f"MFU is only {estimated.utilization:.0%} with the best layout of those tried; "
            f"of a step take {', '.join(losses)}",
        )
    return notes
