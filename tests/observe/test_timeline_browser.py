"""The page of a timeline in a real browser: what it shows, and how fast."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from synthetic_traces import synthetic_trace

from assay.observe import schema
from assay.observe.header import TraceHeader
from assay.observe.timeline.lanes import layout
from assay.observe.timeline.page import write_page
from assay.observe.trace import Trace

pytestmark = pytest.mark.slow

HOSTILE = "</script><img src=x onerror=alert(1)>\x1b[2J\u202eevil"


@pytest.fixture(scope="module")
def browse(root: Path) -> Any:
    """Opens a page in Chromium, acts on it, and returns what `web/browser.mjs` reports."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("no Node")
    if not (root / "web" / "node_modules" / "playwright-core").is_dir():
        pytest.skip("no packages in web/node_modules: npm ci in web/ installs them")
    script = [node, str(root / "web" / "browser.mjs")]

    def run(*words: str) -> Any:
        done = subprocess.run([*script, *words], capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    if run("--probe")["browser"] is None:
        pytest.skip("no Chromium: ASSAY_CHROMIUM names one")
    return run


def page_of(trace: Trace, path: Path, name: str = "made") -> str:
    write_page(trace, layout(trace), path, name=name)
    return str(path)


def test_a_step_is_opened_by_its_address(browse: Any, tmp_path: Path) -> None:
    trace = synthetic_trace(4_000)
    found = browse(
        page_of(trace, tmp_path / "page.html"), "--hash", "#step=2", "--actions", "panel,view"
    )
    assert found["problems"] == []
    step = trace.steps.filter(pl.col("step") == 2).row(0, named=True)
    low, high = found["view"]
    begin = step["start_ns"] - trace.events["start_ns"].min()
    assert low <= begin < begin + step["dur_ns"] <= high
    assert high - low < step["dur_ns"] * 1.2
    assert "Step 2" in found["panel"]
    assert "gate_up_proj" in found["panel"]


def test_a_step_that_is_not_there_is_said(browse: Any, tmp_path: Path) -> None:
    page = page_of(synthetic_trace(2_000), tmp_path / "page.html")
    found = browse(page, "--hash", "#step=99", "--actions", "text")
    assert "The trace has no step 99." in found["text"]


def test_search_counts_and_selects(browse: Any, tmp_path: Path) -> None:
    trace = synthetic_trace(4_000)
    page = page_of(trace, tmp_path / "page.html")
    found = browse(page, "--actions", "search=lm_head,key=Enter,wait=500,panel,text")
    wanted = trace.events.filter(
        pl.col("op").cast(pl.String).eq("lm_head").fill_null(False)
        | pl.col("name").cast(pl.String).str.contains("lm_head", literal=True)
    )
    assert found["matches"] == str(wanted.height)
    first = wanted.sort("start_ns").row(0, named=True)
    # Every column of the first match is in the panel.
    assert str(first["start_ns"]) in found["panel"]
    assert str(first["dur_ns"]) in found["panel"]
    assert first["name"] in found["panel"]
    assert f"1 of {wanted.height}" in found["text"]


def test_zoom_range_and_coloring_work(browse: Any, tmp_path: Path) -> None:
    page = page_of(synthetic_trace(4_000), tmp_path / "page.html")
    whole = browse(page, "--actions", "view")["view"]
    wheel = browse(page, "--actions", "hover=600x300,wheel=-600,view")
    assert wheel["view"][1] - wheel["view"][0] < (whole[1] - whole[0]) / 2
    keys = browse(page, "--actions", "key=w,wait=200,view")
    assert keys["view"][1] - keys["view"][0] < whole[1] - whole[0]
    moved = browse(page, "--actions", "hover=600x300,wheel=-600,key=d,wait=200,view")
    assert moved["view"][0] > wheel["view"][0]
    fingers = browse(page, "--actions", "pinch=600x300,view")
    assert fingers["view"][1] - fingers["view"][0] < (whole[1] - whole[0]) / 4
    picked = browse(page, "--actions", "range=400x160x700,panel")
    assert picked["panel"].startswith("Range")
    kernels = browse(page, "--actions", "color=kernel,wait=400,panel")
    assert "nvjet_tst_192x128" in kernels["panel"]
    assert [one["problems"] for one in (wheel, keys, fingers, picked, kernels)] == [[]] * 5


def test_hostile_names_are_text(browse: Any, tmp_path: Path) -> None:
    rows = [
        {"kind": "kernel", "name": HOSTILE, "op": HOSTILE, "start_ns": at * 10, "dur_ns": 9,
         "stream": 1, "device": 0, "args": json.dumps({HOSTILE: HOSTILE})}
        for at in range(3)
    ]  # fmt: skip
    header = TraceHeader(model=HOSTILE, degradations=[HOSTILE], processes={"0": HOSTILE})
    trace = Trace(header, pl.DataFrame(rows, schema=schema.event_columns()))
    page = page_of(trace, tmp_path / "page.html", HOSTILE)
    found = browse(page, "--actions", "text,key=/,search=evil,key=Enter,wait=500,panel")
    # No dialog, no request, no violation of the policy, no error.
    assert found["problems"] == []
    assert "<img src=x onerror=alert(1)>\\u{1b}[2J\\u{202e}evil" in found["panel"]
    assert "\x1b" not in found["text"] + found["panel"]
    assert "\u202e" not in found["text"] + found["panel"]


def test_a_damaged_page_says_what_is_wrong(browse: Any, tmp_path: Path) -> None:
    page = Path(page_of(synthetic_trace(1_000), tmp_path / "page.html"))
    page.write_text(page.read_text().replace('data-block="name"', 'data-block="lost"'))
    found = browse(str(page), "--actions", "text")
    assert "This timeline cannot be shown" in found["text"]
    assert 'no block "name"' in found["text"]


def test_a_million_events_open_and_stay_fast(browse: Any, tmp_path: Path) -> None:
    trace = synthetic_trace(1_000_000, devices=2)
    began = time.perf_counter()
    page = page_of(trace, tmp_path / "page.html")
    written = time.perf_counter() - began
    found = browse(page, "--actions", "frames,search=attention")
    assert found["problems"] == []
    print(
        f"\n{trace.events.height:,} events: {found['bytes'] / 1e6:.1f} MB written in "
        f"{written:.1f} s, first picture after {found['first_paint_ms'] / 1e3:.2f} s, frame "
        f"{found['frames']['median_ms']:.1f} ms (median), {found['frames']['p95_ms']:.1f} ms (p95), "
        f"Chromium {found['browser']}, {os.cpu_count()} cores"
    )
    assert found["bytes"] < 30e6
    assert found["first_paint_ms"] < 20_000
    # 60 frames a second.
    assert found["frames"]["median_ms"] < 16.7
