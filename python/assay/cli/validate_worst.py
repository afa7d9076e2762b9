"""Lines of `assay validate --worst`: the largest misses and what would have to be true."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from assay.cli import styles
from assay.cli.output import Canvas, Line, wrapped

if TYPE_CHECKING:
    from assay.validate.score import Row
    from assay.validate.single_changes import SingleChange
    from assay.validate.worst import Miss, TermChange

_TERMS = 3


def worst_lines(misses: "Sequence[Miss]", canvas: Canvas) -> Iterator[Line]:
    """A paragraph a miss: figures, terms, assumptions, and single changes that explain it."""
    for miss in misses:
        yield from _miss_lines(miss, canvas)
        yield ""
    yield "predicted by constants fitted without the source; each change alone gives what was observed"


def _miss_lines(miss: "Miss", canvas: Canvas) -> Iterator[Line]:
    row = miss.row
    predicted = row.held_out if row.held_out is not None else row.predicted
    yield ((row.case, styles.NAME), f"  {row.quantity}, {row.group}")
    lo, hi = (row.lo, row.hi) if row.held_out_lo is None else (row.held_out_lo, row.held_out_hi)
    interval = "" if lo is None else f" ({lo:.4g} to {hi:.4g})"
    yield (
        "  predicted ", (f"{predicted:.4g} {row.unit}", styles.VALUE),
        f"{interval}, observed {row.observed:.4g}: ", (f"{row.held_out_error:+.0%}", styles.BAD),
    )  # fmt: skip
    yield from wrapped(f"source: {row.source}", canvas, "  ", styles.FAINT)
    largest = sorted(row.terms.items(), key=lambda item: -abs(item[1]))
    if largest:
        parts = ", ".join(f"{name} {value:.3g}" for name, value in largest)
        yield from wrapped(f"terms: {parts}", canvas, "  ", styles.FAINT)
    for note in row.notes:
        yield from wrapped(f"assumed: {note}", canvas, "  ", styles.FAINT)
    yield "  would have to be true, one of"
    for term in miss.terms[:_TERMS]:
        yield f"    {_term_text(term)}"
    for change in miss.changes:
        yield f"    {_change_text(change, row)}"
    if not miss.changes:
        yield "    no input alone between an eighth and eight times its value gives it"


def _term_text(term: "TermChange") -> str:
    if term.after == 0:
        return f"{term.name}: gone, and that is not enough"
    factor = term.after / term.before
    return f"{term.name}: {term.after:.3g} instead of {term.before:.3g} (x {factor:.3g})"


def _change_text(change: "SingleChange", row: "Row") -> str:
    unit = "" if change.unit == "1" else f" {change.unit}"
    text = f"{change.name}: {change.after:.3g}{unit} instead of {change.before:.3g}"
    if change.ratio != 1:
        text += f", which gives {change.ratio * row.observed:.4g} {row.unit}"
    elif change.factor is not None:
        text += f" (x {change.factor:.3g})"
    if change.spreads is not None:
        text += f", {change.spreads:.1f} of its standard errors"
    return text
