"""`assay gate`: from what a user asks to the verdict, its report and its exit code."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from assay.answers import Answer, data_of
from assay.errors import AssayError, CheckFailedError, InputError, NoDataError
from assay.gating.bisection import Bisection, bisect, ends_are_enough, require_range, shared_out
from assay.gating.commits import Repository
from assay.gating.judging import share
from assay.gating.noise import GateNoise, noise_of
from assay.gating.reporting import write_gate
from assay.gating.servers import Servers, require_free
from assay.gating.session import HEAD, GateSession, watched
from assay.gating.settings import MARGIN, GateSettings
from assay.gating.sides import Side, SideOptions, commit_side, read_sides
from assay.improve.experiments.levels import level
from assay.improve.experiments.pairs import pairs_of
from assay.improve.experiments.result import Arm, ExperimentResult
from assay.improve.journal import block_table, run_folder
from assay.improve.journal.journal import Journal
from assay.improve.loop.progress import Progress, Silent
from assay.intervals import Interval
from assay.load.workloads.spec import (
    parse_duration,
    parse_objective,
    parse_share,
    parse_slo,
    parse_workload,
)
from assay.load.workloads.workload import Workload

BUDGET: Final = "20m"


@dataclass(frozen=True)
class GateAnswer(Answer):
    """The verdict on two sides; `assay gate --json` prints it."""

    run: Path
    base: Side
    head: Side
    verdict: str
    """improved, regressed, undecided, or invalid: the head does other work."""
    passed: bool
    """Improved, or a slowdown of the margin is excluded."""
    metric: str
    better: str
    base_level: Interval | None
    head_level: Interval | None
    ratio: Interval | None
    """Head over base, above 1 better."""
    confidence: float
    margin: float
    pairs: int
    noise: GateNoise | None
    gates: list[dict[str, Any]]
    reason: str
    seconds: float
    bisection: Bisection | None
    report: Path

    def to_json(self) -> dict[str, Any]:
        """The keys that scripts read."""
        return {
            "run": str(self.run),
            **data_of(self, "verdict passed metric better"),
            "base": {**side_data(self.base), "level": data_of(self, "base_level")["base_level"]},
            "head": {**side_data(self.head), "level": data_of(self, "head_level")["head_level"]},
            **data_of(self, "ratio confidence margin pairs noise gates reason seconds bisection"),
            "report": str(self.report),
            "notes": list(self.notes),
        }


def side_data(side: Side) -> dict[str, Any]:
    """A side as data."""
    return {"name": side.short, **data_of(side, "given kind commit subject image command")}


def gate(
    base: str,
    head: str,
    *,
    workload: str = "chat",
    serve: str | None = None,
    build: str | None = None,
    repository: str | Path = ".",
    container: str | None = None,
    container_port: int | None = None,
    container_options: str = "",
    bisect_commits: bool = False,
    budget: str | float = BUDGET,
    margin: str | float = MARGIN,
    noise: int | None = None,
    metric: str | None = None,
    slo: str | None = None,
    concurrency: int | None = None,
    rate: float | None = None,
    input_tokens: str | None = None,
    output_tokens: str | None = None,
    block: str | float | None = None,
    port: int | None = None,
    start_timeout: str | float | None = None,
    allow_changed_answers: bool = False,
    seed: int = 0,
    progress: Progress | None = None,
    root: Path | None = None,
    command: str = "gate",
) -> GateAnswer:
    """Whether HEAD serves a workload faster or slower than BASE.

    Both are commits of a repository with `serve` as the command that starts them, images with
    `container`, or commands; a command has {port} in it. Every pair starts both sides afresh.
    The answer's `problem` is the exit code of `assay gate`.

        answer = gate("main", "HEAD", serve="python -m server --port {port}", workload="chat")
        print(answer.verdict, answer.ratio, answer.report)
    """
    given: dict[str, Any] = {"budget_s": parse_duration("--budget", budget), "seed": seed}
    if noise is not None:
        given["noise_pairs"] = noise
    if block is not None:
        given["block_s"] = parse_duration("--block", block)
    settings = GateSettings(
        margin=parse_share("--margin", margin), same_answers=not allow_changed_answers, **given
    )
    planned = parse_workload(
        workload,
        concurrency=concurrency,
        rate=rate,
        slo=None if slo is None else parse_slo("--slo", slo),
        objective=None if metric is None else parse_objective("--metric", metric),
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        seed=seed,
    )
    more = {} if container_port is None else {"container_port": container_port}
    options = SideOptions(
        serve, build, Path(repository), container, container_options=container_options, **more
    )
    timeout_s = None if start_timeout is None else parse_duration("--start-timeout", start_timeout)
    first, second, known = read_sides(base, head, options)
    between: list[str] = []
    if bisect_commits:
        if known is None:
            raise InputError(f"--bisect: expected two commits, got two {first.kind}s")
        between = known.between(first.commit, second.commit)
        require_range(between)
        settings = shared_out(settings, len(between))
    if port is not None:
        require_free(port)
    plan = _Plan(first, second, known, options, planned, settings, between, port, timeout_s)
    return _course(plan, progress or Silent(), root, command)


@dataclass(frozen=True, slots=True)
class _Plan:
    """What is to be compared, and how; all of it checked."""

    base: Side
    head: Side
    repository: Repository | None
    options: SideOptions
    workload: Workload
    settings: GateSettings
    between: list[str]
    """Commits to bisect."""
    port: int | None
    start_timeout_s: float | None


def _course(plan: _Plan, progress: Progress, root: Path | None, command: str) -> GateAnswer:
    """From the run's folder to its report; servers and worktrees are gone at the end."""
    settings = plan.settings
    folder = run_folder.create(f"gate {plan.workload.name}", root)
    begun = time.monotonic()
    with Journal.create(folder.path) as journal:
        journal.append(
            "started",
            kind="gate",
            command=command,
            engine="gate",
            workload=plan.workload.name,
            budget_s=settings.budget_s,
            options=data_of(settings),
            base=side_data(plan.base),
            head=side_data(plan.head),
        )
        session = GateSession(
            folder, journal, plan.workload, settings, progress, begun + settings.budget_s,
            plan.port, plan.start_timeout_s,
        )  # fmt: skip
        try:
            with watched(folder) as session.beat:
                servers, bisection = _compared(plan, session)
        except BaseException as error:
            why = error.message if isinstance(error, AssayError) else type(error).__name__
            journal.append("finished", verdict="failed", reason=why)
            raise
        block_table.write_blocks(folder, session.blocks)
        seconds = time.monotonic() - begun
        report = write_gate(session, plan.base, plan.head, servers, bisection)
        answer = _answer(plan, session, bisection, seconds, report)
        journal.append("finished", **answer.to_json(), elapsed_s=seconds)
    return answer


