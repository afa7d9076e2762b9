"""Predicted latencies under open-loop load beside measured ones: vLLM 0.24, Llama-3-8B, one H200."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from assay.planner.questions import LoadPrediction, predict_load

MEASURED = json.loads(
    (Path(__file__).parents[1] / "data" / "vllm_h200_openloop_llama8b.json").read_text()
)["runs"]


@pytest.fixture(scope="module")
def predicted() -> LoadPrediction:
    rates = [run["offered_req_s"] for run in MEASURED]
    return predict_load("llama-3.1-8b", "h200_sxm", [*rates, 60.0])


@pytest.fixture(scope="module")
def busy() -> LoadPrediction:
    return predict_load("llama-3.1-8b", "h200_sxm", [3.8, 27.7])


@pytest.mark.parametrize("run", [0, 1])
def test_percentiles_are_near_the_measured_ones(predicted: LoadPrediction, run: int) -> None:
    row, measured = predicted.rates[run], MEASURED[run]
    for level in ("p50", "p90", "p99"):
        assert getattr(row.first_token, level) == pytest.approx(measured["ttft_s"][level], rel=0.3)
        assert getattr(row.output_token, level) == pytest.approx(
            measured["mean_itl_s"][level], rel=0.15
        )
        assert getattr(row.end_to_end, level) == pytest.approx(measured["e2e_s"][level], rel=0.12)
    assert row.running == pytest.approx(measured["mean_requests_in_system"], rel=0.12)


@pytest.mark.parametrize(
    ("rate", "figure", "level", "measured"),
    [
        # vLLM 0.24 on an H200, 1,024 in, 128 out, Poisson arrivals.
        (3.8, "first_token", "p99", 0.065),
        (27.7, "first_token", "p50", 0.0807),
        (27.7, "first_token", "p99", 0.280),
        (27.7, "output_token", "p50", 0.0192),
        (27.7, "end_to_end", "p50", 2.528),
    ],
)
def test_measured_latencies_are_near_and_within_their_intervals(
    busy: LoadPrediction, rate: float, figure: str, level: str, measured: float
) -> None:
    (row,) = (row for row in busy.rates if row.rate == rate)
    ends = [getattr(getattr(end, figure), level) if end else math.inf for end in (row.lo, row.hi)]
    assert ends[0] < measured < ends[1]
    assert getattr(getattr(row, figure), level) == pytest.approx(measured, rel=0.2)


def test_a_rate_beyond_the_server_is_refused(predicted: LoadPrediction) -> None:
    # The measured server saturates near 30 requests/s.
    assert [rate for rate, _ in predicted.refused] == [60.0]


@pytest.mark.parametrize("prompt", [8_192, 65_536])
def test_a_few_tokens_beyond_a_chunk_are_no_whole_chunk(prompt: int) -> None:
    # A prompt of 8,200 tokens took the time of 16,384, one of 155,527 that of 163,840.
    whole, more = (
        predict_load("llama-3.1-8b", "h200_sxm", [1e-3], prompt=tokens, output=2).rates[0]
        for tokens in (prompt, prompt + 8)
    )
    assert 1 < more.first_token.mean / whole.first_token.mean < 1.06


def test_what_the_queues_leave_out_of_the_clock_is_said() -> None:
    notes = " ".join(predict_load("llama-3.1-8b", "h200_sxm", [1.0], finds_most=False).notes)
    assert "the clock of short runs" in notes
    assert "assay plan" in notes
