"""Orders as a market-data feed: what an exchange publishes about them, order by order.

A feed has no market orders and nothing that crosses: what traded is told as orders that shrink. Book
builders, which do not match, read it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from assay.workloads.contract import HostArray
from assay.workloads.order_book.books import OrderBooks
from assay.workloads.order_book.events import (
    ADD,
    CANCEL,
    DTYPES,
    MARKET,
    REDUCE,
    REPLACE,
    Events,
    generate,
)


@dataclass(frozen=True, slots=True)
class Feed:
    """Messages, and which event each comes from."""

    messages: Events
    row: HostArray
    """the event of each message"""
    left: HostArray
    """what the order has left after each message"""


def feed_of(events: Events, instruments: int) -> Feed:
    """The messages of valid events."""
    fills = OrderBooks(instruments).fills(events)
    filled = list(
        zip(fills["row"].tolist(), fills["order"].tolist(), fills["quantity"].tolist(), strict=True)
    )
    resting: list[dict[int, tuple[int, int, int]]] = [{} for _ in range(instruments)]
    messages: list[tuple[int, int, int, int, int, int]] = []
    rows: list[int] = []
    left_after: list[int] = []
    place = 0

    def send(row: int, message: tuple[int, int, int, int, int, int], left: int) -> None:
        messages.append(message)
        rows.append(row)
        left_after.append(left)

    columns = (column.tolist() for column in events.columns)
    for row, (kind, side, number, order, price, quantity) in enumerate(zip(*columns, strict=True)):
        live = resting[number]
        traded = 0
        while place < len(filled) and filled[place][0] == row:
            _, other, by = filled[place]
            other_side, other_price, before = live[other]
            place += 1
            traded += by
            if before == by:
                del live[other]
                send(row, (CANCEL, other_side, number, other, other_price, 0), 0)
            else:
                live[other] = (other_side, other_price, before - by)
                send(row, (REDUCE, other_side, number, other, other_price, by), before - by)
        left = quantity - traded
        if kind == CANCEL or (kind == REPLACE and left == 0):
            side, price, _ = live.pop(order)
            send(row, (CANCEL, side, number, order, price, 0), 0)
        elif kind in (ADD, REPLACE) and left:
            side = side if kind == ADD else live[order][0]
            live[order] = (side, price, left)
            send(row, (kind, side, number, order, price, left), left)
        elif kind not in (ADD, REPLACE, MARKET):
            raise AssertionError(f"event {row} is of kind {kind}, which generators do not make")
    table = np.array(messages, np.int64).reshape(-1, len(DTYPES))
    return Feed(
        Events.of(dict(zip(DTYPES, table.T, strict=True))),
        np.array(rows, np.uint32),
        np.array(left_after, np.uint32),
    )


def quiet_feed(seed: int, count: int, *, instruments: int, resting: int) -> Events:
    """Messages of a feed without reductions: orders come, change and go, and nothing trades."""
    messages = feed_of(
        generate(seed, count + count // 4 + 64, instruments=instruments, resting=resting),
        instruments,
    ).messages
    kept = messages.kind != REDUCE
    quiet = Events(*(column[kept] for column in messages.columns))[:count]
    assert len(quiet) == count, "events have a message each, but for few"
    return quiet
