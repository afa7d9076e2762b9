"""Collectives of several ranks, split into waiting and transfer.

A collective moves data only once its last rank has arrived. What a rank spends before that moment is
waiting; the rest is transfer. Clocks of the ranks must agree: a collective that would end before its
last rank begins shows that they do not.
"""

from __future__ import annotations

from typing import Any, Final

from assay.lazy_import import pl

OPERATIONS: Final = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send_recv")

_TOLERATED: Final = 0.02
"""Share of collectives that may contradict a common clock."""


def split(events: pl.DataFrame) -> tuple[list[dict[str, Any]], list[str]]:
    """Waiting and transfer by rank and operation, and what could not be split.

    The n-th collective of an operation in a layer of a step is the same one on every rank.
    """
    collectives = events.filter(
        pl.col("op").is_in(list(OPERATIONS)) & pl.col("step").is_not_null()
    ).select(
        pl.col("op").cast(pl.String),
        "step",
        pl.col("layer").fill_null(-1),
        # One process may drive several devices.
        lane=pl.concat_str(
            pl.col("rank").fill_null(-1), pl.col("device").fill_null(-1), separator="/"
        ),
        rank=pl.col("rank"),
        start="start_ns",
        end=pl.col("start_ns") + pl.col("dur_ns"),
    )
    lanes = collectives["lane"].n_unique()
    if not collectives.height or lanes < 2:
        return [], []
    number = pl.int_range(pl.len()).over("lane", "op", "step", "layer")
    collectives = collectives.sort("start").with_columns(number=number)
    whole = pl.len().over("op", "step", "layer", "number")
    total = collectives.height
    collectives = collectives.with_columns(members=whole).filter(pl.col("members") == lanes)
    notes = []
    if lost := total - collectives.height:
        notes.append(f"{lost} of {total} collectives are not on every rank: not split")
    last = pl.col("start").max().over("op", "step", "layer", "number")
    collectives = collectives.with_columns(arrived=last)
    wrong = collectives.filter(pl.col("end") < pl.col("arrived")).height
    if collectives.height and wrong / collectives.height > _TOLERATED:
        notes.append(
            f"{wrong} of {collectives.height} collectives end before their last rank begins: the clocks "
            "of the ranks do not agree, and collectives are not split"
        )
        return [], notes
    waiting = (pl.min_horizontal("arrived", "end") - pl.col("start")).alias("waiting")
    rows = (
        collectives.with_columns(waiting)
        .with_columns(transfer=pl.col("end") - pl.col("start") - pl.col("waiting"))
        .group_by("lane", "rank", "op")
        .agg(
            count=pl.len(), waiting_ns=pl.col("waiting").sum(), transfer_ns=pl.col("transfer").sum()
        )
        .sort("lane", "op")
    )
    return [
        {
            "rank": row["rank"],
            "device": int(row["lane"].split("/")[1]),
            "name": row["op"],
            "count": row["count"],
            "waiting_ns": row["waiting_ns"],
            "transfer_ns": row["transfer_ns"],
        }
        for row in rows.iter_rows(named=True)
    ], notes
