"""Readers of recorded requests, on files in the form that the tools write."""

import json
from collections import Counter
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest

from assay.errors import AssayError, InputError
from assay.load.workloads.readers.detect import FORMATS, format_of
from assay.load.workloads.reading import read_requests
from assay.load.workloads.texts import approximate_tokens


def written(path: Path, *rows: Any) -> Path:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


MOONCAKE = [
    {"timestamp": 3000, "input_length": 1100, "output_length": 52, "hash_ids": [0, 1, 2]},
    {"timestamp": 4500, "input_length": 1500, "output_length": 7, "hash_ids": [0, 1, 9]},
    {"timestamp": 4500, "input_length": 600, "output_length": 9, "hash_ids": [0, 8]},
    {"timestamp": 9000, "input_length": 500, "output_length": 1, "hash_ids": [7]},
]


@pytest.fixture
def mooncake(tmp_path: Path) -> Path:
    return written(tmp_path / "mooncake.jsonl", *MOONCAKE)


def common_blocks(first: list[int], second: list[int]) -> int:
    pairs = zip(first, second, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def test_mooncake_times_lengths_and_shared_blocks(mooncake: Path) -> None:
    read = read_requests(mooncake)
    assert (read.arrival, read.concurrency) == ("replay", None)
    assert [one.arrival_s for one in read.requests] == [0.0, 1.5, 1.5, 6.0]
    assert read.rate == pytest.approx(3 / 6.0)
    assert [one.max_tokens for one in read.requests] == [52, 7, 9, 1]
    for row, one in zip(MOONCAKE, read.requests, strict=True):
        assert approximate_tokens(one.prompt) == pytest.approx(row["input_length"], abs=4)
    # Equal hashes are equal text, and only those.
    prompts = [one.prompt for one in read.requests]
    for first, row in enumerate(MOONCAKE):
        for second, other in enumerate(MOONCAKE[:first]):
            pairs = zip(prompts[first].split(), prompts[second].split(), strict=False)
            words = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
            blocks = common_blocks(row["hash_ids"], other["hash_ids"])
            # A word is a token, or two with a mark after it.
            assert 400 * blocks <= words <= 512 * blocks + 8
    assert [one.prefix_tokens for one in read.requests] == [1024, 1024, 512, 0]


def test_a_replay_can_be_cut_and_scaled(mooncake: Path) -> None:
    read = read_requests(mooncake, limit=2, time_scale=0.1)
    assert [one.arrival_s for one in read.requests] == pytest.approx([0.0, 0.15])
    assert read.rate == pytest.approx(1 / 0.15)
    assert read_requests(mooncake, seed=1).requests != read_requests(mooncake).requests
    assert read_requests(mooncake).requests == read_requests(mooncake).requests
    counted = read_requests(mooncake, count=len)
    assert len(counted.requests[0].prompt) <= 1100 < len(read.requests[0].prompt)


def test_timed_traces_count_seconds_and_blocks_of_16(tmp_path: Path) -> None:
    rows = [
        {"timestamp": 61.114, "input_length": 40, "output_length": 5, "hash_ids": [1, 2, 3]},
        {"timestamp": 62.614, "input_length": 33, "output_length": 6, "hash_ids": [1, 2, 4]},
    ]
    read = read_requests(written(tmp_path / "trace.jsonl", *rows))
    assert "(timed_trace)" in read.description
    assert [one.arrival_s for one in read.requests] == pytest.approx([0.0, 1.5])
    assert [one.prefix_tokens for one in read.requests] == [32, 32]


def test_blocks_that_fit_neither_format_must_be_named(tmp_path: Path) -> None:
    rows = [{"timestamp": 0, "input_length": 100, "output_length": 5, "hash_ids": [1, 2]}]
    path = written(tmp_path / "trace.jsonl", *rows)
    with pytest.raises(InputError, match="as many hash_ids as a prompt has blocks") as caught:
        read_requests(path)
    assert caught.value.hint is not None
    assert approximate_tokens(read_requests(path, "mooncake").requests[0].prompt) in (99, 100)


def test_mooncake_without_hashes_has_prompts_of_its_own(tmp_path: Path) -> None:
    rows = [{"timestamp": time, "input_length": 9, "output_length": 5} for time in (0, 10)]
    read = read_requests(written(tmp_path / "trace.jsonl", *rows))
    assert read.requests[1].arrival_s == pytest.approx(0.01)
    assert read.requests[0].prompt != read.requests[1].prompt
    assert [one.prefix_tokens for one in read.requests] == [0, 0]


BURSTGPT = """Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type
5,ChatGPT,472,18,490,Conversation log
45,GPT-4,1087,0,1087,Conversation log
118,GPT-4,417,276,693,API log
,GPT-4,41,27,69,API log
120,GPT-4,,27,69,API log
"""


def test_burstgpt_leaves_out_failed_rows_and_says_how_many(tmp_path: Path) -> None:
    path = tmp_path / "burst.csv"
    path.write_text(BURSTGPT)
    read = read_requests(path)
    assert [(one.arrival_s, one.max_tokens) for one in read.requests] == [(0.0, 18), (113.0, 276)]
    assert approximate_tokens(read.requests[1].prompt) in (416, 417)
    assert read.notes[:3] == (
        "failed rows, of no response tokens: 1 left out",
        "rows without a time: 1 left out",
        "rows without an input length: 1 left out",
    )


def test_azure_times_are_dates(tmp_path: Path) -> None:
    path = tmp_path / "azure.csv"
    path.write_text(
        "TIMESTAMP,ContextTokens,GeneratedTokens\n"
        "2023-11-16 18:15:46.6805900,374,44\n"
        "2023-11-16 18:16:50.1805900,396,109\n"
        "tomorrow,396,109\n"
    )
    read = read_requests(path)
    assert [one.arrival_s for one in read.requests] == pytest.approx([0.0, 63.5])
    assert "rows without a time: 1 left out" in read.notes


@pytest.mark.parametrize("lines", [False, True])
def test_sharegpt_takes_the_first_message_as_vllm_does(tmp_path: Path, lines: bool) -> None:
    def talk(*texts: str) -> dict[str, Any]:
        return {"id": "x", "conversations": [{"from": "human", "value": one} for one in texts]}

    rows = [
        talk("Why is the sky blue today?", "Because of the light that is scattered.", "Thanks"),
        talk("Hi", "Hello there, how are you doing?"),
        talk("What is the meaning of all this?"),
        talk("word " * 1025, "Because of the light that is scattered."),
        {"id": "empty"},
    ]
    path = tmp_path / "sharegpt.json"
    path.write_text("\n".join(map(json.dumps, rows)) if lines else json.dumps(rows, indent=1))
    read = read_requests(path)
    assert read.arrival == "closed"
    assert [(one.prompt, one.max_tokens) for one in read.requests] == [
        ("Why is the sky blue today?", 8)
    ]
    counts = Counter(note.rpartition(": ")[2] for note in read.notes)
    assert counts == {"1 left out": 2, "2 left out": 1}


def test_an_array_longer_than_a_part_is_read_item_by_item(tmp_path: Path) -> None:
    text = "Why is the sky blue? \u00e9\u4e16 " * 40
    rows = [
        {"conversations": [{"value": f"{number} {text}"}, {"value": "Because it is so."}]}
        for number in range(1500)
    ]
    path = tmp_path / "sharegpt.json"
    path.write_text(json.dumps(rows, ensure_ascii=False))
    assert path.stat().st_size > 1 << 20
    read = read_requests(path)
    assert [one.prompt for one in read.requests] == [f"{number} {text}" for number in range(1500)]


def test_weka_sessions_and_their_subagents(tmp_path: Path) -> None:
    def request(time: float, length: int, *blocks: int) -> dict[str, Any]:
        return {"t": time, "type": "n", "in": length, "out": 3, "hash_ids": list(blocks)}

    session = {
        "id": "a",
        "block_size": 64,
        "requests": [
            request(0.0, 140, 1, 2),
            {"t": 10.0, "type": "subagent", "requests": [request(0.0, 70, 9), request(2.0, 80, 9)]},
            request(40.0, 150, 1, 2),
        ],
    }
    path = tmp_path / "weka.json"
    for text in (json.dumps(session), json.dumps(session, indent=2)):
        path.write_text(text)
        read = read_requests(path)
        assert [one.arrival_s for one in read.requests] == [0.0, 10.0, 12.0, 40.0]
        assert [one.prefix_tokens for one in read.requests] == [128, 64, 64, 128]
        assert [approximate_tokens(one.prompt) for one in read.requests] == pytest.approx(
            [140, 70, 80, 150], abs=3
        )
    lines = written(tmp_path / "lines.jsonl", request(5.0, 70, 1), request(6.0, 70, 1))
    assert read_requests(lines).requests[1].arrival_s == 1.0


def test_our_own_lines_and_those_of_other_tools(tmp_path: Path) -> None:
    rows = [
        {"prompt": "one", "max_tokens": 4, "temperature": 0.5, "seed": 7},
        {"messages": [{"role": "user", "content": "two"}], "max_tokens": 5},
        {"messages": [{"role": "system", "content": "Be brief."},
                      {"role": "user", "content": [{"type": "text", "text": "three"}]}]},
        {"text": "four", "output_length": 6},
        {"prompt": "five", "output_tokens_count": 7},
        {"custom_id": "a", "url": "/v1/completions", "body": {"prompt": "six", "max_tokens": 8}},
        {"question_id": 81, "turns": ["seven", "and then?"], "max_tokens": 9},
        {"note": "no prompt"},
    ]  # fmt: skip
    read = read_requests(written(tmp_path / "requests.jsonl", *rows))
    assert [(one.prompt, one.max_tokens) for one in read.requests] == [
        ("one", 4),
        ("two", 5),
        ("system: Be brief.\n\nuser: three\n\nassistant:", 128),
        ("four", 6),
        ("five", 7),
        ("six", 8),
        ("seven", 9),
    ]
    assert read.requests[0].sampling == {"temperature": 0.5, "seed": 7}
    assert read.notes == (
        "rows without a prompt: 1 left out",
        "conversations of which the first turn is sent: 1",
        "requests without max_tokens, given 128 tokens of output: 1",
    )


def test_conversations_keep_their_messages_tools_and_formats(tmp_path: Path) -> None:
    tools = [{"type": "function", "function": {"name": "f"}}]
    called = {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "function": {}}]}
    parts = [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "x"}}]
    rows = [
        {"messages": [{"role": "user", "content": "Why?"}], "max_tokens": 4, "model": "gpt", "n": 1},
        {"body": {"messages": [{"role": "user", "content": parts}, called], "max_tokens": 4,
                  "tools": tools, "tool_choice": "auto"}},
        {"messages": [{"role": "user", "content": "As JSON"}], "max_tokens": 4, "stop": None,
         "response_format": {"type": "json_object"}, "frequency_penalty": 0.5},
    ]  # fmt: skip
    read = read_requests(written(tmp_path / "requests.jsonl", *rows))
    assert [list(request.messages) for request in read.requests] == [
        rows[0]["messages"],
        rows[1]["body"]["messages"],
        rows[2]["messages"],
    ]
    # What has an end of its own is not made longer than that.
    assert [request.fields for request in read.requests] == [
        {"model": "gpt"},
        {"tools": tools, "tool_choice": "auto", "ignore_eos": False},
        {"response_format": {"type": "json_object"}, "frequency_penalty": 0.5, "ignore_eos": False},
    ]
    assert read.requests[1].prompt.startswith('user: a\n\nassistant: [{"id": "c"')
    assert read.notes == ()


