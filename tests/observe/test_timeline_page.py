"""The page of a timeline: one file, nothing fetched, no text of the trace as HTML, all columns."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import shutil
import struct
import subprocess
import zlib
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings, strategies as st
from synthetic_traces import synthetic_trace

from assay.observe import schema
from assay.observe.header import TraceHeader
from assay.observe.timeline import blocks
from assay.observe.timeline.blocks import encode
from assay.observe.timeline.lanes import layout
from assay.observe.timeline.page import asset, write_page
from assay.observe.trace import Trace

HOSTILE = "</script><img src=x onerror=alert(1)>\x1b[2J\u202e'\"&<!--"


def unpacked(entry: dict[str, Any], data: bytes, rows: int) -> list[int | float | None]:
    """Values of a column, decoded one by one as the format is described."""
    planes = [data[at * rows : (at + 1) * rows] for at in range(entry["width"])]
    nulls = data[entry["width"] * rows :] if entry["nulls"] else bytes(rows)
    values: list[int | float | None] = []
    last = 0
    for row in range(rows):
        whole = bytes(plane[row] for plane in planes)
        if entry["kind"] == "float":
            value: float = struct.unpack("<d", whole)[0]
        else:
            coded = int.from_bytes(whole, "little")
            value = -(coded >> 1) - 1 if coded & 1 else coded >> 1
            if entry["delta"]:
                value = (last + value + 2**63) % 2**64 - 2**63
                last = value
        values.append(None if nulls[row] else value)
    return values


INTEGERS = st.lists(st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)), min_size=1, max_size=20)


@settings(max_examples=60)
@given(INTEGERS, st.sampled_from(["correlation", "bytes"]))
def test_integers_survive(values: list[int | None], name: str) -> None:
    order = np.arange(len(values))[::-1]
    found = encode(pl.DataFrame({name: pl.Series(values, dtype=pl.Int64)}), order, 0)
    if all(value is None for value in values):
        assert found.columns == []
        return
    [entry] = found.columns
    assert unpacked(entry, zlib.decompress(found.blocks[name]), len(values)) == values[::-1]


def test_every_column_of_a_trace_survives() -> None:
    trace = synthetic_trace(400, layers=2)
    drawn = layout(trace)
    assert sorted(drawn.order) == list(range(trace.events.height))
    found = encode(drawn.events, drawn.order, drawn.origin_ns)
    assert not found.left_out
    by_name = {entry["name"]: entry for entry in found.columns}
    for name in schema.event_columns():
        column = drawn.events[name]
        if name not in by_name:
            assert column.null_count() == len(column)
            continue
        values = unpacked(by_name[name], zlib.decompress(found.blocks[name]), len(column))
        if by_name[name]["kind"] == "text":
            words = json.loads(zlib.decompress(found.blocks[f"{name}.words"]))
            values = [None if code == -1 else words[code] for code in values]
        if name == "start_ns":
            values = [value + drawn.origin_ns for value in values]
        expected = column[drawn.order].to_list()
        if name in ("grid", "block"):
            expected = [one and " x ".join(map(str, one)) for one in expected]
        assert values == expected, name


def test_text_beyond_the_limit_is_left_out_and_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(blocks, "MAX_TEXT", 100)
    rows = [{"kind": "kernel", "start_ns": 0, "args": "x" * 200}]
    trace = Trace(TraceHeader(), pl.DataFrame(rows, schema=schema.event_columns()))
    _, left_out = write_page(trace, layout(trace), tmp_path / "page.html", name="t")
    assert left_out == ["column args: 200 characters of distinct text, more than 100"]
    assert left_out[0] in data_of((tmp_path / "page.html").read_text())["degradations"]


class Page(HTMLParser):
    """Collects elements, as a browser would see them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.content: list[tuple[str, str]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.tags:
            self.content.append((self.tags[-1][0], data))


def data_of(text: str) -> dict[str, Any]:
    [block] = re.findall(r'data-block="description">([^<]*)<', text)
    data: dict[str, Any] = json.loads(zlib.decompress(base64.b64decode(block)))
    return data


def test_no_text_of_the_trace_is_html(tmp_path: Path) -> None:
    rows = [{"kind": "kernel", "name": HOSTILE, "op": HOSTILE, "start_ns": 0, "dur_ns": 5}]
    header = TraceHeader(model=HOSTILE, source=HOSTILE, degradations=[HOSTILE])
    trace = Trace(header, pl.DataFrame(rows, schema=schema.event_columns()))
    path = tmp_path / "page.html"
    write_page(trace, layout(trace), path, name=HOSTILE)
    text = path.read_text()
    page = Page(text)
    assert {tag for tag, _ in page.tags} == {
        "html", "head", "meta", "title", "style", "body", "div", "noscript", "script",
    }  # fmt: skip
    assert not any(name.startswith("on") for _, found in page.tags for name in found)
    assert not any({"src", "href"} & set(found) for _, found in page.tags)
    assert text.count("<script>") == 1
    assert "onerror" not in re.sub(r"<title>.*?</title>", "", text)
    assert "\x1b" not in text
    assert "\u202e" not in text


def test_the_policy_allows_this_script_and_this_style_only(tmp_path: Path) -> None:
    trace = synthetic_trace(400, layers=2)
    path = tmp_path / "page.html"
    write_page(trace, layout(trace), path, name="t")
    text = path.read_text()
    [policy] = re.findall(r'Content-Security-Policy" content="([^"]*)"', text)
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules["default-src"] == "'none'"
    for tag, rule in (("script", "script-src"), ("style", "style-src")):
        [inner] = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(inner.encode()).digest()).decode()
        assert rules[rule] == f"'sha256-{digest}'"


