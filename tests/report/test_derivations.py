"""Rules against closed forms and against figures computed another way from the raw file."""

import math
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy.optimize import brentq

from assay.errors import InputError
from assay.improve.experiments.levels import coverage, level
from assay.improve.loop.record import RunRecord
from assay.intervals import Interval
from assay.report import derivations
from assay.report.claim import Evidence
from assay.report.run_files import RunFiles

Finished = tuple[Path, RunRecord]
COMPARED = {"better": "higher", "confidence": 0.95}


def test_median_interval_is_the_published_one() -> None:
    """Conover, Practical Nonparametric Statistics, 3rd edition, table A3: n = 10, 95 %: 2nd to 9th."""
    assert level([float(one) for one in range(1, 11)]) == (5.5, 2.0, 9.0)
    assert level([float(one) for one in range(1, 17)]) == (8.5, 4.0, 13.0)


def test_median_interval_covers_what_it_says() -> None:
    """Of 2,000 samples of a skewed distribution, the interval holds the median as often as said."""
    random = np.random.default_rng(7)
    for count in (6, 9, 17):
        samples = random.lognormal(0.0, 1.0, size=(2000, count))
        found = [level(list(row)) for row in samples]
        held = np.mean([one is not None and one.lo <= 1.0 <= one.hi for one in found])
        spread = 3 * math.sqrt(coverage(count) * (1 - coverage(count)) / 2000)
        assert abs(held - coverage(count)) < spread


def test_the_ratio_follows_from_the_raw_file(finished: Finished) -> None:
    """The mixture's root by SciPy, the mean by NumPy, from a file read by Polars."""
    rows = pl.read_parquet(finished[0] / "experiments.parquet").filter(
        (pl.col("experiment") == "confirm") & (pl.col("dropped") == "")
    )
    wide = rows.pivot("arm", index="pair", values="value").drop_nulls().sort("pair")
    logs = np.log(wide["treatment"].to_numpy() / wide["control"].to_numpy())
    count, mean, spread = len(logs), logs.mean(), logs.std()

    def martingale(half: float) -> float:
        statistic = (half / spread) ** 2
        terms = [
            (1 + count * g) ** -0.5
            * ((1 + statistic) / (1 + statistic / (1 + count * g))) ** (count / 2)
            for g in (1.0, 2500.0)
        ]
        return float(np.mean(terms)) - 1 / 0.05

    half = brentq(martingale, 1e-9, 10.0, xtol=1e-14)
    evidence = Evidence(
        "experiments.parquet", derivations.RATIO, {"experiment": "confirm"}, COMPARED
    )
    found = derivations.derive(RunFiles(finished[0]), evidence)
    # No log-ratio of this sample is far enough out to be clipped.
    assert np.abs(logs - np.median(logs)).max() < 3 * spread
    assert found.value == pytest.approx(math.exp(mean), rel=1e-9)
    assert found.lo == pytest.approx(math.exp(mean - half), rel=1e-6)
    assert found.hi == pytest.approx(math.exp(mean + half), rel=1e-6)


def test_a_lower_metric_is_better_when_it_falls() -> None:
    rows = [
        {"experiment": "a", "index": 2 * pair + place, "pair": pair, "arm": arm, "started_at": 0.0,
         "seconds": 1.0, "value": value, "output_tokens": 1, "requests": 1, "load_state": "stable",
         "settings": {}, "dropped": "", "figures": {}}
        for pair in range(4)
        for place, (arm, value) in enumerate((("control", 20.0), ("treatment", 10.0)))
    ]  # fmt: skip
    found = derivations.ratio_of(rows, "lower", 0.05)
    assert found is not None
    assert found.value == pytest.approx(2.0)


