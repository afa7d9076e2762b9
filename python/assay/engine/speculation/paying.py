"""Drafts only where they pay: where steps that verify drafts give more tokens a second than others.

Verifying costs: a step computes a row for every draft token. What it costs and how many drafts are
accepted depends on the text, the model, the batch and the machine, so both are measured while the engine
runs: the time of steps with and without drafts, and the tokens that were accepted. Outputs do not depend
on it.

Accepted tokens vary from step to step, so a run of drafts ends when it is behind by more than chance
explains: soon where it is far behind, later where it is not. Runs are tried again as texts change, less often
the more of them have failed; steps without drafts only show how long such a step takes now.
"""

from __future__ import annotations

import math
import statistics
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from assay.engine.requests.request import Request
from assay.engine.speculation.proposer import DraftWanted, Proposer

LEAST_DRAFTED: Final = 3
"""Steps of a run of drafts before it is judged."""
PLAIN_STEPS: Final = 2
"""Steps without drafts that show their time."""
KEPT_STEPS: Final = 16
"""Newest steps whose median time counts: a step that waited for a prompt does not."""
KEPT_TOKENS: Final = 64
"""About so many of the newest steps count for tokens."""
BEHIND: Final = 0.99
DEVIATIONS: Final = 2.0
"""A run ends where it has less than `BEHIND` of the plain rate, by so many standard errors of its tokens."""
FIRST_WAIT: Final = 48
LAST_WAIT: Final = 384
"""Steps before the other kind is tried again: the first time, and at most, doubling in between."""


class _Measured:
    """Steps of one kind: their time, and the tokens of a request in each."""

    def __init__(self) -> None:
        self.count = 0
        self._seconds: deque[float] = deque(maxlen=KEPT_STEPS)
        self._tokens = self._squares = 0.0

    def add(self, seconds: float, tokens: float, *, is_typical: bool) -> None:
        """Add a step; the time of one that is not typical is left out."""
        self.count += 1
        weight = 1.0 / min(self.count, KEPT_TOKENS)
        self._tokens += weight * (tokens - self._tokens)
        self._squares += weight * (tokens * tokens - self._squares)
        if is_typical:
            self._seconds.append(seconds)

    @property
    def rate(self) -> float:
        """Tokens a second of one request."""
        return self._tokens / max(statistics.median(self._seconds), 1e-9)

    @property
    def error(self) -> float:
        """The standard error of the tokens, as a share of them."""
        # One more token once: what never happened in a few steps may happen in the next.
        variance = max(self._squares - self._tokens**2, 0.0) + 1.0 / self.count
        return math.sqrt(variance / self.count) / self._tokens


class _Pace:
    """Which kind of step comes next, at about one batch size."""

    def __init__(self) -> None:
        self._plain, self._drafted = _Measured(), _Measured()
        self._is_drafting = True
        self._has_paused = False
        """Whether steps without drafts were chosen since the last one with drafts."""
        self._since = 0
        """Steps since the other kind was tried."""
        self._wait = FIRST_WAIT
        self._plain_left = 0
        """Steps without drafts that are due, though drafts pay."""

    def add(self, seconds: float, tokens: float, *, drafted: bool) -> None:
        """Learn from a step."""
        if not drafted:
            self._plain.add(seconds, tokens, is_typical=True)
            return
        # The first step with drafts after a pause brings what proposes them up to date.
        self._drafted.add(seconds, tokens, is_typical=not self._has_paused)
        self._has_paused = False

    def drafts_next(self) -> bool:
        """Whether the next step should have drafts."""
        drafts = self._choose()
        self._has_paused |= not drafts
        return drafts

    def _choose(self) -> bool:
        self._since += 1
        if not self._is_drafting:
            if self._since >= self._wait:
                self._begin(drafting=True)
            return self._is_drafting
        if self._plain_left:
            self._plain_left -= 1
            return False
        if self._drafted.count < LEAST_DRAFTED:
            return True
        if self._plain.count < PLAIN_STEPS or self._since >= self._wait:
            self._wait = min(2 * self._wait, LAST_WAIT) if self._plain.count else FIRST_WAIT
            self._since, self._plain_left = 0, PLAIN_STEPS - 1
            return False
        bound = BEHIND - DEVIATIONS * self._drafted.error
        if self._drafted.rate < bound * self._plain.rate:
            has_paid = self._drafted.count > KEPT_TOKENS
            self._begin(drafting=False)
            self._wait = FIRST_WAIT if has_paid else min(2 * self._wait, LAST_WAIT)
        return self._is_drafting

    def _begin(self, *, drafting: bool) -> None:
        self._is_drafting = drafting
        self._since = 0
        if drafting:
            self._drafted = _Measured()


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
            pace.add(now - begun, 1.0 + self._accepted / requests, drafted=drafted)
        self._accepted = 0
