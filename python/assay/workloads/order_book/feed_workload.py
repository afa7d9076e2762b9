"""Building books from a feed, as a workload of its own."""

from __future__ import annotations

from typing import Final

from assay.workloads.contract import DataSet
from assay.workloads.order_book.feed import quiet_feed
from assay.workloads.order_book.workload import INSTRUMENTS, RESTING, OrderBook


class OrderBookFeed(OrderBook):
    """The same books on a feed in which nothing trades: what book builders do, event by event."""

    name = "order-book-feed"

    def generate(self, seed: int, size: int) -> DataSet:
        """Messages of a random market whose orders only come, change and go."""
        events = quiet_feed(seed, size, instruments=INSTRUMENTS, resting=RESTING)
        return DataSet(events.arrays, size)


WORKLOAD: Final = OrderBookFeed()
