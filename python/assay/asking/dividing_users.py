"""Users divided among replicas, the fewest GPUs that keep the limits of latency and hold all requests."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from assay.asking.cases import gpus_of, serving_case
from assay.asking.layouts import requests_held
from assay.asking.reading import Reading
from assay.errors import AssayError
from assay.plurals import count

_TENSORS: Final = (1, 2, 4, 8)
_LATENCIES: Final = (
    ("serving.time_to_first_token", "serving.slo.time_to_first_token", "TTFT"),
    ("serving.time_per_output_token", "serving.slo.time_per_output_token", "TPOT"),
)


@dataclass(frozen=True)
class Divided:
    """The question of one replica, how many there are, and the GPUs of each."""

    reading: Reading
    replicas: int
    gpus: int
    limits: str
    """The limits that hold, in words."""

    @property
    def said(self) -> str:
        """What is said of the replicas."""
        users = int(self.reading.get("concurrency"))
        return (
            f"{count(self.replicas, 'replica')} of {count(self.gpus, 'GPU')}, each with {users:,} of the users at "
            f"once, so that {self.limits}"
        )


def divided(reading: Reading) -> Divided | None:
    """The users of a question over the fewest GPUs; None where the question says GPUs, or one replica serves all.

    None, too, where not even one user of a replica is served within the limits.
    """
    users = reading.get("concurrency")
    stated = reading.slots & {"tensor", "per_replica"} or gpus_of(reading) is not None
    if users is None or stated or _holds(reading):
        return None
    layout = serving_case(reading.with_values({"concurrency": 1}), lone=True).layout
    if layout[1] > 1:
        return None
    best: Divided | None = None
    for tensor in (size for size in _TENSORS if size >= layout[0]):
        if best is not None and tensor >= best.replicas * best.gpus:
            break
        of_one = _of_layout(reading.with_values({"tensor": tensor}), int(users), tensor)
        if of_one is not None and (
            best is None or of_one.replicas * tensor < best.replicas * best.gpus
        ):
            best = of_one
    return best


def _of_layout(reading: Reading, users: int, gpus: int) -> Divided | None:
    """The fewest replicas of so many GPUs: the limits hold with fewer users of each, and not with more."""
    most, beyond = 0, users + 1
    while beyond - most > 1:
        tried = (most + beyond) // 2
        if _holds(reading.with_values({"concurrency": tried})):
            most = tried
        else:
            beyond = tried
    if not most:
        return None
    replicas = math.ceil(users / most)
    of_one = reading.with_values({"concurrency": math.ceil(users / replicas)})
    limits = serving_case(of_one).values(*(limit for _, limit, _ in _LATENCIES))
    words = " and ".join(
        f"{name} stays within {1000 * (limit or math.nan):,.0f} ms"
        for (_, _, name), limit in zip(_LATENCIES, limits, strict=True)
    )
    return Divided(of_one, replicas, gpus, words)


def _holds(reading: Reading) -> bool:
    """Whether one instance holds all its requests and keeps the limits of latency."""
    try:
        case = serving_case(reading)
        values = case.values(*(name for pair in _LATENCIES for name in pair[:2]))
    except AssayError:
        # A layout that cannot be holds nothing; the question itself is refused where it is answered.
        return False
    known = [math.nan if value is None else value for value in values]
    within = all(time <= limit for time, limit in zip(known[::2], known[1::2], strict=True))
    return within and int(reading.get("concurrency")) <= requests_held(case)
