"""Order books: worked examples, a plain book, other people's books, and hostile events."""

from __future__ import annotations

import dataclasses
import hashlib
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from assay import runtime
from assay.errors import InputError
from assay.workloads.contract import Arrays, Missing, start_of
from assay.workloads.order_book.books import Depths, OrderBooks, RejectedEventError, Tops
from assay.workloads.order_book.events import (
    ADD,
    BUY,
    CANCEL,
    MARKET,
    NO_ASK,
    NO_BID,
    REDUCE,
    REPLACE,
    SELL,
    Events,
    generate,
)
from assay.workloads.order_book.feed import feed_of
from assay.workloads.order_book.feed_workload import WORKLOAD as FEED
from assay.workloads.order_book.plain import PlainBook, plain_tops
from assay.workloads.order_book.rivals import RIVALS
from assay.workloads.order_book.workload import INSTRUMENTS, WORKLOAD
from assay.workloads.registry import workload

STRUCTURES = [
    {"levels": levels, "lookup": lookup, "width": width}
    for levels, lookup, width in [
        ("tree", "map", 4_096),
        ("tree", "dense", 4_096),
        ("ladder", "map", 64),
        ("ladder", "hash", 256),
        ("ladder", "dense", 4_096),
    ]
]


def events_of(*rows: tuple[int, int, int, int, int]) -> Events:
    """Events of one instrument: kind, side, order, price, quantity."""
    names = ("kind", "side", "order", "price", "quantity")
    table = dict(zip(names, zip(*rows, strict=True), strict=True))
    return Events.of({**table, "instrument": [0] * len(rows)})


def assert_same(tops: Tops, expected: Arrays) -> None:
    for name, column in tops.arrays.items():
        np.testing.assert_array_equal(column, expected[name], err_msg=name)


def test_a_worked_example() -> None:
    # Bids 99 (30, then 20) and asks 101 (10), 102 (40); a buy of 60 at 102 takes all asks, and its
    # last 10 rest there; a market sale of 45 takes them, then 30 of the first at 99 and 5 of the next.
    events = events_of(
        (ADD, BUY, 1, 99, 30),
        (ADD, BUY, 2, 99, 20),
        (ADD, SELL, 3, 101, 10),
        (ADD, SELL, 4, 102, 40),
        (ADD, BUY, 5, 102, 60),
        (MARKET, SELL, 0, 0, 45),
        (REDUCE, BUY, 2, 0, 5),
        (CANCEL, BUY, 2, 0, 0),
    )
    tops, rejected = OrderBooks(1).replay(events)
    assert rejected.count == 0
    assert tops.bid_price.tolist() == [99, 99, 99, 99, 102, 99, 99, NO_BID]
    assert tops.bid_quantity.tolist() == [30, 50, 50, 50, 10, 15, 10, 0]
    assert tops.ask_price.tolist() == [NO_ASK, NO_ASK, 101, 101] + [NO_ASK] * 4
    assert tops.traded.tolist() == [0, 0, 0, 0, 50, 45, 0, 0]
    bought, sold = 10 * 101 + 40 * 102, 10 * 102 + 35 * 99
    assert tops.notional.tolist() == [0, 0, 0, 0, bought, sold, 0, 0]
    # 50 rest at 99 and 10 at 101: the price leans to the side with less.
    assert tops.microprice[2] == (99 * 10 + 101 * 50) / 60
    assert tops.vwap[4] == bought / 50
    assert tops.vwap[-1] == (bought + sold) / 95
    assert np.isnan(tops.vwap[:4]).all()
    assert np.isnan(tops.microprice[[0, -1]]).all()


def test_a_replaced_order_waits_behind_others() -> None:
    events = events_of(
        (ADD, SELL, 1, 100, 5),
        (ADD, SELL, 2, 100, 5),
        (REPLACE, SELL, 1, 100, 4),
        (MARKET, BUY, 0, 0, 5),
        (CANCEL, SELL, 1, 0, 0),
    )
    tops, _ = OrderBooks(1).replay(events)
    assert tops.ask_quantity.tolist() == [5, 10, 9, 4, 0]


