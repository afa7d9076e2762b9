"""The course of a comparison over planted sides: verdicts, gates, time, and what is started."""

from __future__ import annotations

import math
import random
import statistics
from typing import Any

import pytest
from planted_visits import WORKLOAD, PlantedVisits

from assay.errors import NoDataError
from assay.gating.comparison import Comparison
from assay.gating.noise import noise_of
from assay.gating.settings import GateSettings
from assay.improve.experiments.result import Block, ExperimentResult
from assay.improve.levers.lever import Candidate

CANDIDATE = Candidate("head over base", (), {}, "rounding", "may fail", hot=False)


def compare(
    visits: PlantedVisits, seconds: float = 1e6, **more: Any
) -> tuple[Comparison, ExperimentResult]:
    given = {name: more.pop(name) for name in ("least_sd", "is_enough") if name in more}
    settings = GateSettings(budget_s=seconds, **more)
    comparison = Comparison(
        visits, WORKLOAD, CANDIDATE, settings, name="head over base",
        until=visits.clock.now + seconds, near_tie=0.1, clock=visits.clock, **given,
    )  # fmt: skip
    return comparison, comparison.run()


def noisy(effect: float, sd: float, seed: int = 0) -> Any:
    drawn = random.Random(seed)
    return lambda arm, start: (1.0 + effect * (arm == "treatment")) * math.exp(drawn.gauss(0.0, sd))


@pytest.mark.parametrize(
    ("effect", "verdict", "passed"),
    [(-0.10, "regressed", False), (0.10, "improved", True), (0.0, "undecided", True)],
)
def test_planted_effects_get_their_verdicts(effect: float, verdict: str, passed: bool) -> None:
    visits = PlantedVisits(noisy(effect, 0.01))
    _, result = compare(visits)
    assert result.verdict == verdict
    assert ("is excluded" in result.reason) == (verdict == "undecided")
    assert result.ratio is not None
    assert result.ratio.lo < 1.0 + effect < result.ratio.hi
    # Each visit is a start, and each pair one of either side.
    pairs = len({block.pair for block in result.blocks if block.pair >= 0})
    assert visits.opened.count("control") == visits.opened.count("treatment") == pairs
    assert pairs >= 4
    # Mirror images: A B, B A or the other way around.
    assert visits.opened[:2] == visits.opened[3:1:-1]


def test_two_modes_of_starts_need_more_than_two_pairs() -> None:
    """A slow mode that the base alone meets at first: two pairs agree to the last digit."""

    def speed(arm: str, start: int) -> float:
        return 0.95 if arm == "control" and start < 4 else 1.0

    _, early = compare(PlantedVisits(speed), least_pairs=2)
    assert early.verdict == "improved"
    _, result = compare(PlantedVisits(speed))
    assert result.verdict == "undecided"


def test_a_budget_that_ends_says_what_is_missing() -> None:
    visits = PlantedVisits(noisy(0.0, 0.05))
    _, result = compare(visits, seconds=60.0)
    assert (result.verdict, "too few" in result.reason) == ("undecided", True)
    assert [gate.gate for gate in result.gates if not gate.passed] == ["pairs"]
    assert visits.clock.now < 1000.0 + 60.0 + 30.0


def test_no_verdict_before_the_least_pairs() -> None:
    visits = PlantedVisits(lambda arm, start: 0.5 if arm == "treatment" else 1.0)
    _, result = compare(visits, most_pairs=3)
    assert result.verdict == "undecided"
    assert any(gate.gate == "pairs" and not gate.passed for gate in result.gates)


def test_a_head_that_fails_requests_is_invalid_after_one_pair() -> None:
    visits = PlantedVisits(
        lambda arm, start: 1.0,
        fails=lambda arm, number: "HTTP 500" if arm == "treatment" and number % 2 else None,
    )
    _, result = compare(visits)
    assert result.verdict == "invalid"
    assert "fail in the treatment" in result.reason
    assert len(visits.opened) == 2


