"""Readers of user-supplied files, and their errors."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assay.errors import InputError
from assay.files import read_json, read_text, read_toml, read_yaml

READERS: list[tuple[Callable[..., Any], str, Any]] = [
    (read_text, "a = 1\n", "a = 1\n"),
    (read_json, '{"a": [1, 2.5]}', {"a": [1, 2.5]}),
    (read_toml, "a = 1\n", {"a": 1}),
    (read_yaml, "a: [1, on]\n", {"a": [1, "on"]}),
]


@pytest.mark.parametrize(("read", "text", "content"), READERS)
def test_a_file_is_read(
    tmp_path: Path, read: Callable[..., Any], text: str, content: object
) -> None:
    path = tmp_path / "file"
    path.write_text(text)
    assert read("scenario file", path) == content


@pytest.mark.parametrize(("read", "text", "content"), READERS)
def test_a_byte_order_mark_is_no_part_of_a_file(
    tmp_path: Path, read: Callable[..., Any], text: str, content: object
) -> None:
    path = tmp_path / "file"
    path.write_text(text, encoding="utf-8-sig")
    assert read("scenario file", path) == content


@pytest.mark.parametrize("read", [read for read, _, _ in READERS])
@pytest.mark.parametrize(
    ("data", "why"),
    [
        (None, "No such file or directory"),
        (b"x" * 101, "expected at most 100 bytes, got 101"),
        (b"\xff\xfe", "expected UTF-8, got: "),
    ],
    ids=["none", "large", "bytes"],
)
def test_unreadable_files_are_named_with_the_reason(
    tmp_path: Path, read: Callable[..., Any], data: bytes | None, why: str
) -> None:
    path = tmp_path / "file"
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(InputError) as caught:
        read("scenario file", path, 100)
    assert caught.value.message.startswith(f"scenario file {path} cannot be read: {why}")


@pytest.mark.parametrize(("read", "kind"), [(read_json, "JSON"), (read_toml, "TOML")])
@pytest.mark.parametrize("text", ["{", "[" * 100_000])
def test_malformed_files_are_refused_with_the_expected_format(
    tmp_path: Path, read: Callable[..., Any], kind: str, text: str
) -> None:
    path = tmp_path / "file"
    path.write_text(text)
    with pytest.raises(InputError, match=f"cannot be read: expected {kind}, got: "):
        read("scenario file", path)
