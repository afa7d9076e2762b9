"""Every page in one walk of one browser: what runs at every change.

The files beside this one try each page for itself; they take minutes and are marked slow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from browser_pages import RUN

WALK = (
    ("#/receipt/econ.cost.per_token?preset=dense_training_cost_fixture", "tr[data-path]"),
    ("#/cone/thermal.dc.pue", ".cone-canvas[data-ready=true]"),
    ("#/atlas/gpu", ".atlas-panel"),
    ("#/debt?target=thermal.dc.pue", ".debt-tile"),
    ("#/walk/gpu.cycle_energy/training.step_time?preset=llama3_8b_8_h100_training", "main td"),
    ("#/lab", "[data-testid=hero-A]"),
    ("#/plan?gpus=h200", ".plan-chart"),
    (f"#/runs/{RUN}", ".waterfall-row"),
    ("#/speech", "main h1"),
    ("#/live", "main h1"),
    ("#/store", "main h1"),
    ("#/docs", "main h1"),
    ("#/runs", "a[href*='/runs/']"),
)
"""Addresses, and what stands there once the answer of the server is drawn."""


def test_every_page_opens_without_an_error(
    open_page: Callable[..., Any], check_accessibility: Callable[[Any], None]
) -> None:
    page = open_page("#/")
    page.get_by_role("link", name="2026-11-16 17:19").wait_for()
    assert "token" not in page.url
    check_accessibility(page)
    for address, shown in WALK:
        page.evaluate("(address) => { location.hash = address }", address)
        page.locator(shown).first.wait_for(timeout=60_000)
        assert page.get_by_role("alert").count() == 0, address


def test_hostile_names_and_missing_tokens_are_refused_as_text(
    open_page: Callable[..., Any],
) -> None:
    page = open_page("#/receipt/%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E", may_fail=True)
    page.get_by_text('unknown variable "<img src=x onerror=alert(1)>"').wait_for()
    assert page.locator("img[src=x]").count() == 0
    page = open_page("#/", with_token=False, may_fail=True)
    page.get_by_text("open the link that assay ui printed").first.wait_for()
