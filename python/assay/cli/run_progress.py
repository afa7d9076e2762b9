"""The progress of `assay run`: phase, what is done now, best so far, time left."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from assay.cli import styles
from assay.cli.output import SILENT_SECONDS, Line, is_colorful, print_lines, show_note, unstyled
from assay.cli.verbosity import is_quiet
from assay.escaping import one_line

if TYPE_CHECKING:
    from assay.intervals import Interval


class RunProgress:
    """Lines for phases and results; between them a status line, on a terminal only."""

    def __init__(self, total_s: float, status: Any = None) -> None:
        self._total_s = total_s
        self._status = status
        self._begun = time.monotonic()
        self._said = time.monotonic()
        self._phase = ""
        self._best = ""
        self.noted: list[str] = []
        """What has been said on stderr."""

    def phase(self, title: str, seconds: float) -> None:
        """A phase begins."""
        self._phase = title
        self._print((one_line(f"{self._clock()}  {title}, up to {_span(seconds)}"),))

    def say(self, text: str) -> None:
        """What is being done."""
        shown = f"{self._phase}: {text}{self._best}; {_span(self._left())} left"
        if self._status is not None:
            self._status.update(one_line(shown))
        elif time.monotonic() - self._said >= SILENT_SECONDS:
            self._said = time.monotonic()
            self._print(((one_line(f"       {text}"), styles.FAINT),))

    def result(self, text: str) -> None:
        """A result that stays."""
        self._said = time.monotonic()
        self._print((one_line(f"{self._clock()}    {text}"),))

    def note(self, text: str) -> None:
        """What the user must know."""
        self.noted.append(text)
        show_note(text)

    def best(self, ratio: "Interval | None", time_left_s: float) -> None:
        """The best so far."""
        self._best = "" if ratio is None else f"; best so far {ratio.value:.2f}x"

    def _left(self) -> float:
        return max(self._total_s - (time.monotonic() - self._begun), 0.0)

    def _clock(self) -> str:
        seconds = int(time.monotonic() - self._begun)
        return f"{seconds // 60:3d}:{seconds % 60:02d}"

    def _print(self, line: Line) -> None:
        if self._status is None:
            print_lines([line], sys.stderr)
        else:
            # Above the status line, which the same console draws.
            self._status.console.print(unstyled(line), highlight=False, markup=False)


class Quiet(RunProgress):
    """Prints nothing."""

    def say(self, text: str) -> None:
        """Nothing."""

    def _print(self, line: Line) -> None:
        """Nothing."""


@contextmanager
def run_progress(total_s: float) -> Iterator[RunProgress]:
    """Progress on stderr; a status line that moves only where a terminal shows it."""
    if is_quiet():
        yield Quiet(total_s)
    elif not is_colorful(sys.stderr):
        yield RunProgress(total_s)
    else:
        from rich.console import Console

        with Console(file=sys.stderr).status("starting") as status:
            yield RunProgress(total_s, status)


def _span(seconds: float) -> str:
    """A time for people.

    >>> _span(42.4), _span(200), _span(7300)
    ('42 s', '3 min 20 s', '2 h 1 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
