"""The pages of `assay ui` in a real Chromium; without one these tests are skipped.

The server is the program itself, in a process of its own, with a scratch folder that holds the run
of docs/examples. A page that logs an error, breaks the content security policy or asks another host
fails its test.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from browser_pages import TOKEN

sync_api = pytest.importorskip("playwright.sync_api", reason="no playwright: the extra dev has it")


class Server(NamedTuple):
    """A running `assay ui`."""

    url: str
    scratch: Path


def find_chromium() -> str | None:
    """A Chromium of this machine: one that is named, an installed one, or Playwright's own."""
    if named := os.environ.get("ASSAY_CHROMIUM"):
        return named
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if found := shutil.which(name):
            return found
    with sync_api.sync_playwright() as playwright:
        own = playwright.chromium.executable_path
    return own if Path(own).exists() else None


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """One browser for the tests of a file.

    While it lives, an event loop runs in this thread, and tests of other files could not start theirs.
    """
    path = find_chromium()
    if path is None:
        pytest.skip("no Chromium: ASSAY_CHROMIUM names one, make test-web installs one")
    with sync_api.sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield launched
        launched.close()


def start_server(scratch: Path, machine_scratch: Path | None = None) -> Iterator[Server]:
    """Run `assay ui` on a free port until the caller is done."""
    words = ["ui", "--no-open", "--port", "0", "--token", TOKEN, "--json", "--quiet"]
    environment = {**os.environ, "ASSAY_SCRATCH": str(scratch)}
    process = subprocess.Popen(
        [sys.executable, "-m", "assay", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    lines = []
    while not lines or lines[-1] != "}\n":
        line = process.stdout.readline()
        assert line, process.stderr.read()
        lines.append(line)
    url = json.loads("".join(lines))["url"]
    try:
        yield Server(url.split("#")[0], scratch)
    finally:
        process.terminate()
        errors = process.communicate(timeout=60)[1]
        assert process.returncode == 0, errors
        assert "Traceback" not in errors, errors


@pytest.fixture(scope="session")
def server(
    root: Path, registry_cache: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """A server with one stored run: that of an H200."""
    scratch = tmp_path_factory.mktemp("ui")
    (scratch / "runs").mkdir()
    with tarfile.open(root / "docs" / "examples" / "h200-own-engine" / "run.tar.gz") as archive:
        archive.extractall(scratch / "runs", filter="data")
    shutil.copytree(registry_cache, scratch / "cache" / "registry")
    yield from start_server(scratch)


@pytest.fixture(scope="session")
def empty_server(
    registry_cache: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """A server of somebody who has run nothing yet."""
    scratch = tmp_path_factory.mktemp("empty-ui")
    shutil.copytree(registry_cache, scratch / "cache" / "registry")
    yield from start_server(scratch)


@pytest.fixture
def open_page(browser: Any, server: Server) -> Iterator[Callable[..., Any]]:
    """Opens an address such as `#/runs` and returns the page; problems of any page fail the test."""
    contexts = []
    problems: list[str] = []

    def opened(
        address: str = "#/",
        *,
        width: int = 1280,
        height: int = 800,
        dark: bool = False,
        at: Server = server,
        with_token: bool = True,
        may_fail: bool = False,
    ) -> Any:
        context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
            reduced_motion="reduce",
        )
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: problems.append(f"error: {error}"))
        page.on("dialog", lambda dialog: (problems.append(f"dialog: {dialog}"), dialog.dismiss()))

        def said(message: Any) -> None:
            # A refused request is what tests of refusals ask for; the browser logs it by itself.
            refused = may_fail and "Failed to load resource" in message.text
            # Chromium without a GPU warns of its own software rendering.
            rendering = "GL Driver Message" in message.text
            if message.type in ("error", "warning") and not refused and not rendering:
                problems.append(f"{message.type}: {message.text}")

        def asked(request: Any) -> None:
            if not request.url.startswith((at.url, "data:", "blob:")):
                problems.append(f"request of {request.url}")

        page.on("console", said)
        page.on("request", asked)
        start = f"#token={TOKEN}&to={address.removeprefix('#')}" if with_token else address
        page.goto(at.url + start)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert problems == []


@pytest.fixture(scope="session")
def check_accessibility() -> Callable[[Any], None]:
    """Fails where axe finds something serious or critical on a page."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()

    def check(page: Any) -> None:
        found = axe.run(page).response["violations"]
        serious = [
            f"{one['id']}: {one['help']}: {[node['target'] for node in one['nodes'][:3]]}"
            for one in found
            if one["impact"] in ("serious", "critical")
        ]
        assert serious == []

    return check
