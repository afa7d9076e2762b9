"""Runs a claim: its suite with its seeds, data and rivals, over the one measurement loop."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from assay.bench.claims import requiring
from assay.bench.claims.claim import SEEDS, Claim
from assay.bench.claims.files import with_file
from assay.bench.claims.reading import check_targets
from assay.bench.claims.suites import has_sizes_of_its_own, suite_of, workload_of
from assay.bench.harness import session
from assay.bench.harness.case import Settings, Suite
from assay.bench.harness.result import Result
from assay.bench.harness.seeding import FIRST_UNSEEN
from assay.errors import InputError
from assay.workloads.registry import WORKLOADS

MOST_SECONDS: Final = 86_400.0
"""Of the rounds of a case: a day."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the command line gives in place of what the claim says; None leaves the claim's."""

    device: str | None = None
    quick: bool = False
    sizes: str | None = None
    dtypes: str | None = None
    model: str | None = None
    rivals: Sequence[str] = ()
    cases: Sequence[str] = ()
    seeds: int | None = None
    seconds: float | None = None
    is_gated: bool = False
    """Whether every seed of the claim is needed, also in a smoke test."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    rival_python: Path | None = None


@dataclass(frozen=True, slots=True)
class Prepared:
    """A claim that was checked and can be measured."""

    claim: Claim
    suite: Suite
    settings: Settings
    seeds: tuple[int, ...]
    seconds: float | None
    """Of the rounds of a case; the harness's own where None."""
    kept: Mapping[str, Any] | None
    """The claim as its result has it; None of a suite alone."""

    def measure(
        self, progress: Callable[[str], None] | None = None, save: Path | None = None
    ) -> Result:
        """Measure every case; without a rival that is required, none."""
        claim = self.claim
        requiring.check_present(claim, self.settings)
        return session.run(
            self.suite,
            self.settings,
            progress,
            save,
            seeds=self.seeds,
            warm_up=claim.run.warm_up,
            seconds=self.seconds,
            claim=self.kept,
            required=claim.rivals.required,
        )


def prepare(claim: Claim, asked: Asked) -> Prepared:
    """Check a claim and its data before anything is measured."""
    chosen = suite_of(claim)
    run = claim.run
    _check_seconds(f"{claim.name}: run.seconds", run.seconds)
    if run.warm_up < 1:
        raise InputError(f"{claim.name}: run.warm_up: expected at least 1, got {run.warm_up}")
    _check_seconds("--seconds", asked.seconds)
    requiring.check_names(claim, chosen)
    if claim.suite in WORKLOADS:
        check_targets(f"{claim.name}: ", claim.gates, chosen.rivals)
    _check_unit(claim)
    size = None if claim.data.size is None else str(claim.data.size)
    if asked.quick and not _is_small(claim):
        # A smoke test has the sizes of the suite's own.
        size = None
    sizes = asked.sizes or (None if asked.quick else run.sizes)
    settings = session.settings(
        chosen,
        asked.device or run.device or "cpu",
        quick=asked.quick,
        sizes=sizes or size,
        dtypes=asked.dtypes or run.dtypes,
        model=asked.model or run.model,
        rivals=asked.rivals or (claim.rivals.names if chosen.rivals else ()),
        cases=asked.cases or (() if asked.quick else run.cases),
        rival_python=asked.rival_python,
    )
    if sizes is None and settings.sizes and has_sizes_of_its_own(claim, settings.device):
        settings = dataclasses.replace(settings, sizes=())
    settings = dataclasses.replace(settings, settings=_settings(claim, asked, settings))
    settings = with_file(claim, settings)
    seeds = _seeds(claim, chosen, asked)
    _check_generated(claim, settings, asked)
    # A smoke test is as short as it is, unless it is asked for longer.
    seconds = asked.seconds or (None if asked.quick else run.seconds)
    kept = claim.to_data() if claim.path else None
    return Prepared(claim, chosen, settings, seeds, seconds, kept)


