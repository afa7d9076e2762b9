"""The answer where inputs are missing: which they are, and what needs them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from assay.answers import Answer
from assay.errors import MissingInputsError
from assay.model.registry import Registry
from assay.model.resolving.resolution import MissingInput


@dataclass(frozen=True)
class MissingAnswer(Answer):
    """Inputs without which there is no result."""

    gaps: Sequence[MissingInput]

    def to_json(self) -> dict[str, Any]:
        """The missing inputs as JSON data."""
        return {"missing": [gap.to_data() for gap in self.gaps]}


def missing_answer(registry: Registry, error: MissingInputsError) -> MissingAnswer:
    """The inputs that an error names, as an answer that lists them."""
    gaps = [
        MissingInput(registry.variable(name), registry.graph.successors[name])
        for name in error.names
    ]
    # The answer lists the names; the error does not repeat them.
    message = error.message.removesuffix(f": {', '.join(error.names)}")
    return MissingAnswer(gaps, problem=MissingInputsError(message, error.names, error.hint))
