"""Latencies of batches of order-book events: what is timed is replayed, under every arrangement."""

from __future__ import annotations

import pytest

from assay.bench.claims.reading import claim_named
from assay.bench.suites import order_book_latency
from assay.bench.suites.order_book_latency import AS_AN_EQUAL, SUITE, BatchLatencies
from assay.runtime.hardware import Device
from assay.runtime.scheduling import QoS


def test_batches_beside_a_flood_are_all_replayed() -> None:
    latencies = BatchLatencies(Device("cpu"), 4)
    assert latencies.error() == 0.0
    arrangements: list[tuple[bool, QoS]] = [(False, "best-effort"), (True, "best-effort")]
    for flooded, qos in arrangements:
        low = latencies.quantile(0.0, flooded=flooded, qos=qos)
        assert 0.0 < low < 60.0


def test_a_batch_that_is_not_replayed_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    latencies = BatchLatencies(Device("cpu"), 4)
    monkeypatch.setattr(order_book_latency, "_replay", lambda *_: None)
    assert latencies.error() == 1.0


def test_the_claim_holds_the_guaranteed_class_against_an_equal() -> None:
    claim = claim_named("order-book-latency")
    assert claim.suite == SUITE.name
    assert [target.over for target in claim.gates.target] == [AS_AN_EQUAL]