def test_the_waterfall_adds_up(finished: Finished) -> None:
    steps = pl.read_parquet(finished[0] / "residuals.parquet")
    observed = sorted(steps["observed_ns"].to_list())[(steps.height - 1) // 2] / 1e3
    files = RunFiles(finished[0])

    def term(name: str) -> float:
        evidence = Evidence("residuals.parquet", derivations.TERM, {}, {"term": name})
        return derivations.derive(files, evidence).value

    from assay.diagnose.terms import TERMS

    assert term("observed") == observed
    assert sum(term(name) for name in TERMS) == pytest.approx(observed, rel=1e-12)


def test_cost_and_energy_are_price_and_power_over_rate(finished: Finished) -> None:
    rows = pl.read_parquet(finished[0] / "experiments.parquet").filter(
        (pl.col("experiment") == "confirm")
        & (pl.col("arm") == "treatment")
        & (pl.col("dropped") == "")
    )
    rate = float(np.median((rows["output_tokens"] / rows["seconds"]).to_numpy()))
    files = RunFiles(finished[0])
    select = {"experiment": "confirm", "arm": "treatment"}
    cost = derivations.derive(
        files,
        Evidence(
            "experiments.parquet", derivations.COST, select,
            {"confidence": 0.95, "usd_per_hour": 0.096},
        ),
    )  # fmt: skip
    assert cost.value == pytest.approx(0.096 / 3600 / rate * 1e6, rel=1e-12)
    assert cost.lo < cost.value < cost.hi
    energy = derivations.derive(
        files, Evidence("experiments.parquet", derivations.ENERGY, select, {"confidence": 0.95})
    )
    # The sample's packages take 30 W and its memory 5 W.
    assert energy.value == pytest.approx(35.0 / rate, rel=1e-9)


def test_a_rate_of_data_sets_is_also_a_time_of_an_event(finished: Finished) -> None:
    files = RunFiles(finished[0])
    select = {"experiment": "confirm", "arm": "treatment"}

    def derived(rule: str, **parameters: object) -> Interval:
        evidence = Evidence("experiments.parquet", rule, select, COMPARED | parameters)
        return derivations.derive(files, evidence)

    rate = derived(derivations.MEDIAN)
    # 20,000 events a data set: nanoseconds of an event fall where the rate rises.
    time = derived(derivations.OWN_UNIT, scale=5e4, is_time=True)
    assert time == pytest.approx((5e4 / rate.value, 5e4 / rate.hi, 5e4 / rate.lo))
    frames = derived(derivations.OWN_UNIT, scale=4.0, is_time=False)
    assert frames == pytest.approx((4 * rate.value, 4 * rate.lo, 4 * rate.hi))


def test_forecasts_are_scored_once_for_each_candidate(finished: Finished) -> None:
    """Four candidates have forecasts, one of them failed: three outcomes, of which 0.94 is outside."""
    files = RunFiles(finished[0])
    evidence = Evidence("journal.jsonl", derivations.COVERAGE, {}, COMPARED)
    scored = derivations.forecasts(files, evidence)
    assert [name for name, _, _ in scored] == ["e1-threads", "e2-graphs", "e3-batch"]
    assert derivations.derive(files, evidence).value == pytest.approx(2 / 3)


@pytest.mark.parametrize("rule", sorted(derivations.RULES))
def test_rows_that_do_not_exist_are_an_error(finished: Finished, rule: str, tmp_path: Path) -> None:
    """Every rule says what it misses; counts are zero."""
    select = {"experiment": "no such experiment"}
    parameters = COMPARED | {
        "term": "no such term",
        "path": "no/such",
        "usd_per_hour": 1.0,
        "cause": "no such",
    }
    evidence = Evidence("experiments.parquet", rule, select, parameters)
    if rule in (derivations.COUNT, derivations.COVERAGE, derivations.ERROR, derivations.FORECASTS):
        return
    with pytest.raises(InputError, match="expected"):
        derivations.derive(RunFiles(finished[0]), evidence)


def test_files_outside_the_folder_are_refused(finished: Finished) -> None:
    with pytest.raises(InputError, match="expected a file inside it"):
        RunFiles(finished[0]).path("../../etc/passwd")
