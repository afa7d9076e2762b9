"""Traffic of a plan: formats of recordings, what is refused, and service levels."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from assay.errors import AssayError
from assay.load.traffic import drawn_traffic, read_objective, read_traffic

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
        (lines([{**OWN[0], "tenant": 1}]), 'unknown field in .*line 1 "tenant"'),
        (AZURE.replace("GeneratedTokens", "GeneratedTokens,Tenant"), 'unknown field .* "Tenant"'),
        (DATED.replace("_tokens\n", "_tokens,user\n"), 'unknown field .* "user"'),
        (DATED.replace("completion_tokens", "answer"), "expected recorded requests"),
        (lines([OWN[0], OWN[0]]), "expected requests over some time"),
        (
            lines([{"prompt": "Why?", "max_tokens": 8}]),
            "expected requests with times, got 1 without",
        ),
        (BURST.splitlines()[0] + "\n", "expected requests .*got none"),
    ],
    ids=[
        "empty",
        "unsorted",
        "unknown field",
        "unknown column",
        "unknown column of an own csv",
        "no column of outputs",
        "one moment",
        "no times",
        "no rows",
    ],
)
def test_bad_recordings_are_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(AssayError, match=message):
        read_traffic(written(tmp_path / "requests", text))


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
