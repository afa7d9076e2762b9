"""Claims on the cost and energy of an output token; without price or power, a named gap."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from assay.improve.loop.record import RunRecord
from assay.report import derivations as rules, words
from assay.report.claim import Claim, Evidence
from assay.report.energy import mean_power
from assay.report.price import Price
from assay.report.receipt import COST, ENERGY, receipt
from assay.report.run_files import EXPERIMENTS, STATE, RunFiles, selected

COST_UNIT: Final = "USD per million output tokens"
ENERGY_UNIT: Final = "J per output token"
_ARMS: Final = (
    ("start", "control", "with the starting settings"),
    ("final", "treatment", "with the kept settings"),
)

Make = Callable[..., Iterator[Claim]]


@dataclass(frozen=True, slots=True)
class _Side:
    """Settings whose blocks are priced: of the whole run, or of one kept trial."""

    name: str
    """Of the claims: cost.NAME and energy.NAME."""
    select: Mapping[str, Any]
    meaning: str
    changes: Mapping[str, Any] = field(default_factory=dict)


def cost_claims(
    record: RunRecord, price: Price | None, files: RunFiles, make: Make, gaps: list[str]
) -> Iterator[Claim]:
    """Cost and energy with the starting and the kept settings, and before and after each win."""
    sides = _sides(record, files)
    if not sides:
        return
    if price is None:
        gaps.append("cost per token is not claimed: no price of the machine was given (--price)")
    else:
        hourly = price.usd_per_hour * (record.devices if price.per_device else 1)
        for side in sides:
            yield from _cost(side, hourly, price.source, record, make)
    if not files.has(STATE):
        gaps.append("energy per token is not claimed: the run has no telemetry (state.parquet)")
        return
    if all(_power(side, files) is None for side in sides):
        gaps.append(
            "energy per token is not claimed: telemetry has no energy counter or power with two "
            "samples inside a block"
        )
        return
    for side in sides:
        yield from _energy(side, record, files, make, gaps)


def _sides(record: RunRecord, files: RunFiles) -> list[_Side]:
    measured = {row["experiment"] for row in files.blocks} if files.has(EXPERIMENTS) else set()
    sides = []
    if record.confirmation is not None and record.confirmation.experiment in measured:
        name = record.confirmation.experiment
        sides = [
            _Side(side, {"experiment": name, "arm": arm}, meaning) for side, arm, meaning in _ARMS
        ]
    elif record.noise is not None and record.noise.experiment in measured:
        sides = [_Side("start", {"experiment": record.noise.experiment}, _ARMS[0][2])]
    kept = {result.experiment for result in record.outcome.kept}
    for trial in record.experiments:
        if trial.experiment in measured & kept:
            changes = words.settings(trial.candidate.changes)
            sides += [
                _Side(
                    f"{trial.experiment}.{arm}",
                    {"experiment": trial.experiment, "arm": arm},
                    f"{preposition} {changes}",
                    trial.candidate.changes,
                )
                for arm, preposition in (("control", "before"), ("treatment", "after"))
            ]
    return sides


def _power(side: _Side, files: RunFiles) -> float | None:
    blocks = [row for row in selected(files.blocks, side.select) if not row["dropped"]]
    return mean_power(files.state, blocks)


def _cost(
    side: _Side, hourly: float, source: str, record: RunRecord, make: Make
) -> Iterator[Claim]:
    parameters = {"confidence": record.confidence, "usd_per_hour": hourly}
    evidence = Evidence(EXPERIMENTS, rules.COST, side.select, parameters)
    text = f"cost {side.meaning}: {{figure}}"
    for claim in make(f"cost.{side.name}", text, COST_UNIT, evidence, details=_about(side)):
        if claim.figure is None:
            continue
        rate = hourly / 3600 / (claim.figure.value / 1e6)
        rows = receipt(COST, rate, hourly, source, _measured(side))
        yield _with_receipt(claim, rows)


def _energy(
    side: _Side, record: RunRecord, files: RunFiles, make: Make, gaps: list[str]
) -> Iterator[Claim]:
    power = _power(side, files)
    if power is None:
        gaps.append(f"energy {side.meaning} is not claimed: no power was sampled in its blocks")
        return
    evidence = Evidence(EXPERIMENTS, rules.ENERGY, side.select, {"confidence": record.confidence})
    text = f"energy {side.meaning}: {{figure}}"
    for claim in make(f"energy.{side.name}", text, ENERGY_UNIT, evidence, details=_about(side)):
        if claim.figure is None:
            continue
        rate = power / claim.figure.value
        source = "state.parquet: mean power during the blocks"
        yield _with_receipt(claim, receipt(ENERGY, rate, power, source, _measured(side)))


def _about(side: _Side) -> dict[str, Any]:
    if not side.changes:
        return {}
    return {"trial": side.select["experiment"], "changes": dict(side.changes)}


def _measured(side: _Side) -> str:
    chosen = ", ".join(f"{name} {value}" for name, value in side.select.items())
    return f"experiments.parquet: median of the blocks of {chosen}"


def _with_receipt(claim: Claim, entries: list[dict[str, Any]]) -> Claim:
    return replace(claim, details={**claim.details, "receipt": entries})
