"""Saved workloads come back as they were; shapes."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from assay.errors import InputError
from assay.load.workloads.archive import save, workload_hash
from assay.load.workloads.builtin import NAMES, workload
from assay.load.workloads.reading import read_requests
from assay.load.workloads.shape import shape
from assay.load.workloads.workload import PlannedRequest, ServiceLevel, Workload


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("rate", [None, 3.0])
def test_a_saved_workload_comes_back_byte_for_byte(
    tmp_path: Path, name: str, rate: float | None
) -> None:
    made = workload(name, requests=5, rate=rate, slo=ServiceLevel(ttft_ms=50.0))
    path = tmp_path / "workload.jsonl"
    digest = save(made, path)
    again = read_requests(path)
    assert again == made
    assert workload_hash(again) == digest
    first = path.read_bytes()
    save(again, path)
    assert path.read_bytes() == first


def test_texts_of_any_kind_survive(tmp_path: Path) -> None:
    request = PlannedRequest(
        0,
        'a "b"\n\u00e9\u4e16\t\\',
        3,
        0.1 + 0.2,
        2,
        {"seed": 1, "top_p": 0.1},
        {"stop": ["\n"], "response_format": {"type": "json_object"}},
    )
    made = Workload("x", "y", (request,), "replay", None, None, notes=("a", "b"))
    save(made, tmp_path / "w.jsonl")
    assert read_requests(tmp_path / "w.jsonl") == made


def test_conversations_come_back_with_their_text(tmp_path: Path) -> None:
    messages = ({"role": "system", "content": "Be brief."}, {"role": "user", "content": "Why?"})
    text = "system: Be brief.\n\nuser: Why?\n\nassistant:"
    request = PlannedRequest(
        0, text, 3, fields={"tools": [{"type": "function"}]}, messages=messages
    )
    made = Workload("x", "y", (request,), "closed", 1)
    save(made, tmp_path / "w.jsonl")
    assert read_requests(tmp_path / "w.jsonl") == made
    other = replace(request, messages=messages[1:])
    assert workload_hash(replace(made, requests=(other,))) != workload_hash(made)


def test_the_hash_is_of_what_is_sent() -> None:
    made = workload("chat", requests=3)
    digest = workload_hash(made)
    assert workload_hash(replace(made, name="other", notes=(), slo=ServiceLevel(1.0))) == digest
    changed = [
        replace(made, concurrency=9),
        replace(made, requests=made.requests[:2]),
        replace(made, requests=made.requests[::-1]),
        replace(made, requests=(replace(made.requests[0], max_tokens=1), *made.requests[1:])),
        replace(
            made, requests=(replace(made.requests[0], fields={"stop": "x"}), *made.requests[1:])
        ),
        replace(made, arrival="replay"),
    ]
    assert len({digest, *map(workload_hash, changed)}) == 1 + len(changed)


def test_part_of_a_saved_workload_and_scaled_time(tmp_path: Path) -> None:
    made = workload("chat", requests=4, rate=2.0)
    save(made, tmp_path / "w.jsonl")
    part = read_requests(tmp_path / "w.jsonl", limit=2, time_scale=2.0)
    assert [one.arrival_s for one in part.requests] == [
        2 * one.arrival_s for one in made.requests[:2]
    ]
    assert part.rate == 1.0


def test_the_lines_of_a_replay_are_requests_without_the_first_line(tmp_path: Path) -> None:
    made = workload("chat", requests=4, rate=2.0)
    path = tmp_path / "w.jsonl"
    save(made, path)
    path.write_text("\n".join(path.read_text().splitlines()[1:]))
    again = read_requests(path)
    assert [one.prompt for one in again.requests] == [one.prompt for one in made.requests]
    first = made.requests[0].arrival_s
    assert [one.arrival_s + first for one in again.requests] == pytest.approx(
        [one.arrival_s for one in made.requests]
    )


@pytest.mark.parametrize(
    "change",
    [{"assay_workload": 2}, {"arrival": "never"}, {"slo": {"itl_ms": 3}}, {"objective": {}},
     {"concurrency": "many"}, {"notes": None}],
)  # fmt: skip
def test_a_damaged_first_line_is_refused(tmp_path: Path, change: dict[str, object]) -> None:
    path = tmp_path / "w.jsonl"
    save(workload("decode", requests=1), path)
    first, *rest = path.read_text().splitlines()
    path.write_text("\n".join([json.dumps(json.loads(first) | change), *rest]))
    with pytest.raises(InputError, match=r"expected a (saved )?workload"):
        read_requests(path)


def test_the_shape_is_a_nearest_rank_recount() -> None:
    requests = tuple(
        PlannedRequest(number, "word " * (number + 1), 2 * number + 2, prefix_tokens=1)
        for number in range(10)
    )
    found = shape(Workload("x", "y", requests, "closed", 4))
    assert (found.input_p50, found.input_p90, found.output_p50, found.output_p90) == (5, 9, 10, 18)
    assert (found.input_mean, found.output_mean) == (5.5, 11.0)
    assert found.prefix_share == pytest.approx(10 / 55)
    assert found.to_data()["prefix_share"] == 0.182
    assert shape(workload("rag", requests=8)).prefix_share == pytest.approx(200 / 304, rel=0.05)
    assert shape(workload("chat", requests=8)).prefix_share == 0.0
    with pytest.raises(InputError, match="expected requests, got none"):
        shape(Workload("x", "y", ()))
