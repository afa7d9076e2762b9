"""Other order books on the same events: nanobook, hftbacktest, and Polars for what columns can say."""

from __future__ import annotations

import ctypes
import importlib
import os
from collections.abc import Mapping
from types import MappingProxyType, ModuleType
from typing import Any, Final

import numpy as np

from assay.runtime.hardware import Device
from assay.workloads.contract import Arrays, DataSet, HostArray, Missing, Program, WorkloadRival
from assay.workloads.order_book.books import DTYPES, OrderBooks
from assay.workloads.order_book.events import ADD, BUY, CANCEL, NO_ASK, NO_BID, REPLACE, Events
from assay.workloads.order_book.feed import feed_of

LIBRARY_VARIABLE: Final = "ASSAY_ORDER_BOOK_RIVALS"
"""The path of the library that `cargo build --release` makes in bench/rivals/order-book."""
_BUILD: Final = (
    f"cargo build --release in bench/rivals/order-book, then {LIBRARY_VARIABLE}=path of its library"
)
_TOPS: Final = tuple(DTYPES)[:4]


class _Columns(ctypes.Structure):
    """`Columns` of bench/rivals/order-book/src/lib.rs."""

    _fields_ = (
        *((name, ctypes.c_size_t) for name in ("events", "rows", "instruments")),
        *((name, ctypes.c_void_p) for name in ("kind", "side", "instrument", "order")),
        *((name, ctypes.c_void_p) for name in ("price", "quantity", "row")),
        *((name, ctypes.c_void_p) for name in _TOPS),
    )


class _RivalProgram(Program):
    """What the programs share: columns of events and of answers."""

    def __init__(self, data: DataSet, names: tuple[str, ...]) -> None:
        self.answers: dict[str, HostArray] = {
            name: np.zeros(data.units, DTYPES[name]) for name in names
        }
        self.load(data)

    def load(self, data: DataSet) -> None:
        self.events = Events.of(data.arrays)
        self.instruments = int(self.events.instrument.max(initial=0)) + 1

    def outputs(self) -> Arrays:
        return {name: column.copy() for name, column in self.answers.items()}

    def poison(self) -> None:
        for column in self.answers.values():
            column.fill(77)


class _LibraryProgram(_RivalProgram):
    """Functions of the library; books are made by `load`, and a second run makes others itself."""

    prefix: str
    """What its functions begin with."""

    def __init__(self, data: DataSet, library: ctypes.CDLL) -> None:
        self._library = library
        self._books: int | None = None
        self._is_used = True
        super().__init__(data, _TOPS)

    def given(self) -> tuple[Events, HostArray, HostArray]:
        """Events or messages, the row of each, and the quantities that the library reads."""
        rows = np.arange(len(self.events), dtype=np.uint32)
        return self.events, rows, self.events.quantity

    def load(self, data: DataSet) -> None:
        super().load(data)
        events, row, quantity = self.given()
        # Kept, since the library has their addresses only.
        self._arrays = {**events.arrays, "quantity": quantity, "row": row, **self.answers}
        self._columns = _Columns(
            events=len(events),
            rows=len(self.events),
            instruments=self.instruments,
            **{name: array.ctypes.data for name, array in self._arrays.items()},
        )
        self._open()

    def run(self) -> Mapping[str, float]:
        if self._is_used:
            self._open()
        self._is_used = True
        self._function("replay")(ctypes.c_void_p(self._books), ctypes.byref(self._columns))
        return {}

    def close(self) -> None:
        if self._books is not None:
            self._function("close")(ctypes.c_void_p(self._books))
        self._books, self._is_used = None, True

    def _open(self) -> None:
        self.close()
        opening = self._function("open")
        opening.restype = ctypes.c_void_p
        self._books, self._is_used = opening(ctypes.byref(self._columns)), False

    def _function(self, name: str) -> Any:
        return getattr(self._library, f"{self.prefix}_{name}")


class _NanobookProgram(_LibraryProgram):
    prefix = "nanobook"

    def outputs(self) -> Arrays:
        # It keeps quantities, too, but not always those of the orders that rest.
        return {name: column.copy() for name, column in self.answers.items() if "price" in name}


class _HftbacktestProgram(_LibraryProgram):
    prefix = "hftbacktest"

    def given(self) -> tuple[Events, HostArray, HostArray]:
        feed = feed_of(self.events, self.instruments)
        return feed.messages, feed.row, feed.left


class _LibraryRival(WorkloadRival):
    """A crate behind the library."""

    install = _BUILD
    program: type[_LibraryProgram]

    def prepare(self, data: DataSet, device: Device) -> Program | Missing:
        path = os.environ.get(LIBRARY_VARIABLE)
        if not path:
            return Missing(f"{LIBRARY_VARIABLE} is not set")
        try:
            return self.program(data, ctypes.CDLL(path))
        except (OSError, AttributeError) as error:
            return Missing(f"{path} is not this library: {error}")


