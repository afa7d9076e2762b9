"""Cost, time and emissions from a model, an accelerator, tokens and a place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypedDict, Unpack

from assay.answers import Answer
from assay.errors import InputError, unknown_name
from assay.scenario import built_in
from assay.scenario.estimate import BASES, MAX_DAYS, Estimate, estimate as estimate_workload
from assay.scenario.question import read_pairs
from assay.scenario.questions.reporting import target_problem
from assay.scenario.workloads import DEFAULT_RANK, Method

LOW_UTILIZATION: Final = 0.25
"""MFU below which the answer says where the time goes."""


@dataclass(frozen=True)
class EstimateAnswer(Answer):
    """The targets of the workload, and every default that was taken."""

    estimate: Estimate

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


METHODS: Final = ("pretraining", "full", "lora")


def estimate(
    model: str,
    accelerator: str,
    tokens: str,
    where: str,
    *,
    serving: bool = False,
    gpus: int | None = None,
    days: float = MAX_DAYS,
    method: str = "pretraining",
    rank: int = DEFAULT_RANK,
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
    if not 0 < days < 1e5:
        raise InputError(f"days: expected a number above 0, got {days:g}")
    if method not in METHODS:
        raise unknown_name("method", method, METHODS)
    if not 1 <= rank <= 65_536:
        raise InputError(f"rank: expected 1 to 65,536, got {rank}")
    if serving and method != "pretraining":
        raise InputError(f"method {method}: expected training, got --serving")
    workload = "serving" if serving else "training"
    given = {**_stated(tariffs), **read_pairs("--set", 'name="value unit"', assign)}
    estimated = estimate_workload(
        built_in.preset(BASES[workload]),
        workload,
        (model, accelerator, tokens, where),
        gpus=gpus,
        days=days,
        method=Method(method, rank if method == "lora" else 0, format and format.lower()),
        given=given,
        offer=offer,
    )
    problem = target_problem(
        estimated.report.targets, fail_on_violated=fail_on_violated, allow_conflicts=False
    )
    return EstimateAnswer(estimated, problem=problem, notes=_notes(estimated))


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
