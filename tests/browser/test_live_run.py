"""A real `assay run` of the synthetic model, seen in the page while it goes: live view and buttons."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from assay.improve.journal.run_folder import ACTIVE_NAME

pytestmark = pytest.mark.slow

WORDS = ("run", "--model", "synthetic", "--from", "plain", "--budget", "5m", "--force", "--quiet")


@pytest.fixture
def running(empty_server: Any) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A run under way in the scratch folder of a server, and its id."""
    runs = empty_server.scratch / "runs"
    before = set(runs.iterdir()) if runs.exists() else set()
    process = subprocess.Popen(
        [sys.executable, "-m", "assay", *WORDS],
        env={**os.environ, "ASSAY_SCRATCH": str(empty_server.scratch)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    fresh: set[Any] = set()
    while not fresh:
        assert process.poll() is None, process.communicate()[1]
        if runs.exists():
            fresh = {
                one
                for one in runs.iterdir()
                if one not in before and (one / "journal.jsonl").exists()
            }
    try:
        yield process, fresh.pop().name
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def opened(open_page: Callable[..., Any], server: Any, run: str) -> Any:
    page = open_page("#/runs", at=server)
    page.locator(f"a[href='#/runs/{run}']").first.wait_for(timeout=60_000)
    page.locator(f"a[href='#/runs/{run}']").first.click()
    page.get_by_text("under way").first.wait_for(timeout=60_000)
    return page


def records(page: Any) -> int:
    return int(page.get_by_text("records; changes").inner_text().split()[0])


def test_a_run_is_watched_and_stopped(
    open_page: Callable[..., Any], empty_server: Any, running: Any
) -> None:
    process, run = running
    page = opened(open_page, empty_server, run)
    page.get_by_text("records; changes").wait_for(timeout=60_000)
    seen = records(page)
    # Server-sent events add to the journal while it is open.
    page.wait_for_function(
        "(seen) => Number(/(\\d+) records; changes/.exec(document.body.innerText)?.[1]) > seen",
        arg=seen,
        timeout=120_000,
    )
    page.get_by_role("button", name="Stop", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    assert process.poll() is None
    page.get_by_role("button", name="Stop", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Stop the run").click()
    page.get_by_text("it restores the configuration, then ends").wait_for(timeout=60_000)
    process.wait(timeout=120)
    page.get_by_text("under way").first.wait_for(state="detached", timeout=60_000)
    page.get_by_role("button", name="Stop", exact=True).wait_for(state="detached")


def test_a_run_that_was_killed_is_rolled_back(
    open_page: Callable[..., Any], empty_server: Any, running: Any
) -> None:
    process, run = running
    page = opened(open_page, empty_server, run)
    # From the first experiment on there is something to undo.
    page.locator(".journal strong", has_text="experiment").first.wait_for(timeout=300_000)
    # The watchdog would restore the configuration by itself: both die, as with their machine.
    marker = json.loads((empty_server.scratch / "runs" / ACTIVE_NAME / f"{run}.json").read_text())
    os.kill(marker["watchdog"]["pid"], signal.SIGKILL)
    process.send_signal(signal.SIGKILL)
    process.wait(timeout=30)
    page.get_by_text("interrupted", exact=True).first.wait_for(timeout=120_000)
    page.get_by_role("tab", name="Where time goes").click()
    page.get_by_role("heading", name="No report").wait_for()
    button = page.get_by_role("button", name="Roll back")
    button.click(timeout=60_000)
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    assert not page.get_by_role("dialog").is_visible()
    button.click()
    page.get_by_role("dialog").get_by_role("button", name="Roll back").click()
    page.get_by_text("the stored configuration is the recorded one").wait_for(timeout=60_000)
    page.get_by_text("rolled back", exact=True).first.wait_for()
    journal = (empty_server.scratch / "runs" / run / "journal.jsonl").read_text()
    assert '"assay rollback"' in journal
