"""The page of published figures: filter, points, details, and what is not there."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from browser_pages import check_narrow, check_picture

from assay.cli.output import json_text
from assay.cli.validate import validate_command

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def scores() -> dict[str, Any]:
    """The predictions of two small suites: all of them take a minute."""
    parts = [
        json.loads(json_text(validate_command(suite=suite, as_json=True)))
        for suite in ("flash", "megatron2020")
    ]
    return {"groups": parts[1]["groups"], "scores": [s for part in parts for s in part["scores"]]}


def opened(open_page: Callable[..., Any], scores: Any, query: str = "", **how: Any) -> Any:
    page = open_page("#/docs", **how)
    nothing = {"groups": [], "scores": []}

    def answer(route: Any) -> None:
        route.fulfill(json=scores if route.request.url.endswith("suite=training") else nothing)

    page.route("**/api/v1/validate?**", answer)
    page.evaluate(f"location.hash = '#/validate{query}'")
    page.get_by_role("heading", name="Validate", exact=True).wait_for(timeout=60_000)
    return page


def rows(scores: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        r for s in scores["scores"] if not s["pool"] and "/" not in s["suite"] for r in s["rows"]
    ]


def test_every_figure_is_a_point_with_inputs_terms_and_source(
    open_page: Callable[..., Any],
    check_accessibility: Callable[[Any], None],
    scores: dict[str, Any],
) -> None:
    page = opened(open_page, scores)
    page.locator("circle[data-case]").first.wait_for(timeout=60_000)
    held_out = [
        r for r in rows(scores) if (r["held_out"] if r["in_sample"] else r["predicted"]) is not None
    ]
    shown = page.get_by_test_id("summary").inner_text()
    assert str(len(held_out)) in shown.split()
    check_accessibility(page)
    page.locator("circle[data-case]").first.click()
    detail = page.get_by_test_id("detail")
    detail.wait_for()
    assert "observed" in detail.inner_text()
    for heading in ("Inputs as published", "Source"):
        page.get_by_role("heading", name=heading).wait_for()
    page.get_by_label("Suite").select_option("flash")
    flash = [r for r in held_out if r["suite"] == "flash"]
    page.get_by_text(str(len(flash)), exact=True).first.wait_for()


def test_empty_deep_link_error_and_narrow(
    open_page: Callable[..., Any], scores: dict[str, Any]
) -> None:
    page = opened(open_page, scores, "?suite=nothing", width=390)
    page.get_by_text("No figure fits this filter").wait_for(timeout=60_000)
    check_narrow(page)
    page = opened(open_page, scores, "?case=%3Cimg src=x%3E&basis=shipped")
    page.get_by_text("There is no such figure").wait_for(timeout=60_000)
    assert page.locator("img[src=x]").count() == 0
    page = open_page("#/docs", may_fail=True)
    page.route("**/api/v1/validate?**", lambda route: route.fulfill(status=500, json={}))
    page.evaluate("location.hash = '#/validate'")
    page.get_by_role("alert").wait_for(timeout=60_000)


def test_each_kind_is_shown_when_it_comes(
    open_page: Callable[..., Any],
    check_accessibility: Callable[[Any], None],
    scores: dict[str, Any],
) -> None:
    page = open_page("#/docs")
    waiting: dict[str, Any] = {}

    def hold(route: Any) -> None:
        waiting[route.request.url.partition("suite=")[2]] = route

    page.route("**/api/v1/validate?**", hold)
    page.evaluate("location.hash = '#/validate'")
    page.get_by_text("Inference servers").wait_for(timeout=60_000)
    page.locator(".validate-progress .under-way").nth(2).wait_for()
    check_accessibility(page)
    waiting["training"].fulfill(json=scores)
    page.locator("circle[data-case]").first.wait_for()
    assert page.locator(".validate-progress .under-way").count() == 2
    for kind in ("kernels", "inference"):
        waiting[kind].fulfill(json={"groups": [], "scores": []})
    page.locator(".validate-progress").wait_for(state="detached")


@pytest.mark.parametrize("dark", [False, True])
def test_validate_looks_as_it_did(
    open_page: Callable[..., Any], scores: dict[str, Any], dark: bool
) -> None:
    page = opened(open_page, scores, dark=dark)
    page.locator("circle[data-case]").first.wait_for(timeout=60_000)
    check_picture(page, f"validate-{'dark' if dark else 'light'}")


def test_table_of_figures_can_be_read_on_a_narrow_screen(
    open_page: Callable[..., Any], scores: dict[str, Any]
) -> None:
    page = opened(open_page, scores, width=390, height=844)
    link = page.locator(".validate-link").first
    link.wait_for(timeout=60_000)
    assert link.bounding_box()["width"] >= 150
    check_narrow(page)
