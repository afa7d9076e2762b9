"""Which requests are accepted: as many as memory and open files allow, or as a limit says.

Requests beyond the running batch wait in the engine's queue, as in other servers; one is refused only
where the queue itself would not fit.
"""

from __future__ import annotations

import itertools
import os
import resource
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from assay.errors import AssayError

TOKEN_BYTES: Final = 36
"""Bytes of a waiting token in CPython: an integer object and its place in a list."""
QUEUE_MEMORY: Final = 0.25
"""Share of the host's memory that waiting prompts may take."""
RESERVED_FILES: Final = 128
"""Open files that are not connections: weights, sockets of the loop, libraries."""


class OverloadedError(AssayError):
    """The limit of concurrent requests is reached; a later request may be accepted."""


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """What may be unfinished at once, running and waiting together; None is not bounded."""

    requests: int | None = None
    tokens: int | None = None
    """Tokens of their prompts."""

    @classmethod
    def of_host(cls, requests: int | None = None) -> QueueLimits:
        """So many requests, by default as many as there can be connections, and prompts that fit."""
        if requests is None:
            _, files = resource.getrlimit(resource.RLIMIT_NOFILE)
            if files != resource.RLIM_INFINITY:
                requests = max(files - RESERVED_FILES, 1)
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        return cls(requests, int(QUEUE_MEMORY * memory) // TOKEN_BYTES)


class Admission:
    """Unfinished requests by ID, with the tokens of their prompts; the caller locks."""

    def __init__(self, limits: QueueLimits) -> None:
        self._limits = limits
        self._numbers = itertools.count(1)
        self._tokens = 0
        self.unfinished: dict[str, int] = {}

    def admit(self, lengths: Sequence[int], names: Sequence[str] | None = None) -> Sequence[str]:
        """Accept prompts of these lengths, all or none; `names` were admitted elsewhere."""
        if names is None:
            self._check(lengths)
            names = [f"request-{next(self._numbers)}" for _ in lengths]
        self.unfinished.update(zip(names, lengths, strict=True))
        self._tokens += sum(lengths)
        return names

    def forget(self, names: Sequence[str]) -> None:
        """Requests have finished."""
        for name in names:
            self._tokens -= self.unfinished.pop(name, 0)

    def _check(self, lengths: Sequence[int]) -> None:
        limits = self._limits
        if limits.requests is not None and len(self.unfinished) + len(lengths) > limits.requests:
            raise OverloadedError(
                f"{len(self.unfinished)} requests are under way and {len(lengths)} more were "
                f"submitted: at most {limits.requests} are accepted",
                "try again later, or raise the limit",
            )
        if limits.tokens is not None and self._tokens + sum(lengths) > limits.tokens:
            raise OverloadedError(
                f"prompts of {self._tokens:,} tokens are under way and {sum(lengths):,} more were "
                f"submitted: this host's memory takes {limits.tokens:,}",
                "try again later",
            )
