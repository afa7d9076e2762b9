"""Hostile recordings end in a workload or in one line that names the file."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from assay.errors import InputError
from assay.load.workloads.readers.detect import FORMATS
from assay.load.workloads.readers.recorded import MAX_LINE
from assay.load.workloads.reading import read_requests

ROW = '{"timestamp": 0, "input_length": %s, "output_length": %s, "hash_ids": %s}'
CONTENTS = {
    "empty": b"",
    "space": b" \n\n ",
    "gzip": b"\x1f\x8b\x08\x00",
    "lfs pointer": b"version https://git-lfs.github.com/spec/v1\noid sha256:00",
    "binary": bytes(range(256)),
    "not utf-8": b'{"prompt": "\xff\xfe", "max_tokens": 1}',
    "text": b"Dear server, please answer.",
    "array of numbers": b"[1, 2, 3]",
    "array cut short": b'[{"conversations": [',
    "array without end": b'[{"conversations": [{"value": "a"}, {"value": "b"}]}',
    "deep array": b'[{"conversations": ' + b"[" * 100_000,
    "deep line": b'{"prompt": ' + b"[" * 100_000,
    "line of a list": b'{"prompt": "a", "max_tokens": 1}\n[1]',
    "line cut short": b'{"prompt": "a", "max_tokens": 1}\n{"prompt": "b',
    "long line": b'{"prompt": "' + b"a" * (MAX_LINE + 1) + b'"}',
    "prompt of a number": b'{"prompt": "a"}\n{"prompt": 5}',
    "no messages": b'{"messages": []}',
    "messages of numbers": b'{"messages": [1, 2]}',
    "max_tokens of 0": b'{"prompt": "a", "max_tokens": 0}',
    "max_tokens of a word": b'{"prompt": "a", "max_tokens": "many"}',
    "time of a word": b'{"prompt": "a", "max_tokens": 1, "arrival_s": "soon"}',
    "temperature of a word": b'{"prompt": "a", "max_tokens": 1, "temperature": "hot"}',
    "negative length": ROW.encode() % (b"-5", b"1", b"[]"),
    "huge length": ROW.encode() % (b"1" + b"0" * 400, b"1", b"[]"),
    "infinite length": ROW.encode() % (b"1e999", b"1", b"[]"),
    "hashes of words": ROW.encode() % (b"5", b"1", b'["a"]'),
    "true length": ROW.encode() % (b"true", b"1", b"[]"),
    "csv without rows": b"Timestamp,Model,Request tokens,Response tokens\n",
    "csv of words": b"Timestamp,Request tokens,Response tokens\nsoon,many,few\n",
    "csv not utf-8": b"Timestamp,Request tokens,Response tokens\n\xff,1,1\n",
    "csv with an open quote": b'Timestamp,Request tokens,Response tokens\n"1,1,1\n' + b"x" * 200_000,
    "weka of a number": b'{"id": "a", "block_size": 64, "requests": 5}',
    "weka of no blocks": b'{"id": "a", "block_size": 0, "requests": [{"t": 0, "in": 1, "out": 1}]}',
    "weka in itself": b'{"id": "a", "block_size": 64, "requests": [' + 3000 * b'{"type": "subagent", "requests": [' + 3000 * b"]}" + b"]}",  # noqa: E501
}  # fmt: skip


@pytest.mark.parametrize("name", CONTENTS)
def test_hostile_contents_are_refused_in_one_line(tmp_path: Path, name: str) -> None:
    path = tmp_path / "requests"
    path.write_bytes(CONTENTS[name])
    with pytest.raises(InputError) as caught:
        read_requests(path)
    assert str(path) in caught.value.message
    assert "\n" not in caught.value.message
    assert len(caught.value.message) < 500


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("name", CONTENTS)
def test_a_format_that_is_named_wrongly_is_no_crash(tmp_path: Path, name: str, format: str) -> None:
    path = tmp_path / "requests"
    path.write_bytes(CONTENTS[name])
    with pytest.raises(InputError):
        assert not read_requests(path, format).requests


def test_what_is_no_file(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing", Path("/dev/null")):
        with pytest.raises(InputError, match="expected a file of requests"):
            read_requests(path)


VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-5, 3000), st.floats(), st.text(max_size=4),
    st.lists(st.integers(0, 3), max_size=3),
)  # fmt: skip
KEYS = ["timestamp", "input_length", "output_length", "hash_ids", "prompt", "messages", "max_tokens",
        "arrival_s", "t", "in", "out", "conversations", "requests", "block_size", "sampling"]  # fmt: skip


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(rows=st.lists(st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=6), max_size=4))
def test_any_rows_are_read_or_refused(tmp_path: Path, rows: list[dict[str, object]]) -> None:
    path = tmp_path / "requests"
    path.write_text("\n".join(json.dumps(row) for row in rows))
    try:
        read = read_requests(path)
    except InputError:
        return
    assert read.requests
    assert all(one.prompt and one.max_tokens >= 1 for one in read.requests)
    times = [one.arrival_s for one in read.requests]
    assert times == sorted(times)


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(content=st.binary(max_size=200))
def test_random_bytes_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "requests"
    path.write_bytes(content)
    with pytest.raises(InputError, match=re.escape(str(path))):
        assert not read_requests(path).requests
