from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from browser_pages import RUN, check_narrow, check_picture

pytestmark = pytest.mark.slow

SUMMARY = "What assay run tried, kept and proved"


def test_runs_are_listed(
    open_page: Callable[..., Any], check_accessibility: Callable[[Any], None]
) -> None:
    page = open_page("#/runs")
    page.get_by_role("link", name="2026-11-16 17:19").wait_for()
    check_accessibility(page)


def test_a_run_opens_by_its_address_and_verifies(
    open_page: Callable[..., Any], check_accessibility: Callable[[Any], None]
) -> None:
    page = open_page(f"#/runs/{RUN}/evidence")
    page.get_by_role("button", name="Verify").click()
    page.get_by_text("verified", exact=True).wait_for(timeout=60_000)
    assert "checks hold" in page.locator(".verified").inner_text()
    check_accessibility(page)


def test_an_unknown_run_is_an_error_that_names_it(open_page: Callable[..., Any]) -> None:
    page = open_page("#/runs/20200101-000000-nothing-0000", may_fail=True)
    page.get_by_text('unknown run "20200101-000000-nothing-0000"').wait_for()


def test_where_the_time_goes(open_page: Callable[..., Any]) -> None:
    page = open_page(f"#/runs/{RUN}")
    page.locator(".waterfall-row").first.wait_for()
    names = page.locator(".waterfall-name").all_inner_texts()
    assert names[-1] == "observed"
    assert len(names) > 3
    # The trace of this run does not fit its prediction, which is said and not drawn.
    page.get_by_text("Nothing was predicted for this run").wait_for()
    page.get_by_role("heading", name="No predicted graph").wait_for()
    page.locator(".causes li").first.wait_for()
    check_picture(page, "run")


@pytest.mark.parametrize("tab", ["experiments", "levers", "journal"])
def test_parts_of_a_run(
    open_page: Callable[..., Any], check_accessibility: Callable[[Any], None], tab: str
) -> None:
    page = open_page(f"#/runs/{RUN}/{tab}")
    place = {"experiments": ".sequence svg", "levers": ".levers li", "journal": ".journal li"}[tab]
    page.locator(place).first.wait_for(timeout=60_000)
    check_accessibility(page)


def test_a_prediction_stands_beside_what_was_observed(open_page: Callable[..., Any]) -> None:
    page = open_page("#/runs")
    page.get_by_role("link", name="2026-11-16 17:19").wait_for()

    def predicted(route: Any) -> None:
        data = route.fetch().json()
        data["plan"]["prediction"] = {
            "floor_ns": 3e6, "expected_ns": 3.6e6, "lo_ns": 3.4e6, "hi_ns": 3.9e6, "observed_ns": 4e6,
        }  # fmt: skip
        data["plan"]["waterfall"] = [
            {"name": "floor", "ns": 3e6, "lo": None, "hi": None},
            {"name": "host_waiting", "ns": 1e6, "lo": None, "hi": None},
        ]
        route.fulfill(json=data)

    page.route("**/plan", predicted)
    page.evaluate(f"location.hash = '#/runs/{RUN}'")
    page.locator(".waterfall-row").first.wait_for()
    rows = page.locator(".waterfall-row").all_inner_texts()
    assert [row.split()[0] for row in rows] == ["floor", "host", "observed", "predicted"]
    assert "3.6 ms" in rows[-1]
    assert "90 %" in rows[-1]


def test_tabs_move_by_keyboard(open_page: Callable[..., Any]) -> None:
    page = open_page(f"#/runs/{RUN}")
    page.get_by_role("tab", name="Where time goes").focus()
    page.keyboard.press("ArrowRight")
    page.get_by_role("tab", name="Experiments", selected=True).wait_for()
    assert page.url.endswith(f"#/runs/{RUN}/experiments")


def test_the_timeline_of_a_run(open_page: Callable[..., Any]) -> None:
    page = open_page(f"#/runs/{RUN}/timeline")
    page.locator(".at canvas").first.wait_for(timeout=60_000)
    page.locator(".at-input").fill("gemv")
    page.wait_for_timeout(400)
    assert page.locator(".at-found").inner_text()


def test_runs_fit_a_narrow_screen(open_page: Callable[..., Any]) -> None:
    for address in ("#/runs", f"#/runs/{RUN}", f"#/runs/{RUN}/experiments"):
        page = open_page(address, width=390, height=844)
        page.get_by_role("heading", level=1).wait_for()
        page.wait_for_timeout(500)
        check_narrow(page)


def test_no_runs_and_no_traces(open_page: Callable[..., Any], empty_server: Any) -> None:
    page = open_page("#/runs", at=empty_server)
    page.get_by_role("heading", name="No runs yet").wait_for()
    page.get_by_role("tab", name="Traces").click()
    page.get_by_role("heading", name="No stored traces").wait_for()
