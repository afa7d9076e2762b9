"""`/plan`: servers for a rate by limits of latency, and the plan within one pair of them."""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, Final

from fastapi import APIRouter, Query
from fastapi.responses import Response

from assay.answers import Answer
from assay.catalog import accelerators, entries, models
from assay.errors import InputError, unknown_name
from assay.load.capacity import plan_by_limits, plan_capacity
from assay.planner.capacity.planning import GPUS
from assay.ui.api.reports import REFUSALS, answer, send

router = APIRouter(tags=["plan"], responses=REFUSALS)

_MOST_GPUS: Final = 6
_USUAL: Final = ",".join(GPUS)
_LENGTHS: Final = r"^\d{1,6}(-\d{1,6})?$|^lognormal:\d{1,6},\d(\.\d{1,3})?$"
"""Lengths by numbers alone: the command line also reads files, which a request must not."""

Model = Annotated[str, Query(max_length=100, description="A model of the catalog.")]
Rate = Annotated[float, Query(gt=0, le=1e6, description="Requests per second.")]
Lengths = Annotated[str, Query(pattern=_LENGTHS, description="128, 64-256 or lognormal:180,0.8.")]
Gpus = Annotated[str, Query(max_length=200, description="Accelerators, with commas.")]
Share = Annotated[
    float, Query(ge=0.5, le=0.999, description="Of requests that keep the limits together.")
]
Apart = Annotated[bool, Query(description="Also prefill and decode workers apart.")]
Limit = Annotated[float, Query(gt=0, le=1e4, description="In seconds.")]


@router.get("/plan/by-limits")
def by_limits(
    model: Model = "llama-3.1-8b", rate: Rate = 100.0, input: Lengths = "lognormal:665,1",
    output: Lengths = "lognormal:148,0.8", gpus: Gpus = _USUAL, share: Share = 0.99,
    disaggregated: Apart = False,
) -> Response:  # fmt: skip
    """What each server serves by limits of TTFT and TPOT: `assay plan --by-slo --json`."""
    return answer(
        lambda: _by_limits(_model(model), rate, input, output, _gpus(gpus), share, disaggregated)
    )


@router.get("/plan/within")
def within(
    model: Model = "llama-3.1-8b", rate: Rate = 100.0, input: Lengths = "lognormal:665,1",
    output: Lengths = "lognormal:148,0.8", gpus: Gpus = _USUAL, share: Share = 0.99,
    disaggregated: Apart = False, ttft: Limit = 1.0, tpot: Limit = 0.05,
) -> Response:  # fmt: skip
    """The plan within one pair of limits: `assay plan --slo ttft=..,tpot=..,p=.. --json`."""
    slo = f"ttft={1e3 * ttft:g}ms,tpot={1e3 * tpot:g}ms,p={100 * share:g}%"
    return answer(
        lambda: _within(_model(model), rate, input, output, _gpus(gpus), slo, disaggregated)
    )


@router.get("/plan/choices")
def choices() -> Response:
    """Models and accelerators of the catalog that a plan may have."""
    modeled = [
        entry.name for entry in entries.entries("accelerators") if entry.facts.get("calibration")
    ]
    return send({"models": list(models.names()), "gpus": modeled})


@lru_cache(8)
def _by_limits(
    model: str, rate: float, input: str, output: str, gpus: tuple[str, ...], share: float,
    apart: bool,
) -> Answer:  # fmt: skip
    return plan_by_limits(
        model=model, rate=rate, share=share, gpus=gpus, apart=apart, input_tokens=input,
        output_tokens=output,
    )  # fmt: skip


@lru_cache(32)
def _within(
    model: str, rate: float, input: str, output: str, gpus: tuple[str, ...], slo: str, apart: bool
) -> Answer:
    return plan_capacity(
        model=model, rate=rate, slo=slo, gpus=gpus, apart=apart, input_tokens=input,
        output_tokens=output,
    )  # fmt: skip


def _model(name: str) -> str:
    """A model of the catalog: a request may not name a file of this machine."""
    if name not in models.names():
        raise unknown_name("model", name, models.names())
    return name


def _gpus(text: str) -> tuple[str, ...]:
    names = tuple(word.strip() for word in text.split(",") if word.strip())
    if not 0 < len(names) <= _MOST_GPUS:
        raise InputError(f"gpus: expected 1 to {_MOST_GPUS} accelerators, got {len(names)}")
    return tuple(accelerators.find(name).name for name in names)
