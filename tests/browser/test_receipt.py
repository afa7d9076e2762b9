from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

import pytest
from browser_pages import check_narrow, check_picture

pytestmark = pytest.mark.slow

PRESET = "dense_training_cost_fixture"
TARGET = "econ.cost.per_token"
ADDRESS = f"#/receipt/{TARGET}?preset={PRESET}"
TREE = "Lines of the receipt"


def opened(open_page: Callable[..., Any], address: str = ADDRESS, **how: Any) -> Any:
    page = open_page(address, **how)
    page.get_by_role("treegrid", name=TREE).wait_for(timeout=60_000)
    return page


def test_receipt_has_shares_equation_and_unit_check(
    open_page: Callable[..., Any], check_accessibility: Callable[[Any], None]
) -> None:
    page = opened(open_page)
    assert "$" in page.locator(".receipt-hero").inner_text()
    first = page.locator("tr[data-path]").first
    assert first.get_attribute("data-name") == TARGET
    assert "100 %" in first.inner_text()
    page.get_by_text("both sides agree").wait_for()
    page.locator(".formula-set .katex").first.wait_for()
    check_accessibility(page)


def test_one_assumption_changes_and_the_difference_is_shown(open_page: Callable[..., Any]) -> None:
    page = opened(open_page, f"{ADDRESS}&line=econ.electricity.price")
    page.get_by_role("button", name="Change econ.electricity.price").first.click()
    page.get_by_label("New value of econ.electricity.price").fill("0.2 USD/kWh")
    page.get_by_role("button", name="See the difference").click()
    page.get_by_role("heading", name="The difference").wait_for(timeout=60_000)
    page.get_by_text("100 % of the difference").wait_for(timeout=60_000)
    assert "set=econ.electricity.price=0.2 USD/kWh" in unquote(page.url.replace("+", " "))
    row = page.locator('tr[data-name="econ.electricity.price"]').first
    assert "was" in row.inner_text()
    page.get_by_role("button", name="Take back econ.electricity.price = 0.2 USD/kWh").click()
    page.get_by_role("heading", name="The difference").wait_for(state="detached")


def test_missing_inputs_are_given_one_by_one(open_page: Callable[..., Any]) -> None:
    """148 SMs at 2 GHz, 4,096 FLOPs a cycle each: the product is 1,212 TFLOP/s."""
    page = opened(open_page, "#/receipt/gpu.peak_flops")
    page.get_by_text("3 inputs missing").wait_for()
    for name, text, left in (
        ("gpu.multiprocessors", "148 1/GPU", "2 inputs missing"),
        ("gpu.flops_per_cycle", "4096 FLOP", "1 input missing"),
        ("gpu.clock", "2 GHz", "1,212 TFLOP"),
    ):
        line = page.locator(".finding-list li", has_text=name)
        line.get_by_role("button", name="Give a value").click()
        page.get_by_label(f"New value of {name}").fill(text)
        page.get_by_role("button", name="Give it").click()
        page.locator(".receipt-hero", has_text=left).wait_for(timeout=60_000)
    assert page.locator(".finding-list .tag", has_text="missing").count() == 0


def test_unknown_and_hostile_names_are_refused_as_text(open_page: Callable[..., Any]) -> None:
    page = open_page("#/receipt/%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E", may_fail=True)
    page.get_by_text('unknown variable "<img src=x onerror=alert(1)>"').wait_for()
    assert page.locator("img[src=x]").count() == 0


def test_names_of_the_data_come_out_escaped(open_page: Callable[..., Any]) -> None:
    """What the server says is text, whatever it holds."""
    tag = "<img src=x onerror=alert(1)>"
    page = open_page("#/receipt")
    page.get_by_role("heading", name="Receipt", exact=True).wait_for()

    def hostile(route: Any) -> None:
        data = route.fetch().json()
        data["lines"] = [
            {**line, "meaning": tag, "source": tag, "figure": tag, "text": tag}
            for line in data["lines"]
        ]
        route.fulfill(json={**data, "notes": [tag]})

    page.route("**/api/v1/receipt/**", hostile)
    page.evaluate(f"location.hash = '{ADDRESS}'")
    page.get_by_role("treegrid", name=TREE).wait_for(timeout=60_000)
    assert page.get_by_text(tag).count() > 3
    assert page.locator("img[src=x]").count() == 0


def test_from_home_in_three_clicks(open_page: Callable[..., Any]) -> None:
    page = open_page("#/")
    page.locator('a[href^="#/receipt/"]').first.click(timeout=120_000)
    page.get_by_role("treegrid", name=TREE).wait_for(timeout=120_000)
    page.locator(".receipt-change").first.click()
    box = page.locator(".change-form .input")
    value, _, unit = box.input_value().partition(" ")
    box.fill(f"{float(value) * 1.25:g} {unit}".strip())
    page.get_by_role("button", name="See the difference").click()
    page.get_by_role("heading", name="The difference").wait_for(timeout=120_000)


def test_tree_opens_and_closes_by_keyboard(open_page: Callable[..., Any]) -> None:
    page = opened(open_page)
    page.get_by_role("button", name="Close all").click()
    rows = page.locator("tr[data-path]")
    assert rows.count() == 1
    rows.first.focus()
    page.keyboard.press("ArrowRight")
    assert rows.first.get_attribute("aria-expanded") == "true"
    assert rows.count() > 1
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.getAttribute('aria-level')") == "2"
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowLeft")
    assert rows.count() == 1


def test_link_to_a_line_opens_the_way_to_it(open_page: Callable[..., Any]) -> None:
    page = opened(open_page, f"{ADDRESS}&line=gpu.power")
    line = page.locator('tr[data-name="gpu.power"]').first
    line.wait_for()
    assert line.get_attribute("aria-selected") == "true"
    page.get_by_role("region", name="About gpu.power").wait_for()


def test_two_scenarios_line_by_line(open_page: Callable[..., Any]) -> None:
    page = opened(
        open_page,
        "#/receipt/econ.cost.per_token?preset=pythia_160m_full_cost&against=pythia_70m_full_cost",
    )
    page.get_by_role("heading", name="The difference").wait_for(timeout=120_000)
    page.locator(".contributions li").first.wait_for(timeout=120_000)
    assert page.get_by_role("columnheader", name="Change").count() == 1
    assert page.get_by_text("was ").count() > 2


def test_start_lists_scenarios_and_finds_variables(
    open_page: Callable[..., Any], check_accessibility: Callable[[Any], None]
) -> None:
    page = open_page("#/receipt")
    page.get_by_role("heading", name="llama3 8b h200 serving").wait_for()
    page.get_by_role("combobox", name="Variable").fill("power usage effectiveness")
    page.locator(".picker-option .mono").first.wait_for(timeout=30_000)
    check_accessibility(page)
    page.keyboard.press("Enter")
    page.wait_for_url("**/#/receipt/thermal.dc.pue**")


def test_receipt_fits_a_narrow_screen(open_page: Callable[..., Any]) -> None:
    page = opened(open_page, width=390, height=844)
    check_narrow(page)


@pytest.mark.parametrize("dark", [False, True])
def test_receipt_looks_as_it_did(open_page: Callable[..., Any], dark: bool) -> None:
    page = opened(open_page, dark=dark)
    page.locator(".formula-set .katex").first.wait_for()
    check_picture(page, f"receipt-{'dark' if dark else 'light'}")