def test_rows_of_a_track_are_in_order(tmp_path: Path) -> None:
    trace = synthetic_trace(3_000, devices=2)
    drawn = layout(trace)
    path = tmp_path / "page.html"
    write_page(trace, drawn, path, name="t")
    text = path.read_text()
    data = data_of(text)
    stored = dict(re.findall(r'data-block="([\w.]+)">([^<]*)<', text))
    entries = {entry["name"]: entry for entry in data["columns"]}

    def column(name: str) -> list[Any]:
        raw = zlib.decompress(base64.b64decode(stored[name]))
        return unpacked(entries[name], raw, data["rows"])

    start, length = column("start_ns"), column("dur_ns")
    row = 0
    for lane in data["lanes"]:
        assert lane["first"] == row
        for count in lane["tracks"]:
            for at in range(row + 1, row + count):
                assert start[at] >= start[at - 1] + length[at - 1]
            row += count
    assert row == data["rows"] == trace.events.height
    assert sum(length) == trace.events["dur_ns"].sum()
    assert [step["step"] for step in data["steps"]] == sorted(set(trace.steps["step"]))


def test_a_page_that_cannot_be_written_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = synthetic_trace(400, layers=2)
    path = tmp_path / "page.html"
    path.write_text("before")
    monkeypatch.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        write_page(trace, layout(trace), path, name="t")
    assert [one.name for one in tmp_path.iterdir()] == ["page.html"]
    assert path.read_text() == "before"


def test_the_command_writes_the_page_and_names_the_step(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from assay.cli.app import run

    folder = synthetic_trace(2_000).save(tmp_path / "trace")
    path = tmp_path / "deep" / "page.html"
    words = ["trace", "show", str(folder), "--html", str(path), "--step", "1", "--json"]
    assert run(words) == 0
    data = json.loads(capsys.readouterr().out)
    assert list(data) == ["path", "bytes", "events", "address", "left_out"]
    assert data["bytes"] == path.stat().st_size
    assert data["address"] == f"{path.as_uri()}#step=1"
    assert run(["trace", "show", str(folder), "--html", str(tmp_path)]) == 2
    assert "expected a file, got the folder" in capsys.readouterr().err


def sources_digest(root: Path) -> str:
    """The digest of `web/build.mjs` over what the built files depend on."""
    names = sorted(f"web/src/{path.name}" for path in (root / "web" / "src").iterdir())
    names += ["python/assay/observe/timeline/palette.json", "web/build.mjs"]
    names += ["web/package-lock.json"]
    digest = hashlib.sha256()
    for name in names:
        content = (root / name).read_bytes()
        digest.update(f"{name}\n{len(content)}\n".encode() + content)
    return digest.hexdigest()


@pytest.mark.parametrize("name", ["timeline.js", "timeline.css"])
def test_built_files_are_those_of_the_sources(root: Path, name: str) -> None:
    assert f"Sources: {sources_digest(root)}" in asset(name).splitlines()[0], "run make web"
    assert asset(name).isascii()


def test_a_build_gives_the_same_bytes(root: Path, tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None or not (root / "web" / "node_modules" / "esbuild").is_dir():
        pytest.skip("no Node, or no packages in web/node_modules: npm ci in web/ installs them")
    subprocess.run([node, str(root / "web" / "build.mjs"), str(tmp_path)], check=True)
    for name in ("timeline.js", "timeline.css"):
        assert (tmp_path / name).read_text("utf-8") == asset(name), "run make web"


def test_the_lock_file_names_no_registry(root: Path) -> None:
    lock = json.loads((root / "web" / "package-lock.json").read_text("utf-8"))
    found = [one for one in lock["packages"].values() if "resolved" in one]
    assert found == []
    assert all("integrity" in one for name, one in lock["packages"].items() if name)


def test_a_page_has_the_permissions_of_any_file(tmp_path: Path) -> None:
    trace = synthetic_trace(400, layers=2)
    write_page(trace, layout(trace), tmp_path / "page.html", name="t")
    (tmp_path / "other").touch()
    modes = {os.stat(tmp_path / name).st_mode for name in ("page.html", "other")}
    assert len(modes) == 1