def test_stop_texts_are_sent_and_what_prompts_cannot_have_is_counted(tmp_path: Path) -> None:
    rows = [
        {"prompt": "one", "max_tokens": 4, "stop": "end"},
        {"body": {"prompt": "two", "max_tokens": 4, "stop": ["a", "b"], "tools": [{"type": "x"}]}},
        {"prompt": "three", "max_tokens": 4, "stop": None},
    ]
    read = read_requests(written(tmp_path / "requests.jsonl", *rows))
    assert [request.fields for request in read.requests] == [
        {"stop": "end"},
        {"stop": ["a", "b"]},
        {},
    ]
    assert read.notes == ("prompts whose fields of chats (tools and the like) are not sent: 1",)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"prompt": "x", "stop": 7}, "expected stop as OpenAI has it, got '7'"),
        ({"prompt": "x", "stop": ["a", 7]}, "expected stop as texts"),
        ({"prompt": "x", "response_format": "json"}, "expected response_format as OpenAI has it"),
        ({"prompt": "x", "presence_penalty": True}, "expected presence_penalty as OpenAI has it"),
        ({"messages": "hello"}, "expected a list of messages, got 'hello'"),
        ({"messages": [{"content": "hello"}]}, "expected messages with a role"),
        ({"messages": [{"role": "user"}]}, "expected messages with text"),
    ],
)
def test_a_row_that_no_server_would_take_is_one_line(
    tmp_path: Path, row: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=f"line 1: {message}"):
        read_requests(written(tmp_path / "bad.jsonl", {**row, "max_tokens": 1}))