def _compared(plan: _Plan, session: GateSession) -> tuple[Servers, Bisection | None]:
    """A/A, the comparison, and the bisection where it is asked for and there is a change to find."""
    progress, settings = session.progress, session.settings
    if plan.repository is not None:
        plan.repository.remove_abandoned(session.folder.path.parent)
    with ExitStack() as stack:
        base = stack.enter_context(_checked_out(plan, session, plan.base))
        with _checked_out(plan, session, plan.head) as head:
            servers = session.servers(base, head)
            if settings.noise_pairs:
                progress.phase("the base against itself (A/A)", settings.budget_s)
                session.measure_noise(servers)
            progress.phase("head against base", session.left_s())
            ends = session.compare(HEAD, servers, settings, **_for_search(plan, session))
        if not plan.between or ends.verdict not in ("improved", "regressed") or ends.ratio is None:
            return servers, None
        if not all(gate.passed for gate in ends.gates):
            return servers, None
        progress.phase(f"bisecting {len(plan.between)} commits", session.left_s())

        @contextmanager
        def checked_out(commit: str) -> Iterator[Side]:
            assert plan.repository is not None
            side = commit_side(commit[:12], commit, plan.repository, plan.options)
            with _checked_out(plan, session, side) as ready:
                yield ready

        bisection = bisect(session, base, plan.between, ends, settings, checked_out)
    return servers, bisection


