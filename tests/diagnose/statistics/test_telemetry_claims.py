from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
import simulated_recordings as simulated

from assay.diagnose.mechanisms.findings import MechanismEstimate, NotExamined, Refuted
from assay.diagnose.mechanisms.weighed import weighed
from assay.diagnose.statistics.observations import ITL, MOST_ROWS, STEP, observe
from assay.diagnose.statistics.telemetry_claims import TelemetryClaims, claims_of
from assay.errors import InputError


@pytest.fixture(scope="module")
def run():
    return simulated.throttled_run(0, effect_us=300.0)


@pytest.fixture(scope="module")
def claims(run):
    samples, steps, _ = run
    return claims_of(observe(samples, steps))


def test_intervals_hold_the_means_of_their_steps(run):
    samples, steps, _ = run
    table = observe(samples, steps).table
    assert table.height == samples.height
    row = table.row(200, named=True)
    # Recounted from the raw steps.
    middle = (steps["start_ns"] + steps["dur_ns"] // 2).to_numpy()
    inside = (middle >= row["at"]) & (middle < row["at"] + simulated.PERIOD_NS)
    assert row[STEP] == pytest.approx(steps["dur_ns"].to_numpy()[inside].mean() / 1e3)
    assert row["batch"] == pytest.approx(steps["batch"].to_numpy()[inside].mean())
    assert row["prefill_share"] == 0.0


def test_throttling_is_told_from_the_load_that_brings_it(run, claims):
    _, _, share = run
    claim = claims.claims["throttling"]
    assert claim.status == "supported"
    assert claim.effect.value == pytest.approx(300.0, abs=25.0)
    # The plain difference counts the larger batches of throttled steps, too.
    assert claim.effect.unadjusted > 600.0
    assert claim.covariates == ("batch",)
    assert claim.effect.attributable is not None
    assert 0.5 * 300.0 * share < claim.effect.attributable < 1.1 * 300.0 * share
    assert "telemetry has no samples of the host" in claims.degradations
    # Processes, pressure and queue never changed: no claim about them.
    assert list(claims.claims) == ["throttling"]


def test_a_clock_that_moves_with_the_load_alone_is_no_cause():
    samples, steps, _ = simulated.throttled_run(1, effect_us=0.0)
    claim = claims_of(observe(samples, steps)).claims["throttling"]
    assert claim.effect.unadjusted > 300.0
    assert abs(claim.effect.value) < 40.0


def test_a_server_alone_gives_its_own_latency():
    observed = observe(simulated.server_run(2, effect_us=900.0))
    assert observed.outcome == ITL
    claim = claims_of(observed).claims["queueing"]
    assert claim.effect.value == pytest.approx(900.0, abs=40.0)
    assert claim.status == "supported"


def test_a_counter_that_starts_anew_is_no_negative_growth():
    samples = simulated.server_run(2, effect_us=0.0, count=100)
    restarted = samples.with_columns(
        pl.when(pl.col("tick") >= 50)
        .then(pl.col(name) - pl.col(name).filter(pl.col("tick") == 50).max())
        .otherwise(pl.col(name))
        .alias(name)
        for name in ("engine_itl_seconds_sum", "engine_itl_seconds_count")
    )
    table = observe(restarted).table
    assert table[ITL].min() > 5000.0
    assert table[ITL].null_count() == 2


def test_long_recordings_are_averaged():
    samples, steps, _ = simulated.throttled_run(3, effect_us=300.0, count=2 * MOST_ROWS + 1)
    table = observe(samples, steps).table
    assert table.height == -(-(2 * MOST_ROWS + 1) // 3)
    assert np.nanmean(table[STEP].to_numpy()) == pytest.approx(
        np.nanmean(observe(samples.head(500), steps).table[STEP].to_numpy()), rel=0.2
    )


def test_what_cannot_be_joined_is_refused(run):
    samples, steps, _ = run
    with pytest.raises(InputError, match='clock: expected realtime or monotonic, got "cupti"'):
        observe(samples, steps, "cupti")
    with pytest.raises(InputError, match="expected samples over the time of the outcome"):
        observe(samples)
    with pytest.raises(InputError, match="expected intervals with step time, got none"):
        observe(samples, steps.with_columns(pl.col("start_ns") + 10**15))


def _view(found: TelemetryClaims | None) -> SimpleNamespace:
    return SimpleNamespace(telemetry_claims=found)


PLAIN = MechanismEstimate(1.0, 0.5, 1.5, ("10 of 20 steps are longer",), source="telemetry")


def test_a_cause_takes_the_adjusted_estimate(claims):
    found = weighed(_view(claims), "throttling", PLAIN)
    assert isinstance(found, MechanismEstimate)
    effect = claims.claims["throttling"].effect
    assert found.ns_per_token == pytest.approx(1e3 * effect.attributable)
    assert found.lo < found.ns_per_token < found.hi
    assert "adjusted for batch" in found.statements[0]
    assert found.statements[-1] == "10 of 20 steps are longer"


def test_without_a_claim_the_comparison_says_so():
    few = TelemetryClaims({}, None, ("throttling: no estimate from telemetry: too few",))
    found = weighed(_view(few), "throttling", PLAIN)
    assert isinstance(found, MechanismEstimate)
    assert found.statements[-1] == (
        "not adjusted for load: throttling: no estimate from telemetry: too few"
    )
    assert weighed(_view(few), "sampling", PLAIN) is PLAIN
    lacking = NotExamined("telemetry")
    assert weighed(_view(None), "throttling", lacking) is lacking


def test_a_refuted_claim_is_no_cause(claims):
    import dataclasses

    from assay.diagnose.statistics.refuters import Refutation

    fell = dataclasses.replace(
        claims.claims["throttling"], refutations=(Refutation("subset", False, "halves differ"),)
    )
    found = weighed(_view(TelemetryClaims({"throttling": fell}, None)), "throttling", PLAIN)
    assert isinstance(found, Refuted)
    assert "refuted by subset: halves differ" in found.statement
