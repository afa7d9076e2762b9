"""`assay verify`, `audit`, `root-debt` and `next-work`: the health of the model."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Final, Literal

import typer

from assay import stack
from assay.cli import options
from assay.cli.output import (
    BAD,
    FAINT,
    GOOD,
    NAME,
    VALUE,
    WARN,
    Canvas,
    Line,
    Part,
    Report,
    cut,
    cut_notes,
    facts,
    table,
    working,
    wrapped,
)
from assay.cli.question import (
    ON_COMMAND_LINE,
    Question,
    chosen_preset,
    one_of,
    read_question,
)
from assay.errors import CheckFailedError

RANKINGS: Final[tuple[Literal["dependents", "variance"], ...]] = ("dependents", "variance")
PROFILES: Final[tuple[Literal["fast", "full"], ...]] = ("fast", "full")
MAX_LISTED: Final = 20
"""The most findings of one kind printed as text."""

_STATUS: Final = {"ok": GOOD, "failed": BAD, "skipped": WARN}


def verify_command(
    profile: Annotated[
        str,
        typer.Option(
            "--profile",
            metavar="|".join(PROFILES),
            help="fast checks declarations; full also evaluates them.",
        ),
    ] = "fast",
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Write nothing, not even to the cache.")
    ] = False,
    as_json: options.Json = False,
) -> Report:
    """Check the model against its invariants.

    The exit code is 1 if a rule is broken.
    """
    from assay.model.auditing.verify import verify

    chosen = one_of("profile", profile, PROFILES)
    registry = stack.load_registry() if read_only else stack.registry()
    with working(f"verifying, profile {profile}"):
        report = verify(registry, chosen, read_only)

    def text(canvas: Canvas) -> Iterator[Line]:
        rows: list[tuple[Part, ...]] = [
            ((check.status, _STATUS[check.status]), str(check.count), check.name, check.meaning)
            for check in report.checks
        ]
        yield from table(("status", "checked", "rule", "meaning"), rows, canvas, right=(1,))
        for check in report.checks:
            yield from _listed(check.details, canvas, f"{check.name}: ")

    failed = [check.name for check in report.checks if check.status == "failed"]
    problem = CheckFailedError(f"rules broken: {', '.join(failed)}") if failed else None
    return Report(report.to_data(), text, as_json, problem)


def audit_command(
    target: Annotated[
        str | None,
        typer.Option("--target", metavar="VARIABLE", help="Only what this variable depends on."),
    ] = None,
    fail_on_issues: Annotated[
        bool, typer.Option("--fail-on-issues", help="End with exit code 1 if there is an issue.")
    ] = False,
    as_json: options.Json = False,
) -> Report:
    """Find unsourced, unreachable and duplicate declarations."""
    from assay.model.auditing.audit import audit

    report = audit(stack.registry(), target)
    problem = None
    if fail_on_issues and report.issues:
        more = f" and {len(report.issues) - 1} more" if len(report.issues) > 1 else ""
        problem = CheckFailedError(f"{report.issues[0]}{more}")

    def text(canvas: Canvas) -> Iterator[Line]:
        for what, counts in report.coverage.items():
            parts = ", ".join(f"{number} {kind}" for kind, number in counts.items())
            shares = f"{report.cited[what]:.1%} cited, {report.shares[what]:.1%} referenced"
            yield from facts([(what, f"{shares}: {parts}")], canvas)
        yield ""
        yield from table(
            ("boundary", "roots"),
            [((kind, NAME), str(len(names))) for kind, names in report.roots_by_boundary.items()],
            canvas,
            right=(1,),
        )
        yield ""
        for title, found in (
            ("weak references", [f"{w.of} {w.name}: {w.why}" for w in report.weak_references]),
            ("relations that reach no target", report.unreached_relations),
            ("roots that reach no target", report.unreached_roots),
            ("duplicate relations", [", ".join(d.relations) for d in report.duplicates]),
            (
                "variables that mean nearly the same",
                [", ".join(p) for p in report.similar_variables],
            ),
            ("unused constants", report.unused_constants),
        ):
            yield f"{title}: {len(found) or 'none'}"
            yield from _listed(found, canvas, indent="    ")

    return Report(report.to_data(), text, as_json, problem)


def _listed(
    found: Sequence[str], canvas: Canvas, start: str = "", indent: str = ""
) -> Iterator[Line]:
    for line in found[:MAX_LISTED]:
        yield from wrapped(start + line, canvas, indent)
    if len(found) > MAX_LISTED:
        yield ((f"{indent}{start}{len(found) - MAX_LISTED:,} more; --json lists all", FAINT),)


def next_work_command(
    preset: options.PresetName = None,
    limit: options.Limit = None,
    as_json: options.Json = False,
) -> Report:
    """Rank open work on the model."""
    from assay.scenario.work import next_work

    scenario = chosen_preset(preset)
    registry = stack.registry() if scenario is None else scenario.registry
    with working("ranking open work"):
        found = next_work(registry, scenario)
    rows_at_most = options.rows_at_most(limit, as_json)
    left_out = cut(rows_at_most, items=found)
    data = {
        "preset": scenario.name if scenario else None,
        "of": len(found),
        "items": [item.to_data() for item in found[: limit or None]],
    }

    def text(canvas: Canvas) -> Iterator[Line]:
        rows: list[tuple[Part, ...]] = [
            ((f"{item.weight:.1%}", VALUE), item.kind, (item.name, NAME), item.reason)
            for item in found[: rows_at_most or None]
        ]
        header = ("weight", "work", "on", "reason")
        yield from table(header, rows, canvas, right=(0,)) or ["no open work"]
        if left_out:
            yield ((left_out, FAINT),)

    return Report(data, text, as_json, notes=cut_notes(left_out))


def root_debt_command(
    by: Annotated[
        str,
        typer.Option(
            "--by",
            metavar="|".join(RANKINGS),
            help="Rank by relations downstream, or by share of the target's variance.",
        ),
    ] = "dependents",
    target: Annotated[
        str | None,
        typer.Option(
            "--target", metavar="VARIABLE", help="Only roots of this variable; variance needs it."
        ),
    ] = None,
    families: Annotated[
        bool, typer.Option("--families", help="Rank families of roots instead of roots.")
    ] = False,
    include_constraints: Annotated[
        bool,
        typer.Option("--include-constraints", help="Also count constraints downstream."),
    ] = False,
    limit: options.Limit = None,
    preset: options.PresetName = None,
    assign: options.Assign = None,
    variant: options.Variant = None,
    includes: options.With = None,
    model_config: options.ModelConfig = None,
    correlate: options.Correlate = None,
    as_json: options.Json = False,
) -> Report:
    """Rank the roots of the model.

    Roots are ranked by the relations that depend on them, or by their share of a target's variance.
    """
    from assay.model.auditing.debt import root_debt

    ranking = one_of("ranking", by, RANKINGS)
    question = read_question(preset, assign, variant, includes, model_config, correlate)
    with working("ranking roots"):
        rows = root_debt(
            question.registry,
            by=ranking,
            target=target,
            given=question.inputs,
            variants=question.variants,
            families=families,
            include_constraints=include_constraints,
        )
    rows_at_most = options.rows_at_most(limit, as_json)
    left_out = cut(rows_at_most, **{"families" if families else "roots": rows})
    data = {
        "by": by,
        "target": target,
        "families": families,
        "rows": [
            {**row.to_data(), "given": _given(question, row.members or (row.name,))}
            for row in rows[: limit or None]
        ],
        "degradations": list(rows.degradations),
    }

    def text(canvas: Canvas) -> Iterator[Line]:
        cells: list[tuple[Part, ...]] = []
        for row in rows[: rows_at_most or None]:
            about = ", ".join(row.members) if families else row.meaning
            if row.note:
                about = f"{about}; {row.note}"
            amount = str(row.dependents) if by == "dependents" else _share(row.variance_share)
            cells.append(((amount, VALUE), (row.name, NAME), row.boundary, about))
        first = "relations" if by == "dependents" else "variance"
        last = "members" if families else "meaning"
        header = (first, "family" if families else "root", "boundary", last)
        yield from table(header, cells, canvas, right=(0,)) or [(("no roots", FAINT),)]
        if left_out:
            yield ((left_out, FAINT),)

    return Report(data, text, as_json, notes=[*rows.degradations, *cut_notes(left_out)])


def _given(question: Question, names: Sequence[str]) -> list[str]:
    """How the scenario has the values of roots: their kinds, `stated` or `missing`."""
    assignments = question.preset.assignments if question.preset else {}
    stated = {n for n, source in question.sources.items() if source == ON_COMMAND_LINE}
    kinds = (
        "stated" if name in stated
        else assignments[name].kind if name in assignments
        else "missing"
        for name in names
    )  # fmt: skip
    return list(dict.fromkeys(kinds))


def _share(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"
