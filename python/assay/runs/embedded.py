"""What `assay run` tunes where nothing is named: a small model on Assay's own engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from assay.engine.loading.opening import SYNTHETIC
from assay.engine.loading.pull_folder import PullError
from assay.engine.loading.pulling import pull

MODEL: Final = "smollm2"
PLAIN: Final[Mapping[str, int]] = {"threads": 1, "graph_buckets": 0, "max_batch": 1}
"""A plain configuration: one thread, steps without graphs, one request at a time."""


class EmbeddedModel(NamedTuple):
    """The model to take, and what the user must know of it."""

    source: str
    note: str


def embedded_model(say: Callable[[str], None]) -> EmbeddedModel:
    """SmolLM2-135M, downloaded once; the synthetic model where that fails."""
    try:
        pull(MODEL, say)
    except PullError as error:
        return EmbeddedModel(
            SYNTHETIC,
            f"{error.message}: taking the synthetic model instead, whose weights are random",
        )
    return EmbeddedModel(MODEL, "")
