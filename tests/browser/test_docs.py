"""Documents and glossary in place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from browser_pages import check_narrow, check_picture

pytestmark = pytest.mark.slow


def test_glossary_is_searched(
    open_page: Callable[..., Any], check_accessibility: Callable[[Any], None]
) -> None:
    page = open_page("#/docs")
    page.get_by_role("heading", name="Glossary", exact=True).wait_for()
    page.locator(".glossary dt").first.wait_for()
    whole = page.locator(".glossary dt").count()
    page.get_by_label("Search the glossary").fill("KV cache")
    assert 0 < page.locator(".glossary dt").count() < whole
    check_accessibility(page)
    page.get_by_label("Search the glossary").fill("xyzzy")
    page.get_by_role("heading", name='No term has "xyzzy"').wait_for()


def test_document_by_its_address_and_links_between_documents(
    open_page: Callable[..., Any], check_accessibility: Callable[[Any], None]
) -> None:
    page = open_page("#/docs/guides/ui")
    page.locator("article h1").wait_for()
    assert page.locator("article").inner_text().count("assay ui") > 1
    check_accessibility(page)
    page.evaluate("location.hash = '#/docs/README'")
    link = page.locator("article a[href^='#/docs/']").first
    address = link.get_attribute("href")
    link.click()
    page.wait_for_url(f"**/{address}")
    page.locator("article h1").wait_for()


def test_unknown_document_is_an_error(open_page: Callable[..., Any]) -> None:
    page = open_page("#/docs/guides/%3Cimg%20src%3Dx%3E", may_fail=True)
    page.get_by_role("alert").get_by_text('there is no page "guides/<img src=x>"').wait_for()
    assert page.locator("img[src=x]").count() == 0


def test_text_of_a_document_is_no_code(open_page: Callable[..., Any]) -> None:
    """Markdown of the server stays text: tags and addresses of scripts do nothing."""
    page = open_page("#/docs")
    page.get_by_role("heading", name="Glossary", exact=True).wait_for()
    text = "# T\n\n<img src=x onerror=alert(1)> [go](javascript:alert(1)) `<b>`\n"
    page.route(
        "**/api/v1/documents/guides/ui",
        lambda route: route.fulfill(json={"name": "guides/ui", "title": "T", "text": text}),
    )
    page.evaluate("location.hash = '#/docs/guides/ui'")
    page.get_by_text("<img src=x onerror=alert(1)>").wait_for()
    assert page.locator("img[src=x]").count() == 0
    assert page.locator("a[href^='javascript']").count() == 0


def test_installation_without_documents_says_so(open_page: Callable[..., Any]) -> None:
    page = open_page("#/live")
    page.get_by_role("heading", name="Live", exact=True).wait_for()
    page.route("**/api/v1/documents", lambda route: route.fulfill(json=[]))
    page.evaluate("location.hash = '#/docs'")
    page.get_by_role("heading", name="No documentation").wait_for()


def test_terms_are_explained_in_place(open_page: Callable[..., Any]) -> None:
    page = open_page("#/receipt/thermal.dc.pue?preset=llama3_8b_h200_serving")
    term = page.locator(".term", has_text="PUE").first
    term.wait_for(timeout=60_000)
    assert not page.get_by_role("tooltip").first.is_visible()
    term.focus()
    page.get_by_role("tooltip").first.wait_for()
    assert "power of the site" in page.get_by_role("tooltip").first.inner_text()


def test_docs_fit_a_narrow_screen(open_page: Callable[..., Any]) -> None:
    for address in ("#/docs", "#/docs/guides/ui"):
        page = open_page(address, width=390, height=844)
        page.locator("article h1").wait_for()
        check_narrow(page)


def test_docs_look_as_they_did(open_page: Callable[..., Any]) -> None:
    page = open_page("#/docs")
    page.locator(".glossary dt").first.wait_for()
    check_picture(page, "docs")
