"""The state of this machine, sampled while somebody looks, and the floor of what ran here."""

from __future__ import annotations

import asyncio
import queue
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

from assay.errors import AssayError
from assay.improve.journal import run_folder
from assay.observe.telemetry import Sample, telemetry
from assay.observe.telemetry.view import Panel, TelemetryView
from assay.report.run_files import PLAN, RunFiles
from assay.runs.stored import summarize
from assay.ui.events import event
from assay.ui.served import ServedModels

RATE_HZ: Final = 1.0
HISTORY: Final = 120
"""Samples of a line: two minutes."""
MOST_FLOORS: Final = 4


def panel_data(panel: Panel) -> dict[str, Any]:
    """A device as the page draws it."""
    return {
        "title": panel.title,
        "rows": [
            {
                "label": row.label,
                "text": row.text,
                "history": list(row.history),
                "top": row.top,
                "bad": row.is_bad,
            }
            for row in panel.rows
        ],
    }


async def state_events() -> AsyncIterator[str]:
    """The state of the machine, once a second, until the listener leaves."""
    samples: queue.SimpleQueue[Sequence[Sample]] = queue.SimpleQueue()
    view = TelemetryView(HISTORY)
    state = telemetry([], rate=RATE_HZ, listener=samples.put)
    await asyncio.to_thread(state.start)
    served = ServedModels()
    compared: list[dict[str, Any]] = []
    # Asking servers and predicting steps must not hold up the samples.
    comparing: asyncio.Task[list[dict[str, Any]]] | None = None
    try:
        while True:
            batch: Sequence[Sample] = ()
            while not batch:
                await asyncio.sleep(0.1)
                while not samples.empty():
                    batch = samples.get_nowait()
                    view.add(batch)
            if comparing is not None and comparing.done():
                compared, comparing = comparing.result(), None
            if comparing is None:
                comparing = asyncio.create_task(asyncio.to_thread(served.compare, view.latest()))
            yield event(
                "state",
                {
                    "panels": [panel_data(panel) for panel in view.panels()],
                    "served": compared,
                    "missing": [str(gap) for gap in state.missing],
                    "cost": state.cost(),
                },
            )
    finally:
        if comparing is not None:
            # The thread ends by itself; nobody reads what it finds.
            comparing.cancel()
        await asyncio.to_thread(state.close)


def floors() -> list[dict[str, Any]]:
    """Floor, prediction and observation of a step in the latest run of each model here."""
    by_machine: dict[tuple[Any, Any], dict[str, Any]] = {}
    for run in run_folder.stored():
        if len(by_machine) == MOST_FLOORS:
            break
        try:
            prediction = RunFiles(run.path).plan.get("prediction") or {}
        except AssayError:
            # Runs of servers without a trace have no plan of their steps.
            continue
        if not prediction.get("floor_ns") or not prediction.get("observed_ns"):
            continue
        about = summarize(run)
        key = (about["model"], about["device"])
        if key in by_machine:
            continue
        by_machine[key] = {
            "run": run.id,
            "model": about["model"],
            "device": about["device"],
            "file": PLAN,
            **{
                name: prediction.get(name)
                for name in ("floor_ns", "expected_ns", "lo_ns", "hi_ns", "observed_ns")
            },
        }
    return list(by_machine.values())
