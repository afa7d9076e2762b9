"""Prompts of recordings that have lengths and hashes of blocks: equal hashes become equal texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from assay.load.workloads.readers.recorded import Recorded
from assay.load.workloads.texts import CountTokens, Writer, cut

_KEPT_BLOCKS: Final = 1 << 16
"""Blocks whose text is kept: most are seen once or again soon."""


class BlockTexts:
    """Writes the prompt of a recorded request."""

    def __init__(self, block_tokens: int, seed: int, count: CountTokens | None) -> None:
        """Texts of blocks that have `block_tokens` tokens each."""
        self._block_tokens = block_tokens
        self._seed = seed
        self._count = count
        self._texts: dict[int, str] = {}

    def prompt(self, number: int, recorded: Recorded) -> str:
        """The text of a request: its blocks, then text of its own up to its length."""
        assert recorded.input_tokens is not None
        left = recorded.input_tokens
        parts = []
        for block in recorded.blocks:
            if left <= 0:
                break
            text = self._block(block)
            if left < self._block_tokens:
                text = cut(text, left, Writer("", self._count).count)
            parts.append(text)
            left -= self._block_tokens
        if left > 0:
            parts.append(Writer(f"request {self._seed} {number}", self._count).text(left))
        return " ".join(parts)

    def _block(self, block: int) -> str:
        if block not in self._texts:
            if len(self._texts) >= _KEPT_BLOCKS:
                self._texts.clear()
            writer = Writer(f"block {self._seed} {block}", self._count)
            self._texts[block] = writer.text(self._block_tokens)
        return self._texts[block]


def shared_tokens(requests: Sequence[Recorded], block_tokens: int) -> list[int]:
    """How many tokens at its beginning each request has in common with another one.

    >>> shared_tokens([Recorded(1, 0.0, 40, blocks=(1, 2)), Recorded(1, 0.0, 30, blocks=(1, 3))], 16)
    [16, 16]
    """
    chains: Counter[int] = Counter()
    names: dict[tuple[int, int], int] = {}
    paths = []
    for request in requests:
        parent, path = 0, []
        for block in request.blocks:
            # A beginning is named by the beginning before it and its last block.
            parent = names.setdefault((parent, block), len(names) + 1)
            path.append(parent)
        chains.update(path)
        paths.append(path)
    shared = []
    for request, path in zip(requests, paths, strict=True):
        blocks = sum(chains[beginning] > 1 for beginning in path)
        shared.append(min(blocks * block_tokens, request.input_tokens or 0))
    return shared
