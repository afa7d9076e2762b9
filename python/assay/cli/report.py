"""`assay report` and `assay verify-report`: what a run found, and whether it is true."""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from assay.cli import options, styles
from assay.cli.declaring import argument, option
from assay.cli.output import Canvas, Line, Report, report_of, table, wrapped
from assay.errors import InputError

if TYPE_CHECKING:
    from assay.report.claim import Claim
    from assay.report.verify import Check, Verification

Run = Annotated[
    str,
    argument(
        "[RUN]", "A run folder, the id of a run or its unique start, or latest.", show_default=False
    ),
]


def report_command(
    run: Run = "latest",
    as_text: Annotated[bool, option("--text", "Print the whole report as Markdown.")] = False,
    html: Annotated[str | None, option("--html FILE", "Copy the page to this file.")] = None,
    to_open: Annotated[
        bool | None,
        option(
            "--open/--no-open",
            "Open the page in a browser; by default on a terminal.",
            show_default=False,
        ),
    ] = None,
    rewrite: Annotated[
        bool,
        option(
            "--rewrite",
            "Verify the report, then write it again in the words and pictures of this build.",
        ),
    ] = False,
    sign: Annotated[
        Path | None,
        option(
            "--sign KEY",
            "Verify the run, then sign it with this Ed25519 private key (PEM; assay store key makes "
            "one).",
        ),
    ] = None,
    redact: Annotated[
        Path | None,
        option(
            "--redact FOLDER",
            "Write a copy of the run there without prompts, paths and names of hosts, users and "
            "processes, which verifies by itself, and show the report of the copy.",
        ),
    ] = None,
    redact_name: Annotated[
        list[str] | None,
        option("--redact-name TEXT", "A name that --redact takes out too. May be repeated."),
    ] = None,
    as_json: options.Json = False,
) -> Report:
    """Show the report of a run: what was kept, and why.

    The report was written when the run ended; verify-report checks it against the run's rows.
    """
    from assay.report.fleet import read_fleet_report
    from assay.report.headline import headline, ran_on, summary
    from assay.report.markdown import write
    from assay.report.stored import read_report, rewrite_report, sign_report

    if redact is not None:
        from assay.improve.journal.run_folder import find
        from assay.report.redacted_run import redact_run
        from assay.report.redaction import Redactor

        redact_run(find(run).path, redact, Redactor(redact_name or ()))
        run = str(redact)
    elif redact_name:
        raise InputError("--redact-name: expected --redact FOLDER with it, got none")
    signed = []
    if sign is not None:
        from assay.report.signing import read_private_key

        key = read_private_key(sign)
        if rewrite:
            rewrite_report(run)
        signed = [f"signed by key {sign_report(run, key)}"]
        rewrite = False
    if (promotion := read_fleet_report(run)) is not None:
        promotion = replace(promotion, notes=(*promotion.notes, *signed))
        return report_of(promotion, lambda canvas: (), as_json, raw=promotion.text)
    report = rewrite_report(run) if rewrite else read_report(run)
    report = replace(report, notes=signed)
    claims, provenance, page = report.claims, report.provenance, report.page
    if html is not None:
        from assay.paths import write_atomically

        write_atomically(Path(html), page.read_bytes())
    interactive = sys.stdout.isatty() and not as_json and not as_text
    if (interactive if to_open is None else to_open) and not _open(page):
        opening = "no browser could be started; open the file yourself"
        report = replace(report, notes=[*signed, opening])

    def text(canvas: Canvas) -> Iterator[Line]:
        yield ((headline(claims, provenance), styles.NAME),)
        yield ((ran_on(provenance), styles.FAINT),)
        yield ""
        for line in summary(claims, provenance):
            yield from wrapped(line, canvas)
        yield ""
        yield from _trials(claims, canvas)
        yield (("report  ", styles.FAINT), str(page))

    return report_of(report, text, as_json, raw=write(claims, provenance) if as_text else None)


def _trials(claims: "list[Claim]", canvas: Canvas) -> Iterator[Line]:
    from assay.report.grouping import starting
    from assay.report.headline import outcome_of
    from assay.report.words import shown

    rows = [
        (str(claim.details["candidate"]), shown(claim.figure, claim.unit), outcome_of(claim))
        for claim in starting(claims, "experiment.")
    ]
    if rows:
        yield from table(("trial", "ratio and interval", "outcome"), rows, canvas)
        yield ""


def _open(page: Path) -> bool:
    import webbrowser

    return webbrowser.open(page.resolve().as_uri())


def verify_report_command(
    run: Run = "latest",
    key: Annotated[
        list[Path] | None,
        option(
            "--key PUBLIC",
            "Refuse a run that was not signed by this Ed25519 public key (PEM), such as one made anew. "
            "May be repeated: each must have signed.",
        ),
    ] = None,
    as_json: options.Json = False,
) -> Report:
    """Derive every claim of a report again from its rows.

    Checks the journal's hash chain, the SHA-256 of every file, that the measured rows are those that
    the journal recorded, every figure, statement and verdict, and that the report's text is the one
    that the claims give. The exit code is 1 if anything differs.
    """
    from assay.report.verify import verify_report

    verification = verify_report(run, key)

    def text(canvas: Canvas) -> Iterator[Line]:
        if verification.is_verified:
            yield (("verified", styles.GOOD), f"  {_extent(verification)}")
            return
        rows = [
            ((_names(names), styles.BAD), reason)
            for reason, names in _by_reason(verification.failures).items()
        ]
        yield from table(("not verified", "reason"), rows, canvas)

    return report_of(verification, text, as_json)


def _by_reason(failures: Sequence["Check"]) -> dict[str, list[str]]:
    """What failed for the same reason, as all claims do that rest on one damaged file."""
    reasons: dict[str, list[str]] = {}
    for check in failures:
        reasons.setdefault(check.statement, []).append(check.name)
    return reasons


def _names(names: list[str], most: int = 3) -> str:
    """The first names, and how many more there are.

    >>> _names(["final.ratio"]), _names(["a", "b", "c", "d", "e"])
    ('final.ratio', 'a, b, c and 2 more')
    """
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _extent(verification: "Verification") -> str:
    parts = [f"{number:,} {kind}" for kind, number in verification.extent.items() if number]
    return f"run {verification.run}: {', '.join(parts)}"
