"""The documentation as a site: every page is there, every link leads somewhere, nothing is fetched, search finds."""

from __future__ import annotations

import json
import re
import shutil
import threading
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

import pytest

import build_site
import generate_llms_text
from site_markdown import anchor_of, render

LINK = re.compile(r"\]\(([^()\s]+)\)")


class Elements(HTMLParser):
    """The links, sources and ids of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.ids: set[str] = set()
        self.scripts: list[str | None] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.links += [value for name in ("href", "src") if (value := given.get(name))]
        self.ids |= {value for value in [given.get("id")] if value}
        if tag == "script":
            self.scripts.append(given.get("src"))


def read(path: Path) -> Elements:
    elements = Elements()
    elements.feed(path.read_text("utf-8"))
    return elements


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("site") / "out"
    assert build_site.main(["--out", str(out)]) == 0
    return out


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Elements]:
    kept = [path for path in sorted(site.rglob("*.html")) if path.name != "report.html"]
    return {path: read(path) for path in kept}


def test_every_document_is_a_page(root: Path, site: Path) -> None:
    documents = [*root.glob("docs/**/*.md"), *(root / name for name in build_site.FIRST)]
    missing = [
        path.name
        for path in documents
        if not (site / build_site.address_of(path.relative_to(root).as_posix(), root)).is_file()
    ]
    assert missing == []
    assert len(documents) > 140


def test_every_link_of_the_pages_leads_to_a_file_and_an_anchor(pages: dict[Path, Elements]) -> None:
    wrong = []
    for path, page in pages.items():
        for link in page.links:
            if build_site.is_outside(link) or link == "data:,":
                continue
            named, _, anchor = unquote(link).partition("#")
            target = (path.parent / named).resolve() if named else path
            ids = pages[target].ids if anchor and target in pages else {anchor}
            if not target.is_file() or anchor not in ids:
                wrong.append(f"{path.name}: {link}")
    assert wrong == []


def test_navigation_of_a_page_names_every_other_page(
    pages: dict[Path, Elements], site: Path
) -> None:
    linked = {
        (site / "docs" / "guides" / link.partition("#")[0]).resolve()
        for link in pages[site / "docs" / "guides" / "ui.html"].links
    }
    assert set(pages) - linked == set()


def test_pages_run_one_script_of_their_own_and_fetch_nothing(pages: dict[Path, Elements]) -> None:
    for path, page in pages.items():
        assert len(page.scripts) == 1, path
        assert str(page.scripts[0]).endswith("search.js")
    text = "".join(path.read_text("utf-8") for path in build_site.ASSETS.iterdir())
    assert not re.search(r"https?://|fetch\(|XMLHttpRequest|innerHTML|@import", text)


def test_index_has_every_heading(site: Path, pages: dict[Path, Elements]) -> None:
    text = (site / "search-index.js").read_text("utf-8")
    index = json.loads(text.removeprefix("window.SEARCH_INDEX = ").removesuffix(";\n"))
    addresses = {section["address"].partition("#")[0] for section in index}
    assert {site / address for address in addresses} == set(pages)
    assert any("Little's law" in section["text"] for section in index)


@pytest.mark.parametrize(
    ("title", "anchor"),
    [
        ("What a build costs", "what-a-build-costs"),
        ("GEMV: linear layers, of few rows", "gemv-linear-layers-of-few-rows"),
        ("`assay run` & co.", "assay-run--co"),
    ],
)
def test_anchors_are_those_of_github(title: str, anchor: str) -> None:
    assert anchor_of(title, set()) == anchor
    assert anchor_of(title, {anchor}) == f"{anchor}-1"


def test_html_of_a_source_is_shown_and_not_passed_on() -> None:
    page = render(
        "# A <script>alert(1)</script>\n\n<img src=x onerror=alert(1)>\n", lambda link: link
    )
    assert "<script" not in page.body
    assert "<img" not in page.body


def test_script_addresses_stay_text() -> None:
    """CommonMark's parser refuses addresses that run."""
    page = render("# A\n\n[x](javascript:alert)\n", lambda link: link)
    assert "href" not in page.body


def test_a_broken_link_ends_the_build(root: Path, tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    for name in build_site.FIRST:
        (tmp_path / name).write_text("# Page\n")
    (tmp_path / "docs" / "README.md").write_text("# List\n\n[a](../README.md#none) [b](no.md)\n")
    with pytest.raises(build_site.SiteError, match=r"no heading #none") as refused:
        build_site.read_site(tmp_path)
    assert "no file no.md" in str(refused.value)


def test_a_folder_of_other_files_is_not_replaced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    assert build_site.main(["--out", str(tmp_path)]) == 2
    assert (tmp_path / "mine.txt").read_text() == "mine"
    assert "hint:" in capsys.readouterr().err


def test_llms_text_is_of_today_and_has_the_form_of_the_proposal(
    root: Path, site: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A title, a quoted summary, then sections of links (llmstxt.org)."""
    assert generate_llms_text.main(["--check"]) == 0, capsys.readouterr().err
    text = (site / "llms.txt").read_text("utf-8")
    assert re.match(r"# Assay\n\n> .+\n\n", text)
    links = LINK.findall(text)
    assert len(links) == len(set(links)) > 100
    assert [link for link in links if not (site / link).is_file()] == []
    listed = {path.relative_to(root).as_posix() for path in root.glob("docs/*/*.md")}
    assert listed - set(links) == set()


@pytest.fixture(scope="module")
def server(site: Path) -> Iterator[str]:
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site))) as listening:
        thread = threading.Thread(target=listening.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listening.server_address[1]}/"
        listening.shutdown()
        thread.join()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["file", "server"])
def test_every_page_opens_in_a_browser_and_search_finds(
    kind: str, site: Path, server: str, pages: dict[Path, Elements]
) -> None:
    playwright = pytest.importorskip("playwright.sync_api")
    path = shutil.which("chromium") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("no Chromium")
    base = server if kind == "server" else f"{site.as_uri()}/"
    problems: list[str] = []
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        page = browser.new_page()
        page.on("console", lambda message: problems.append(f"{page.url}: {message.text}"))
        page.on("pageerror", lambda error: problems.append(f"{page.url}: {error}"))
        page.on("requestfailed", lambda request: problems.append(f"failed: {request.url}"))
        for address in sorted(path.relative_to(site).as_posix() for path in pages):
            page.goto(base + address)
            assert page.locator("main h1").count() >= 1, address
        page.goto(base + "docs/guides/ui.html")
        page.keyboard.press("/")
        page.keyboard.type("confidence sequ")
        page.locator("#results a").first.wait_for()
        page.locator("#results a").first.click()
        page.wait_for_url("**#*")
        assert "onfidence sequence" in page.locator("main").inner_text()
        # What one wants to do comes before what explains it.
        for words in ("capacity", "store push", "assay plan", "--redact"):
            page.locator("#search").fill(words)
            page.locator("#results a").first.wait_for()
            first = page.locator("#results a").first.get_attribute("href")
            assert "docs/guides/" in str(first), words
        browser.close()
    assert problems == []