@pytest.mark.parametrize("structure", STRUCTURES, ids=str)
def test_every_structure_gives_what_the_plain_book_gives(structure: dict[str, Any]) -> None:
    events = generate(11, 6_000, instruments=3, resting=150)
    expected, rejected = plain_tops(events, 3)
    assert rejected == 0
    for grouped in (False, True):
        books = OrderBooks(3, **structure)
        tops, _ = books.replay(events, grouped=grouped)
        assert_same(tops, expected)
        books.verify()
    # The same in batches, over books that held other orders before.
    books.clear()
    for start in range(0, len(events), 1_000):
        tops, _ = books.replay(events[start : start + 1_000])
    assert tops.bid_price[-1] == expected["bid_price"][-1]


@pytest.mark.parametrize("structure", STRUCTURES, ids=str)
def test_hostile_events_change_nothing(structure: dict[str, Any]) -> None:
    draw = random.Random(5)
    prices = [95, 99, 100, 101, 105, -3, 0, 70_000, NO_BID, NO_ASK, NO_ASK - 1, NO_BID + 1]
    rows = {
        "kind": [draw.choice([0, 0, 0, 1, 2, 3, 4, 9]) for _ in range(3_000)],
        "side": [draw.choice([0, 0, 0, 1, 1, 1, 7]) for _ in range(3_000)],
        "instrument": [draw.choice([0, 0, 1, 5]) for _ in range(3_000)],
        "order": [draw.randrange(60) for _ in range(3_000)],
        "price": [draw.choice(prices) for _ in range(3_000)],
        "quantity": [draw.choice([0, 1, 7, 40, 2**32 - 1]) for _ in range(3_000)],
    }
    events = Events.of(rows)
    expected, refused = plain_tops(events, 2)
    books = OrderBooks(2, **structure)
    tops, rejected = books.replay(events, strict=False)
    assert rejected.count == refused
    assert 500 < refused < 2_500
    assert_same(tops, expected)
    books.verify()


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        ((CANCEL, BUY, 8, 0, 0), "unknown order"),
        ((REDUCE, BUY, 8, 0, 5), "unknown order"),
        ((REPLACE, BUY, 8, 90, 5), "unknown order"),
        ((ADD, SELL, 1, 120, 5), "duplicate order"),
        ((ADD, SELL, 2, 120, 0), "zero quantity"),
        ((MARKET, SELL, 2, 0, 0), "zero quantity"),
        ((REPLACE, BUY, 1, 90, 0), "zero quantity"),
        ((ADD, SELL, 2, NO_ASK, 5), "price out of range"),
        ((ADD, BUY, 2, NO_BID, 5), "price out of range"),
        ((ADD, BUY, 1_000, 90, 5), "order id out of range"),
        ((ADD, 2, 2, 90, 5), "unknown side"),
        ((5, BUY, 2, 90, 5), "unknown kind"),
    ],
)
def test_a_rejected_event_is_named(event: tuple[int, int, int, int, int], reason: str) -> None:
    events = events_of((ADD, BUY, 1, 100, 5), event)
    with pytest.raises(InputError, match=f"^event 1 of instrument 0: {reason} ") as caught:
        OrderBooks(1, ids=1_000).replay(events)
    assert "\n" not in caught.value.message
    assert caught.value.hint
    books = OrderBooks(1, ids=1_000)
    tops, rejected = books.replay(events, strict=False)
    assert (rejected.count, rejected.first_row, rejected.reason) == (1, 1, reason)
    assert tops.bid_quantity.tolist() == [5, 5]


