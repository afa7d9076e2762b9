"""Promotions over simulated replicas: rarely wrong, soon right, and never half of a fleet."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping
from dataclasses import replace

import pytest
from scipy.stats import fisher_exact
from simulate_promotions import outcomes
from simulated_fleet import Noise, SimulatedFleet

from assay.errors import AssayError, InputError
from assay.improve.fleet.answers import ComparedAnswers
from assay.improve.fleet.capacity import replicas_out
from assay.improve.fleet.promotion import StagedPromotion
from assay.improve.fleet.protocol import ReplicaFailedError, ReplicaRefusedError, Sample
from assay.improve.fleet.settings import PromotionSettings, stages
from assay.improve.fleet.watching import watch_fleet


def promoted(fleet: SimulatedFleet, settings: PromotionSettings | None = None) -> StagedPromotion:
    promotion = StagedPromotion(fleet, settings or PromotionSettings())
    promotion.baseline()
    return promotion


@pytest.mark.parametrize(("replicas", "count"), [(8, 100), (4, 50), (2, 50)])
def test_a_change_that_does_nothing_is_rarely_promoted(replicas: int, count: int) -> None:
    verdicts = outcomes(count, 0.0, replicas)
    # A binomial with 5 % stays below this in all but one of a thousand runs.
    most = 0.05 * count + 3.1 * math.sqrt(0.05 * 0.95 * count)
    assert verdicts["promoted"] <= most


def test_windows_that_correlate_within_a_replica_are_no_evidence() -> None:
    # All of the noise is from start to start: a unit of windows would promote most of these.
    noise = Noise(start=0.05, window=0.001, rack=0.0, fleet=0.0, heavy=0.0)
    assert outcomes(60, 0.0, 8, noise)["promoted"] <= 8


def test_a_gain_is_promoted_and_a_loss_is_not() -> None:
    assert outcomes(20, 0.05)["promoted"] >= 18
    assert outcomes(20, -0.05)["promoted"] == 0


def test_the_ratio_holds_the_gain() -> None:
    result = promoted(SimulatedFleet("ratio", 8, 0.06)).run()
    assert result.verdict == "promoted"
    assert result.ratio is not None
    assert result.ratio.lo < math.exp(0.06) < result.ratio.hi
    assert result.replicas == 4


def test_stages_grow_to_half_of_the_fleet() -> None:
    assert stages(8) == [1, 2, 4]
    with pytest.raises(InputError, match="expected two or more, got 1"):
        stages(1)


class OddFleet(SimulatedFleet):
    """One replica is far slower with the change; the others gain."""

    def _sample(self, number: int) -> Sample:
        sample = super()._sample(number)
        is_odd = number == 3 and self.changed[self.names[number]]
        return replace(sample, value=sample.value * 0.5) if is_odd else sample


def test_a_replica_that_does_far_worse_bars_the_promotion() -> None:
    noise = Noise(0.0, 0.002, 0.002, 0.0, 0.0, 0.0, 0.0)
    fleet = OddFleet("odd", 8, 0.3, noise)
    result = promoted(fleet).run()
    assert result.verdict == "regressed"
    assert "replica-3 is" in result.reason
    assert not any(fleet.changed.values())


class SlowLater(SimulatedFleet):
    """Fails the service levels with the change."""

    def _sample(self, number: int) -> Sample:
        sample = super()._sample(number)
        held = 80 if self.changed[self.names[number]] else 100
        return replace(sample, held=held)


def test_a_change_that_misses_the_slo_goes_back() -> None:
    fleet = SlowLater("slo", 8, 0.1)
    result = promoted(fleet, PromotionSettings(has_slo=True)).run()
    assert result.verdict == "regressed"
    assert "80.0% of requests hold the SLO" in result.reason
    assert not any(fleet.changed.values())


def test_undecided_is_never_promoted_and_the_deadline_reverts() -> None:
    fleet = SimulatedFleet("deadline", 8, 0.05)
    promotion = StagedPromotion(fleet, PromotionSettings(), left_s=lambda: 0.0)
    promotion.baseline()
    result = promotion.run()
    assert (result.verdict, result.rounds) == ("undecided", 0)
    assert "the deadline came before proof" in result.reason
    assert not any(fleet.changed.values())


class FailingFleet(SimulatedFleet):
    """The third start of replicas fails with one of them changed already."""

    def start(self, changed: Mapping[str, bool]) -> None:
        super().start(changed)
        if self.restarts > 6:
            raise ReplicaFailedError("replica-5: did not start")


def test_a_replica_that_fails_takes_all_back() -> None:
    fleet = FailingFleet("failing", 8, 0.05)
    promotion = promoted(fleet)
    with pytest.raises(AssayError, match="did not start") as raised:
        promotion.run()
    assert raised.value.exit_code == 5
    assert not any(fleet.changed.values())


class TiredFleet(SimulatedFleet):
    """Holds its service levels up to a load."""

    bears = 1.2

    def measure(self, names: Collection[str], load: float = 1.0) -> dict[str, Sample]:
        samples = super().measure(names, load)
        held = 100 if load <= self.bears else 90
        return {name: replace(sample, held=held) for name, sample in samples.items()}


def test_as_many_are_out_as_the_slo_bears() -> None:
    settings = PromotionSettings(has_slo=True)
    loads: list[int] = []
    fleet = TiredFleet("tired", 8)
    # 8/7 = 1.14 is borne, 8/6 = 1.33 is not.
    assert replicas_out(fleet, settings, 3, lambda out, samples: loads.append(out)) == 1
    assert loads == [3, 2, 1]
    fleet.bears = 1.1
    with pytest.raises(ReplicaRefusedError, match=r"with one of 8 replicas out, got 90\.0%"):
        replicas_out(fleet, settings, 3, lambda out, samples: None)


def test_a_replica_that_fails_already_is_refused_by_name() -> None:
    class Broken(SimulatedFleet):
        def _sample(self, number: int) -> Sample:
            sample = super()._sample(number)
            return replace(sample, errors=3) if number == 5 else sample

    with pytest.raises(ReplicaRefusedError, match=r"replica-5: .* got 3 of 100 that failed"):
        promoted(Broken("broken"))


class FadingFleet(SimulatedFleet):
    """Gains at first; later the change costs more than it brought."""

    fades_after = 12

    def measure(self, names: Collection[str], load: float = 1.0) -> dict[str, Sample]:
        self.fades_after -= self.kept
        if self.fades_after <= 0:
            self.gain = -0.1
        return super().measure(names, load)


def test_a_fleet_goes_back_when_a_kept_change_turns_bad() -> None:
    fleet = FadingFleet("fading", 8, 0.1, Noise(fleet=0.01, rack=0.005))
    promotion = promoted(fleet)
    assert promotion.run().verdict == "promoted"
    watched = watch_fleet(promotion, math.inf)
    assert "faster first, slower later" in watched.reason
    # What all replicas share lasts here from window to window: a mean says less than its spread does.
    assert 12 < watched.windows < 80
    assert not any(fleet.changed.values())


def test_a_fleet_is_watched_for_as_long_as_asked() -> None:
    fleet = SimulatedFleet("steady", 8, 0.1)
    promotion = promoted(fleet)
    assert promotion.run().verdict == "promoted"
    ticks = itertools.count()
    promotion.clock = lambda: float(next(ticks))
    watched = watch_fleet(promotion, 30.0)
    assert (watched.reason, watched.windows) == ("", 29)
    assert all(fleet.changed.values())


class GarblingFleet(SimulatedFleet):
    """Answers one request in forty wrongly with the change; one in five hundred differs anyway."""

    def _sample(self, number: int) -> Sample:
        sample = super()._sample(number)
        share = self.garbles if self.changed[self.names[number]] else 1 / 500
        answers = {
            str(request): "right" if self._chance.random() > share else f"else {number}"
            for request in range(100)
        }
        return replace(sample, answers=answers)

    garbles = 1 / 40


def test_answers_that_changed_bar_the_promotion() -> None:
    fleet = GarblingFleet("garbling", 8, 0.1)
    result = promoted(fleet).run()
    assert result.verdict == "regressed"
    assert result.reason.startswith("answers changed: ")
    assert not any(fleet.changed.values())
    fleet = GarblingFleet("near ties", 8, 0.1)
    fleet.garbles = 1 / 500
    assert promoted(fleet).run().verdict == "promoted"
    fleet = GarblingFleet("judged before", 8, 0.1)
    assert promoted(fleet, PromotionSettings(judges_answers=False)).run().verdict == "promoted"


def test_fishers_test_is_that_of_scipy() -> None:
    compared = ComparedAnswers(without=900, differ_without=4, with_change=400, differ_with_change=9)
    expected = fisher_exact([[9, 391], [4, 896]], "greater").pvalue
    assert compared._chance() == pytest.approx(expected)