def _check_seconds(where: str, seconds: float | None) -> None:
    if seconds is not None and not 0.0 < seconds <= MOST_SECONDS:
        raise InputError(
            f"{where}: expected more than 0 seconds, at most {MOST_SECONDS:,.0f}, got {seconds:g}"
        )


def _check_unit(claim: Claim) -> None:
    """A claim on a workload counts what the workload counts; other suites have several units."""
    workload = None if claim.path is None else workload_of(claim)
    if workload is not None and claim.unit != workload.unit:
        raise InputError(
            f'{claim.name}: unit: expected "{workload.unit}", which {claim.suite} counts, got "{claim.unit}"'
        )


def _is_small(claim: Claim) -> bool:
    """Whether data of the claim are smaller than those of a smoke test of its workload."""
    workload = None if claim.data.size is None else workload_of(claim)
    return workload is not None and (claim.data.size or 0) <= workload.sizes.quick


def _seeds(claim: Claim, chosen: Suite, asked: Asked) -> tuple[int, ...]:
    """The seeds to run; one pass where every round is a seed of its own.

    Fixed inputs are repeated only for a gate, and where seeds are asked for.
    """
    own = claim.data.seeds
    # Those beyond are of data that checks use.
    most = FIRST_UNSEEN - 1 - len(own)
    if asked.seeds is not None and not 1 <= asked.seeds <= most:
        raise InputError(f"--seeds: expected 1 to {most:,}, got {asked.seeds:,}")
    # The first seed of a workload's data is 1; 0 has the inputs that other suites name themselves.
    is_workload = claim.work is not None or claim.suite in WORKLOADS
    alone = own[:1] or (1,) if is_workload else (0,)
    if chosen.seeding == "rounds" or (asked.seeds == 1 and not own):
        return alone
    if asked.seeds is not None:
        others = [seed for seed in range(1, asked.seeds + 1 + len(own)) if seed not in own]
        return (*own, *others)[: asked.seeds]
    is_seeded = claim.path is not None and chosen.seeding == "inputs" and not asked.quick
    if is_seeded or asked.is_gated:
        return own or tuple(range(1, SEEDS + 1))
    return alone


def _settings(claim: Claim, asked: Asked, settings: Settings) -> Mapping[str, Any]:
    """Settings of a workload, each among those that may be chosen."""
    given = {**claim.run.settings, **asked.settings}
    if not given:
        return {}
    workload = workload_of(claim)
    if workload is None:
        names = ", ".join(f"{name}={value}" for name, value in given.items())
        raise InputError(f"{claim.name}: expected settings for a workload only, got {names}")
    for case in workload.measured_on(settings.device):
        known = {choice.name: choice for choice in case.settings(settings.device)}
        for name, value in given.items():
            if name in known and value in known[name].values:
                continue
            offered = known[name].values if name in known else tuple(known)
            words = f"one of {', '.join(map(str, offered))}" if offered else "no settings"
            whose = f"{case.case}: " if case.case else ""
            raise InputError(
                f"{claim.name}: {whose}setting {name}: expected {words}, got {value!r}"
            )
    return given


def _check_generated(claim: Claim, settings: Settings, asked: Asked) -> None:
    """Hold what the generator gives on this machine against the hashes of the claim."""
    if not claim.data.sha256 or claim.data.file:
        return
    workload = workload_of(claim)
    if workload is None:
        raise InputError(
            f"{claim.name}: data.sha256: expected it of a file or of the data of a workload, "
            f"got it of the suite {claim.suite}"
        )
    claimed = claim.data.size or workload.sizes.usual
    usual = workload.sizes.quick if asked.quick else claimed
    size = settings.sizes[0][0] if settings.sizes else usual
    if size != claimed:
        return
    for seed, expected in zip(claim.data.seeds, claim.data.sha256, strict=True):
        got = workload.generate(seed, size).sha256
        if got != expected:
            raise InputError(
                f"{claim.name}: data of seed {seed}: expected sha256 {expected[:12]}..., "
                f"got {got[:12]}...",
                "the generator gives something else than when the claim was written",
            )
