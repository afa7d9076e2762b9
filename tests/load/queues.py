"""Queues with a known load, simulated exactly: the ground truth of load states and searches."""

from __future__ import annotations

import heapq

import numpy as np

from assay.load.workloads.measurement import RequestRecord


def queue_records(
    rng: np.random.Generator,
    *,
    load: float,
    servers: int = 1,
    count: int = 200,
    variation: float = 1.0,
    service_s: float = 1.0,
) -> list[RequestRecord]:
    """First come, first served, Poisson arrivals; the coefficient of variation of service is given.

    The load is the arrival rate by what the servers can do: above 1 the queue grows without limit.
    """
    sent = np.cumsum(rng.exponential(service_s / (load * servers), count))
    service = np.full(count, service_s)
    if variation:
        shape = 1 / variation**2
        service = rng.gamma(shape, service_s / shape, count)
    free = [0.0] * servers
    records = []
    for number in range(count):
        begin = max(heapq.heappop(free), float(sent[number]))
        end = begin + float(service[number])
        heapq.heappush(free, end)
        first = begin + 0.1 * float(service[number])
        records.append(RequestRecord(number, float(sent[number]), first, end, 10, 10))
    return records