def test_columns_that_do_not_fit_are_refused() -> None:
    events = generate(1, 10)
    with pytest.raises(
        InputError, match=r"column price: expected -2147483648 to .* got 4294967296"
    ):
        Events.of({**events.arrays, "price": [2**32] * 10})
    with pytest.raises(InputError, match="column quantity: expected integers, got float64"):
        Events.of({**events.arrays, "quantity": [0.5] * 10})
    with pytest.raises(InputError, match="expected a column order"):
        Events.of({"kind": [0], "side": [0], "instrument": [0]})
    with pytest.raises(InputError, match="column side: expected 10 events, got 9"):
        Events(*(column[: 10 - (place == 1)] for place, column in enumerate(events.columns)))
    with pytest.raises(InputError, match="column kind: expected one dimension of uint8"):
        Events(*(column.astype(np.int64) for column in events.columns))
    with pytest.raises(InputError, match=r"of uint8, got uint8 of shape \(10, 1\)"):
        Events.of({**events.arrays, "kind": [[0]] * 10})
    with pytest.raises(InputError, match="column kind: expected integers, got rows of several"):
        Events.of({**events.arrays, "kind": [[0], [1, 2]]})
    for options, said in (
        ({"levels": "heap"}, "levels: expected tree or ladder"),
        ({"lookup": "list"}, "lookup: expected"),
        ({"width": 1}, "width: expected 64 to"),
        ({"width": -1}, "width: expected 0 or more, got -1"),
        ({"ids": -1}, "ids: expected 0 or more, got -1"),
    ):
        with pytest.raises(InputError, match=said):
            OrderBooks(1, **options)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="instruments: expected 1 to 65535, got 0"):
        OrderBooks(0)
    tops = Tops.empty(10)
    twice = dataclasses.replace(tops, ask_price=tops.bid_price)
    with pytest.raises(InputError, match="overlap"):
        OrderBooks(8).replay(events, twice)
    with pytest.raises(InputError, match="contiguous") as caught:
        OrderBooks(8).replay(events[::2])
    assert "\n" not in caught.value.message


def test_depths_that_do_not_fit_are_refused() -> None:
    events, books = generate(1, 10), OrderBooks(8)
    with pytest.raises(InputError, match="levels: expected 1 or more, got 0"):
        Depths.empty(10, 0)
    few = Depths.empty(9, 3)
    with pytest.raises(
        InputError, match=r"depths, column bid_price: expected shape \(10, 3\), got \(9, 3\)"
    ):
        books.replay(events, depths=few)
    flat = dataclasses.replace(Depths.empty(10, 3), ask_price=np.empty(30, np.int32))
    with pytest.raises(InputError, match=r"ask_price: expected shape \(10, 3\), got \(30,\)"):
        books.replay(events, depths=flat)
    with pytest.raises(InputError, match="levels: expected 1 or more, got -1"):
        books.depth(0, -1)
    with pytest.raises(InputError, match="instrument: expected 0 to 7, got 8"):
        books.depth(8, 1)


def test_a_strict_replay_keeps_the_tops_of_the_batch() -> None:
    events = events_of((ADD, BUY, 1, 100, 5), (CANCEL, BUY, 8, 0, 0), (ADD, BUY, 2, 101, 7))
    with pytest.raises(RejectedEventError) as caught:
        OrderBooks(1).replay(events)
    assert caught.value.tops.bid_price.tolist() == [100, 100, 101]
    assert (caught.value.rejected.count, caught.value.rejected.first_row) == (1, 1)


def test_the_side_of_a_cancel_is_not_read() -> None:
    for side in (BUY, SELL):
        events = events_of((ADD, BUY, 1, 100, 5), (CANCEL, side, 1, 0, 0))
        tops, _ = OrderBooks(1).replay(events)
        assert tops.bid_price.tolist() == [100, NO_BID]


def test_columns_come_from_an_archive(tmp_path: Path) -> None:
    events = generate(1, 10)
    np.savez(tmp_path / "events.npz", **dict(events.arrays))  # type: ignore[arg-type]
    with np.load(tmp_path / "events.npz") as archive:
        read = Events.of(archive)
    assert [column.tolist() for column in read.columns] == [
        column.tolist() for column in events.columns
    ]


