"""The claims of a gate's report: each derived from the rows of its comparisons by a named rule."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from assay.errors import InputError
from assay.gating.bisection import Bisection
from assay.gating.session import HEAD, GateSession
from assay.gating.sides import Side
from assay.improve.experiments.result import ExperimentResult
from assay.report import derivations as rules, words
from assay.report.claim import Claim, Evidence
from assay.report.claims import FIGURE, of_result, stated
from assay.report.run_files import EXPERIMENTS, JOURNAL, RunFiles


def gate_claims(
    session: GateSession, base: Side, head: Side, files: RunFiles, bisection: Bisection | None
) -> tuple[list[Claim], list[str]]:
    """The claims of a gate, and what could not be claimed and why."""
    builder = _Builder(session, files)
    claims = [
        *builder.levels(base, head),
        *builder.noise(),
        *builder.answers(),
        *builder.steps(bisection),
        *builder.counts(),
    ]
    return claims, builder.gaps


class _Builder:
    def __init__(self, session: GateSession, files: RunFiles) -> None:
        self.session, self.files = session, files
        self.gaps: list[str] = []
        metric = session.workload.objective.metric
        self.metric, self.unit = words.metric_name(metric), words.metric_unit(metric)
        self.compared: dict[str, Any] = {
            "better": session.workload.objective.better,
            "confidence": 1.0 - session.settings.alpha,
        }

    def claim(
        self, name: str, text: str, unit: str, evidence: Evidence, **rest: Any
    ) -> Iterator[Claim]:
        """A claim where its rule finds the rows that it needs; else a gap."""
        try:
            figure = rules.derive(self.files, evidence)
        except InputError as error:
            self.gaps.append(f"{name} is not claimed: {error.message}")
            return
        details = {"text": text, **rest.pop("details", {})}
        more = rest.pop("more", ())
        statement = stated(text, figure, unit)
        yield Claim(name, statement, figure, unit, (evidence, *more), details=details, **rest)

    def blocks(self, rule: str, **select: Any) -> Evidence:
        """Evidence in experiments.parquet."""
        return Evidence(EXPERIMENTS, rule, select, self.compared)

    def levels(self, base: Side, head: Side) -> Iterator[Claim]:
        """Both levels, their ratio, and the slowdown that it excludes."""
        result = self.session.results[0]
        change = f"{base.short} -> {head.short}"
        for name, side, arm in (("start", base, "control"), ("final", head, "treatment")):
            yield from self.claim(
                f"{name}.level",
                f"{self.metric} of the {side.label}: {FIGURE}",
                self.unit,
                self.blocks(rules.MEDIAN, experiment=HEAD, arm=arm),
            )
        yield from self._ratio("final.ratio", result, f"head over base, {self.metric}", change)
        yield from self._ratio(f"experiment.{HEAD}.ratio", result, HEAD, change)
        yield from self.claim(
            "slowdown.excluded",
            f"a slowdown of the head that is excluded: {FIGURE} or more",
            words.PERCENT,
            self.blocks(rules.EXCLUDED, experiment=HEAD),
        )

    def _ratio(
        self, name: str, result: ExperimentResult, text: str, intervention: str
    ) -> Iterator[Claim]:
        verdict = Evidence(JOURNAL, "verdict", {"experiment": result.experiment})
        details = of_result(result, "gate")
        rest = {"intervention": intervention, "verdict": result.verdict}
        if result.ratio is not None:
            yield from self.claim(
                name,
                f"{text}: {FIGURE}, {result.verdict}",
                words.RATIO,
                self.blocks(rules.RATIO, experiment=result.experiment),
                more=(verdict,),
                details=details,
                **rest,
            )
            return
        said = f"{text}: no complete pair of blocks, {result.verdict}"
        yield Claim(
            name, said, None, words.RATIO, (verdict,), details={"text": said, **details}, **rest
        )

    def noise(self) -> Iterator[Claim]:
        """The base against itself."""
        aa = self.session.aa
        if aa is not None:
            yield from self.claim(
                "noise.ratio",
                f"the base against itself (A/A): {FIGURE}",
                words.RATIO,
                self.blocks(rules.RATIO, experiment=aa.experiment),
                verdict=aa.verdict,
                details=of_result(aa, "noise"),
            )

    def answers(self) -> Iterator[Claim]:
        """How many answers were compared, and how many changed wrongly at most."""
        compared = self.session.results[0].answers
        if compared is None or not compared.total:
            return
        select = {"experiment": HEAD}
        yield from self.claim(
            "answers.compared", f"answers compared, of the head and of the base: {FIGURE}",
            "answers", Evidence(JOURNAL, rules.COMPARED, select),
        )  # fmt: skip
        yield from self.claim(
            "answers.changed", f"answers wrongly changed by the head: {FIGURE}", words.PERCENT,
            Evidence(JOURNAL, rules.CHANGED, select, {"confidence": self.compared["confidence"]}),
        )  # fmt: skip

    def steps(self, bisection: Bisection | None) -> Iterator[Claim]:
        """Every further comparison of a bisection."""
        if bisection is None:
            return
        for result in self.session.results[1:]:
            yield from self._ratio(
                f"experiment.{result.experiment}.ratio",
                result,
                result.experiment,
                " -> ".join(map(str, result.candidate.changes.values())),
            )

    def counts(self) -> Iterator[Claim]:
        """How much was measured, and how much of it was dropped."""
        for name, what, dropped in (
            ("counted", "that count", False),
            ("dropped", "that were dropped", True),
        ):
            yield from self.claim(
                f"blocks.{name}", f"measured blocks {what}: {FIGURE}", "blocks",
                Evidence(EXPERIMENTS, rules.COUNT, {}, {"is_dropped": dropped}),
            )  # fmt: skip
