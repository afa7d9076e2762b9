"""Live: telemetry of this machine, and what ran here against its floor."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from browser_pages import RUN, check_narrow

pytestmark = pytest.mark.slow

STATE = {
    "panels": [
        {
            "title": "GPU 0 <i>H200</i>",
            "rows": [
                {"label": "power", "text": "512 W", "history": [500, None, 512], "top": 700, "bad": False},
                {"label": "throttled", "text": "power", "history": [0, 1, 1], "top": 1, "bad": True},
            ],
        }
    ],
    "served": [
        {
            "url": "http://127.0.0.1:8000", "server": "assay", "model": "llama <b>8b</b>",
            "device": "cuda:0", "requests": 8.0, "sequences": 8, "context": 640.0,
            "tokens_per_second": 1240.0, "step_seconds": 0.0064, "gap": None,
            "floor": {
                "context": 632, "step_ns": 3.2e6, "expected_ns": 4.1e6, "lo_ns": 3.7e6,
                "hi_ns": 4.6e6, "tokens_per_second": 2500.0, "expected_tokens_per_second": 1951.0,
            },
        },
        {
            "url": "http://127.0.0.1:8080", "server": "llama.cpp", "model": "other", "device": None,
            "requests": 0.0, "sequences": 1, "context": None, "tokens_per_second": None,
            "step_seconds": None, "floor": None, "gap": "no floor: steps of llama.cpp are not predicted",
        },
    ],
    "missing": ["pcie replay: no permission"],
    "cost": {"core_share": 0.0042},
}  # fmt: skip
FLOORS = {
    "floors": [
        {
            "run": RUN, "model": "llama-3-8b", "device": "cuda:0", "floor_ns": 3.0e6,
            "expected_ns": 3.6e6, "lo_ns": 3.4e6, "hi_ns": 3.9e6, "observed_ns": 4.0e6,
        }
    ]
}  # fmt: skip


def test_this_machine_is_sampled(
    open_page: Callable[..., Any], check_accessibility: Callable[[Any], None]
) -> None:
    page = open_page("#/live")
    page.locator(".device-row").first.wait_for(timeout=60_000)
    before = page.locator(".device-row svg").first.inner_html()
    page.wait_for_function(
        "(before) => document.querySelector('.device-row svg').innerHTML !== before",
        arg=before,
        timeout=30_000,
    )
    check_accessibility(page)


def routed(open_page: Callable[..., Any], state: Any, floors: Any, **how: Any) -> Any:
    page = open_page("#/docs", **how)
    page.locator("article h1").wait_for()
    text = f"event: state\ndata: {json.dumps(state)}\n\n"
    page.route(
        "**/api/v1/live/state",
        lambda route: route.fulfill(body=text, content_type="text/event-stream"),
    )
    page.route("**/api/v1/live/floors", lambda route: route.fulfill(json=floors))
    page.evaluate("location.hash = '#/live'")
    return page


def test_a_step_stands_beside_its_floor(open_page: Callable[..., Any]) -> None:
    page = routed(open_page, STATE, FLOORS)
    shown = page.locator(".floors li").inner_text()
    assert "floor 3 ms" in shown
    assert "predicted 3.6 ms" in shown
    assert "observed 4 ms" in shown
    assert "75 % of the step" in shown
    page.get_by_role("link", name="llama-3-8b").click()
    page.wait_for_url(f"**/#/runs/{RUN}")


def test_served_model_stands_beside_its_floor(open_page: Callable[..., Any]) -> None:
    page = routed(open_page, STATE, FLOORS)
    page.locator(".served li").nth(1).wait_for()
    first, second = page.locator(".served li").all_inner_texts()
    assert "llama <b>8b</b>" in first
    assert "1,240 tokens/s of at most 2,500: 50 %" in " ".join(first.split())
    assert "8 requests; 6.4 ms a token" in first
    assert (
        "predicted 4.1 ms (3.7 ms to 4.6 ms) or 1,951 tokens/s, for 8 requests with 632 tokens"
        in first
    )
    assert "serves nothing now; no floor: steps of llama.cpp are not predicted" in second
    assert page.locator(".served-bar").count() == 1


def test_nothing_ran_and_the_stream_ends(open_page: Callable[..., Any]) -> None:
    page = routed(open_page, STATE, {"floors": []})
    page.get_by_role("heading", name="Nothing ran here yet").wait_for()
    page.get_by_role("alert").get_by_text("the server ended the stream").wait_for()


def test_server_that_refuses_is_an_error(open_page: Callable[..., Any]) -> None:
    page = open_page("#/docs", may_fail=True)
    page.locator("article h1").wait_for()
    refusal = {"error": {"message": "no counters", "hint": "ask an administrator"}}
    page.route("**/api/v1/live/**", lambda route: route.fulfill(status=400, json=refusal))
    page.evaluate("location.hash = '#/live'")
    page.get_by_role("alert").get_by_text("no counters").first.wait_for()


def test_live_fits_a_narrow_screen(open_page: Callable[..., Any]) -> None:
    page = open_page("#/live", width=390, height=844)
    page.locator(".device-row").first.wait_for(timeout=60_000)
    check_narrow(page)
