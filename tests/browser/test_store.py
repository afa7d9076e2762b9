"""The store: items with what they came to, found by terms and tags; what hostile names say stays text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from browser_pages import check_narrow

pytestmark = pytest.mark.slow

ITEM = {
    "item": "run/20261116-195508-vllm-2e18", "kind": "run", "name": "20261116-195508-vllm-2e18",
    "created_at": 1.7e9, "pushed_at": 1.8e9, "model": "<b>Llama</b>", "engine": "vllm",
    "accelerator": "NVIDIA H200", "workload": "chat", "verdict": "improved", "metric": "tpot_ms",
    "ratio": {"value": 5.54, "lo": 4.54, "hi": 6.76}, "tags": ["nightly"], "files": 14,
    "bytes": 1_500_000, "redacted": False, "manifest": "ab12cd34" * 8, "damage": None,
}  # fmt: skip
DAMAGED = {
    **ITEM, "item": "trace/t", "kind": "trace", "name": "t", "verdict": None, "ratio": None,
    "tags": [], "model": None, "created_at": None, "bytes": None, "damage": "manifest is damaged",
}  # fmt: skip


def opened(open_page: Callable[..., Any], place: str | None, **how: Any) -> tuple[Any, list[str]]:
    page = open_page("#/docs", **how)
    page.locator("article h1").wait_for()
    asked: list[str] = []

    def items(route: Any) -> None:
        terms = parse_qs(urlsplit(route.request.url).query).get("terms", [""])[0]
        asked.append(terms)
        rows = [ITEM, DAMAGED] if not terms else [ITEM] if terms == "tag=nightly" else []
        route.fulfill(json={"store": place, "terms": {}, "total": len(rows), "items": rows})

    page.route("**/api/v1/store?*", items)
    page.route(
        "**/api/v1/store/place",
        lambda route: route.fulfill(json={"place": place, "variable": "ASSAY_STORE"}),
    )
    page.evaluate("location.hash = '#/store'")
    page.get_by_role("heading", name="Store", exact=True).wait_for()
    return page, asked


def test_items_are_listed_and_found(
    open_page: Callable[..., Any], check_accessibility: Callable[[Any], None]
) -> None:
    page, asked = opened(open_page, "s3://team/assay")
    table = page.get_by_role("region", name="Items of the store")
    table.get_by_text("<b>Llama</b>").wait_for()
    assert table.get_by_text("5.54x").count() == 1
    assert table.get_by_text("damaged").count() == 1
    check_accessibility(page)
    check_narrow(page)
    table.get_by_role("link", name="nightly").click()
    page.get_by_text("1 of 1 items of s3://team/assay.").wait_for()
    page.get_by_label("Terms, all of which must hold").fill("model=none")
    page.get_by_role("button", name="Find").click()
    page.get_by_text("Nothing matches").wait_for()
    assert asked == ["", "tag=nightly", "model=none"]


def test_without_a_store_the_page_says_how_to_have_one(open_page: Callable[..., Any]) -> None:
    page, asked = opened(open_page, None)
    page.get_by_text("ASSAY_STORE").wait_for()
    assert asked == []
