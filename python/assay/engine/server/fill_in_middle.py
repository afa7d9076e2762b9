"""`suffix` of completions: fill-in-the-middle, for models that were trained on it.

A text between `prompt` and `suffix` is asked for with the model's own markers, prefix first
(Bavarian et al., 2022, arXiv:2207.14255). Models without such tokens are refused.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from assay.engine.server.errors import ApiError
from assay.engine.server.served_model import ServedModel


class Markers(NamedTuple):
    """The tokens before the prefix, before the suffix, and before the middle."""

    prefix: str
    suffix: str
    middle: str


MARKERS: Final = (
    Markers("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"),
    Markers("<fim_prefix>", "<fim_suffix>", "<fim_middle>"),
    Markers("<fim-prefix>", "<fim-suffix>", "<fim-middle>"),
    Markers(
        "<\uff5cfim\u2581begin\uff5c>", "<\uff5cfim\u2581hole\uff5c>", "<\uff5cfim\u2581end\uff5c>"
    ),
)
"""Those of Qwen2.5-Coder, StarCoder 2, SantaCoder and DeepSeek-Coder."""


def fill_in_middle(model: ServedModel, prefix: str, suffix: str) -> str:
    """The prompt that asks for the text between a prefix and a suffix."""
    for markers in MARKERS:
        if model.special_tokens.issuperset(markers):
            return f"{markers.prefix}{prefix}{markers.suffix}{suffix}{markers.middle}"
    raise ApiError(
        f'suffix: expected a model trained to fill in the middle, got "{model.name}", whose '
        "tokenizer has no markers for it",
        param="suffix",
        code="unsupported_parameter",
    )
