"""Columns of events from values that are there for some of them only."""

from __future__ import annotations

from typing import Any

from assay.errors import InputError
from assay.lazy_import import np, pl


def scattered(places: np.ndarray, values: Any, count: int, kind: Any, where: str) -> pl.Series:
    """A column with these values at these places, and null elsewhere."""
    inside = places >= 0
    if (np.diff(places[inside]) <= 0).any():
        raise InputError(f"{where}: expected a column of an event once, got it twice")
    empty = pl.Series([None], dtype=kind).new_from_index(0, count)
    chosen = pl.Series(values, dtype=kind).filter(pl.Series(inside))
    return empty.scatter(pl.Series(places[inside]), chosen) if len(chosen) else empty


def arrays(owners: np.ndarray, values: np.ndarray, count: int, name: str, where: str) -> pl.Series:
    """Three numbers for each event that has them."""
    numbers = values.view(np.int64)
    fits = (numbers >= -(2**31)) & (numbers < 2**31)
    owned, counts = np.unique(owners, return_counts=True)
    if (counts != 3).any() or not fits.all():
        raise InputError(f"{where}: expected three numbers of 32 bits as {name} of an event")
    column = np.zeros((count, 3), np.int32)
    column[owned] = numbers[np.argsort(owners, kind="stable")].reshape(-1, 3)
    known = np.zeros(count, bool)
    known[owned] = True
    series = pl.Series(name, column, dtype=pl.Array(pl.Int32, 3))
    return series.to_frame().select(pl.when(pl.Series(known)).then(pl.col(name)))[name]
