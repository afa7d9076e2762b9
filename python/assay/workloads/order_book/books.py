"""Order books of several instruments: events in, top of book, depth, microprice and VWAP out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from assay._native import OrderBooks as NativeOrderBooks
from assay.errors import InputError
from assay.workloads.contract import Arrays, HostArray
from assay.workloads.order_book.events import Events

LevelStructure = Literal["tree", "ladder"]
Lookup = Literal["map", "hash", "dense"]

WIDTH: Final = 4_096
"""Prices of a ladder by default: 64 KB of levels, within the L2 cache of any server CPU."""

DTYPES: Final[Mapping[str, npt.DTypeLike]] = {
    "bid_price": np.int32,
    "bid_quantity": np.uint64,
    "ask_price": np.int32,
    "ask_quantity": np.uint64,
    "traded": np.uint32,
    "notional": np.int64,
    "microprice": np.float64,
    "vwap": np.float64,
}
"""Columns of tops in order, and their types."""
_DEPTH_DTYPES: Final = dict(list(DTYPES.items())[:4])
"""The same of depths."""
_TOPS: Final = attrgetter(*DTYPES)
_DEPTHS: Final = attrgetter(*_DEPTH_DTYPES)


@dataclass(frozen=True, slots=True)
class Tops:
    """What follows from each event for its instrument, a column each."""

    bid_price: HostArray
    """`NO_BID` without bids"""
    bid_quantity: HostArray
    ask_price: HostArray
    """`NO_ASK` without asks"""
    ask_quantity: HostArray
    traded: HostArray
    """quantity that the event traded"""
    notional: HostArray
    """price times quantity of it, in ticks"""
    microprice: HostArray
    """(bid price x ask quantity + ask price x bid quantity) / both quantities, or NaN"""
    vwap: HostArray
    """of all trades so far, or NaN"""

    @classmethod
    def empty(cls, count: int) -> Tops:
        """Room for the tops of so many events."""
        return cls(*(np.empty(count, dtype) for dtype in DTYPES.values()))

    @property
    def columns(self) -> tuple[HostArray, ...]:
        """The columns in order."""
        columns: tuple[HostArray, ...] = _TOPS(self)
        return columns

    @property
    def arrays(self) -> Arrays:
        """The columns by name."""
        return dict(zip(DTYPES, self.columns, strict=True))


@dataclass(frozen=True, slots=True)
class Depths:
    """The best levels of the instrument after each event: a row an event, from the best on."""

    bid_price: HostArray
    bid_quantity: HostArray
    """0 where there is no such level"""
    ask_price: HostArray
    ask_quantity: HostArray

    @classmethod
    def empty(cls, count: int, levels: int) -> Depths:
        """Room for so many levels after each of so many events."""
        _check_levels(levels)
        return cls(*(np.empty((count, levels), dtype) for dtype in _DEPTH_DTYPES.values()))

    @property
    def columns(self) -> tuple[HostArray, ...]:
        """The columns in order."""
        columns: tuple[HostArray, ...] = _DEPTHS(self)
        return columns

    def levels(self, events: int) -> int:
        """Levels of a side; columns that have not a row for each of so many events are refused."""
        first = np.shape(self.bid_price)
        for name, column in zip(_DEPTH_DTYPES, self.columns, strict=True):
            shape = np.shape(column)
            if len(shape) != 2 or shape[0] != events or shape != first:
                levels = first[1] if len(first) == 2 else "levels"
                raise InputError(
                    f"depths, column {name}: expected shape ({events}, {levels}), got {shape}",
                    "Depths.empty(len(events), levels) makes columns that fit",
                )
        _check_levels(first[1])
        return int(first[1])


@dataclass(frozen=True, slots=True)
class Rejected:
    """Events that changed nothing."""

    count: int
    first_row: int | None = None
    reason: str = ""
    """why the first was rejected"""


class RejectedEventError(InputError):
    """A batch had an event that cannot be meant; all others of it were applied."""

    def __init__(self, message: str, hint: str, tops: Tops, rejected: Rejected) -> None:
        """Store what `replay` would have returned without `strict`."""
        super().__init__(message, hint)
        self.tops = tops
        self.rejected = rejected


class OrderBooks:
    """Books that events are replayed into, batch by batch.

    `levels` and `lookup` say how a level is found by its price and an order by its id; answers are
    the same. A dense lookup takes 16 bytes for each id below `ids`, as ids come.
    """

    def __init__(
        self,
        instruments: int,
        *,
        levels: LevelStructure = "ladder",
        lookup: Lookup = "dense",
        width: int = WIDTH,
        ids: int = 2**32 - 1,
    ) -> None:
        """Make empty books."""
        if not 1 <= instruments < 2**16:
            raise InputError(f"instruments: expected 1 to {2**16 - 1}, got {instruments}")
        for name, value in (("width", width), ("ids", ids)):
            if value < 0:
                raise InputError(f"{name}: expected 0 or more, got {value}")
        try:
            self._native = NativeOrderBooks(
                instruments, levels=levels, lookup=lookup, width=width, ids=ids
            )
        except (ValueError, OverflowError) as error:
            raise _refusal(error) from None
        self._instruments = instruments

    def replay(
        self,
        events: Events,
        tops: Tops | None = None,
        *,
        depths: Depths | None = None,
        grouped: bool = False,
        strict: bool = True,
    ) -> tuple[Tops, Rejected]:
        """Apply events in order; the answer has a row an event.

        A rejected event changes nothing: its row repeats the top before it. With `strict` the first one is
        a `RejectedEventError`, raised when the batch is done, with the `tops` of all events. `grouped` takes
        the events of an instrument together.
        """
        tops = Tops.empty(len(events)) if tops is None else tops
        levels = 0 if depths is None else depths.levels(len(events))
        try:
            count, first = self._native.replay(
                events.columns,
                tops.columns,
                grouped=grouped,
                depth=levels,
                depths=None if depths is None else depths.columns,
            )
        except ValueError as error:
            raise _refusal(error) from None
        if first is None:
            return tops, Rejected(0)
        row, reason = first
        rejected = Rejected(count, row, reason)
        if strict:
            raise RejectedEventError(
                f"event {row} of instrument {events.instrument[row]}: {reason} (kind "
                f"{events.kind[row]}, side {events.side[row]}, order {events.order[row]}, price "
                f"{events.price[row]}, quantity {events.quantity[row]}); {count} of "
                f"{len(events)} events were rejected",
                "rejected events change nothing: the error's tops have all rows, and strict=False counts",
                tops,
                rejected,
            )
        return tops, rejected

    def depth(
        self, instrument: int, levels: int
    ) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        """Prices and quantities of bids and of asks, from the best on."""
        if not 0 <= instrument < self._instruments:
            raise InputError(f"instrument: expected 0 to {self._instruments - 1}, got {instrument}")
        _check_levels(levels)
        return self._native.depth(instrument, levels)

    def fills(self, events: Events) -> Arrays:
        """Apply events; the answer has a row for each resting order that traded."""
        try:
            row, order, price, quantity = self._native.fills(events.columns)
        except ValueError as error:
            raise _refusal(error) from None
        return {
            "row": np.array(row, np.int64),
            "order": np.array(order, np.uint64),
            "price": np.array(price, np.int32),
            "quantity": np.array(quantity, np.uint32),
        }

    def clear(self) -> None:
        """Forget all orders and trades, and keep the memory."""
        self._native.clear()

    def verify(self) -> int:
        """Check all invariants, slowly; returns how many orders rest."""
        return self._native.verify()


def _check_levels(levels: int) -> None:
    if levels < 1:
        raise InputError(f"levels: expected 1 or more, got {levels}")


def _refusal(error: ValueError | OverflowError) -> InputError:
    """What native code says of arguments, with its hint."""
    message, _, hint = str(error).partition("\nhint: ")
    return InputError(message, hint or None)
