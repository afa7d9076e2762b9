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


def test_a_rate_beyond_the_server_is_saturated(cli: Cli) -> None:
    assert "500 requests/s: saturated" in cli(*ASKED, "--rates", "500").out
    (refused,) = cli(*ASKED, "--rates", "500", "--json").data["refused"]
    assert (refused["rate"], refused["verdict"]) == (500, "saturated")


def test_saturation_says_what_the_server_completes(cli: Cli) -> None:
    assert "the server completes " in cli(*ASKED, "--rates", "500").out
    most = cli(*ASKED, "--rates", "500", "--json").data["completes"]
    assert most["lo"] < most["rate"] < most["hi"]
    below, above = 0.97 * most["rate"], 1.03 * most["rate"]
    around = cli(*ASKED, "--rates", f"{below},{above}", "--json").data
    assert [row["rate"] for row in around["rates"]] == [pytest.approx(below)]
    assert [row["rate"] for row in around["refused"]] == [pytest.approx(above)]
    assert cli(*ASKED, "--rates", "1", "--json").data["completes"] is None


def test_one_output_token_has_no_time_between_tokens(cli: Cli) -> None:
    asked = (*ASKED, "--rates", "1", "--output", "1", "--tpot-limit", "0.001")
    (row,) = cli(*asked, "--json").data["rates"]
    for load in (row, row["lo"], row["hi"]):
        assert load["output_token"] is None
        assert load["token_gap"] is None
        # The first token is the whole answer, and the limit of what does not exist is kept.
        assert load["end_to_end"] == load["first_token"]
        assert load["goodput"] == pytest.approx(1.0)
    (line,) = (line for line in cli(*asked).out.splitlines() if "TPOT" in line)
    assert line.split()[2:5] == ["n/a", "n/a", "n/a:"]


@pytest.mark.parametrize("running", [256, 1024])
def test_the_kv_cache_holds_what_the_graph_says_that_it_holds(cli: Cli, running: int) -> None:
    asked = ("predict-load", "--model", "llama-3.1-8b", "--gpu", "h100_sxm", "--rates", "0.1",
             "--prompt", "100", "--output", "4000", "--max-running", str(running))  # fmt: skip
    note = cli(*asked).err
    values = ("serving.prompt=100 token", "serving.output=4000 token",
              f"serving.batch_limit={running} request")  # fmt: skip
    settings = [word for value in values for word in ("--set", value)]
    graph = cli("resolve", "serving.kv.max_concurrency", "--preset", "llama3_8b_h200_serving",
                "--with", "accelerators/h100_sxm", *settings, "--no-interval", "--json").data  # fmt: skip
    assert f"holds {int(graph['value'])} requests of their whole 4,100 tokens" in note
    assert "half way through" in note


def test_an_idle_server_has_the_latency_of_one_request(cli: Cli) -> None:
    idle, busy = cli(*ASKED, "--rates", "0.001,5", "--json").data["rates"]
    step = cli("predict", "--model", "llama-3.1-8b", "--gpu", "h200", "--prefill-tokens", "1024",
               "--batch", "0", "--json").data["totals"]["step"]  # fmt: skip
    # The prompt's own iteration, and the server's time around it.
    own = step["expected"] / 1e9
    assert own < idle["first_token"]["p50"] == idle["first_token"]["p99"] < own + 0.01
    assert idle["first_token"]["p50"] < busy["first_token"]["p50"]
    assert (idle["verdict"], busy["verdict"]) == ("idle", "ok")
    assert idle["goodput"] == pytest.approx(0.001)


def test_every_figure_has_an_interval_that_widens_near_saturation(cli: Cli) -> None:
    few, many, most = cli(*ASKED, "--rates", "1,18,30", "--json").data["rates"]
    widths = []
    for row in (few, many):
        for name in ("first_token", "output_token", "token_gap", "end_to_end"):
            for figure, value in row[name].items():
                assert row["lo"][name][figure] < value < row["hi"][name][figure]
        widths.append(row["hi"]["end_to_end"]["p50"] / row["lo"]["end_to_end"]["p50"])
    assert widths[1] > 1.3 * widths[0]
    assert most["verdict"] == "near saturation"
    assert most["hi"] is None
    assert "no end" in cli(*ASKED, "--rates", "30").out


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
