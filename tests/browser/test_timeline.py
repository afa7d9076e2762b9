"""Traces in the page of runs: a million events, hostile names, summary and diagnosis."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from browser_pages import check_narrow
from synthetic_traces import synthetic_trace
from test_cone import main_thread_tasks

from assay.observe import schema
from assay.observe.header import TraceHeader
from assay.observe.trace import Trace

pytestmark = pytest.mark.slow

FRAME_MS = 33.0
HOSTILE = "</script><img src=x onerror=alert(1)>\x1b[2J\u202eevil"


@pytest.fixture(scope="module")
def traces(server: Any) -> Path:
    """Stored traces of the server: a small one, one of hostile names, one of a million events."""
    folder = server.scratch / "traces"
    synthetic_trace(4_000).save(folder / "small")
    rows = [
        {"kind": "kernel", "name": HOSTILE, "op": HOSTILE, "start_ns": at * 10, "dur_ns": 9,
         "stream": 1, "device": 0, "args": json.dumps({HOSTILE: HOSTILE})}
        for at in range(3)
    ]  # fmt: skip
    header = TraceHeader(model=HOSTILE, degradations=[HOSTILE], processes={"0": HOSTILE})
    Trace(header, pl.DataFrame(rows, schema=schema.event_columns())).save(folder / "hostile")
    return folder


def opened(open_page: Callable[..., Any], name: str, **how: Any) -> Any:
    page = open_page(f"#/runs/trace/{name}/timeline", **how)
    page.locator(".at canvas").first.wait_for(timeout=120_000)
    return page


@pytest.mark.usefixtures("traces")
def test_kernel_names_with_tags_are_text(open_page: Callable[..., Any]) -> None:
    page = open_page("#/runs/traces")
    page.get_by_role("link", name="hostile").click()
    page.get_by_role("tab", name="Timeline").click()
    page.locator(".at canvas").first.wait_for(timeout=60_000)
    page.locator(".at-input").fill("evil")
    page.keyboard.press("Enter")
    panel = page.locator(".at-panel")
    panel.get_by_text("<img src=x onerror=alert(1)>").first.wait_for()
    assert page.locator("img[src=x]").count() == 0
    text = page.locator("main").inner_text()
    assert "\x1b" not in text
    assert "\u202e" not in text


@pytest.mark.usefixtures("traces")
def test_a_trace_is_diagnosed_where_it_is_shown(
    open_page: Callable[..., Any], check_accessibility: Callable[[Any], None]
) -> None:
    page = open_page("#/runs/trace/small")
    page.get_by_role("heading", level=1).wait_for()
    page.get_by_role("tab", name="Diagnosis").click()
    page.get_by_role("heading", name="Where").or_(page.locator(".waterfall-row")).first.wait_for(
        timeout=120_000
    )
    check_accessibility(page)


@pytest.mark.usefixtures("traces")
def test_an_unknown_trace_is_an_error(open_page: Callable[..., Any]) -> None:
    page = open_page("#/runs/trace/nothing/timeline", may_fail=True)
    page.get_by_text('unknown trace "nothing"').first.wait_for()


@pytest.mark.usefixtures("traces")
def test_a_timeline_fits_a_narrow_screen(open_page: Callable[..., Any]) -> None:
    page = opened(open_page, "small", width=390, height=844)
    check_narrow(page)


def test_a_million_events_pan_within_a_frame(
    open_page: Callable[..., Any], browser: Any, traces: Path
) -> None:
    """Main-thread work by the processor time of tasks: other programs and painting do not count."""
    trace = synthetic_trace(1_000_000, devices=2)
    trace.save(traces / "million")
    began = time.perf_counter()
    page = opened(open_page, "million")
    shown = time.perf_counter() - began
    box = page.locator(".at canvas").first.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 120)
    # Zoomed in, panning moves over what is drawn at every level of detail.
    for _ in range(4):
        page.mouse.wheel(0, -300)
        page.wait_for_timeout(100)
    browser.start_tracing(page=page, categories=["toplevel", "devtools.timeline"])
    start = page.evaluate("window.assayTimeline.viewport.from")
    for _ in range(20):
        page.keyboard.press("d")
        page.wait_for_timeout(40)
    assert page.evaluate("window.assayTimeline.viewport.from") > start
    for _ in range(20):
        page.keyboard.press("a")
        page.wait_for_timeout(40)
    events = json.loads(browser.stop_tracing())["traceEvents"]
    tasks = main_thread_tasks(events)
    print(
        f"{trace.events.height:,} events shown after {shown:.1f} s; "
        f"longest tasks {[round(one, 1) for one in tasks[:5]]} ms of {len(tasks)}"
    )
    assert len(tasks) > 40
    assert tasks[0] <= FRAME_MS
