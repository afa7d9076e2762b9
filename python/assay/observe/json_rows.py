"""Events as JSON objects, one a line, and back, without a loss.

`args` comes last in a line and is there as the object that it is, not as text in a string, so
that its text can be cut out of the line again unchanged. Text that is no JSON object is a string.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterator
from typing import Any, Final

from assay.errors import InputError
from assay.lazy_import import pl
from assay.observe import schema
from assay.observe.header import FORMAT, TraceHeader

CHUNK: Final = 200_000
"""Rows that are turned into text at a time: bounds the memory, and the time between progress."""

_ARGS: Final = ',"args":'
_NOT_FINITE: Final = "flops_not_finite"
"""JSON has no NaN and no infinities: their names stand under this key."""


def header_data(header: TraceHeader) -> dict[str, Any]:
    """A header as data of JSON; numbers that JSON lacks are strings."""
    return {"format": FORMAT, **_finite(dataclasses.asdict(header))}


def read_header(data: Any, where: str) -> TraceHeader:
    """The header that `header_data` wrote; `where` names its place in errors."""
    return TraceHeader.from_json(json.dumps(data), where)


def _finite(data: Any) -> Any:
    if isinstance(data, float) and not math.isfinite(data):
        return str(data)
    if isinstance(data, dict):
        return {key: _finite(value) for key, value in data.items()}
    if isinstance(data, list):
        return [_finite(value) for value in data]
    return data


def steps_data(steps: pl.DataFrame) -> list[dict[str, Any]]:
    """The rows of the steps table, without what is unknown."""
    return [
        {name: value for name, value in row.items() if value is not None}
        for row in steps.iter_rows(named=True)
    ]


def read_steps(rows: Any, where: str) -> pl.DataFrame:
    """The table of the rows that `steps_data` wrote."""
    columns = schema.step_columns()
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise InputError(f"{where}: expected a list of steps")
    if unknown := sorted({name for row in rows for name in row} - set(columns)):
        raise InputError(f'{where}: unknown column "{unknown[0]}" of a step')
    try:
        return pl.DataFrame(rows, schema=columns, strict=True, orient="row")
    except (TypeError, OverflowError, pl.exceptions.PolarsError) as error:
        raise InputError(f"{where}: expected steps, got: {_first_line(error)}") from None


def to_lines(events: pl.DataFrame) -> Iterator[pl.Series]:
    """The JSON object of each event, `CHUNK` rows at a time."""
    for chunk in events.iter_slices(CHUNK):
        yield _encode(chunk)


def _encode(events: pl.DataFrame) -> pl.Series:
    plain = events.drop("args").with_columns(pl.col(pl.Categorical).cast(pl.String))
    flops = pl.col("flops")
    if not events["flops"].is_finite().all():
        name = flops.cast(pl.String)
        plain = plain.with_columns(pl.when(~flops.is_finite()).then(name).alias(_NOT_FINITE))
    known = [name for name in plain.columns if plain[name].null_count() < len(plain)]
    row = plain.select(pl.struct(known).struct.json_encode().alias("row"))["row"]
    parts = pl.DataFrame({"row": row, "args": args_members(events["args"])})
    line = pl.concat_str(pl.col("row").str.strip_suffix("}"), pl.col("args"), pl.lit("}"))
    return parts.select(line.alias("line"))["line"]


def args_members(args: pl.Series) -> pl.Series:
    """The last member of each object: the args as they are, or as a string; nothing for null."""
    is_object = (
        args.str.starts_with("{")
        & args.str.ends_with("}")
        & ~args.str.contains("[\n\r]")
        & args.str.json_path_match("$").is_not_null()
    )
    frame = pl.DataFrame({"args": args, "is_object": is_object})
    text = pl.col("args")
    if not is_object.all():
        quoted = pl.struct(pl.col("args").alias("t")).struct.json_encode()
        quoted = quoted.str.strip_prefix('{"t":').str.head(-1)
        text = pl.when("is_object").then(text).otherwise(quoted)
    member = pl.concat_str(pl.lit(_ARGS), text)
    known = pl.when(pl.col("args").is_null()).then(pl.lit("")).otherwise(member)
    return frame.select(known.alias("args"))["args"]


def from_lines(lines: pl.Series, where: str, *, closing: str = "}") -> pl.DataFrame:
    """The events of lines that `to_lines` wrote; `closing` is what ends a line."""
    frame = pl.DataFrame({"line": lines})
    if not frame["line"].str.ends_with(closing).all():
        raise InputError(f"{where}: expected an event in each line, got a line cut short")
    # Inside a JSON string a quote is escaped: the first of these is the member itself.
    parts = frame.select(
        pl.col("line")
        .str.head(-len(closing))
        .str.splitn(_ARGS, 2)
        .struct.rename_fields(["row", "args"])
        .struct.unnest()
    )
    row_type = {
        **{name: _json_type(name, kind) for name, kind in schema.event_columns().items()},
        _NOT_FINITE: pl.String,
    }
    del row_type["args"]
    try:
        rows = (
            parts.select(
                pl.concat_str(pl.col("row"), pl.lit("}")).str.json_decode(pl.Struct(row_type))
            )
            .to_series()
            .struct.unnest()
        )
        text = parts.select(pl.when(pl.col("args").str.starts_with('"')).then(pl.col("args")))
        quoted = (
            text.select(pl.concat_str(pl.lit('{"t":'), pl.col("args"), pl.lit("}")))
            .to_series()
            .str.json_decode(pl.Struct({"t": pl.String}))
            .struct.field("t")
        )
        args = parts["args"].to_frame().select(pl.coalesce(quoted, pl.col("args"))).to_series()
        rows = rows.with_columns(
            pl.coalesce("flops", pl.col(_NOT_FINITE).cast(pl.Float64)).alias("flops"),
            args.alias("args"),
        )
        return rows.select(pl.col(name).cast(kind) for name, kind in schema.event_columns().items())
    except (pl.exceptions.PolarsError, UnicodeDecodeError) as error:
        raise InputError(
            f"{where}: expected an event in each line, got: {_first_line(error)}"
        ) from (None)


def _json_type(name: str, kind: Any) -> Any:
    if isinstance(kind, pl.Categorical):
        return pl.String
    return pl.List(pl.Int32) if name in ("grid", "block") else kind


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0][:200]
