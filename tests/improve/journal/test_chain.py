"""Properties of the chain: whatever is done to a journal afterwards is noticed."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from assay.improve.journal.chain import GENESIS, canonical, plain, read_chain, to_line
from assay.improve.journal.journal import HEAD_NAME, NAME, Journal, inspect, read
from assay.intervals import Interval

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=6,
)
journals = st.lists(
    st.dictionaries(st.text(max_size=6), values, max_size=3), min_size=2, max_size=6
)


def written(datas: list[dict[str, Any]]) -> list[bytes]:
    previous, lines = GENESIS, []
    for number, data in enumerate(datas):
        previous, line = to_line(previous, number, 1e9 + number / 3, "block", data)
        lines.append(line)
    return lines


def judged(lines: list[bytes], content: bytes) -> bool:
    """Whether a journal of these lines is found intact when its content is `content`."""
    head = f"{len(lines):012d} {json.loads(lines[-1])['hash']}\n".encode()
    _, problems, torn_bytes = inspect(content, head)
    return not problems and not torn_bytes


@settings(max_examples=30)
@given(datas=journals)
def test_an_untouched_journal_is_intact(datas: list[dict[str, Any]]) -> None:
    lines = written(datas)
    assert judged(lines, b"".join(lines))
    records = read_chain(b"".join(lines)).records
    assert [dict(one.data) for one in records] == [plain(data) for data in datas]


@settings(max_examples=30)
@given(datas=journals)
def test_the_hash_can_be_recomputed_without_this_code(datas: list[dict[str, Any]]) -> None:
    previous = "0" * 64
    for line in written(datas):
        record = json.loads(line)
        stated = record.pop("hash")
        text = json.dumps(record, sort_keys=True, separators=(",", ":"))
        previous = hashlib.sha256((previous + text).encode()).hexdigest()
        assert previous == stated


@settings(max_examples=30)
@given(datas=journals, data=st.data())
def test_a_removed_line_is_caught(datas: list[dict[str, Any]], data: Any) -> None:
    lines = written(datas)
    removed = data.draw(st.integers(0, len(lines) - 1))
    assert not judged(lines, b"".join(lines[:removed] + lines[removed + 1 :]))


@settings(max_examples=30)
@given(datas=journals, data=st.data())
def test_swapped_lines_are_caught(datas: list[dict[str, Any]], data: Any) -> None:
    lines = written(datas)
    first, second = sorted(
        data.draw(st.lists(st.integers(0, len(lines) - 1), min_size=2, max_size=2, unique=True))
    )
    moved = list(lines)
    moved[first], moved[second] = moved[second], moved[first]
    assert not judged(lines, b"".join(moved))


@settings(max_examples=30)
@given(datas=journals, data=st.data())
def test_an_inserted_line_is_caught(datas: list[dict[str, Any]], data: Any) -> None:
    lines = written(datas)
    place = data.draw(st.integers(0, len(lines)))
    line = data.draw(st.sampled_from(lines) | st.binary(max_size=40).map(lambda text: text + b"\n"))
    assert not judged(lines, b"".join([*lines[:place], line, *lines[place:]]))


@settings(max_examples=30)
@given(datas=journals, data=st.data())
def test_a_changed_removed_or_inserted_byte_is_caught(
    datas: list[dict[str, Any]], data: Any
) -> None:
    lines = written(datas)
    content = b"".join(lines)
    place = data.draw(st.integers(0, len(content) - 1))
    byte = data.draw(st.integers(0, 255))
    changed = content[:place] + bytes([byte]) + content[place + 1 :]
    assert judged(lines, changed) == (changed == content)
    removed = content[:place] + content[place + 1 :]
    assert judged(lines, removed) == (removed == content)
    assert not judged(lines, content[:place] + bytes([byte]) + content[place:])


def test_every_byte_of_a_journal_and_its_head_counts(tmp_path: Path) -> None:
    with Journal.create(tmp_path) as journal:
        journal.append("started", command="assay run", budget=60.0)
        journal.append("intend", changes={"threads": 2}, inverse={"threads": 1})
    files = [(tmp_path / name).read_bytes() for name in (NAME, HEAD_NAME)]
    assert inspect(*files)[1:] == ([], 0)
    for index, content in enumerate(files):
        for place in range(len(content)):
            for flipped in (content[place] ^ 1, content[place] ^ 0x20):
                edited = list(files)
                edited[index] = content[:place] + bytes([flipped]) + content[place + 1 :]
                assert inspect(*edited)[1], (index, place)


def test_a_cut_at_any_byte_is_caught(tmp_path: Path) -> None:
    with Journal.create(tmp_path) as journal:
        for number in range(3):
            journal.append("block", value=number)
    content = (tmp_path / NAME).read_bytes()
    for length in range(len(content)):
        (tmp_path / NAME).write_bytes(content[:length])
        reading = read(tmp_path)
        assert reading.problems, length
        assert len(reading.records) == content[:length].count(b"\n")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"[1]", "expected an object with"),
        (b"{", "expected JSON"),
        (b"[" * 100_000, "expected JSON"),
        (b'{"at":1e999,"data":{},"hash":"","kind":"block","number":0}', "expected JSON"),
        (b"\xff", "expected JSON"),
    ],
)
def test_hostile_lines_are_named(line: bytes, reason: str) -> None:
    reading = read_chain(line + b"\n")
    assert reading.records == ()
    assert reason in reading.problems[0]


def test_data_that_json_lacks() -> None:
    assert plain({"figure": Interval(1.5, 1.0, 2.0), "set": {"b", "a"}}) == {
        "figure": {"value": 1.5, "lo": 1.0, "hi": 2.0},
        "set": ["a", "b"],
    }
    assert canonical(plain({"inf": float("inf")})) == '{"inf":null}'
    with pytest.raises(TypeError, match="cannot hold object"):
        plain(object())
