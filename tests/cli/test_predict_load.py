"""`assay predict-load`: a table by arrival rate, and inputs that it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from .conftest import Cli

ASKED = ("predict-load", "--model", "llama-3.1-8b", "--gpu", "h200")


def test_latencies_grow_with_the_rate_and_goodput_stops_growing(cli: Cli) -> None:
    done = cli(*ASKED, "--rates", "8,24", "--ttft-limit", "100", "--tpot-limit", "12", "--json")
    low, high = done.data["rates"]
    for name in ("first_token", "output_token", "end_to_end"):
        assert low[name]["p50"] <= low[name]["p90"] <= low[name]["p99"]
        assert low[name]["p90"] < high[name]["p90"]
    assert low["goodput"] > 7.5
    assert high["goodput"] < 20


def test_cached_prefixes_and_drafted_tokens_shorten_latencies(cli: Cli) -> None:
    def row(*options: str) -> dict[str, Any]:
        done = cli(*ASKED, "--rates", "8", *options, "--json")
        found: dict[str, Any] = done.data["rates"][0]
        return found

    plain = row()
    assert row("--prefix-hits", "0.8")["first_token"]["p50"] < plain["first_token"]["p50"]
    drafted = row("--speculative-tokens", "3", "--acceptance", "0.7")
    assert drafted["output_token"]["p50"] < plain["output_token"]["p50"]


def test_a_rate_beyond_the_server_is_a_note(cli: Cli) -> None:
    done = cli(*ASKED, "--rates", "500")
    assert "500 requests/s" in done.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--rates", "fast"), "--rates: expected requests per second"),
        (("--rates", "1", "--prefix-hits", "1"), "prefix hits: expected 0 to below 1"),
        (("--rates", "1", "--ttft-limit", "-5"), "--ttft-limit: expected milliseconds above 0"),
        (("--rates", "1", "--prompt", "0"), "expected lengths of 1 token or more"),
    ],
)
def test_bad_input_is_named(cli: Cli, options: tuple[str, ...], message: str) -> None:
    done = cli(*ASKED, *options)
    assert done.code == 2
    assert message in done.err
