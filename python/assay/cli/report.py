"""`assay report` and `assay verify-report`: what a run found, and whether it is true."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from assay.cli import options
from assay.cli.output import BAD, FAINT, GOOD, NAME, Canvas, Line, Report, count, table, wrapped
from assay.errors import CheckFailedError, InputError

if TYPE_CHECKING:
    from assay.report.claim import Claim, Provenance
    from assay.report.verify import Verification

Run = Annotated[
    str,
    typer.Argument(
        metavar="[RUN]",
        help="A run folder, the id of a run or its unique start, or latest.",
        show_default=False,
    ),
]


def report_command(
    run: Run = "latest",
    as_text: Annotated[
        bool, typer.Option("--text", help="Print the whole report as Markdown.")
    ] = False,
    html: Annotated[
        str | None,
        typer.Option("--html", metavar="FILE", help="Copy the page to this file."),
    ] = None,
    to_open: Annotated[
        bool | None,
        typer.Option(
            "--open/--no-open",
            help="Open the page in a browser; by default on a terminal.",
            show_default=False,
        ),
    ] = None,
    rewrite: Annotated[
        bool,
        typer.Option(
            "--rewrite",
            help="Verify the report, then write it again in the words and pictures of this build.",
        ),
    ] = False,
    as_json: options.Json = False,
) -> Report:
    """Show the report of a run: what was kept, and why.

    The report was written when the run ended; verify-report checks it against the run's rows.
    """
    from assay.improve.journal import run_folder
    from assay.report.headline import headline, ran_on, summary
    from assay.report.markdown import write
    from assay.report.storing import to_data

    folder = run_folder.find(run).path
    claims, provenance = _stored(folder)
    if rewrite:
        _rewrite(folder, claims, provenance)
        claims, provenance = _stored(folder)
    page = folder / "report.html"
    if html is not None:
        from assay.paths import write_atomically

        write_atomically(Path(html), page.read_bytes())
    interactive = sys.stdout.isatty() and not as_json and not as_text
    opened = _open(page) if (interactive if to_open is None else to_open) else None

    def text(canvas: Canvas) -> Iterator[Line]:
        yield ((headline(claims, provenance), NAME),)
        yield ((ran_on(provenance), FAINT),)
        yield ""
        for line in summary(claims, provenance):
            yield from wrapped(line, canvas)
        yield ""
        yield from _trials(claims, canvas)
        yield (("report  ", FAINT), str(page))

    notes = [] if opened is not False else ["no browser could be started; open the file yourself"]
    data: dict[str, Any] = {"run": str(folder), "report": str(page)}
    data |= to_data(claims, provenance)
    raw = write(claims, provenance) if as_text else None
    return Report(data, text, as_json, notes=notes, raw=raw)


def _stored(folder: Path) -> "tuple[list[Claim], Provenance]":
    from assay.files import read_json
    from assay.report.run_files import REPORT_DATA
    from assay.report.storing import from_data

    path = folder / REPORT_DATA
    if not path.is_file():
        raise InputError(
            f"run {folder.name}: expected a report, got none",
            "a run writes its report at its end",
        )
    return from_data(read_json("report", path))


def _rewrite(folder: Path, claims: "list[Claim]", provenance: "Provenance") -> None:
    from assay.report.run import write_again
    from assay.report.verify import verify

    if failures := verify(folder).failures:
        raise CheckFailedError(
            f"run {folder.name} is not verified and stays as it is: {failures[0].name}",
            "assay verify-report lists what failed",
        )
    write_again(folder, claims, provenance)


def _trials(claims: "list[Claim]", canvas: Canvas) -> Iterator[Line]:
    from assay.report.grouping import starting
    from assay.report.headline import outcome_of
    from assay.report.words import shown

    rows = [
        (str(one.details["candidate"]), shown(one.figure, one.unit), outcome_of(one))
        for one in starting(claims, "experiment.")
    ]
    if rows:
        yield from table(("trial", "ratio and interval", "outcome"), rows, canvas)
        yield ""


def _open(page: Path) -> bool:
    import webbrowser

    return webbrowser.open(page.resolve().as_uri())


def verify_report_command(
    run: Run = "latest",
    as_json: options.Json = False,
) -> Report:
    """Derive every claim of a report again from its rows.

    Checks the journal's hash chain, the SHA-256 of every file, that the measured rows are those that
    the journal recorded, every figure, statement and verdict, and that the report's text is the one
    that the claims give. The exit code is 1 if anything differs.
    """
    from assay.improve.journal import run_folder
    from assay.report.verify import verify

    found = verify(run_folder.find(run).path)

    def text(canvas: Canvas) -> Iterator[Line]:
        if found.is_verified:
            yield (("verified", GOOD), f"  {_extent(found)}")
            return
        rows = [((one.name, BAD), one.statement) for one in found.failures]
        yield from table(("not verified", "reason"), rows, canvas)

    failed = found.failures
    problem = (
        None
        if found.is_verified
        else CheckFailedError(
            f"run {found.run} is not verified: {len(failed)} of {count(len(found.checks), 'check')} "
            "failed",
        )
    )
    data = {
        "run": found.run,
        "verified": found.is_verified,
        "checks": [
            {"name": one.name, "passed": one.passed, "statement": one.statement}
            for one in found.checks
        ],
    }
    return Report(data, text, as_json, problem, notes=found.notes)


def _extent(found: "Verification") -> str:
    parts = [f"{number:,} {kind}" for kind, number in found.extent.items() if number]
    return f"run {found.run}: {', '.join(parts)}"