class NanobookCrate(_LibraryRival):
    """nanobook's Rust crate."""

    name = "nanobook"
    packages = MappingProxyType({"nanobook (crate)": "0.19.3"})
    program = _NanobookProgram
    note = (
        "top of book alone, held to its prices: 0.19.3 takes other orders than the canceled ones out "
        "of a level that has traded; its books are made and dropped while no clock runs"
    )


class HftbacktestCrate(_LibraryRival):
    """hftbacktest's Rust crate: its L3 book on the messages of a feed."""

    name = "hftbacktest"
    packages = MappingProxyType({"hftbacktest (crate)": "0.9.4"})
    program = _HftbacktestProgram
    note = "top of book alone, from a feed: it does not match"


class _WheelProgram(_RivalProgram):
    """nanobook's Python package, a call an event."""

    def __init__(self, data: DataSet, module: ModuleType) -> None:
        self.module = module
        super().__init__(data, ("bid_price", "ask_price"))

    def run(self) -> Mapping[str, float]:
        exchanges = [self.module.Exchange() for _ in range(self.instruments)]
        # nanobook gives ids itself, a new one to a replaced order.
        ids: list[dict[int, int]] = [{} for _ in exchanges]
        bids, asks = self.answers["bid_price"], self.answers["ask_price"]
        columns = (column.tolist() for column in self.events.columns)
        for row, event in enumerate(zip(*columns, strict=True)):
            kind, side, number, order, price, quantity = event
            exchange, known = exchanges[number], ids[number]
            word = "buy" if side == BUY else "sell"
            if kind == ADD:
                known[order] = exchange.submit_limit(word, price, quantity).order_id
            elif kind == CANCEL:
                exchange.cancel(known[order])
            elif kind == REPLACE:
                modified = exchange.modify(known[order], price, quantity)
                # None where nanobook has no such order any more; its answers tell.
                known[order] = modified.new_order_id or known[order]
            else:
                exchange.submit_market(word, quantity)
            bid, ask = exchange.best_bid_ask()
            bids[row] = NO_BID if bid is None else bid
            asks[row] = NO_ASK if ask is None else ask
        return {}


class NanobookWheel(WorkloadRival):
    """nanobook as Python programs use it."""

    name = "nanobook (Python)"
    install = "pip install nanobook"
    packages = MappingProxyType({"nanobook": None})
    note = "best prices alone, a call an event"

    def prepare(self, data: DataSet, device: Device) -> Program | Missing:
        """Where the package is installed."""
        try:
            return _WheelProgram(data, importlib.import_module("nanobook"))
        except ImportError:
            return Missing("not installed")


class _PolarsProgram(_RivalProgram):
    """Microprice and VWAP from the columns of our books."""

    def __init__(self, data: DataSet, polars: Any) -> None:
        self.polars = polars
        super().__init__(data, ("microprice", "vwap"))

    def load(self, data: DataSet) -> None:
        super().load(data)
        tops, _ = OrderBooks(self.instruments).replay(self.events)
        columns = {**tops.arrays, "instrument": self.events.instrument}
        self.frame = self.polars.DataFrame(columns)

    def run(self) -> Mapping[str, float]:
        column = self.polars.col
        bid, ask = (column(name).cast(self.polars.Float64) for name in _TOPS[1::2])
        notional, traded = (
            column(name).cast(self.polars.Float64).cum_sum().over("instrument")
            for name in ("notional", "traded")
        )
        weighted = column("bid_price") * ask + column("ask_price") * bid
        both = (bid > 0) & (ask > 0)
        answers = self.frame.select(
            microprice=self.polars.when(both).then(weighted / (bid + ask)).otherwise(np.nan),
            vwap=notional / traded,
        )
        for name, values in self.answers.items():
            np.copyto(values, answers[name].to_numpy())
        return {}


class Polars(WorkloadRival):
    """Polars, for the columns that follow from the top of the book."""

    name = "Polars"
    install = "pip install polars"
    packages = MappingProxyType({"polars": None})
    note = "microprice and VWAP alone, from tops that our books computed"

    def prepare(self, data: DataSet, device: Device) -> Program | Missing:
        """Where the package is installed."""
        try:
            return _PolarsProgram(data, importlib.import_module("polars"))
        except ImportError:
            return Missing("not installed")


RIVALS: Final[tuple[WorkloadRival, ...]] = (
    NanobookCrate(),
    HftbacktestCrate(),
    NanobookWheel(),
    Polars(),
)
