"""A gate under way: its folder, journal and watchdog, and the comparisons that it makes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Final

from assay.errors import NoDataError
from assay.gating.comparison import Comparison
from assay.gating.judging import judge
from assay.gating.noise import GateNoise, noise_of
from assay.gating.servers import Servers
from assay.gating.settings import GateSettings
from assay.gating.sides import Side
from assay.improve.engines.process import ServerRecord
from assay.improve.experiments.outputs.judging import LEAST_NEAR_TIE, MOST_NEAR_TIE, near_tie
from assay.improve.experiments.outputs.ledger import KnownAnswers
from assay.improve.experiments.result import Block, ExperimentResult, Look
from assay.improve.experiments.verdict import between, percent
from assay.improve.journal.block_table import block_data
from assay.improve.journal.chain import plain
from assay.improve.journal.journal import Journal
from assay.improve.journal.run_folder import RunFolder
from assay.improve.journal.watchdog import Watchdog
from assay.improve.levers.lever import Candidate
from assay.improve.loop.progress import Progress
from assay.improve.loop.trials import verdict_data
from assay.interruption import interrupted_by_sigterm
from assay.intervals import Interval
from assay.load.workloads.workload import Workload

AA: Final = "A/A"
HEAD: Final = "head over base"
SILENCE_S: Final = 4 * 3600.0
"""How long a gate may be silent before its watchdog ends it: a start may take an hour."""


@dataclass(slots=True)
class GateSession:
    """What all comparisons of a gate share."""

    folder: RunFolder
    journal: Journal
    workload: Workload
    settings: GateSettings
    progress: Progress
    until: float
    """Of the monotonic clock."""
    port: int | None = None
    start_timeout_s: float | None = None
    requests: int | None = None
    """Of a block; known after the first visit."""
    noise: GateNoise | None = None
    near_tie: float = LEAST_NEAR_TIE
    blocks: list[Block] = field(default_factory=list)
    results: list[ExperimentResult] = field(default_factory=list)
    """Every comparison, A/A not among them."""
    aa: ExperimentResult | None = None
    known: dict[str, KnownAnswers] = field(default_factory=dict)
    """Answers of a side, by its command and commit."""
    beat: Callable[[], None] = lambda: None
    """Tells the watchdog that the gate is alive."""

    def servers(self, control: Side, treatment: Side) -> Servers:
        """Servers of two sides, journaled before they are waited for."""

        def on_start(record: ServerRecord) -> None:
            self.beat()
            self.journal.append("engine", server=record.to_data())

        return Servers(
            {"control": control, "treatment": treatment},
            self.folder.logs,
            port=self.port,
            start_timeout_s=self.start_timeout_s,
            on_start=on_start,
            say=self.progress.say,
        )

    def measure_noise(self, servers: Servers) -> None:
        """The base against itself: what equal starts differ by."""
        settings = replace(
            self.settings,
            most_pairs=self.settings.noise_pairs,
            least_pairs=self.settings.noise_pairs,
            same_answers=False,
        )
        base = servers.sides["control"]
        comparison = self._begin(servers.only("control"), AA, base, base, settings, MOST_NEAR_TIE)
        result = comparison.run(asks_own_gap=self.settings.same_answers)
        self.requests = comparison.requests
        assert self.requests is not None
        if result.verdict == "invalid":
            raise NoDataError(
                f"{base.shown} against itself: {result.reason}",
                "a workload of fixed lengths, greedy, repeats itself on most servers",
            )
        better = self.workload.objective.better
        self.noise = noise_of(result.blocks, better, comparison.pair_s, self.requests, is_aa=True)
        if self.noise is None:
            raise NoDataError(
                f"{base.shown} against itself: fewer than two undisturbed starts: the noise is unknown",
                "a longer --budget, or --noise 0",
            )
        self.near_tie = near_tie(comparison.own_gap or 0.0)
        statement = self.noise.statement(self.settings)
        # The interval of two pairs bounds nothing: that equal sides do not differ is no finding.
        self.aa = replace(result, verdict="undecided", reason=statement)
        self.journal.append("noise", role="noise", **verdict_data(self.aa), **self.noise.to_data())
        self.progress.result(f"A/A: {statement}")
        needed_s = self.noise.pairs_needed(self.settings.margin, self.settings) * self.noise.pair_s
        if needed_s > self.left_s():
            self.progress.note(
                f"the budget has {self.left_s():.0f} s left: a slowdown of the margin may stay undecided"
            )

    def compare(
        self,
        name: str,
        servers: Servers,
        settings: GateSettings,
        *,
        until: float | None = None,
        is_enough: Callable[[Interval], bool] | None = None,
    ) -> ExperimentResult:
        """Compare two sides, until there is a verdict or, where it is given, `is_enough` says so."""
        control, treatment = servers.sides["control"], servers.sides["treatment"]
        comparison = self._begin(
            servers, name, control, treatment, settings, self.near_tie, until, is_enough
        )
        result = comparison.run()
        self.requests = comparison.requests
        self.results.append(result)
        self.journal.append("verdict", role="gate", **verdict_data(result))
        self.progress.result(f"{name}: {result.verdict}, {result.reason}")
        return result

    def _begin(
        self,
        servers: Servers,
        name: str,
        control: Side,
        treatment: Side,
        settings: GateSettings,
        tie: float,
        until: float | None = None,
        is_enough: Callable[[Interval], bool] | None = None,
    ) -> Comparison:
        candidate = Candidate(
            name, (), sides_data(control, treatment), "rounding", "may fail", hot=False
        )
        self.journal.append(
            "experiment",
            experiment=name,
            name=name,
            candidate=plain(candidate),
            budget_s=settings.budget_s,
            goes_on=False,
            control={"base": control.short},
        )

        def on_look(look: Look) -> None:
            shown = f"{percent(look.ratio.value)} ({between(look.ratio)})"
            self.progress.say(f"{name}, pair {look.pair + 1}: {shown}")

        noise = self.noise
        return Comparison(
            servers,
            self.workload,
            candidate,
            settings,
            name=name,
            until=self.until if until is None else until,
            requests=self.requests,
            least_sd=0.0 if noise is None else noise.least_sd,
            block_sd=None if noise is None else noise.block_sd,
            near_tie=tie,
            known=self.known.setdefault(f"{control.commit} {control.command}", {}),
            is_enough=is_enough,
            on_block=self._keep,
            on_look=on_look,
        )

    def _keep(self, block: Block) -> None:
        self.blocks.append(block)
        self.journal.append("block", **block_data(block))

    def left_s(self) -> float:
        """Seconds of the budget."""
        return self.until - time.monotonic()

    def passed(self, result: ExperimentResult) -> bool:
        """Whether a result is improved, or excludes the slowdown that matters."""
        if result.verdict in ("invalid", "regressed") or result.ratio is None:
            return False
        if not all(gate.passed for gate in result.gates):
            return False
        return judge(result.ratio, self.settings.least_pairs, self.settings).passed


def sides_data(control: Side, treatment: Side) -> Mapping[str, str]:
    """Both sides as the changes of a candidate: what a report names them by."""
    return {control.label: control.short, treatment.label: treatment.short}


@contextmanager
def watched(folder: RunFolder) -> Iterator[Callable[[], None]]:
    """A watchdog that stops the servers of a gate whose process dies; SIGTERM ends it as Ctrl-C does.

    What it yields says that the gate is alive.
    """
    watchdog = Watchdog.start(folder)
    try:
        with interrupted_by_sigterm():
            watchdog.beat(SILENCE_S)
            yield lambda: watchdog.beat(SILENCE_S)
    finally:
        watchdog.close()
