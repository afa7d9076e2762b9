"""Traffic of a plan: formats of recordings, what is refused, and service levels."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from assay.errors import AssayError
from assay.load.traffic import drawn_traffic, read_objective, read_traffic, read_traffic_by_model

OWN = [
    {"arrival_s": 0.0, "input_tokens": 10, "output_tokens": 5},
    {"arrival_s": 1.0, "input_tokens": 20, "output_tokens": 6},
    {"arrival_s": 4.0, "input_tokens": 30, "output_tokens": 7},
]


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def lines(rows: list[dict[str, object]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


MOONCAKE = lines(
    [
        {"timestamp": 1000 * n, "input_length": 600, "output_length": 5, "hash_ids": [0, n]}
        for n in range(3)
    ]
)
AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n" + "".join(
    f"2023-11-16 18:15:4{n}.5000000,374,44\n" for n in range(3)
)
BURST = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n" + "".join(
    f"{n},GPT-4,100,{20 if n else 0},120,API log\n" for n in range(4)
)
DATED = "timestamp,prompt_tokens,completion_tokens\n" + "".join(
    f"2026-11-16T18:15:4{n}Z,512,100\n" for n in range(3)
)


@pytest.mark.parametrize(
    ("text", "requests", "prompt", "rate"),
    [
        (lines(OWN), 3, 20.0, 0.75),
        (MOONCAKE, 3, 600.0, 1.5),
        (AZURE, 3, 374.0, 1.5),
        (BURST, 3, 100.0, 1.5),
        (DATED, 3, 512.0, 1.5),
        (DATED.replace("2026-11-16T18:15:4", "").replace("Z", ""), 3, 512.0, 1.5),
    ],
    ids=["own", "mooncake", "azure", "burstgpt", "own csv", "own csv of seconds"],
)
def test_recordings_are_read(
    tmp_path: Path, text: str, requests: int, prompt: float, rate: float
) -> None:
    traffic = read_traffic(written(tmp_path / "requests", text))
    assert traffic.requests == pytest.approx(requests)
    assert traffic.prompts.mean() == prompt
    assert traffic.peak == pytest.approx(rate)


def test_repeated_blocks_are_hits(tmp_path: Path) -> None:
    traffic = read_traffic(written(tmp_path / "requests", MOONCAKE))
    assert traffic.fresh(1e9).tolist() == [600.0, 88.0, 88.0]
    assert traffic.fresh(0.0).tolist() == [600.0, 600.0, 600.0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "got an empty file"),
        (lines([OWN[2], OWN[0]]), "expected times in order, got request 2 at 0 s after one at 4 s"),
        (DATED.replace("completion_tokens", "answer"), "expected recorded requests"),
        (lines([OWN[0], OWN[0]]), "expected requests over some time"),
        (
            lines([{"prompt": "Why?", "max_tokens": 8}]),
            "expected requests with times, got 1 without",
        ),
        (BURST.splitlines()[0] + "\n", "expected requests .*got none"),
    ],
    ids=["empty", "unsorted", "no column of outputs", "one moment", "no times", "no rows"],
)
def test_bad_recordings_are_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(AssayError, match=message):
        read_traffic(written(tmp_path / "requests", text))


def test_fields_that_a_plan_does_not_use_are_said(tmp_path: Path) -> None:
    named = DATED.replace("_tokens\n", "_tokens,user,region\n").replace(",100\n", ",100,bob,eu\n")
    for text in (
        named,
        lines([{**row, "user": 1, "region": "eu"} for row in OWN]),
        AZURE.replace("GeneratedTokens", "GeneratedTokens,user,region"),
    ):
        assert read_traffic(written(tmp_path / "log", text)).notes == (
            "log: not used: user, region",
        )


@pytest.mark.parametrize(("unit", "factor"), [("milli", 1e3), ("micro", 1e6), ("nano", 1e9)])
def test_times_since_1970_are_told_by_their_size(tmp_path: Path, unit: str, factor: float) -> None:
    rows = "".join(f"{int((1.79e9 + n) * factor)},512,100\n" for n in range(3))
    header = DATED.splitlines()[0] + "\n"
    traffic = read_traffic(written(tmp_path / "requests", header + rows))
    assert traffic.peak == pytest.approx(1.5)
    assert traffic.notes == (f"times in {unit}seconds since 1970: 3 requests",)


@pytest.mark.parametrize(
    "text",
    [
        "when;p;user;a\n0;7;bob;5\n2;9;eve;5\n",
        '{"when": 0, "p": 7, "a": 5}\n{"when": 2.0, "p": 9, "a": 5, "user": "eve"}\n',
    ],
    ids=["csv with semicolons", "json lines"],
)
def test_columns_may_have_any_names(tmp_path: Path, text: str) -> None:
    path = written(tmp_path / "requests", text)
    traffic = read_traffic(path, columns="time=when, in=p, out=a")
    assert (traffic.prompts.tolist(), traffic.seconds) == ([7.0, 9.0], 2.0)
    with pytest.raises(AssayError) as refused:
        read_traffic(path)
    assert "--columns time=COLUMN" in (refused.value.hint or "")
    for wrong, said in (
        ("time=when,in=p", "expected out=COLUMN too"),
        ("when,p,a", "expected time=, in= and out="),
        ("time=when,in=p,in=a", "expected in once"),
        ("time=when,in=p,out=b", '"b", got none'),
    ):
        with pytest.raises(AssayError, match=said):
            read_traffic(path, columns=wrong)


def test_a_rate_takes_the_lengths_of_a_recording(tmp_path: Path) -> None:
    traffic = read_traffic(written(tmp_path / "requests", lines([OWN[2], OWN[0]])), rate=7.0)
    assert (traffic.peak, sorted(traffic.prompts.tolist())) == (7.0, [10.0, 30.0])


def test_drawn_lengths_are_those_of_their_distribution() -> None:
    traffic = drawn_traffic(3.0, "100-300", "64")
    assert traffic.prompts.mean() == pytest.approx(200, rel=0.02)
    assert set(traffic.outputs.tolist()) == {64.0}


def test_service_levels_have_a_share() -> None:
    objective = read_objective("ttft=1s,tpot=50ms,e2el=20s,p=95%")
    assert objective.limits == {"ttft": 1.0, "tpot": 0.05, "e2el": 20.0}
    assert objective.share == 0.95
    assert read_objective("tpot=50").share == 0.99


@pytest.mark.parametrize(
    "text", ["", "p=99%", "ttft=1s,p=99", "ttft=1s,p=100%", "ttft=1s,p=90%,p=99%", "tbt=3ms"]
)
def test_bad_service_levels_are_refused(text: str) -> None:
    with pytest.raises(AssayError):
        read_objective(text)


MIXED = "time,model,prompt_tokens,completion_tokens\n" + "".join(
    f"{600 * n},{'meta-llama/Llama-3.1-8B-Instruct' if n % 3 else 'qwen3-8b'},{100 if n % 3 else 900},10\n"
    for n in range(19)
)


def test_each_model_of_a_recording_has_its_own_requests(tmp_path: Path) -> None:
    path = written(tmp_path / "mixed.csv", MIXED)
    traffics = read_traffic_by_model(path, ["llama-3.1-8b", "qwen3-8b"])
    llama, qwen = traffics["llama-3.1-8b"], traffics["qwen3-8b"]
    assert (len(llama.prompts), len(qwen.prompts)) == (12, 7)
    assert (llama.prompts.mean(), qwen.prompts.mean()) == (100, 900)
    # Both are of the recording's three hours, whatever their own first and last request.
    assert {period.start for period in llama.periods} == {0.0, 3600.0, 7200.0}
    assert llama.seconds == qwen.seconds == 10800
    named = written(tmp_path / "named.csv", MIXED.replace("time,model", "t,which"))
    columns = "time=t,in=prompt_tokens,out=completion_tokens,model=which"
    again = read_traffic_by_model(named, list(traffics), columns=columns)
    assert again["qwen3-8b"].prompts.tolist() == qwen.prompts.tolist()


@pytest.mark.parametrize(
    ("text", "models", "message"),
    [
        (MIXED, ["llama-3.1-8b", "qwen3-14b"], "got 7 of qwen3-8b"),
        (
            MIXED,
            ["llama-3.1-8b", "qwen3-8b", "qwen3-14b"],
            "expected requests of qwen3-14b, got none",
        ),
        (DATED, ["llama-3.1-8b", "qwen3-8b"], "got a recording without one"),
    ],
    ids=["another", "none", "no column"],
)
def test_requests_of_no_model_are_refused(
    tmp_path: Path, text: str, models: list[str], message: str
) -> None:
    with pytest.raises(AssayError, match=message):
        read_traffic_by_model(written(tmp_path / "mixed.csv", text), models)