def test_depth_after_every_event() -> None:
    events = generate(3, 2_000, instruments=2, resting=60)
    depths = Depths.empty(len(events), 4)
    books = OrderBooks(2)
    books.replay(events, depths=depths)
    plain = [PlainBook(), PlainBook()]
    columns = (column.tolist() for column in events.columns)
    for row, (kind, side, number, order, price, quantity) in enumerate(zip(*columns, strict=True)):
        plain[number].apply(kind, side, order, price, quantity)
        bids, asks = plain[number].depth(4)
        for levels, prices, quantities, nothing in (
            (bids, depths.bid_price, depths.bid_quantity, NO_BID),
            (asks, depths.ask_price, depths.ask_quantity, NO_ASK),
        ):
            padded = levels + [(nothing, 0)] * (4 - len(levels))
            assert list(zip(prices[row].tolist(), quantities[row].tolist(), strict=True)) == padded
    assert books.depth(1, 3) == plain[1].depth(3)


def test_generated_events_are_the_same_everywhere() -> None:
    events = generate(1, 5_000)
    digest = hashlib.sha256(b"".join(column.tobytes() for column in events.columns)).hexdigest()
    assert digest == "dbcfebe6a3488a1a7e7215725ad5175d9eb0a3b87cf699063b93254338b66298"
    assert (np.bincount(events.kind) > 100).all()
    assert generate(2, 5_000).price.tolist() != events.price.tolist()
    with pytest.raises(InputError, match="instruments: expected 1 to 65535, got 70000"):
        generate(1, 10, instruments=70_000)


def test_a_feed_builds_the_same_books() -> None:
    events = generate(9, 4_000, instruments=2, resting=80)
    tops, _ = OrderBooks(2).replay(events)
    feed = feed_of(events, 2)
    assert set(feed.messages.kind.tolist()) == {ADD, CANCEL, REPLACE, REDUCE}
    built, rejected = OrderBooks(2).replay(feed.messages)
    assert rejected.count == 0
    assert built.traded.sum() == 0
    last = np.flatnonzero(np.diff(feed.row, append=len(events)))
    rows = feed.row[last]
    for name in ("bid_price", "bid_quantity", "ask_price", "ask_quantity"):
        np.testing.assert_array_equal(built.arrays[name][last], tops.arrays[name][rows])


def test_the_workload_keeps_its_contract() -> None:
    assert workload("order-book") is WORKLOAD
    device = runtime.device("cpu")
    data, other = WORKLOAD.generate(1, 3_000), WORKLOAD.generate(2, 3_000)
    digest = data.sha256
    outputs = []
    for start in ("plain", "default"):
        program = WORKLOAD.prepare(data, device, start_of(WORKLOAD, device, start))
        program.load(other)
        assert data.sha256 == digest, "loading others leaves the first data alone"
        program.poison()
        assert not WORKLOAD.verify(program.outputs(), other).error <= 0
        program.run()
        verified = WORKLOAD.verify(program.outputs(), other)
        assert (verified.error, verified.units) == (0, other.units)
        outputs.append(program.outputs())
        # A run leaves nothing behind for the next one.
        program.run()
        assert WORKLOAD.verify(program.outputs(), other).error == 0
    for name, column in outputs[0].items():
        np.testing.assert_array_equal(column, outputs[1][name])
    work = WORKLOAD.work(data)
    assert work.bytes == 3_000 * (20 + 52)
    longest = np.bincount(data.arrays["instrument"]).max()
    assert (work.serial_steps, work.step) == (3 * longest, "load")


def test_a_quiet_feed_trades_nothing() -> None:
    data = FEED.generate(5, 3_000)
    tops, _ = OrderBooks(INSTRUMENTS).replay(Events.of(data.arrays))
    assert set(data.arrays["kind"].tolist()) == {ADD, CANCEL, REPLACE}
    assert len(data.arrays["kind"]) == 3_000
    assert tops.traded.sum() == 0


@pytest.mark.parametrize("rival", RIVALS, ids=lambda rival: rival.name)
def test_rivals_agree_event_by_event(rival: Any) -> None:
    data = FEED.generate(4, 2_000)
    program = rival.prepare(data, runtime.device("cpu"))
    if isinstance(program, Missing):
        assert "not" in program.reason
        pytest.skip(f"{rival.name}: {program.reason}")
    for _ in range(2):
        program.poison()
        program.run()
        assert FEED.verify(program.outputs(), data).error == 0
    # Where nothing trades, all that it keeps is right.
    assert FEED.verify(program.answers, data).error == 0
    program.close()
