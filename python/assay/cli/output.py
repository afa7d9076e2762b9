"""Output of the command line: results on stdout, notes on stderr, color only on a terminal.

The layout is text and the same everywhere; a terminal adds color and box-drawing characters. Control
characters in external text are escaped.
"""

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final, NamedTuple, TextIO, TypeVar

from assay.answers import Answer, to_json as to_json
from assay.cli import styles
from assay.cli.verbosity import is_quiet, is_verbose
from assay.errors import AssayError, ContradictionError
from assay.escaping import one_line as one_line
from assay.plurals import count as count, size as size

Asked = TypeVar("Asked", bound=Answer)
Part = str | tuple[str, str]
Line = str | tuple[Part, ...]
"""A line of text, or its segments, each with an optional terminal style."""

WIDEST: Final = 100
"""Maximum line width: longer lines are hard to scan from a name to its value."""

SILENT_SECONDS: Final = 5.0
"""How long a command off a terminal works without a word."""


class Canvas(NamedTuple):
    """The layout target: its width and the characters that draw trees."""

    width: int = 80
    branch: str = "|- "
    last: str = "`- "
    pass_by: str = "|  "

    @property
    def is_unicode(self) -> bool:
        """Whether characters beyond ASCII can be drawn."""
        return not self.branch.isascii()


class Report(NamedTuple):
    """The result of a command: data, its rendering as text, and an error, if any.

    `data` may be a function that builds it: writing out every equation takes longer than the answer.
    `problem` is printed after the result and sets the exit code; `notes` go to stderr, `details`
    only with `--verbose`; in JSON they are the entry `notes` of an object. `raw` is text in the
    format of another tool and replaces `text`.
    """

    data: Any
    text: Callable[[Canvas], Iterable[Line]]
    as_json: bool
    problem: AssayError | None = None
    notes: Sequence[str] = ()
    raw: str | None = None
    details: Sequence[str] = ()


def report_of(
    answer: Answer,
    text: Callable[[Canvas], Iterable[Line]],
    as_json: bool,
    *,
    raw: str | None = None,
    details: Sequence[str] = (),
    text_notes: Sequence[str] = (),
) -> Report:
    """The report of an answer: its data and notes, with the text that a terminal shows.

    `text_notes` are beside the text alone: what it leaves out, or what JSON has in an entry.
    """
    notes = (*answer.notes, *(() if as_json else text_notes))
    return Report(answer.to_json, text, as_json, answer.problem, notes, raw, details)


_kept: list[Report] | None = None


@contextmanager
def kept_reports() -> Iterator[list[Report]]:
    """A block in which every report that is shown is kept too, for its data."""
    global _kept
    kept: list[Report] = []
    _kept = kept
    try:
        yield kept
    finally:
        _kept = None


def show(report: Report) -> int:
    """Print a report and return the exit code."""
    if _kept is not None:
        _kept.append(report)
    # A number that contradicts what was given must not reach a pipe as if it were an answer; JSON lists the conflicts.
    contradicted = isinstance(report.problem, ContradictionError)
    with stdout_errors():
        if report.as_json:
            sys.stdout.write(json_text(report))
        elif contradicted:
            pass
        elif report.raw is not None:
            sys.stdout.write(report.raw)
        else:
            print_lines(report.text(_canvas(sys.stdout)), sys.stdout)
        # Notes must not overtake the result when both streams are the same file.
        sys.stdout.flush()
    if not report.as_json:
        for note in (*report.notes, *(report.details if is_verbose() else ())):
            show_note(note)
    if report.problem is None:
        return 0
    show_error(report.problem)
    return report.problem.exit_code


