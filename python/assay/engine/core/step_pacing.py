"""How much prefill joins a step, so that those who wait for their next token wait no longer than asked.

The time of a step is measured: what decoding takes without prefill, and what each token of prefill
adds. Both follow what arrives: longer contexts, larger batches, a slower device.
"""

from __future__ import annotations

from typing import Final

LEAST_PREFILL: Final = 64
"""Tokens of prefill in a step whatever its time: prompts must progress."""
FIRST_PREFILL: Final = 256
"""Tokens of prefill beside decoding before any such step was measured."""
LEAST_TOKEN_S: Final = 1e-9
"""What a token of prefill adds at least, where a step took no longer than one without any."""
NEWEST: Final = 0.25
"""The weight of the newest step in what is expected of the next."""


class StepPacer:
    """Cuts the token budget of steps to a time limit while any request decodes."""

    def __init__(self, limit_s: float) -> None:
        """Limit steps to so many seconds; 0 is no limit."""
        self.limit_s = limit_s
        self._decode_s: float | None = None
        self._token_s: float | None = None
        self._uncollected = [0, 0]
        """Sequences that decoded and tokens of prefill since the last measured end of a step."""
        self._last_end_s = 0.0

    def budget(self, decoding: int, most: int) -> int:
        """Tokens of the next step, with so many requests that decode."""
        if not self.limit_s or not decoding:
            return most
        prefill = FIRST_PREFILL
        if self._token_s is not None:
            left_s = self.limit_s - (self._decode_s or 0.0)
            prefill = max(int(left_s / self._token_s), LEAST_PREFILL)
        return min(decoding + prefill, most)

    def observe(
        self, decoding: int, prefill: int, launched_s: float, end_s: float, *, is_end: bool
    ) -> None:
        """A step of so many decoding requests and tokens of prefill has ended.

        `is_end` is False where nothing was read back, so that its end is not known.
        """
        if not self.limit_s:
            return
        self._uncollected[0] += decoding
        self._uncollected[1] += prefill
        if not is_end:
            return
        # A step that was launched ahead began when the one before it had ended.
        seconds = end_s - max(launched_s, self._last_end_s)
        self._last_end_s = end_s
        (decoding, prefill), self._uncollected = self._uncollected, [0, 0]
        if not prefill:
            self._decode_s = _blended(self._decode_s, seconds)
            return
        added_s = seconds - (self._decode_s or 0.0) if decoding else seconds
        self._token_s = _blended(self._token_s, max(added_s / prefill, LEAST_TOKEN_S))


def _blended(before: float | None, newest: float) -> float:
    return newest if before is None else (1.0 - NEWEST) * before + NEWEST * newest
