"""Claims on the cost and energy of an output token; without price or power, a named gap."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from assay.report import derivations as rules
from assay.report.claim import Claim, Evidence
from assay.report.energy import mean_power
from assay.report.receipt import COST, ENERGY, receipt
from assay.report.record import RunRecord
from assay.report.run_files import EXPERIMENTS, STATE, RunFiles, selected

COST_UNIT: Final = "USD per million output tokens"
ENERGY_UNIT: Final = "J per output token"
_ARMS: Final = (
    ("start", "control", "the starting settings"),
    ("final", "treatment", "the kept settings"),
)

Make = Callable[..., Iterator[Claim]]


def cost_claims(record: RunRecord, files: RunFiles, make: Make, gaps: list[str]) -> Iterator[Claim]:
    """Cost and energy with the starting and with the kept settings."""
    sides = _sides(record, files)
    if not sides:
        return
    if record.price is None:
        gaps.append("cost per token is not claimed: no price of the machine was given (--price)")
    else:
        hourly = record.price.usd_per_hour * (record.devices if record.price.per_device else 1)
        for side, select, meaning in sides:
            yield from _cost(side, select, meaning, hourly, record, make)
    if not files.has(STATE):
        gaps.append("energy per token is not claimed: the run has no telemetry (state.parquet)")
        return
    for side, select, meaning in sides:
        yield from _energy(side, select, meaning, record, files, make, gaps)


def _sides(record: RunRecord, files: RunFiles) -> list[tuple[str, dict[str, Any], str]]:
    if not files.has(EXPERIMENTS):
        return []
    measured = {row["experiment"] for row in files.blocks}
    if record.confirmation is not None and record.confirmation.experiment in measured:
        name = record.confirmation.experiment
        return [(side, {"experiment": name, "arm": arm}, meaning) for side, arm, meaning in _ARMS]
    if record.noise is not None and record.noise.experiment in measured:
        return [("start", {"experiment": record.noise.experiment}, _ARMS[0][2])]
    return []


def _cost(
    side: str, select: dict[str, Any], meaning: str, hourly: float, record: RunRecord, make: Make
) -> Iterator[Claim]:
    assert record.price is not None
    parameters = {"confidence": record.confidence, "usd_per_hour": hourly}
    evidence = Evidence(EXPERIMENTS, rules.COST, select, parameters)
    for claim in make(f"cost.{side}", f"cost with {meaning}: {{figure}}", COST_UNIT, evidence):
        if claim.figure is None:
            continue
        rate = hourly / 3600 / (claim.figure.value / 1e6)
        rows = receipt(COST, rate, hourly, record.price.source, _measured(select))
        yield _with_receipt(claim, rows)


def _energy(
    side: str, select: dict[str, Any], meaning: str, record: RunRecord, files: RunFiles,
    make: Make, gaps: list[str],
) -> Iterator[Claim]:  # fmt: skip
    blocks = [row for row in selected(files.blocks, select) if not row["dropped"]]
    power = mean_power(files.state, blocks)
    if power is None:
        gaps.append(f"energy with {meaning} is not claimed: no samples of power during its blocks")
        return
    evidence = Evidence(EXPERIMENTS, rules.ENERGY, select, {"confidence": record.confidence})
    text = f"energy with {meaning}: {{figure}}"
    for claim in make(f"energy.{side}", text, ENERGY_UNIT, evidence):
        if claim.figure is None:
            continue
        rate = power / claim.figure.value
        source = "state.parquet: mean power during the blocks"
        yield _with_receipt(claim, receipt(ENERGY, rate, power, source, _measured(select)))


def _measured(select: dict[str, Any]) -> str:
    chosen = ", ".join(f"{name} {value}" for name, value in select.items())
    return f"experiments.parquet: median of the blocks of {chosen}"


def _with_receipt(claim: Claim, entries: list[dict[str, Any]]) -> Claim:
    import dataclasses

    return dataclasses.replace(claim, details={**claim.details, "receipt": entries})
