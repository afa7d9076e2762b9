"""`assay verify`, `audit`, `root-debt` and `next-work`: the health of the model."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Final

from assay.cli import options, styles
from assay.cli.declaring import option
from assay.cli.output import (
    Canvas,
    Line,
    Part,
    Report,
    cut,
    facts,
    report_of,
    table,
    with_cut,
    working,
    wrapped,
)
from assay.scenario.questions.health import (
    PROFILES,
    RANKINGS,
    LayerDebt,
    audit_model,
    next_work,
    root_debt,
    verify_model,
)

MAX_LISTED: Final = 20
"""The most findings of one kind printed as text."""

_STATUS: Final = {"ok": styles.GOOD, "failed": styles.BAD, "skipped": styles.WARN}


def verify_command(
    profile: Annotated[
        str,
        option(
            "--profile",
            "fast checks declarations; full also evaluates them.",
            metavar="|".join(PROFILES),
        ),
    ] = "fast",
    read_only: Annotated[
        bool, option("--read-only", "Write nothing, not even to the cache.")
    ] = False,
    as_json: options.Json = False,
) -> Report:
    """Check the model against its invariants.

    The exit code is 1 if a rule is broken.
    """
    with working(f"verifying, profile {profile}"):
        answer = verify_model(profile, read_only=read_only)
    report = answer.report

    def text(canvas: Canvas) -> Iterator[Line]:
        rows: list[tuple[Part, ...]] = [
            ((check.status, _STATUS[check.status]), str(check.count), check.name, check.meaning)
            for check in report.checks
        ]
        yield from table(("status", "checked", "rule", "meaning"), rows, canvas, right=(1,))
        for check in report.checks:
            yield from _listed(check.details, canvas, f"{check.name}: ")

    return report_of(answer, text, as_json)


def audit_command(
    target: Annotated[
        str | None, option("--target VARIABLE", "Only what this variable depends on.")
    ] = None,
    fail_on_issues: Annotated[
        bool, option("--fail-on-issues", "End with exit code 1 if there is an issue.")
    ] = False,
    as_json: options.Json = False,
) -> Report:
    """Find unsourced, unreachable and duplicate declarations."""
    answer = audit_model(target, fail_on_issues=fail_on_issues)
    report = answer.report

    def text(canvas: Canvas) -> Iterator[Line]:
        for what, counts in report.coverage.items():
            parts = ", ".join(f"{number} {kind}" for kind, number in counts.items())
            shares = f"{report.cited[what]:.1%} cited, {report.shares[what]:.1%} referenced"
            yield from facts([(what, f"{shares}: {parts}")], canvas)
        yield ""
        yield from table(
            ("boundary", "roots"),
            [
                ((kind, styles.NAME), str(len(names)))
                for kind, names in report.roots_by_boundary.items()
            ],
            canvas,
            right=(1,),
        )
        yield ""
        for title, names in (
            ("weak references", [f"{w.of} {w.name}: {w.why}" for w in report.weak_references]),
            ("relations that reach no target", report.unreached_relations),
            ("roots that reach no target", report.unreached_roots),
            ("duplicate relations", [", ".join(d.relations) for d in report.duplicates]),
            (
                "variables that mean nearly the same",
                [", ".join(p) for p in report.similar_variables],
            ),
            ("unused constants", report.unused_constants),
            ("hardware that moves no headline", answer.hardware.issues),
        ):
            yield f"{title}: {len(names) or 'none'}"
            yield from _listed(names, canvas, indent="    ")

    return report_of(answer, text, as_json)


def _listed(
    lines: Sequence[str], canvas: Canvas, start: str = "", indent: str = ""
) -> Iterator[Line]:
    for line in lines[:MAX_LISTED]:
        yield from wrapped(start + line, canvas, indent)
    if len(lines) > MAX_LISTED:
        yield (
            (f"{indent}{start}{len(lines) - MAX_LISTED:,} more; --json lists all", styles.FAINT),
        )


def next_work_command(
    preset: options.PresetName = None,
    includes: options.With = None,
    by_layer: Annotated[
        bool, option("--by-layer", "Count the work of each layer by kind instead of listing it.")
    ] = False,
    limit: options.Limit = None,
    as_json: options.Json = False,
) -> Report:
    """Rank open work on the model."""
    with working("ranking open work"):
        answer = next_work(preset, includes=includes, limit=limit or 0)
    rows_at_most = options.rows_at_most(limit, as_json)
    left_out = cut(rows_at_most, items=answer.layers if by_layer else answer.items)

    def text(canvas: Canvas) -> Iterator[Line]:
        if by_layer:
            groups: list[tuple[Part, ...]] = [
                (group.layer, group.kind, str(group.items), (f"{group.weight:.1%}", styles.VALUE),
                 (group.heaviest, styles.NAME))
                for group in answer.layers[: rows_at_most or None]
            ]  # fmt: skip
            titles = ("layer", "work", "items", "weight", "heaviest")
            yield from table(titles, groups, canvas, right=(2, 3)) or ["no open work"]
            if left_out:
                yield ((left_out, styles.FAINT),)
            return
        rows: list[tuple[Part, ...]] = [
            ((f"{item.weight:.1%}", styles.VALUE), item.kind, (item.name, styles.NAME), item.reason)
            for item in answer.items[: rows_at_most or None]
        ]
        header = ("weight", "work", "on", "reason")
        yield from table(header, rows, canvas, right=(0,)) or ["no open work"]
        if left_out:
            yield ((left_out, styles.FAINT),)

    return report_of(with_cut(answer, left_out), text, as_json)


def root_debt_command(
    by: Annotated[
        str,
        option(
            "--by",
            "Rank by relations downstream, or by share of the target's variance.",
            metavar="|".join(RANKINGS),
        ),
    ] = "dependents",
    target: Annotated[
        str | None, option("--target VARIABLE", "Only roots of this variable; variance needs it.")
    ] = None,
    families: Annotated[
        bool, option("--families", "Rank families of roots instead of roots.")
    ] = False,
    include_constraints: Annotated[
        bool, option("--include-constraints", "Also count constraints downstream.")
    ] = False,
    by_layer: Annotated[
        bool,
        option("--by-layer", "A heat map of layers: roots by how the scenario has their values."),
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
    with working("ranking roots"):
        answer = root_debt(
            by,
            target,
            families=families,
            include_constraints=include_constraints,
            limit=limit or 0,
            **options.given(preset, assign, variant, includes, model_config, correlate),
        )
    rows = answer.rows
    rows_at_most = options.rows_at_most(limit, as_json)
    left_out = cut(rows_at_most, **{"families" if families else "roots": rows})
    if by_layer:
        return report_of(answer, lambda canvas: _heat_map(answer.layers, canvas), as_json)

    def text(canvas: Canvas) -> Iterator[Line]:
        cells: list[tuple[Part, ...]] = []
        for row in rows[: rows_at_most or None]:
            about = ", ".join(row.members) if families else row.meaning
            if row.note:
                about = f"{about}; {row.note}"
            amount = str(row.dependents) if by == "dependents" else _share(row.variance_share)
            cells.append(((amount, styles.VALUE), (row.name, styles.NAME), row.boundary, about))
        first = "relations" if by == "dependents" else "variance"
        last = "members" if families else "meaning"
        header = (first, "family" if families else "root", "boundary", last)
        yield from table(header, cells, canvas, right=(0,)) or [(("no roots", styles.FAINT),)]
        if left_out:
            yield ((left_out, styles.FAINT),)

    return report_of(with_cut(answer, left_out), text, as_json)


_HEAT: Final = 24
"""Characters of the widest bar."""


def _heat_map(layers: Sequence[LayerDebt], canvas: Canvas) -> Iterator[Line]:
    """Roots of each layer by kind of value, and a bar of what rests on those that are missing or assumed."""
    most = max((layer.owed for layer in layers), default=0) or 1
    rows: list[tuple[Part, ...]] = []
    for layer in layers:
        missing, assumed = (layer.kinds.get(kind, 0) for kind in ("missing", "assumed"))
        sourced = sum(layer.kinds.values()) - missing - assumed
        counts = (str(count or "") for count in (missing, assumed, sourced))
        bar = "#" * round(_HEAT * layer.owed / most)
        owed = (str(layer.owed), styles.VALUE)
        rows.append(((layer.layer, styles.NAME), *counts, owed, (bar, styles.WARN)))
    header = ("layer", "missing", "assumed", "sourced", "relations", "on missing or assumed")
    yield from table(header, rows, canvas, right=(1, 2, 3, 4))


def _share(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"
