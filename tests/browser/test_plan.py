"""The page of plans: the front, the sliders of limits, and the plan within them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from browser_pages import check_narrow

pytestmark = pytest.mark.slow

ADDRESS = "#/plan?gpus=h200,b200&rate=40"


def opened(open_page: Callable[..., Any], **how: Any) -> Any:
    page = open_page(ADDRESS, **how)
    page.locator(".plan-chart circle.best").first.wait_for(timeout=60_000)
    return page


def cost(page: Any) -> float:
    text = page.get_by_test_id("plan-answer").inner_text()
    return float(text.rpartition("$")[2].split()[0].replace(",", ""))


def test_a_tighter_limit_costs_more_and_is_in_the_address(
    open_page: Callable[..., Any], check_accessibility: Callable[[Any], None]
) -> None:
    page = opened(open_page)
    before = cost(page)
    slider = page.get_by_label("Each next token (TPOT) within")
    slider.press("ArrowLeft")
    page.wait_for_function("() => location.hash.includes('tpot=0.04')")
    slider.fill("5")
    page.wait_for_function("() => location.hash.includes('tpot=0.012')")
    assert cost(page) > before
    page.get_by_text("tpot <= 12 ms for 99 % of the requests").wait_for(timeout=60_000)
    page.get_by_text("no plan uses fewer").wait_for()
    check_accessibility(page)


def test_limits_that_nothing_keeps_are_said(open_page: Callable[..., Any]) -> None:
    page = open_page("#/plan?gpus=a100&tpot=0.004&rate=5")
    page.get_by_text("No server keeps these limits").wait_for(timeout=60_000)


def test_plan_fits_a_narrow_screen(open_page: Callable[..., Any]) -> None:
    check_narrow(opened(open_page, width=390))
