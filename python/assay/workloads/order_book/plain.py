"""An order book in plain Python, event by event: the implementation that others are held against.

It shares nothing with the native books: sides are dictionaries of queues, prices are sorted lists, and
an order knows its side.
"""

from __future__ import annotations

import bisect
import math
from dataclasses import dataclass, field

import numpy as np

from assay.workloads.contract import Arrays
from assay.workloads.order_book.books import DTYPES
from assay.workloads.order_book.events import (
    ADD,
    BUY,
    CANCEL,
    MARKET,
    NO_ASK,
    NO_BID,
    REDUCE,
    REPLACE,
    Events,
)

Top = tuple[int, int, int, int, int, int, float, float]
"""Bid price and quantity, ask price and quantity, traded, notional, microprice, VWAP."""


@dataclass(slots=True)
class _Side:
    """One side: queues by price, of quantities by order id; dictionaries keep the order of time."""

    sign: int
    queues: dict[int, dict[int, int]] = field(default_factory=dict)
    prices: list[int] = field(default_factory=list)
    """sorted by sign times price: the best one is the last"""

    def best(self) -> int | None:
        return self.sign * self.prices[-1] if self.prices else None

    def add(self, order: int, price: int, quantity: int) -> None:
        if price not in self.queues:
            self.queues[price] = {}
            bisect.insort(self.prices, self.sign * price)
        self.queues[price][order] = quantity

    def remove(self, order: int, price: int) -> None:
        queue = self.queues[price]
        del queue[order]
        if not queue:
            del self.queues[price]
            self.prices.pop(bisect.bisect_left(self.prices, self.sign * price))


class PlainBook:
    """One instrument."""

    def __init__(self) -> None:
        """Make an empty book."""
        self.bids, self.asks = _Side(1), _Side(-1)
        self.where: dict[int, tuple[_Side, int]] = {}
        """side and price of each resting order"""
        self.volume = 0.0
        self.turnover = 0.0

    def apply(self, kind: int, side: int, order: int, price: int, quantity: int) -> Top | None:
        """The top of the book after an event; None where it is rejected and changes nothing."""
        if kind not in (ADD, CANCEL, REPLACE, MARKET, REDUCE) or side not in (0, 1):
            return None
        if kind != CANCEL and quantity == 0:
            return None
        if kind in (ADD, REPLACE) and price in (NO_BID, NO_ASK):
            return None
        if kind != MARKET and (order in self.where) != (kind != ADD):
            return None
        traded, notional = 0, 0
        own = self.bids if side == BUY else self.asks
        if kind == MARKET:
            traded, notional = self._trade(own, None, quantity)
        elif kind == ADD:
            traded, notional = self._submit(own, order, price, quantity)
        else:
            own, old = self.where[order]
            left = own.queues[old][order] - quantity
            if kind == REDUCE and left > 0:
                own.queues[old][order] = left
            else:
                own.remove(order, old)
                del self.where[order]
            if kind == REPLACE:
                traded, notional = self._submit(own, order, price, quantity)
        self.volume += traded
        self.turnover += notional
        return self.top(traded, notional)

    def top(self, traded: int = 0, notional: int = 0) -> Top:
        """The best prices, what rests there, and what follows from it."""
        bid, ask = self.bids.best(), self.asks.best()
        bid_quantity = 0 if bid is None else sum(self.bids.queues[bid].values())
        ask_quantity = 0 if ask is None else sum(self.asks.queues[ask].values())
        microprice = math.nan
        if bid is not None and ask is not None:
            weighted = float(bid) * ask_quantity + float(ask) * bid_quantity
            microprice = weighted / (bid_quantity + ask_quantity)
        return (
            NO_BID if bid is None else bid,
            bid_quantity,
            NO_ASK if ask is None else ask,
            ask_quantity,
            traded,
            notional,
            microprice,
            self.turnover / self.volume if self.volume else math.nan,
        )

    def depth(self, levels: int) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        """Prices and quantities of bids and of asks, from the best on."""
        bids, asks = (
            [
                (side.sign * price, sum(side.queues[side.sign * price].values()))
                for price in reversed(side.prices[-levels:])
            ]
            for side in (self.bids, self.asks)
        )
        return bids, asks

    def _submit(self, own: _Side, order: int, price: int, quantity: int) -> tuple[int, int]:
        traded, notional = self._trade(own, price, quantity)
        if traded < quantity:
            own.add(order, price, quantity - traded)
            self.where[order] = (own, price)
        return traded, notional

    def _trade(self, own: _Side, limit: int | None, quantity: int) -> tuple[int, int]:
        other = self.asks if own is self.bids else self.bids
        left, notional = quantity, 0
        while left and (price := other.best()) is not None:
            if limit is not None and own.sign * price > own.sign * limit:
                break
            order, resting = next(iter(other.queues[price].items()))
            filled = min(left, resting)
            left -= filled
            notional += price * filled
            if filled == resting:
                other.remove(order, price)
                del self.where[order]
            else:
                other.queues[price][order] = resting - filled
        return quantity - left, notional


def plain_tops(events: Events, instruments: int) -> tuple[Arrays, int]:
    """Tops after each event, event by event in Python, and how many events were rejected."""
    books = [PlainBook() for _ in range(instruments)]
    rows: list[Top] = []
    rejected = 0
    columns = (column.tolist() for column in events.columns)
    for kind, side, instrument, order, price, quantity in zip(*columns, strict=True):
        if instrument >= instruments:
            rows.append(PlainBook().top())
            rejected += 1
            continue
        book = books[instrument]
        top = book.apply(kind, side, order, price, quantity)
        if top is None:
            top = book.top()
            rejected += 1
        rows.append(top)
    answers = {
        name: np.array([row[place] for row in rows], dtype)
        for place, (name, dtype) in enumerate(DTYPES.items())
    }
    return answers, rejected
