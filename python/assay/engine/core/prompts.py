"""Prompts as token numbers, and how long they may be."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

from assay.engine.core.engine_state import Assembly
from assay.engine.core.sampling_params import SamplingParams
from assay.errors import InputError

Prompt = str | Sequence[int]


def listed(prompts: Prompt | Sequence[Prompt]) -> list[Prompt]:
    """Prompts as a list; one prompt is a list of one."""
    if isinstance(prompts, str):
        return [prompts]
    items: list[Any] = list(prompts)
    if items and all(isinstance(item, Integral) for item in items):
        return [items]
    return items


def with_params(
    prompts: Sequence[Prompt], params: SamplingParams | Sequence[SamplingParams] | None
) -> list[tuple[Prompt, SamplingParams]]:
    """Each prompt with its parameters; one set of them is for all."""
    if params is None or isinstance(params, SamplingParams):
        return [(prompt, params or SamplingParams()) for prompt in prompts]
    if len(params) != len(prompts):
        raise InputError(
            f"params: expected one for each of {len(prompts)} prompts, got {len(params)}"
        )
    return list(zip(prompts, params, strict=True))


def token_numbers(parts: Assembly, prompt: Prompt) -> list[int]:
    """The tokens of a prompt; a text gets the begin token that the model's files ask for."""
    if isinstance(prompt, str):
        tokens = parts.files.tokenizer.encode(prompt)
    else:
        vocabulary = parts.model.shape.vocabulary
        tokens = [_checked(token, vocabulary) for token in prompt]
    if not tokens:
        raise InputError("prompt: expected at least one token, got none")
    return tokens


def _checked(token: object, vocabulary: int) -> int:
    # NumPy's whole numbers are registered as such.
    if isinstance(token, bool) or not isinstance(token, Integral):
        raise InputError(f"prompt: expected a text or token numbers, got {token!r}")
    number = int(token)
    if not 0 <= number < vocabulary:
        raise InputError(f"prompt: expected tokens from 0 to {vocabulary - 1}, got {number}")
    return number


def most_tokens(parts: Assembly, tokens: Sequence[int], params: SamplingParams) -> int:
    """The length at which a request ends, if it fits at all."""
    limit = parts.context_limit
    wanted = len(tokens) + (1 if params.max_tokens is None else params.max_tokens)
    if wanted > limit:
        by_model = limit == parts.model.shape.context
        what = "the model's context" if by_model else "the KV cache"
        more = "" if params.max_tokens is None else f" and max_tokens {params.max_tokens}"
        raise InputError(
            f"prompt: expected at most {limit} tokens with the output, the limit of {what}, "
            f"got {len(tokens)} in the prompt{more}",
            "shorten the prompt or ask for fewer tokens"
            if by_model
            else "shorten the prompt, ask for fewer tokens, or load with a larger kv_tokens",
        )
    return limit if params.max_tokens is None else wanted
