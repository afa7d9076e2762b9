"""Prompts as token IDs, and the length limit of a request."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Integral
from typing import Any

from assay.engine.core.engine_state import EngineState
from assay.engine.requests.sampling_params import SamplingParams
from assay.errors import InputError

Prompt = str | Sequence[int]


def as_list(prompts: Prompt | Sequence[Prompt]) -> list[Prompt]:
    """Prompts as a list; a single prompt is a list of one."""
    if isinstance(prompts, str):
        return [prompts]
    items: list[Any] = _items("prompts", prompts)
    if items and all(isinstance(item, Integral) for item in items):
        return [items]
    return items


def with_params(
    prompts: Sequence[Prompt], params: SamplingParams | Sequence[SamplingParams] | None
) -> list[tuple[Prompt, SamplingParams]]:
    """Each prompt with its parameters; a single set applies to all."""
    if params is None or isinstance(params, SamplingParams):
        return [(prompt, params or SamplingParams()) for prompt in prompts]
    if len(params) != len(prompts):
        raise InputError(
            f"params: expected one for each of {len(prompts)} prompts, got {len(params)}"
        )
    return list(zip(prompts, params, strict=True))


def token_ids(state: EngineState, prompt: Prompt) -> list[int]:
    """The token IDs of a prompt; a text gets the BOS token where the model's files ask for it."""
    return checked_tokens(prompt, state.files.tokenizer.encode, state.model.shape.vocabulary)


def checked_tokens(
    prompt: Prompt, encode: Callable[[str], Sequence[int]], vocabulary: int
) -> list[int]:
    """The token IDs of a prompt, which must be in the vocabulary, and at least one."""
    tokens = (
        list(encode(prompt))
        if isinstance(prompt, str)
        else _valid_tokens(_items("prompt", prompt), vocabulary)
    )
    if not tokens:
        raise InputError("prompt: expected at least one token, got none")
    return tokens


def _items(what: str, value: object) -> list[Any]:
    """The items of a sequence; bytes are refused, whose items would pass for token IDs."""
    if isinstance(value, bytes | bytearray | memoryview):
        raise InputError(
            f"{what}: expected a text or token IDs, got {type(value).__name__}",
            'bytes become a text with .decode("utf-8")',
        )
    if not isinstance(value, Iterable) or isinstance(value, Mapping):
        raise InputError(f"{what}: expected a text or token IDs, got {type(value).__name__}")
    return list(value)


def _valid_tokens(tokens: list[Any], vocabulary: int) -> list[int]:
    # A long prompt is checked between two steps, while the device waits: three passes in C for plain
    # integers, and one by one only what else counts as an integer, or to name what does not.
    if set(map(type, tokens)) == {int} and min(tokens) >= 0 and max(tokens) < vocabulary:
        return tokens
    return [_valid_token(token, vocabulary) for token in tokens]


def _valid_token(token: object, vocabulary: int) -> int:
    if isinstance(token, str):
        raise InputError(
            f"prompt: expected one text or its token IDs, got a list with the text {token!r:.60}",
            "give the text itself, and several in calls of their own",
        )
    # NumPy registers its integer types as Integral.
    if isinstance(token, bool) or not isinstance(token, Integral):
        raise InputError(f"prompt: expected a text or token IDs, got {token!r}")
    number = int(token)
    if not 0 <= number < vocabulary:
        raise InputError(f"prompt: expected tokens from 0 to {vocabulary - 1}, got {number}")
    return number


def check_logit_bias(state: EngineState, params: SamplingParams) -> None:
    """Refuse a bias for tokens that the model does not have."""
    vocabulary = state.model.shape.vocabulary
    for token, _ in params.biases:
        if token >= vocabulary:
            raise InputError(f"logit_bias: expected tokens from 0 to {vocabulary - 1}, got {token}")


def max_total_tokens(state: EngineState, tokens: Sequence[int], params: SamplingParams) -> int:
    """The length at which a request ends; raises if prompt and output exceed the limit."""
    limit = state.context_limit
    requested = len(tokens) + (1 if params.max_tokens is None else params.max_tokens)
    if requested > limit:
        by_model = limit == state.model.shape.context
        bound = "the model's context" if by_model else "the KV cache"
        more = "" if params.max_tokens is None else f" and max_tokens {params.max_tokens}"
        raise InputError(
            f"prompt: expected at most {limit} tokens with the output, the limit of {bound}, "
            f"got {len(tokens)} in the prompt{more}",
            "shorten the prompt or ask for fewer tokens"
            if by_model
            else "shorten the prompt, ask for fewer tokens, or load with a larger kv_tokens",
        )
    return limit if params.max_tokens is None else requested
