"""What is written on the command line, and what is refused."""

import json
from pathlib import Path

import pytest

from assay.errors import AssayError, InputError
from assay.load.workloads.builtin import workload
from assay.load.workloads.spec import (
    parse_bursts,
    parse_duration,
    parse_objective,
    parse_rate,
    parse_share,
    parse_slo,
    parse_workload,
)
from assay.load.workloads.workload import Objective, ServiceLevel


@pytest.mark.parametrize(
    ("text", "expected"),
    [("90", 90.0), ("20m", 1200.0), ("24h", 86400.0), ("1h30m", 5400.0), ("250ms", 0.25),
     ("2d", 172800.0), ("1.5h", 5400.0), ("5min", 300.0), ("1m30s", 90.0), (2.5, 2.5)],
)  # fmt: skip
def test_durations(text: str | float, expected: float) -> None:
    assert parse_duration("--budget", text) == pytest.approx(expected)


@pytest.mark.parametrize(
    "text", ["", "m", "0", "0s", "-5m", "20 minutes", "1h30", "1e3", "inf", "nan", "5mm", "\x00"]
)
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(InputError, match=r"^--budget: expected"):
        parse_duration("--budget", text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ttft=1s,tpot=50ms", ServiceLevel(1000.0, 50.0)),
        ("ttft=1s, tpot=50ms, e2el=20s", ServiceLevel(1000.0, 50.0, 20000.0)),
        # As in vllm bench serve --goodput: milliseconds.
        ("ttft:1000 tpot:50", ServiceLevel(1000.0, 50.0)),
        ("TPOT=12.5", ServiceLevel(tpot_ms=12.5)),
    ],
)
def test_service_levels(text: str, expected: ServiceLevel) -> None:
    found = parse_slo("--slo", text)
    for name in ("ttft_ms", "tpot_ms", "e2el_ms"):
        assert getattr(found, name) == pytest.approx(getattr(expected, name))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "--slo: expected at least one limit"),
        ("ttft", "--slo: expected NAME=TIME"),
        ("ttft=", "--slo: expected NAME=TIME"),
        ("itl=5ms", 'unknown metric of --slo "itl"'),
        ("ttft=1s,ttft=2s", "--slo: expected ttft once"),
        ("ttft=0", "--slo ttft: expected more than no time"),
        ("ttft=soon", "--slo ttft: expected a duration"),
    ],
)
def test_what_is_no_service_level(text: str, message: str) -> None:
    with pytest.raises(AssayError, match=message):
        parse_slo("--slo", text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("4", 4.0), ("0.5/s", 0.5), ("120/min", 2.0), ("3600/h", 1.0), (7, 7.0), ("1e4", 1e4)],
)
def test_rates(text: str | float, expected: float) -> None:
    assert parse_rate("--rate", text) == pytest.approx(expected)
    assert parse_rate("--rate", "inf") is None


@pytest.mark.parametrize("text", ["", "0", "-1", "nan", "4/y", "fast", "1/0", "0e3", "1e99"])
def test_what_is_no_rate(text: str) -> None:
    with pytest.raises(InputError, match=r"^--rate: expected requests per second"):
        parse_rate("--rate", text)


def test_shares() -> None:
    assert parse_share("--target", "15%") == pytest.approx(0.15)
    assert parse_share("--target", 0.15) == 0.15
    for text in ("", "0", "0%", "-5%", "lots", "nan"):
        with pytest.raises(InputError, match=r"^--target: expected a share"):
            parse_share("--target", text)
    assert parse_share("--target", "150%") == 1.5
    # 15 alone may be 15% or fifteen times as fast.
    with pytest.raises(InputError, match=r"--target: expected a percentage.*got '15'") as caught:
        parse_share("--target", "15")
    assert caught.value.hint == "write 15% or 1500%"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("output_throughput", Objective("output_throughput", "higher")),
        ("goodput", Objective("request_goodput", "higher")),
        ("mean_tpot_ms", Objective("mean_tpot_ms", "lower")),
        ("p99_ttft_ms", Objective("p99_ttft_ms", "lower")),
        ("p99.9_itl_ms", Objective("p99.9_itl_ms", "lower")),
        ("TTFT", Objective("mean_ttft_ms", "lower")),
    ],
)
def test_objectives_are_named_as_in_vllm_bench_serve(text: str, expected: Objective) -> None:
    assert parse_objective("--metric", text) == expected


@pytest.mark.parametrize("text", ["", "speed", "p99_ttft", "p999_ttft_ms", "mean_tpot_s"])
def test_what_is_no_objective(text: str) -> None:
    with pytest.raises(AssayError, match=r"^unknown metric of --metric"):
        parse_objective("--metric", text)


def test_a_workload_is_a_name_or_a_file(tmp_path: Path) -> None:
    assert parse_workload("chat", requests=3, seed=2) == workload("chat", requests=3, seed=2)
    path = tmp_path / "requests.jsonl"
    rows = [{"prompt": f"Request {number}", "max_tokens": 8} for number in range(6)]
    path.write_text("\n".join(json.dumps(row) for row in rows))
    slo, objective = ServiceLevel(ttft_ms=9.0), Objective("p99_ttft_ms", "lower")
    read = parse_workload(str(path), requests=5, concurrency=2, slo=slo, objective=objective)
    assert [one.prompt for one in read.requests] == [f"Request {number}" for number in range(5)]
    assert (read.concurrency, read.slo, read.objective) == (2, slo, objective)
    opened = parse_workload(str(path), rate=3.0)
    assert (opened.arrival, opened.rate, opened.concurrency) == ("poisson", 3.0, None)
    assert opened.requests[-1].arrival_s == pytest.approx(2.0)


def test_names_that_are_none_and_options_that_do_nothing_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="expected a name or a file of requests") as caught:
        parse_workload("chta")
    assert caught.value.hint == "did you mean chat?"
    with pytest.raises(InputError, match="format: expected none with a built-in workload"):
        parse_workload("chat", format="mooncake")
    path = tmp_path / "requests.jsonl"
    path.write_text('{"prompt": "a", "max_tokens": 1}')
    with pytest.raises(InputError, match="scale: expected none with a file of requests"):
        parse_workload(str(path), scale=4.0)
    assert parse_workload(str(path), scale=1.0, input_tokens=None).requests[0].prompt == "a"


def test_bursts_run_and_rest() -> None:
    assert parse_bursts("--bursts", "2s/8s") == (2.0, 8.0)
    for text in ("", "2s", "2s/", "/8s", "2s/0", "a/b"):
        with pytest.raises(InputError, match=r"^--bursts: expected"):
            parse_bursts("--bursts", text)
    made = workload("chat", requests=50, rate=5.0, bursts=(1.0, 3.0))
    assert (made.arrival, made.rate) == ("burst", 5.0)
    assert all(one.arrival_s % 4.0 <= 1.0 + 1e-9 for one in made.requests)
    with pytest.raises(InputError, match="bursts: expected them with a rate"):
        workload("chat", bursts=(1.0, 3.0))
    with pytest.raises(InputError, match="bursts: expected them without a burstiness"):
        workload("chat", rate=1.0, burstiness=2.0, bursts=(1.0, 3.0))
