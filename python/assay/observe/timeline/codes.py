"""Dictionary codes of text columns: small integers in place of strings, as arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from assay.lazy_import import pl

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Codes(NamedTuple):
    """A text column: `words[values[i]]` is row i, and -1 is null."""

    values: NDArray[np.int32]
    words: list[str]


def codes(column: pl.Series) -> Codes:
    """Number the distinct values of a text or categorical column by first appearance.

    >>> import polars as pl
    >>> codes(pl.Series(["b", None, "a", "b"])).words
    ['b', 'a']
    """
    if column.dtype == pl.String:
        column = column.cast(pl.Categorical())
    # Physical codes of a categorical column are shared with other columns, so they are sparse.
    physical = column.to_physical().cast(pl.Int64).fill_null(-1).to_numpy()
    first = (
        pl.DataFrame({"code": physical})
        .with_row_index("row")
        .group_by("code")
        .agg(pl.col("row").min())
        .filter(pl.col("code") >= 0)
        .sort("row")
    )
    words = column.gather(first["row"]).cast(pl.String).to_list()
    table = np.full(int(physical.max(initial=-1)) + 2, -1, np.int32)
    table[first["code"].to_numpy()] = np.arange(len(words), dtype=np.int32)
    # The last entry of the table stands for null, whose code is -1.
    return Codes(table[physical], words)
