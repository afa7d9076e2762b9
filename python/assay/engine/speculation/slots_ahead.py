"""Attention metadata of draft tokens: positions behind the committed ones of a block manager."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

from assay._native import BlockManager


class SlotsAhead:
    """Writes steps that begin `ahead` tokens behind what is committed to each sequence.

    Draft tokens are computed before anyone knows whether they are accepted. Their slots are
    reserved and not committed, so that none of them enters the prefix cache.
    """

    def __init__(self, block_manager: BlockManager) -> None:
        """Write steps over this block manager's sequences."""
        self._block_manager = block_manager
        self.ahead = 0
        """Uncommitted tokens of every sequence that earlier steps have written."""

    def write_step(
        self, batch: Sequence[tuple[int, int]], sizes: tuple[int, int, int], out: Any
    ) -> None:
        """Write positions, slot mapping, query starts, lengths and block tables, in order."""
        ahead = self.ahead
        if not ahead:
            self._block_manager.write_step(batch, sizes, out)
            return
        rows, sequences, width = sizes
        # The manager writes a step from the committed tokens on; the rows before ours are left out.
        longer = [(sequence, ahead + count) for sequence, count in batch]
        all_rows = sum(count for _, count in longer)
        rest = sequences + sequences * width
        whole = array("i", bytes(4 * (2 * all_rows + sequences + 1 + rest)))
        self._block_manager.write_step(longer, (all_rows, sequences, width), whole)
        positions, slots, starts = array("i"), array("i"), array("i")
        first = 0
        for _, count in batch:
            starts.append(len(positions))
            ours = slice(first + ahead, first + ahead + count)
            positions += whole[ours]
            slots += whole[all_rows + ours.start : all_rows + ours.stop]
            first = ours.stop
        end, padding = len(positions), rows - len(positions)
        positions.extend([0] * padding)
        slots.extend([-1] * padding)
        starts.extend([end] * (sequences + 1 - len(starts)))
        out[:] = positions + slots + starts + whole[len(whole) - rest :]