def test_a_base_that_fails_every_request_is_no_data() -> None:
    visits = PlantedVisits(
        lambda arm, start: 1.0, fails=lambda arm, number: "HTTP 500" if arm == "control" else None
    )
    with pytest.raises(NoDataError, match="expected answers, got none: HTTP 500"):
        compare(visits)
    assert visits.running == 0


@pytest.mark.parametrize(
    ("gap", "verdict", "reason"),
    [(3.0, "invalid", "wrongly changed"), (0.05, "improved", ""), (None, "undecided", "cannot be")],
)
def test_a_faster_head_must_answer_as_the_base_does(
    gap: float | None, verdict: str, reason: str
) -> None:
    visits = PlantedVisits(
        lambda arm, start: 1.3 if arm == "treatment" else 1.0,
        answers=lambda arm, number: f"{arm} {number}",
        gap=gap,
    )
    _, result = compare(visits)
    assert (result.verdict, reason in result.reason) == (verdict, True)
    assert set(visits.followed) == {"control"}
    _, allowed = compare(
        PlantedVisits(
            lambda arm, start: 1.3 if arm == "treatment" else 1.0,
            answers=lambda arm, number: f"{arm} {number}",
            gap=gap,
        ),
        same_answers=False,
    )
    assert allowed.verdict == "improved"


def test_noise_separates_starts_from_blocks() -> None:
    """Starts drawn with 3 %, blocks of a start equal: the closed form of the pooled spread."""
    speeds: dict[int, float] = {}
    drawn = random.Random(5)

    def speed(arm: str, start: int) -> float:
        return speeds.setdefault(start, math.exp(drawn.gauss(0.0, 0.03)))

    visits = PlantedVisits(speed)
    comparison, result = compare(visits, most_pairs=6, least_pairs=6)
    noise = noise_of(
        result.blocks, "higher", comparison.pair_s, comparison.requests or 1, is_aa=False
    )
    assert noise is not None
    squares = 0.0
    for arm in ("control", "treatment"):
        logs = [math.log(speeds[at]) for at, opened in enumerate(visits.opened) if opened == arm]
        mean = sum(logs) / len(logs)
        squares += sum((value - mean) ** 2 for value in logs)
    expected = math.sqrt(squares / (len(visits.opened) - 2))
    assert noise.start_sd == pytest.approx(expected, rel=1e-9)
    assert noise.block_sd < 1e-12
    assert noise.floor.sd == pytest.approx(math.sqrt(2.0) * expected)
    # A/A: all starts are of one side.
    pooled = noise_of(result.blocks, "higher", comparison.pair_s, 1, is_aa=True)
    logs = [math.log(speed) for speed in speeds.values()]
    assert pooled is not None
    assert pooled.start_sd == pytest.approx(statistics.stdev(logs), rel=1e-9)
    # A slowdown near the noise takes more pairs than one far above it.
    settings = GateSettings()
    assert noise.pairs_needed(0.02, settings) > noise.pairs_needed(0.10, settings)


def test_independent_blocks_of_short_starts_show_no_autocorrelation() -> None:
    """Three blocks about their own mean are anticorrelated by a third, which is not the machine's."""
    drawn = random.Random(1)
    blocks = [
        Block(
            "x", 3 * start + at, start // 2, ("control", "treatment")[start % 2], float(start), 1.0,
            math.exp(drawn.gauss(0.0, 0.02)), 1, 1, "stable", {},
        )
        for start in range(400)
        for at in range(3)
    ]  # fmt: skip
    noise = noise_of(blocks, "higher", 1.0, 1, is_aa=True)
    assert noise is not None
    assert abs(noise.autocorrelation) < 0.05
    assert noise.block_sd == pytest.approx(0.02, rel=0.1)
    assert abs(noise.drift) < 0.01
