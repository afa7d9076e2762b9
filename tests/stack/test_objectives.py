"""SLO attainment against simulated requests and measured latencies under load."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from assay.model import Registry
from assay.stack import registry as whole_stack

RUNS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "data" / "vllm_h200_openloop_llama8b.json").read_text()
)["runs"]
FIRST, TOKEN = 0.4, 0.02
GIVEN = {
    "serving.time_to_first_token": FIRST, "serving.time_per_output_token": TOKEN,
    "serving.request_rate": 10.0, "serving.slo.time_to_first_token": 0.5,
    "serving.slo.time_per_output_token": 0.021, "serving.slo.first_token_variation": 0.6,
    "serving.slo.output_token_variation": 0.2, "serving.slo.correlation": 0.0,
}  # fmt: skip


@pytest.fixture(scope="module")
def registry() -> Registry:
    return whole_stack()


def ask(registry: Registry, name: str, **changes: float) -> float:
    values = GIVEN | {f"serving.{key}".replace("slo_", "slo."): v for key, v in changes.items()}
    found = registry.resolve(f"serving.{name}", given=dict(values)).value
    assert found is not None
    return found


def simulated(correlation: float, count: int = 400_000) -> tuple[np.ndarray, np.ndarray]:
    """TTFT and TPOT of requests, with the means and coefficients of variation given."""
    random = np.random.default_rng(0)
    one, other = random.standard_normal((2, count))
    other = correlation * one + math.sqrt(1 - correlation**2) * other
    return tuple(
        mean / math.sqrt(1 + cv**2) * np.exp(math.sqrt(math.log(1 + cv**2)) * normal)
        for mean, cv, normal in ((FIRST, 0.6, one), (TOKEN, 0.2, other))
    )  # type: ignore[return-value]


def test_simulated_requests_have_the_mean_and_median_stated(registry: Registry) -> None:
    firsts, tokens = simulated(0.0)
    assert np.mean(firsts) == pytest.approx(FIRST, rel=0.005)
    assert np.std(firsts) / np.mean(firsts) == pytest.approx(0.6, rel=0.01)
    assert ask(registry, "median_time_to_first_token") == pytest.approx(np.median(firsts), rel=0.01)
    assert ask(registry, "median_time_per_output_token") == pytest.approx(
        np.median(tokens), rel=0.01
    )


@pytest.mark.parametrize("correlation", [-0.95, -0.5, 0.0, 0.3, 0.8, 0.95])
def test_attainment_is_the_simulated_share(registry: Registry, correlation: float) -> None:
    firsts, tokens = simulated(correlation)
    share = float(np.mean((firsts <= 0.5) & (tokens <= 0.021)))
    found = ask(registry, "slo.attainment", slo_correlation=correlation)
    assert found == pytest.approx(share, abs=0.004)
    assert ask(registry, "goodput", slo_correlation=correlation) == pytest.approx(10 * found)
    low, high = ask(registry, "slo.least_attainment"), ask(registry, "slo.most_attainment")
    assert low <= found <= high
    assert (low, high) == pytest.approx((0.4033, 0.6467), abs=0.02)


def test_a_mean_at_its_limit_is_met_by_more_than_half(registry: Registry) -> None:
    # The median of a lognormal lies below its mean: 0.4 s and 0.02 s/token are means.
    at_limit = {"slo_time_to_first_token": FIRST, "slo_time_per_output_token": 10.0}
    share = ask(registry, "slo.attainment", **at_limit)
    assert share == pytest.approx(float(np.mean(simulated(0.0)[0] <= FIRST)), abs=0.004)
    assert share > 0.6


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run["name"])
@pytest.mark.parametrize(
    ("latency", "limit", "share", "variation"),
    [
        ("ttft_s", "slo_time_to_first_token", "first_token", 0.39),
        ("mean_itl_s", "slo_time_per_output_token", "output_token", 0.13),
    ],
)
def test_attainment_at_measured_quantiles(
    registry: Registry, run: dict[str, Any], latency: str, limit: str, share: str, variation: float
) -> None:
    # Open-loop arrivals at vLLM on an H200: with the measured mean and the preset's variation. A mean
    # over 128 tokens has a lighter tail than a lognormal.
    measured = run[latency]
    time = "time_to_first_token" if share == "first_token" else "time_per_output_token"
    for quantile, expected, tolerance in (
        ("p50", 0.5, 0.1),
        ("p90", 0.9, 0.06),
        ("p99", 0.99, 0.065),
    ):
        changes = {time: measured["mean"], limit: measured[quantile]}
        changes[f"slo_{share}_variation"] = variation
        found = ask(registry, f"slo.{share}_attainment", **changes)
        assert found == pytest.approx(expected, abs=tolerance)
