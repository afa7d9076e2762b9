"""Servers whose steps are known, so that queues have closed forms."""

from __future__ import annotations

import numpy as np

from assay.planner.capacity.step_table import StepTable


def table(
    *, decode: float = 0.0, token: float = 0.0, budget: int = 1000, most: int = 1000
) -> StepTable:
    """Steps of a constant time for those who decode, and a time for each token of a prompt."""
    sequences, chunks = np.array([0.0, 1.0, most + 1.0]), np.array([0.0, 1.0, float(budget)])
    base = token * chunks[None, :] + np.array([0.0, decode, decode])[:, None]
    axis = np.array([1.0, 2.0])
    return StepTable(
        budget, most, sequences, chunks, base, axis, np.zeros((3, 2)), axis, np.zeros((3, 2)), base
    )
