"""Writes the pictures of the pages in the README: docs/images/*.png.

python scripts/make_screenshots.py          # all of them
python scripts/make_screenshots.py cone     # one

It starts `assay ui` with the run of docs/examples and needs Playwright and a Chromium: ASSAY_CHROMIUM
names one, else an installed one is taken, else Playwright's own.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
RUN = ROOT / "docs" / "examples" / "h200-own-engine" / "run.tar.gz"
TOKEN = "the-token-of-the-screenshots"
MOST_BYTES = 300_000
WIDTH, HEIGHT = 1280, 800
WAIT_MS = 180_000


class Picture(NamedTuple):
    """A page, and what stands there once everything is drawn."""

    address: str
    shown: str
    pause_ms: int = 500
    gone: str = ""
    """What no longer stands there then, such as a bar of progress."""


PICTURES = {
    "lab": Picture("/lab", "text=90 %: "),
    "receipt": Picture(
        "/receipt/econ.cost.per_output_token?preset=llama3_8b_h200_serving", ".formula-set .katex"
    ),
    "cone": Picture(
        "/cone/econ.cost.per_output_token?preset=llama3_8b_h200_serving&depth=3",
        ".formula-set .katex",
        1500,
    ),
    "validate": Picture("/validate", "circle[data-case]", gone=".validate-progress"),
}


def main(names: Sequence[str]) -> int:
    """Write the pictures of these names, or all."""
    from playwright.sync_api import sync_playwright

    for unknown in set(names) - set(PICTURES):
        print(f'unknown picture "{unknown}": expected {", ".join(PICTURES)}', file=sys.stderr)
        return 2
    with served() as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium(playwright), args=["--no-sandbox"]
        )
        page = browser.new_page(
            viewport={"width": WIDTH, "height": HEIGHT},
            color_scheme="light",
            reduced_motion="reduce",
        )
        page.goto(f"{url}#token={TOKEN}&to=/docs")
        page.locator("main h1").first.wait_for(timeout=WAIT_MS)
        for name in names or PICTURES:
            take(page, name, PICTURES[name])
        browser.close()
    return 0


def take(page: Any, name: str, picture: Picture) -> None:
    """Open a page, wait until it is drawn, and keep its picture."""
    page.evaluate("(address) => { location.hash = `#${address}` }", picture.address)
    page.locator(picture.shown).first.wait_for(timeout=WAIT_MS)
    if picture.gone:
        page.locator(picture.gone).wait_for(state="detached", timeout=WAIT_MS)
    page.wait_for_timeout(picture.pause_ms)
    path = IMAGES / f"{name}.png"
    content = page.screenshot(animations="disabled")
    if len(content) > MOST_BYTES:
        raise SystemExit(f"{path.name}: expected at most {MOST_BYTES} bytes, got {len(content)}")
    path.write_bytes(content)
    print(f"{path.relative_to(ROOT)}  {len(content)} bytes")


def chromium(playwright: Any) -> str:
    """The browser to start."""
    installed = (shutil.which(name) for name in ("chromium", "chromium-browser", "google-chrome"))
    chosen = os.environ.get("ASSAY_CHROMIUM") or next(filter(None, installed), None)
    return chosen or str(playwright.chromium.executable_path)


@contextmanager
def served() -> Iterator[str]:
    """The address of an `assay ui` that has one stored run."""
    with tempfile.TemporaryDirectory() as scratch:
        with tarfile.open(RUN) as archive:
            archive.extractall(Path(scratch) / "runs", filter="data")
        words = ["ui", "--no-open", "--port", "0", "--token", TOKEN, "--json", "--quiet"]
        process = subprocess.Popen(
            [sys.executable, "-m", "assay", *words],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "ASSAY_SCRATCH": scratch},
        )
        assert process.stdout is not None
        try:
            text = ""
            while not text.endswith("}\n"):
                line = process.stdout.readline()
                if not line:
                    raise SystemExit("assay ui did not start")
                text += line
            yield str(json.loads(text)["url"]).split("#")[0]
        finally:
            process.terminate()
            process.wait(timeout=20)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
