"""What every importer does with its rows: types, order of columns, repairs that are counted."""

from __future__ import annotations

from collections import Counter

from assay.errors import InputError
from assay.lazy_import import pl
from assay.observe import schema

NEGATIVE_DURATION = "negative duration set to zero"
NO_START = "event without a start left out"
NO_END = "event without an end closed where it began"


def checked(events: pl.DataFrame, where: str) -> pl.DataFrame:
    """The same events; an error where one lacks what every event has."""
    for name in ("kind", "name", "start_ns", "dur_ns"):
        if count := events[name].null_count():
            raise InputError(f"{where}: expected a {name} in each event, got {count:,} without")
    kinds = set(events["kind"].cast(pl.String).unique())
    if unknown := sorted(kinds - set(schema.KINDS)):
        known = ", ".join(schema.KINDS)
        raise InputError(f'{where}: unknown kind of event "{unknown[0][:80]}"', f"one of: {known}")
    return events


def with_durations(
    events: pl.DataFrame, repairs: Counter[str], *, start: str = "start", end: str = "end"
) -> pl.DataFrame:
    """`start_ns` and `dur_ns` from a start and an end, what is wrong with them mended and counted."""
    missing = events[start].is_null()
    if count := int(missing.sum()):
        repairs[NO_START] += count
        events = events.filter(~missing)
    if count := events[end].null_count():
        repairs[NO_END] += count
    length = pl.col(end).fill_null(pl.col(start)) - pl.col(start)
    events = events.with_columns(pl.col(start).alias("start_ns"), length.alias("dur_ns"))
    # A difference beyond 64 bits wraps around: compare the ends themselves.
    negative = (pl.col(end) < pl.col(start)) | (pl.col("dur_ns") < 0)
    negative = negative.fill_null(False)
    if count := events.select(negative.sum()).item():
        repairs[NEGATIVE_DURATION] += count
        events = events.with_columns(pl.when(~negative).then("dur_ns").otherwise(0).alias("dur_ns"))
    return events


def lines(text: bytes, where: str) -> pl.Series:
    """The lines of a text."""
    if not text.strip():
        return pl.Series("line", [], pl.String)
    try:
        return pl.read_csv(
            text, has_header=False, separator="\x01", quote_char=None, schema={"line": pl.String}
        )["line"]
    except pl.exceptions.PolarsError as error:
        message = str(error).partition("\n")[0][:200]
        raise InputError(f"{where}: expected lines of text, got: {message}") from None