@contextmanager
def stdout_errors() -> Iterator[None]:
    """Name stdout in the errors of writing to it, as on a full disk."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or "stdout"
        raise


def show_note(text: str) -> None:
    """Print a note on stderr, unless `--quiet`."""
    if is_quiet():
        return
    print_lines([(("note:", styles.WARN), f" {one_line(text)}")], sys.stderr)


def show_progress(text: str) -> None:
    """Print progress on stderr, unless `--quiet`."""
    if is_quiet():
        return
    print_lines([((one_line(text), styles.FAINT),)], sys.stderr)


def show_error(error: AssayError) -> None:
    """Print an error in one line and its hint in another."""
    lines: list[Line] = [(("error:", styles.BAD), f" {one_line(error.message)}")]
    if error.hint:
        lines.append((("hint:", styles.WARN), f" {one_line(error.hint)}"))
    print_lines(lines, sys.stderr)


def json_text(report: Report) -> str:
    """What `--json` prints of a report."""
    data = report.data() if callable(report.data) else report.data
    if report.notes and isinstance(data, dict) and "notes" not in data:
        data = {**data, "notes": list(report.notes)}
    return to_json(data) + "\n"


@contextmanager
def working(what: str, *, log: bool = False) -> Iterator[Callable[[str], None]]:
    """Show progress on stderr; the yielded function updates it.

    On a terminal it is a transient status line. Elsewhere an update is a line, with `log` every
    one, else one in `SILENT_SECONDS` at most. With `--quiet` nothing is printed anywhere.
    """
    if is_quiet():
        yield lambda text: None
        return
    if not is_colorful(sys.stderr):
        yield _logged(0.0 if log else SILENT_SECONDS)
        return
    from rich.console import Console

    with Console(file=sys.stderr).status(what) as status:
        yield lambda text: status.update(one_line(text))


def _logged(seconds: float) -> Callable[[str], None]:
    """Prints an update if so much time has passed since the last one, or since now."""
    last = time.monotonic()

    def update(text: str) -> None:
        nonlocal last
        if time.monotonic() - last >= seconds:
            last = time.monotonic()
            print_lines([one_line(text)], sys.stderr)

    return update


def prepare_streams() -> None:
    """Guard against closed streams and against characters that their encoding lacks."""
    # The streams of a process that was started without them are None.
    sys.stdin = sys.stdin or open(os.devnull)  # noqa: SIM115
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if reconfigure := getattr(stream, "reconfigure", None):
            reconfigure(errors="backslashreplace")


def is_colorful(stream: TextIO) -> bool:
    """Whether a stream is a terminal with color enabled."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") in ("dumb", "unknown"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or stream.isatty()


def _canvas(stream: TextIO) -> Canvas:
    width = max(40, min(shutil.get_terminal_size().columns, WIDEST))
    if not stream.isatty() or "utf" not in (stream.encoding or "").lower():
        return Canvas(width)
    return Canvas(width, "\u251c\u2500 ", "\u2514\u2500 ", "\u2502  ")


def print_lines(lines: Iterable[Line], stream: TextIO) -> None:
    """Print lines, with color where the stream is a terminal."""
    if not is_colorful(stream):
        for line in lines:
            stream.write(one_line(unstyled(line)).rstrip() + "\n")
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(file=stream, highlight=False, soft_wrap=True, force_terminal=True)
    for line in lines:
        text = Text(end="")
        for part in (line,) if isinstance(line, str) else line:
            words, style = (part, "") if isinstance(part, str) else part
            text.append(one_line(words), style)
        console.print(text)


def unstyled(line: Line) -> str:
    """A line without its styles."""
    if isinstance(line, str):
        return line
    return "".join(part if isinstance(part, str) else part[0] for part in line)


def table(
    header: Sequence[str], rows: Sequence[Sequence[Part]], canvas: Canvas, right: Sequence[int] = ()
) -> list[Line]:
    """Lay out a table, the last column wrapped within the canvas; empty without rows.

    `right` lists the right-aligned columns.
    """
    if not rows:
        return []
    cells = [[_cell(part) for part in row] for row in rows]
    widths = [
        max(len(row[column][0]) for row in (*cells, [(title, "") for title in header]))
        for column, title in enumerate(header)
    ]
    lines: list[Line] = []
    used = sum(widths[:-1]) + 2 * len(widths[:-1])
    room = canvas.width - used
    is_below = room < 24 and any(len(row[-1][0]) > room for row in cells)
    titles = [(title, styles.FAINT) for title in header]
    for row in (titles, *cells):
        parts: list[Part] = []
        for column, (text, style) in enumerate(row[:-1]):
            padded = text.rjust(widths[column]) if column in right else text.ljust(widths[column])
            parts += [(padded, style), "  "]
        text, style = row[-1]
        if is_below:
            lines.append(tuple(parts))
            if text and row is not titles:
                lines += wrapped(text, canvas, "    ", style or styles.FAINT)
        else:
            first, *others = _broken(text, room) or [""]
            lines.append((*parts, (first, style)))
            lines += [(" " * used, (other, style)) for other in others]
    return lines


def _broken(text: str, room: int) -> list[str]:
    from textwrap import wrap

    return wrap(text, max(room, 1), break_long_words=False, break_on_hyphens=False)


def _cell(part: Part) -> tuple[str, str]:
    text, style = (part, "") if isinstance(part, str) else part
    return one_line(text), style


def wrapped(text: str, canvas: Canvas, indent: str = "", style: str = "") -> list[Line]:
    """Wrap text within the canvas; continuation lines are indented."""
    first, *others = _broken(one_line(text), canvas.width - len(indent) - 4) or [""]
    return [(indent, (first, style)), *((f"{indent}    ", (line, style)) for line in others)]


def cut(limit: int, **lists: Sequence[object]) -> str | None:
    """What is left out of lists of which `limit` rows are printed each; 0 prints all.

    >>> cut(2, variables=[1, 2, 3], relations=[1])
    '2 of 3 variables; --limit 0 lists all'
    """
    left_out = [
        f"{limit:,} of {len(items):,} {noun}"
        for noun, items in lists.items()
        if 0 < limit < len(items)
    ]
    return f"{', '.join(left_out)}; --limit 0 lists all" if left_out else None


def cut_notes(text: str | None) -> list[str]:
    """A note of what was cut for the reader of a pipe, who may filter out the line on stdout."""
    return [text] if text and not sys.stdout.isatty() else []


def with_cut(answer: Asked, text: str | None) -> Asked:
    """The answer with a note of what was cut, in JSON too."""
    return replace(answer, notes=(*answer.notes, *cut_notes(text)))


def facts(pairs: Iterable[tuple[str, str]], canvas: Canvas) -> list[Line]:
    """Lay out label-value pairs, one per line; empty values are omitted."""
    known = [(label, one_line(text)) for label, text in pairs if text]
    indent = max((len(label) for label, _ in known), default=0) + 2
    lines: list[Line] = []
    for label, text in known:
        first, *others = _broken(text, max(canvas.width - indent, 24)) or [""]
        lines.append(((label.ljust(indent), styles.FAINT), first))
        lines += [" " * indent + other for other in others]
    return lines