def test_lines_with_times_are_a_replay_in_the_order_of_time(tmp_path: Path) -> None:
    rows = [
        {"prompt": "late", "max_tokens": 1, "arrival_s": 12.5},
        {"prompt": "early", "max_tokens": 1, "arrival_s": 10},
        {"prompt": "whenever", "max_tokens": 1},
    ]
    read = read_requests(written(tmp_path / "requests.jsonl", *rows))
    assert [(one.prompt, one.arrival_s) for one in read.requests] == [("early", 0), ("late", 2.5)]
    assert read.notes == ("requests without a time among others with one: 1 left out",)


def test_recordings_too_long_for_memory_say_how_many_requests_fit(tmp_path: Path) -> None:
    row = {"timestamp": 0, "input_length": 1 << 20, "output_length": 5}
    path = written(tmp_path / "trace.jsonl", *[row] * 33)
    with pytest.raises(InputError, match="33,554,432 prompt tokens in all") as caught:
        read_requests(path)
    assert caught.value.hint == "take fewer requests: at most 32"


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\n\n"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_files_of_other_systems(tmp_path: Path, newline: str, mark: bytes) -> None:
    """A byte-order mark, carriage returns and blank lines change nothing."""
    path = tmp_path / "requests"
    lines = [json.dumps({"prompt": one, "max_tokens": 2}) for one in ("a", "b")]
    path.write_bytes(mark + newline.join(lines).encode())
    assert [one.prompt for one in read_requests(path).requests] == ["a", "b"]
    path.write_bytes(mark + newline.join(BURSTGPT.splitlines()).encode())
    assert [one.max_tokens for one in read_requests(path).requests] == [18, 276]


def test_formats_are_known_by_name(mooncake: Path) -> None:
    assert set(FORMATS) == {
        "jsonl", "lengths", "lengths_csv", "mooncake", "timed_trace", "burstgpt", "azure",
        "sharegpt", "weka",
    }  # fmt: skip
    with pytest.raises(AssayError, match='unknown format of requests "moon"'):
        format_of(mooncake, "moon")
    for options in ({"limit": 0}, {"time_scale": 0.0}, {"time_scale": float("nan")}):
        with pytest.raises(InputError, match="expected"):
            read_requests(mooncake, **options)  # type: ignore[arg-type]
