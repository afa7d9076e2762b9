"""Whether to try at all: how near the engine is to the floor of its workload."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from assay.errors import AssayError
from assay.improve.levers.facts import workload_facts
from assay.improve.policy.known import Known
from assay.improve.policy.step_ratio import PLANNED_ENGINES

ENOUGH: Final = 0.9
"""Share of the floor above which no lever is tried: less than a tenth is left to gain."""


@dataclass(frozen=True, slots=True)
class Qualification:
    """Commit to experiments, or diagnose only."""

    commit: bool
    sentence: str
    floor_share: float | None = None
    """Time at the floor over time observed, at most 1; None where no floor is known."""
    source: str = ""
    """planner, or waterfall of the traced step."""


def qualify(known: Known, enough: float = ENOUGH) -> Qualification:
    """Compare what was observed with the floor of the workload, in its own format and model.

    The floor of a closed loop is that of a batch of all its requests: an engine that runs them one
    by one is far from it, however fast its steps are.
    """
    share, source, missing = _floor_share(known)
    if share is None:
        return Qualification(
            True, f"no floor is known ({missing}): levers are tried without one", None
        )
    percent = f"{share:.0%}"
    if share >= enough:
        return Qualification(
            False,
            f"the engine is at {percent} of the floor by the {source}: less than "
            f"{1 - enough:.0%} is left to gain at this model and format, no lever is tried",
            share,
            source,
        )
    return Qualification(
        True,
        f"the engine is at {percent} of the floor by the {source}: up to {1 / share:.2f} times "
        "is left",
        share,
        source,
    )


def _floor_share(known: Known) -> tuple[float | None, str, str]:
    planned, missing = _planned_share(known)
    if planned is not None:
        return min(planned, 1.0), "planner", ""
    if known.diagnosis is not None:
        waterfall = known.diagnosis.residuals.waterfall
        floor = next((term.ns for term in waterfall.terms if term.name == "floor"), 0.0)
        if floor > 0 and waterfall.observed_ns > 0:
            return min(floor / waterfall.observed_ns, 1.0), "waterfall of the traced step", ""
    return None, "", missing


def _planned_share(known: Known) -> tuple[float | None, str]:
    """The floor of serving each request of the loop once, over the time that it took."""
    from assay.planner.predict import predict_graph
    from assay.planner.specs import BatchConfig

    model, hardware, engine = known.model, known.hardware, known.description.engine
    if model is None:
        return None, "no shapes of the model"
    if hardware is None:
        return None, "no ceilings of the machine; the degradations say why"
    if engine not in PLANNED_ENGINES:
        return None, f"the planner does not know the kernels of {engine}"
    throughput = known.figure("output_throughput")
    if throughput is None:
        return None, "no throughput was measured"
    if known.workload.arrival != "closed":
        return None, "an open loop offers a load of its own"
    batch = known.at_once(None)
    outputs = known.mean_output()
    # A shared prefix need be computed once: the floor leaves it out.
    own_share = 1.0 - float(workload_facts(known.workload)["prefix_share"])
    prompt = max(round(known.mean_prompt() * own_share), 1)
    common = {"engine": engine, "weight_dtype": model.weight_dtype or "bf16"}
    try:
        step = (
            predict_graph(
                model,
                hardware,
                BatchConfig(sequences=batch, context=known.mean_context(), **common),  # type: ignore[arg-type]
            )
            .totals["floor"]
            .value
        )
        prefill = (
            predict_graph(
                model,
                hardware,
                BatchConfig(sequences=0, prefill_tokens=prompt, **common),  # type: ignore[arg-type]
            )
            .totals["floor"]
            .value
        )
    except (AssayError, KeyError) as error:
        return None, f"no prediction: {error}"
    floor_s = (batch * prefill + outputs * step) / 1e9
    return floor_s / (batch * outputs / throughput), ""
