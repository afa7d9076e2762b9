"""Recordings as Polars frames, and what the machine was like during the steps of a trace."""

from __future__ import annotations

import json
from pathlib import Path

from assay.errors import InputError
from assay.lazy_import import pl
from assay.observe.telemetry.sinks import parquet
from assay.observe.telemetry.table import columns, of_rows
from assay.parquet import read_table


def read(path: str | Path) -> pl.DataFrame:
    """The samples of a recording: the folder of a Parquet sink or a file of JSON lines.

    A name without a slash is also looked for among the recordings of the scratch folder.
    """
    place = Path(path)
    if not place.exists() and place.name == str(path):
        place = parquet.folder() / str(path)
    if place.is_dir():
        return _read_folder(place)
    if place.is_file():
        return (
            _read_lines(place) if place.suffix != ".parquet" else _checked(read_table(place), place)
        )
    raise InputError(
        f"{path}: expected a recording of telemetry, found none", "assay telemetry record makes one"
    )


def _read_folder(place: Path) -> pl.DataFrame:
    names = parquet.current(file.name for file in place.iterdir())
    if not names and not (place / parquet.HEADER).is_file():
        raise InputError(f"{place}: expected a folder with {parquet.HEADER} and samples")
    frames = [_checked(read_table(place / name), place / name) for name in names]
    return pl.concat(frames) if frames else pl.DataFrame(schema=columns())


def _checked(frame: pl.DataFrame, path: Path) -> pl.DataFrame:
    """The columns of this version; one that the file does not have yet is null."""
    if "realtime_ns" not in frame.columns:
        raise InputError(f'{path}: expected a column "realtime_ns", got none of that name')
    return frame.select(
        pl.col(name).cast(kind) if name in frame.columns else pl.lit(None, dtype=kind).alias(name)
        for name, kind in columns().items()
    )


def _read_lines(path: Path) -> pl.DataFrame:
    """Samples of JSON lines; a line that a crash cut short is left out."""
    rows = []
    with open(path, encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file, start=1):
            try:
                row = json.loads(line)
            except ValueError:
                continue
            if not isinstance(row, dict) or "record" not in row:
                raise InputError(f"{path}: line {number}: expected a record of telemetry")
            if row.pop("record") != "sample":
                continue
            rows.append(row)
    return of_rows(rows)


def during(samples: pl.DataFrame, steps: pl.DataFrame, clock: str = "realtime") -> pl.DataFrame:
    """The steps of a trace, each with the newest sample of every device at its middle.

    `clock` is the clock of the trace's `start_ns`: realtime or monotonic. A step without a sample
    before it has nulls. The column `sample_age_ns` says how old the sample is.
    """
    if clock not in ("realtime", "monotonic"):
        raise InputError(
            f'clock: expected realtime or monotonic, got "{clock}"',
            "a trace on another clock cannot be joined with samples",
        )
    at = f"{clock}_ns"
    middle = (pl.col("start_ns") + pl.col("dur_ns") // 2).alias("_middle_ns")
    by_device = []
    for device in samples.select("source", "device").unique(maintain_order=True).rows():
        rows = samples.filter(
            (pl.col("source") == device[0]) & (pl.col("device") == device[1])
        ).drop("phase")
        joined = (
            steps.with_columns(middle)
            .sort("_middle_ns")
            .join_asof(rows.sort(at), left_on="_middle_ns", right_on=at, coalesce=False)
            .with_columns((pl.col("_middle_ns") - pl.col(at)).alias("sample_age_ns"))
            .drop("_middle_ns")
        )
        by_device.append(joined)
    return pl.concat(by_device) if by_device else steps
