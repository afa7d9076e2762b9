"""Several GPUs of a model that one of them holds: replicas, or one instance over all, whichever is faster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from assay.asking.case import GPUS_OF_A_NODE
from assay.asking.cases import gpus_of, serving_case
from assay.asking.reading import Reading
from assay.asking.splitting import ONE_INSTANCE, is_held, memory
from assay.errors import AssayError
from assay.plurals import count

MOST_OF_ONE: Final = 2 * GPUS_OF_A_NODE
"""GPUs beyond which a question is of several replicas, whatever the model."""
_SIZES: Final = (8, 4, 2, 16, 32)
"""GPUs of a replica of many GPUs, in the order in which they are tried."""


@dataclass(frozen=True)
class Spread:
    """The question of one replica, how many there are, and what is said of it."""

    reading: Reading
    replicas: int = 1
    said: tuple[str, ...] = ()


def spread(reading: Reading, *, shares: bool = True) -> Spread:
    """The GPUs of a question as the replicas that together give the most tokens.

    One GPU each, where one holds the model, or one instance over all of them (of more GPUs than a node
    has: one that takes a node or less). Requests that the question says are divided among the replicas, unless they
    do not `share` them; those of the scenario are of each.
    """
    gpus = gpus_of(reading)
    if gpus is None or gpus == 1 or reading.slots & {"tensor", "per_replica"}:
        return Spread(reading)
    best, most = None, 0.0
    for each in _sizes(gpus):
        of_one = _of_one(reading, gpus // each, each, shares)
        if of_one is None:
            continue
        speed = _speed(of_one) * (gpus // each)
        if speed > most:
            best, most = Spread(of_one, gpus // each), speed
        if each != 1:
            # Wider replicas are tried where narrower ones do not run it.
            break
    if best is None or best.replicas == 1:
        return Spread(reading)
    said = [f"{best.replicas:,} replicas of {count(gpus // best.replicas, 'GPU')}"]
    if not (shares and "concurrency" in reading.slots):
        said.append("the requests are those of each replica")
    return Spread(best.reading, best.replicas, tuple(said))


def of_each(spread: Spread, assumed: Sequence[str]) -> tuple[str, ...]:
    """What is assumed, in which one instance is each replica."""
    if spread.replicas == 1:
        return tuple(assumed)
    return tuple(line.replace(ONE_INSTANCE, "each replica: ") for line in assumed)


def _sizes(gpus: int) -> Iterator[int]:
    yield 1
    if gpus <= MOST_OF_ONE:
        if gpus > GPUS_OF_A_NODE and gpus % GPUS_OF_A_NODE == 0:
            # Pipeline stages over nodes are for models that a node does not hold.
            yield GPUS_OF_A_NODE
        yield gpus
    else:
        yield from (size for size in _SIZES if gpus % size == 0)


def _of_one(reading: Reading, replicas: int, each: int, shares: bool) -> Reading | None:
    """The question of one of some replicas; None where it runs no request."""
    values = {"gpus": each, "nodes": None}
    requests = reading.get("concurrency")
    if shares and requests is not None:
        if requests < replicas:
            return None
        values["concurrency"] = round(requests / replicas)
    of_one = reading.with_values(values)
    try:
        return of_one if is_held(memory(serving_case(of_one))) else None
    except AssayError:
        return None


def _speed(of_one: Reading) -> float:
    return serving_case(of_one).value("serving.throughput") or 0.0
