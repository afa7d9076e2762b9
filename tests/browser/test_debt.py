from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from browser_pages import check_narrow, check_picture

pytestmark = pytest.mark.slow

PRESET = "dense_training_cost_fixture"
TILES = ".debt-tile"


def opened(open_page: Callable[..., Any], address: str = "#/debt", **how: Any) -> Any:
    page = open_page(address, **how)
    page.locator(TILES).first.wait_for(timeout=60_000)
    return page


def test_tile_says_what_it_would_take(
    open_page: Callable[..., Any], check_accessibility: Callable[[Any], None]
) -> None:
    page = opened(open_page, "#/debt?target=thermal.dc.pue")
    page.locator(TILES).first.click()
    page.get_by_role("heading", name="What it would take").wait_for()
    assert page.locator(".steps li").count() >= 2
    check_accessibility(page)


def test_root_by_its_address(open_page: Callable[..., Any]) -> None:
    page = opened(open_page, "#/debt/econ.serving.load")
    page.get_by_role("region", name="About econ.serving.load").wait_for()
    page.get_by_text("replace the assumption of llama3_8b_h200_serving").wait_for()


def test_scenario_shows_what_is_missing_or_assumed(open_page: Callable[..., Any]) -> None:
    page = opened(open_page, f"#/debt?preset={PRESET}&target=econ.cost.per_token")
    few = page.locator(TILES).count()
    assert page.locator(".debt-tile.is-missing, .debt-tile.is-assumed").count() == few
    page.get_by_label("Show").select_option("every root")
    page.wait_for_function(f"() => document.querySelectorAll('{TILES}').length >= {few}")


def test_tiles_follow_the_share_of_variance(open_page: Callable[..., Any]) -> None:
    page = opened(
        open_page,
        "#/debt?preset=llama3_8b_h200_serving&target=carbon.per_output_token&by=variance&all=true",
    )
    areas = page.evaluate(
        """() => [...document.querySelectorAll('.debt-tile')].slice(0, 40).map((tile) => {
          const share = /: ([0-9.]+) % of the variance/.exec(tile.getAttribute('aria-label'));
          const box = tile.querySelector('rect').getBBox();
          return [share ? Number(share[1]) : 0, (box.width + 1) * (box.height + 1)];
        })"""
    )
    large = sorted(areas, reverse=True)[:3]
    assert large[0][0] > 5
    # A headline above a family takes some of its room.
    assert large[0][1] / large[1][1] == pytest.approx(large[0][0] / large[1][0], rel=0.35)


def test_tiles_move_by_keyboard(open_page: Callable[..., Any]) -> None:
    page = opened(open_page, "#/debt?target=thermal.dc.pue")
    page.locator(f"{TILES}[tabindex='0']").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="What it would take").wait_for()


def test_computed_variable_is_an_error(open_page: Callable[..., Any]) -> None:
    page = open_page("#/debt/econ.cost.per_token", may_fail=True)
    page.get_by_text("expected a root, got a variable that the model computes").wait_for()


def test_nothing_assumed_is_said(open_page: Callable[..., Any]) -> None:
    page = open_page("#/debt")
    page.get_by_role("heading", name="Root debt").wait_for()

    def settled(route: Any) -> None:
        data = route.fetch().json()
        rows = [{**row, "given": ["measured"]} for row in data["rows"]]
        route.fulfill(json={**data, "rows": rows})

    page.route("**/api/v1/root-debt**", settled)
    page.evaluate(f"location.hash = '#/debt?preset={PRESET}&target=thermal.dc.pue'")
    page.get_by_role("heading", name="Nothing is missing or assumed").wait_for(timeout=60_000)


def test_debt_fits_a_narrow_screen(open_page: Callable[..., Any]) -> None:
    page = opened(open_page, "#/debt?target=thermal.dc.pue", width=390, height=844)
    check_narrow(page)


def made_row(scope: str, number: int, dependents: int) -> dict[str, Any]:
    boundary = ("primitive", "scenario", "decompose", "needs-source")[number % 4]
    return {
        "name": f"{scope}.root.{number}", "boundary": boundary, "dependents": dependents,
        "targets": ["thermal.dc.pue"], "unit": "W", "meaning": f"root {number} of {scope}",
        "has_reference": True, "members": [], "variance_share": None, "first_order_share": None,
        "share_half_width": None, "note": "", "given": [],
    }  # fmt: skip


def test_debt_looks_as_it_did(open_page: Callable[..., Any]) -> None:
    """With roots made up here: those of the model grow with its equations."""
    scopes = {"thermal": 14, "cluster": 9, "gpu": 6, "econ": 4, "hbm": 2}
    rows = [
        made_row(scope, number, 400 // (number + 1) + 3 * count)
        for scope, count in scopes.items()
        for number in range(count)
    ]
    rows.sort(key=lambda row: -row["dependents"])
    page = open_page("#/docs")
    page.locator("article h1").wait_for()
    data = {"by": "dependents", "target": None, "families": False, "rows": rows, "degradations": []}
    page.route("**/api/v1/root-debt**", lambda route: route.fulfill(json=data))
    page.evaluate("location.hash = '#/debt?target=thermal.dc.pue'")
    page.locator(TILES).nth(len(rows) - 1).wait_for(timeout=60_000)
    check_picture(page, "debt")
