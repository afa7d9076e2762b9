"""The palette, and the form in the place of the pages where the token is missing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from browser_pages import RUN, TOKEN, check_narrow

pytestmark = pytest.mark.slow

BOX = "Go to a page, variable, scenario, run or document"


def opened(page: Any) -> Any:
    page.get_by_role("heading", level=1).wait_for()
    page.keyboard.press("Control+k")
    box = page.get_by_role("combobox", name=BOX)
    box.wait_for()
    page.get_by_role("status").filter(has_text="found").wait_for(timeout=60_000)
    return box


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("root de", "#/debt"),
        ("thermal.dc.pue", "#/receipt/thermal.dc.pue"),
        ("dense training", "#/lab?preset=dense_training_cost_fixture"),
        (RUN[:15], f"#/runs/{RUN}"),
        ("glossary", "#/docs/reference/glossary"),
    ],
)
def test_a_few_letters_lead_to_every_kind(
    open_page: Callable[..., Any], text: str, address: str
) -> None:
    page = open_page("#/docs")
    opened(page).fill(text)
    page.get_by_role("option").first.wait_for()
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/{address}**")
    assert page.get_by_role("dialog").count() == 0


def test_keys_move_and_a_screen_reader_is_told(
    open_page: Callable[..., Any], check_accessibility: Callable[[Any], None]
) -> None:
    page = open_page("#/docs")
    box = opened(page)
    box.fill("power")
    first = box.get_attribute("aria-activedescendant")
    page.keyboard.press("ArrowDown")
    second = box.get_attribute("aria-activedescendant")
    assert first != second
    chosen = page.get_by_role("option", selected=True)
    assert chosen.get_attribute("id") == second
    check_accessibility(page)
    page.keyboard.press("ArrowUp")
    assert box.get_attribute("aria-activedescendant") == first
    page.keyboard.press("Escape")
    box.wait_for(state="detached")
    page.keyboard.press("Control+k")
    page.get_by_role("combobox", name=BOX).fill("xyzzy<b>plugh</b>")
    page.get_by_text('Nothing has "xyzzy<b>plugh</b>"').wait_for()


def test_the_button_opens_it_on_a_narrow_screen(open_page: Callable[..., Any]) -> None:
    page = open_page("#/docs", width=390, height=844)
    page.get_by_role("button", name="Menu").click()
    page.get_by_role("button", name="Go to").click()
    page.get_by_role("combobox", name=BOX).fill("cost per token")
    page.get_by_role("option").first.wait_for(timeout=60_000)
    check_narrow(page)
    page.get_by_role("option").first.click()
    page.wait_for_url("**/#/**cost**")


@pytest.mark.parametrize("pasted", [TOKEN, f"http://127.0.0.1:1/#token={TOKEN}&to=/runs"])
def test_a_pasted_token_opens_the_pages(
    open_page: Callable[..., Any], check_accessibility: Callable[[Any], None], pasted: str
) -> None:
    page = open_page("#/runs", with_token=False, may_fail=True)
    page.get_by_role("heading", name="These pages need their token").wait_for()
    check_accessibility(page)
    box = page.get_by_label("Token, or the whole link")
    box.fill("not-the-token")
    page.get_by_role("button", name="Continue").click()
    page.get_by_text("the token is missing or wrong").wait_for()
    page.get_by_label("Token, or the whole link").fill(pasted)
    page.get_by_role("button", name="Continue").click()
    page.get_by_role("link", name="2026-11-16 17:19").wait_for()
