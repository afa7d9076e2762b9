"""Drafts only where they pay: where steps that verify drafts give more tokens a second than others.

Verifying costs: a step computes a row for every draft token. What it costs and how many drafts are
accepted depends on the text, the model, the batch and the machine, so both are measured while the engine
runs: the time of steps with and without drafts, and the tokens that were accepted. The other kind of
step is tried again from time to time, as texts change. Outputs do not depend on it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

from assay.engine.requests.request import Request
from assay.engine.speculation.proposer import DraftWanted, Proposer

FIRST_STEPS: Final = 8
"""Steps of each kind before they are compared."""
RETRY_EVERY: Final = 96
"""Steps of the better kind before the other one is tried again."""
RETRY_STEPS: Final = 4
MARGIN: Final = 1.03
"""How much faster steps with drafts must be."""
NEWEST: Final = 0.2
"""The weight of the newest step in what is expected of the next."""
OUTLIER: Final = 4.0
"""A step that took so many times as long as others waited for something else, such as a prompt."""


class _Measured:
    """Steps of one kind at about one batch size: their time, and tokens of a request in each."""

    def __init__(self) -> None:
        self.count = 0
        self._seconds = 0.0
        self._tokens = 1.0

    def add(self, seconds: float, tokens: float) -> None:
        self.count += 1
        if self.count == 1:
            self._seconds, self._tokens = seconds, tokens
            return
        # Early steps count alike, so that one of them does not decide.
        weight = max(NEWEST, 1.0 / self.count)
        self._tokens += weight * (tokens - self._tokens)
        if seconds < OUTLIER * self._seconds:
            self._seconds += weight * (seconds - self._seconds)

    @property
    def rate(self) -> float:
        """Tokens a second of one request."""
        return self._tokens / max(self._seconds, 1e-9)


class _Pace:
    """Which kind of step comes next, at about one batch size."""

    def __init__(self) -> None:
        self.plain, self.drafted = _Measured(), _Measured()
        self._since_retry = 0

    def drafts_next(self) -> bool:
        if self.drafted.count < FIRST_STEPS:
            return True
        if self.plain.count < FIRST_STEPS:
            return False
        better = self.drafted.rate > MARGIN * self.plain.rate
        self._since_retry = (self._since_retry + 1) % (RETRY_EVERY + RETRY_STEPS)
        is_retry = self._since_retry >= RETRY_EVERY
        return better is not is_retry


class PayingProposer:
    """Asks another proposer where its drafts pay, and for none elsewhere."""

    def __init__(self, inner: Proposer, clock: Callable[[], float] = time.perf_counter) -> None:
        self._inner = inner
        self._clock = clock
        self._paces: dict[int, _Pace] = {}
        self._last: tuple[float, int, bool] | None = None
        """When the step before was scheduled, its requests, and whether it had drafts."""
        self._accepted = 0

    @property
    def degradations(self) -> Sequence[str]:
        """Those of the proposer."""
        return self._inner.degradations

    def propose(self, wanted: Sequence[DraftWanted]) -> list[list[int]]:
        """The proposer's draft tokens, or none."""
        now = self._clock()
        self._measure(now)
        pace = self._paces.setdefault(len(wanted).bit_length(), _Pace())
        drafts: list[list[int]] = [[] for _ in wanted]
        if pace.drafts_next():
            drafts = self._inner.propose(wanted)
        self._last = (now, len(wanted), any(drafts))
        return drafts

    def observe(self, request: Request, sampled: Sequence[int]) -> None:
        """Count the accepted draft tokens."""
        for draft, token in zip(request.draft_tokens, sampled, strict=False):
            if draft != token:
                break
            self._accepted += 1
        self._inner.observe(request, sampled)

    def release(self, request: Request) -> None:
        """Drop what the proposer keeps."""
        self._inner.release(request)

    def close(self) -> None:
        """Close the proposer."""
        self._inner.close()

    def _measure(self, now: float) -> None:
        """Learn from the step that has ended."""
        if self._last is not None:
            begun, requests, drafted = self._last
            pace = self._paces[requests.bit_length()]
            kind = pace.drafted if drafted else pace.plain
            kind.add(now - begun, 1.0 + self._accepted / requests)
        self._accepted = 0
