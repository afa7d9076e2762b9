"""`assay telemetry watch`: a live view of the machine's state."""

import queue
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

from assay.cli import options, styles
from assay.cli.declaring import option
from assay.cli.output import Canvas, Line, Part, Report, is_colorful, one_line
from assay.cli.telemetry_record import Endpoints, Rate, until_signal
from assay.observe.telemetry import Sample, State, telemetry
from assay.observe.telemetry.sample import to_json
from assay.observe.telemetry.view import BARS, PLAIN_BARS, Panel, TelemetryView, spark


def telemetry_watch_command(
    rate: Rate = 1.0,
    endpoint: Endpoints = None,
    once: Annotated[bool, option("--once", "Print the state once and end.")] = False,
    duration: Annotated[
        float | None, option("--duration SECONDS", "Time to watch; until ctrl-c without.", min=0.0)
    ] = None,
    as_json: options.Json = False,
) -> Report | int:
    """Watch what the machine is like: GPUs, host, engines.

    Each device has its values with spark lines, the limits beside them, and what holds the clocks
    of a GPU down, in words. With --json every sample is a line of JSON.
    """
    samples: queue.SimpleQueue[Sequence[Sample]] = queue.SimpleQueue()
    state = telemetry([], rate=rate, endpoints=endpoint, listener=samples.put)
    # Rates need two samples, so one look takes two ticks.
    end_s = 1.5 / rate if once else duration
    with until_signal() as stop, state:
        deadline_s = None if end_s is None else time.monotonic() + end_s
        if as_json:
            _write_lines(samples, stop, deadline_s, last_only=once)
            return 0
        if once:
            view = TelemetryView()
            for batch in _batches(samples, stop, deadline_s):
                view.add(batch)
        else:
            _draw(state, samples, stop, deadline_s)
            return 0
    missing = [str(gap) for gap in state.missing]
    return Report(None, lambda canvas: _text(view.panels(), canvas), False, details=missing)


def _batches(
    samples: "queue.SimpleQueue[Sequence[Sample]]", stop: threading.Event, deadline_s: float | None
) -> Iterator[Sequence[Sample]]:
    """New samples, until the end; an empty batch every quarter of a second without any."""
    while not stop.is_set():
        left_s = 0.25 if deadline_s is None else min(deadline_s - time.monotonic(), 0.25)
        if left_s <= 0:
            return
        try:
            yield samples.get(timeout=left_s)
        except queue.Empty:
            yield ()


def _write_lines(
    samples: "queue.SimpleQueue[Sequence[Sample]]",
    stop: threading.Event,
    deadline_s: float | None,
    *,
    last_only: bool,
) -> None:
    newest: dict[tuple[str, str], Sample] = {}
    for batch in _batches(samples, stop, deadline_s):
        for sample in batch:
            newest[sample.reading.source, sample.reading.device] = sample
            if not last_only:
                sys.stdout.write(to_json(sample.row()) + "\n")
        if batch and not last_only:
            sys.stdout.flush()
    if last_only:
        for sample in newest.values():
            sys.stdout.write(to_json(sample.row()) + "\n")


def _draw(
    state: State,
    samples: "queue.SimpleQueue[Sequence[Sample]]",
    stop: threading.Event,
    deadline_s: float | None,
) -> None:
    """Redraw in place on a terminal; elsewhere print the state at every tick."""
    view = TelemetryView()
    if not is_colorful(sys.stdout):
        for batch in _batches(samples, stop, deadline_s):
            view.add(batch)
            if batch:
                for line in _text(view.panels(), Canvas()):
                    text = line if isinstance(line, str) else "".join(map(_plain, line))
                    sys.stdout.write(one_line(text).rstrip() + "\n")
                sys.stdout.flush()
        return
    from rich.console import Console
    from rich.live import Live

    console = Console(highlight=False)
    with Live(console=console, auto_refresh=False, screen=True) as live:
        for batch in _batches(samples, stop, deadline_s):
            view.add(batch)
            if batch:
                live.update(_renderable(view.panels(), state), refresh=True)


def _plain(part: Part) -> str:
    return part if isinstance(part, str) else part[0]


def _renderable(panels: Sequence[Panel], state: State) -> Any:
    from rich.console import Group
    from rich.text import Text

    lines = []
    for line in _text(panels, Canvas(), _bars()):
        text = Text(end="")
        for part in (line,) if isinstance(line, str) else line:
            words, style = (part, "") if isinstance(part, str) else part
            text.append(one_line(words), style)
        lines.append(text)
    cost = state.cost()["core_share"]
    notes = "; ".join(state.notes()) or f"costs {cost:.2%} of a core; ctrl-c ends it"
    lines.append(Text(one_line(notes), styles.FAINT))
    return Group(*lines)


def _bars() -> str:
    return BARS if "utf" in (sys.stdout.encoding or "").lower() else PLAIN_BARS


def _text(panels: Sequence[Panel], canvas: Canvas, bars: str | None = None) -> Iterator[Line]:
    if not panels:
        yield "no source gave a sample; assay telemetry record says what is missing"
    for panel in panels:
        yield ((panel.title, styles.NAME),)
        label_width = max((len(row.label) for row in panel.rows), default=0)
        text_width = max((len(row.text) for row in panel.rows if row.history), default=0)
        for row in panel.rows:
            parts: list[Part] = ["  ", (row.label.ljust(label_width), styles.FAINT), "  "]
            parts.append((row.text.ljust(text_width), styles.BAD if row.is_bad else ""))
            if len(row.history) > 2:
                parts += ["  ", spark(row.history, row.top, bars or _bars())]
            yield tuple(parts)
        yield ""
