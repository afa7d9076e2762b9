"""The claims of a run: every figure derived from the rows of its files by a named rule."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, Final

from assay.answers import data_of
from assay.errors import InputError
from assay.improve.experiments.result import ExperimentResult
from assay.improve.loop.record import RunRecord
from assay.intervals import Interval
from assay.report import derivations as rules, words
from assay.report.claim import Claim, Evidence
from assay.report.cost_claims import cost_claims
from assay.report.pareto import pareto_claims
from assay.report.price import Price
from assay.report.run_files import EXPERIMENTS, JOURNAL, PLAN, RESIDUALS, RunFiles, selected
from assay.report.waterfall import FLOOR_SHARE, waterfall

FIGURE: Final = "{figure}"
"""Where the figure stands in the text of a statement."""

START, FINAL, RATIO = "start.level", "final.level", "final.ratio"
START_OWN, FINAL_OWN = "start.own_unit", "final.own_unit"
NOISE, STARTS = "noise.ratio", "noise.starts"
CHANGED: Final = "answers.changed"
MOST_CAUSES: Final = 8


def stated(text: str, figure: Interval | None, unit: str) -> str:
    """A statement: its text with the figure written in."""
    return text.replace(FIGURE, words.shown(figure, unit))


def build(
    record: RunRecord, files: RunFiles, price: Price | None = None
) -> tuple[list[Claim], list[str]]:
    """The claims of a run, and what could not be claimed and why."""
    builder = _Builder(record, files)
    claims = [
        *builder.headline(),
        *pareto_claims(record, files, builder.claim),
        *builder.noise(),
        *builder.answers(),
        *builder.experiments(),
        *builder.left_out(),
        *builder.waterfall(),
        *builder.causes(),
        *builder.forecasts(),
        *builder.counts(),
        *cost_claims(record, price, files, builder.claim, builder.gaps),
    ]
    return claims, builder.gaps


class _Builder:
    def __init__(self, record: RunRecord, files: RunFiles) -> None:
        self.record = record
        self.files = files
        self.gaps: list[str] = []
        self.metric = words.metric_name(record.outcome.metric)
        self.unit = words.metric_unit(record.outcome.metric)
        self.compared = {"better": record.better, "confidence": record.confidence}
        self.measured = (
            {block["experiment"] for block in files.blocks} if self._has_blocks() else set()
        )

    def _has_blocks(self) -> bool:
        return self.files.has(EXPERIMENTS)

    def claim(
        self, name: str, text: str, unit: str, evidence: Evidence, **rest: Any
    ) -> Iterator[Claim]:
        """A claim where its rule finds the rows that it needs; else none."""
        try:
            figure = rules.derive(self.files, evidence)
        except InputError as error:
            self.gaps.append(f"{name} is not claimed: {error.message}")
            return
        details = {"text": text, **rest.pop("details", {})}
        yield Claim(
            name, stated(text, figure, unit), figure, unit, (evidence,), details=details, **rest
        )

    def blocks(self, rule: str, **select: Any) -> Evidence:
        """Evidence in experiments.parquet."""
        return Evidence(EXPERIMENTS, rule, select, self.compared)

    def headline(self) -> Iterator[Claim]:
        """The level before and after, and their ratio."""
        confirmation, noise = self.record.confirmation, self.record.noise
        stack = "kept settings" if self.record.outcome.verdict == "improved" else "tried stack"
        text = f"{self.metric} with the starting settings: {FIGURE}"
        if confirmation is not None and confirmation.experiment in self.measured:
            name = confirmation.experiment
            yield from self.claim(
                START, text, self.unit, self.blocks(rules.MEDIAN, experiment=name, arm="control")
            )
            yield from self.claim(
                FINAL,
                f"{self.metric} with the {stack}: {FIGURE}",
                self.unit,
                self.blocks(rules.MEDIAN, experiment=name, arm="treatment"),
            )
            yield from self.claim(
                RATIO,
                f"{stack} over the start, {self.metric}: {FIGURE}",
                words.RATIO,
                self.blocks(rules.RATIO, experiment=name),
                intervention=words.change(self.record.start, confirmation.candidate.changes),
                verdict=confirmation.verdict,
                details=of_result(confirmation, "confirmation"),
            )
            for claim_name, what, arm in (
                (START_OWN, "the starting settings", "control"),
                (FINAL_OWN, f"the {stack}", "treatment"),
            ):
                yield from self.own_unit(claim_name, what, experiment=name, arm=arm)
        elif noise is not None and noise.experiment in self.measured:
            yield from self.claim(
                START, text, self.unit, self.blocks(rules.MEDIAN, experiment=noise.experiment)
            )
            yield from self.own_unit(
                START_OWN, "the starting settings", experiment=noise.experiment
            )

    def own_unit(self, name: str, what: str, **select: Any) -> Iterator[Claim]:
        """A rate of requests in the unit of a workload on arrays."""
        shape = self.record.outcome.data_set
        if shape is None or self.record.outcome.metric != "request_throughput":
            return
        known = {**self.compared, **data_of(shape, "scale is_time")}
        evidence = Evidence(EXPERIMENTS, rules.OWN_UNIT, select, known)
        text = f"the same with {what}, in the unit of the workload: {FIGURE}"
        yield from self.claim(name, text, shape.unit, evidence)

    def noise(self) -> Iterator[Claim]:
        """The A/A experiment, which is of one start, and what differs between starts."""
        noise = self.record.noise
        if noise is not None and noise.experiment in self.measured:
            yield from self.claim(
                NOISE,
                f"the starting settings against themselves, without a restart (A/A): {FIGURE}",
                words.RATIO,
                self.blocks(rules.RATIO, experiment=noise.experiment),
                verdict=noise.verdict,
                details=of_result(noise, "noise"),
            )
        tried = (*self.record.experiments, *self.record.left_out.values(), self.record.confirmation)
        if any(result is not None and result.design.shares_starts for result in tried):
            yield from self.claim(
                STARTS,
                f"starts of equal settings differ by a standard deviation of {FIGURE}",
                words.PERCENT,
                Evidence(EXPERIMENTS, rules.STARTS, {}),
            )

    def answers(self) -> Iterator[Claim]:
        """The workload's own answers: how many were compared, and how many changed wrongly at most."""
        for name, result, what in (
            ("noise", self.record.noise, "with the starting settings, twice"),
            ("answers", self.record.confirmation, "of the kept settings and of the start"),
        ):
            if result is None or result.answers is None or not result.answers.total:
                continue
            select = {"experiment": result.experiment}
            known = {"confidence": self.record.answer_confidence}
            row = result.answers.row
            counted = ("runs of data sets", "runs") if row else ("answers", "answers")
            yield from self.claim(
                f"{name}.compared", f"{counted[0]} compared, {what}: {FIGURE}", counted[1],
                Evidence(JOURNAL, rules.COMPARED, select),
            )  # fmt: skip
            if result.answers.near_ties:
                yield from self.claim(
                    f"{name}.divergence",
                    f"where such answers differ, the token is behind the one expected by {FIGURE}",
                    "nats",
                    Evidence(JOURNAL, rules.DIVERGENCE, select),
                )
            if name == "answers":
                yield from self.claim(
                    CHANGED, f"{row or 'answers'} wrongly changed by the kept settings: {FIGURE}",
                    words.PERCENT, Evidence(JOURNAL, rules.CHANGED, select, known),
                )  # fmt: skip

    def experiments(self) -> Iterator[Claim]:
        """Every trial, failed ones too."""
        for result in self.record.experiments:
            yield from self.trial(result)

    def trial(self, result: ExperimentResult) -> Iterator[Claim]:
        """One trial: its ratio where it was measured, else what became of it."""
        changes = result.candidate.changes
        before = {knob: self._before(result, knob) for knob in changes}
        name = f"experiment.{result.experiment}.ratio"
        details = of_result(result, self._role(result))
        intervention = words.change(before, changes)
        evidence = Evidence(JOURNAL, "verdict", {"experiment": result.experiment})
        rows = selected(self._rows(), {"experiment": result.experiment})
        if rules.looks(rows, self.record.better, 1 - self.record.confidence):
            ratios = list(
                self.claim(
                    name,
                    f"{words.settings(changes)}: {FIGURE}, {result.verdict}",
                    words.RATIO,
                    self.blocks(rules.RATIO, experiment=result.experiment),
                    intervention=intervention,
                    verdict=result.verdict,
                    details=details,
                )
            )
            yield from (_with(claim, evidence) for claim in ratios)
            return
        what = result.failure or "no complete pair of blocks"
        text = f"{words.settings(changes)}: {what}, {result.verdict}"
        yield Claim(
            name, text, None, words.RATIO, (evidence,), intervention, result.verdict,
            {"text": text, **details},
        )  # fmt: skip

    def _rows(self) -> Any:
        return self.files.blocks if self._has_blocks() else ()

    def _before(self, result: ExperimentResult, knob: str) -> Any:
        """The value of a knob in the control arm: as it was read back, else as the run started."""
        for block in result.blocks:
            if block.arm == "control" and knob in block.settings:
                return block.settings[knob]
        return self.record.start.get(knob)

    def _role(self, result: ExperimentResult) -> str:
        outcome = self.record.outcome
        for role in ("kept", "undecided", "rejected"):
            if any(tried.experiment == result.experiment for tried in getattr(outcome, role)):
                return role
        return {"improved": "not kept", "undecided": "undecided"}.get(result.verdict, "rejected")

    def left_out(self) -> Iterator[Claim]:
        """What each kept lever is worth in the stack."""
        for lever, result in self.record.left_out.items():
            yield from self.claim(
                f"worth.{lever}.ratio",
                f"{lever} in the kept stack, with over without: {FIGURE}",
                words.RATIO,
                self.blocks(rules.RATIO, experiment=result.experiment),
                verdict=result.verdict,
                details={**of_result(result, "left out"), "lever": lever},
            )

    def waterfall(self) -> Iterator[Claim]:
        """The median step from its floor to what was observed."""
        if not self.files.has(RESIDUALS):
            return
        for term, figure in waterfall(self.files.steps):
            evidence = Evidence(RESIDUALS, rules.TERM, {}, {"term": term})
            if figure.hi > 0 and term != FLOOR_SHARE:
                text = f"{term.replace('_', ' ')}: {FIGURE}"
                yield from self.claim(f"waterfall.{term}", text, "us", evidence)
        evidence = Evidence(RESIDUALS, rules.TERM, {}, {"term": FLOOR_SHARE})
        if any(name == FLOOR_SHARE for name, _ in waterfall(self.files.steps)):
            yield from self.claim(
                "waterfall.share", f"the floor is {FIGURE} of the starting step",
                words.PERCENT, evidence,
            )  # fmt: skip

    def causes(self) -> Iterator[Claim]:
        """What the diagnosis says the starting step waits for, the largest first."""
        causes = self.files.plan.get("causes") if self.files.has(PLAN) else None
        for place, cause in enumerate((causes or [])[:MOST_CAUSES]):
            name = str(cause.get("name"))
            yield from self.claim(
                f"cause.{place + 1}", f"{name}: {FIGURE}", "us per token",
                Evidence(PLAN, rules.CAUSE, {}, {"cause": name}),
            )  # fmt: skip

    def forecasts(self) -> Iterator[Claim]:
        """How good the forecasts were."""
        evidence = Evidence(JOURNAL, rules.COVERAGE, {"kind": "experiment"}, self.compared)
        scored = rules.forecasts(self.files, evidence) if self._has_blocks() else []
        if not scored:
            self.gaps.append("forecasts are not scored: no trial had both forecast and ratio")
            return
        listed = [
            {"experiment": name, "forecast": forecast._asdict(), "outcome": after._asdict()}
            for name, forecast, after in scored
        ]
        yield from self.claim(
            "forecast.count", f"forecasts with an outcome: {FIGURE}", "trials",
            Evidence(JOURNAL, rules.FORECASTS, {"kind": "experiment"}, self.compared),
        )  # fmt: skip
        yield from self.claim(
            "forecast.coverage",
            f"outcomes inside the forecast's interval: {FIGURE}",
            words.PERCENT,
            evidence,
            details={"scored": listed},
        )
        yield from self.claim(
            "forecast.error",
            f"median error of the forecasts: {FIGURE}",
            words.PERCENT,
            Evidence(JOURNAL, rules.ERROR, {"kind": "experiment"}, self.compared),
        )

    def counts(self) -> Iterator[Claim]:
        """How much was measured, and how much of it was dropped."""
        if not self._has_blocks():
            return
        yield from self.claim(
            "blocks.counted", f"measured blocks that count: {FIGURE}", "blocks",
            Evidence(EXPERIMENTS, rules.COUNT, {}, {"is_dropped": False}),
        )  # fmt: skip
        yield from self.claim(
            "blocks.dropped", f"measured blocks that were dropped: {FIGURE}", "blocks",
            Evidence(EXPERIMENTS, rules.COUNT, {}, {"is_dropped": True}),
        )  # fmt: skip


def _with(claim: Claim, evidence: Evidence) -> Claim:
    return dataclasses.replace(claim, evidence=(*claim.evidence, evidence))


def of_result(result: ExperimentResult, role: str) -> dict[str, Any]:
    """What a reader wants to know of an experiment besides its ratio."""
    dropped: dict[str, int] = {}
    for block in result.blocks:
        if block.dropped:
            dropped[block.dropped] = dropped.get(block.dropped, 0) + 1
    candidate = result.candidate
    return {
        "experiment": result.experiment,
        "role": role,
        "candidate": candidate.name,
        "levers": list(candidate.levers),
        "changes": dict(candidate.changes),
        "correctness": candidate.correctness,
        "safety": candidate.safety,
        "forecast": None if candidate.prediction is None else candidate.prediction._asdict(),
        "predicted_by": candidate.predicted_by,
        "reason": result.reason,
        "failure": result.failure,
        "gates": [
            {"gate": gate.gate, "passed": gate.passed, "statement": gate.statement}
            for gate in result.gates
        ],
        "dropped": dropped,
        "seconds": result.seconds,
    }