def _for_search(plan: _Plan, session: GateSession) -> dict[str, Any]:
    """How long the ends are compared where a search between them follows: half of the time at most."""
    if not plan.between:
        return {}
    settings = session.settings
    return {
        "until": time.monotonic() + 0.5 * session.left_s(),
        "is_enough": lambda ratio: ends_are_enough(ratio, settings.least_pairs, settings),
    }


@contextmanager
def _checked_out(plan: _Plan, session: GateSession, side: Side) -> Iterator[Side]:
    """A side that can be started: a commit in a worktree of its own."""
    if plan.repository is None:
        yield side
        return
    folder = session.folder.path / "commits" / f"{side.label}-{side.commit[:12]}"
    checkout = plan.repository.checked_out(
        side.commit, folder, plan.options.build, session.progress.say
    )
    with checkout as place:
        yield side.in_folder(place)


def _answer(
    plan: _Plan, session: GateSession, bisection: Bisection | None, seconds: float, report: Path
) -> GateAnswer:
    result, settings = session.results[0], session.settings
    objective = plan.workload.objective
    passed = session.passed(result)
    return GateAnswer(
        session.folder.path,
        plan.base,
        plan.head,
        result.verdict,
        passed,
        objective.metric,
        objective.better,
        _level(result, "control", 1.0 - settings.alpha),
        _level(result, "treatment", 1.0 - settings.alpha),
        result.ratio,
        1.0 - settings.alpha,
        settings.margin,
        len(pairs_of(result.blocks)),
        session.noise,
        [data_of(gate, "gate passed statement") for gate in result.gates],
        result.reason,
        seconds,
        bisection,
        report,
        notes=tuple(dict.fromkeys((*plan.workload.notes, *result.notes))),
        problem=_problem(plan, session, result, passed),
    )


def _level(result: ExperimentResult, arm: Arm, confidence: float) -> Interval | None:
    counted = [block for block in result.blocks if block.arm == arm and not block.dropped]
    return level([block.value for block in counted], confidence)


def _problem(
    plan: _Plan, session: GateSession, result: ExperimentResult, passed: bool
) -> AssayError | None:
    """What the exit code says: None passes."""
    if passed:
        return None
    shown = plan.head.shown
    if result.verdict == "regressed":
        return CheckFailedError(f"{shown} regressed: {result.reason}")
    if result.verdict == "invalid":
        hint = None
        if result.reason.startswith("answers"):
            hint = "--allow-changed-answers compares speed alone"
        return CheckFailedError(f"{shown} does not do the work of the base: {result.reason}", hint)
    return NoDataError(f"undecided: {result.reason}", _longer(session, result))


def _longer(session: GateSession, result: ExperimentResult) -> str:
    """What would decide an undecided comparison, by its own noise and that of A/A."""
    settings, counted = session.settings, max(len(pairs_of(result.blocks)), 1)
    of_pairs = noise_of(
        result.blocks,
        session.workload.objective.better,
        result.seconds / counted,
        session.requests or 1,
        is_aa=False,
    )
    known = [noise for noise in (of_pairs, session.noise) if noise is not None]
    if not known:
        return "a longer --budget, or a shorter --block"
    worst = max(known, key=lambda noise: noise.start_sd)
    pairs = worst.pairs_needed(settings.margin, settings)
    minutes = (pairs + settings.noise_pairs) * worst.pair_s / 60.0
    return (
        f"starts differ by {worst.start_sd:.1%}: {share(settings.margin)} needs about {pairs} pairs, "
        f"--budget {max(minutes, 1.0):.0f}m, or a larger --margin"
    )
