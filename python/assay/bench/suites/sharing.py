"""Two models on one device: shares of device time, and latencies of a guaranteed one."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Final

from assay.bench.harness.case import Case, Check, PreparedCase, Settings, Subject, Suite
from assay.bench.harness.clocks import SelfTimedClock
from assay.bench.suites.shared_models import Load, SharedModels

GPU_MODEL: Final = "llama-3-8b-shape"
CPU_MODEL: Final = "smollm2"
GPU_LOAD: Final = Load(prompt=128, tokens=64, requests=8)
CPU_LOAD: Final = Load(prompt=8, tokens=32, requests=4)
GPU_FORMATS: Final = ("file", "fp8")
"""Weight formats of the two models: steps of different lengths."""
CPU_FORMATS: Final = ("file", "f16")
SHARE: Final = 0.7
SHARE_TOLERANCE: Final = 0.03
"""Allowed deviation of a share of device time."""

SECONDS: Final = 4.0
REQUESTS: Final = 40
LATENCIES: Final = {
    "time to first token": "to_first_token",
    "inter-token latency": "between_tokens",
    "request latency": "to_last_token",
}

_SELF_TIMED: Final = SelfTimedClock()


class _Models:
    """The two models with and without a guarantee, one pair at a time."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._models: SharedModels | None = None
        self._guaranteed: bool | None = None

    def get(self, *, guaranteed: bool) -> SharedModels:
        """The pair; closes the other one first."""
        if self._models is None or self._guaranteed != guaranteed:
            if self._models is not None:
                self._models.close()
                self._models = None
            gpu = self._settings.device.capabilities.is_gpu
            self._models = SharedModels(
                self._settings.device,
                self._settings.model or (GPU_MODEL if gpu else CPU_MODEL),
                formats=GPU_FORMATS if gpu else CPU_FORMATS,
                guaranteed=guaranteed,
                load=GPU_LOAD if gpu else CPU_LOAD,
                percents=(100 * SHARE, 100 - 100 * SHARE),
            )
            self._guaranteed = guaranteed
        return self._models


def cases(settings: Settings) -> list[Case]:
    """Shares under load, and the guaranteed model's latencies beside a flood and alone."""
    models = _Models(settings)
    seconds = SECONDS / 4 if settings.quick else SECONDS
    count = REQUESTS // 4 if settings.quick else REQUESTS
    return [
        *(
            Case(
                f"device time of 70 beside 30, {kind}",
                "%",
                functools.partial(_share, models, guaranteed, seconds),
                rounds=3,
            )
            for kind, guaranteed in (("by weight", False), ("guaranteed, of wall time", True))
        ),
        *(
            Case(
                f"p99 {name} of the guaranteed model",
                "ms",
                functools.partial(_latency, models, what, count),
                rounds=3,
            )
            for name, what in LATENCIES.items()
        ),
    ]


def _share(models: _Models, guaranteed: bool, seconds: float) -> PreparedCase:
    pair = models.get(guaranteed=guaranteed)

    def share() -> float:
        shares = pair.shares(seconds)
        # A reserved rate is device time a second; weights divide what is used.
        return shares.of_wall_time if guaranteed else shares.of_device_time

    return PreparedCase(
        Subject("assay", lambda _: share(), _SELF_TIMED),
        Check(
            "the share asked for, to 3 points",
            _checked(pair, lambda: abs(share() - SHARE)),
            SHARE_TOLERANCE,
        ),
        note="both models have requests all the time; device time by events around each launch",
    )


def _latency(models: _Models, what: str, count: int) -> PreparedCase:
    pair = models.get(guaranteed=True)
    return PreparedCase(
        Subject(
            "beside a flood",
            lambda seed: pair.paced(count, flooded=True, seed=seed).p99(what),
            _SELF_TIMED,
        ),
        Check("every token of every request", _checked(pair, lambda: 0.0), 0.0),
        ceiling=Subject(
            "alone", lambda seed: pair.paced(count, flooded=False, seed=seed).p99(what), _SELF_TIMED
        ),
        note="requests arrive at random and keep the model busy half of the time",
    )


def _checked(pair: SharedModels, error: Callable[[], float]) -> Callable[[int], float]:
    """The error, or NaN if a request got another number of tokens than it asked for."""

    def checked(_: int) -> float:
        largest = error()
        return float("nan") if pair.wrong() else largest

    return checked


SUITE = Suite("sharing", cases, has_model=True)
