"""Token sampling: temperature, min-p, top-k, top-p, penalties and masks."""

from __future__ import annotations

from assay.ops import counting
from assay.ops.operands import F32, I32, call, check, check_given, nbytes
from assay.runtime import allocation, dtypes
from assay.runtime.array import Array


def sample(
    logits: Array,
    temperature: Array,
    top_k: Array,
    top_p: Array,
    min_p: Array,
    seeds: Array,
    steps: Array,
    *,
    tokens_out: Array | None = None,
    logprobs_out: Array | None = None,
    label: str | None = None,
) -> Array:
    """Sample one token per row of logits.

    All parameters are per-row arrays in device memory. Temperature 0 is greedy (argmax). Otherwise
    min_p, top_k (0 for all) and top_p restrict the probabilities at that temperature, and
    inverse-CDF sampling uses a random number drawn from seed and step. `logprobs_out` receives the
    log-probability of the sampled token, at temperature 1 among all tokens.
    """
    check("sample", "logits", logits, (None, None))
    rows, columns = logits.shape
    for name, array in (("temperature", temperature), ("top_p", top_p), ("min_p", min_p)):
        check("sample", name, array, (rows,), F32)
    for name, array in (("top_k", top_k), ("steps", steps)):
        check("sample", name, array, (rows,), I32)
    check("sample", "seeds", seeds, (rows,), (dtypes.int64, dtypes.int32))
    if tokens_out is None:
        tokens_out = allocation.empty(logits.device, (rows,), dtypes.int32, "sample")
    check("sample", "tokens_out", tokens_out, (rows,), I32)
    check_given("sample", "logprobs_out", logprobs_out, (rows,), F32)
    call(
        "sample",
        [logits, temperature, top_k, top_p, min_p, seeds, steps, tokens_out, logprobs_out],
        (rows, columns),
        logits.device,
        counting.memory_traffic(nbytes(logits, tokens_out)),
        label,
    )
    return tokens_out


def penalize(
    logits: Array,
    counts: Array,
    prompt_mask: Array | None,
    repetition: Array,
    presence: Array,
    frequency: Array,
    *,
    label: str | None = None,
) -> Array:
    """Apply repetition, presence and frequency penalties to logits, in place.

    `counts` is the number of times each token occurs in a row's output; `prompt_mask` is nonzero
    where it occurs in the prompt. Positive logits of tokens in either are divided by `repetition`,
    negative ones multiplied; tokens of the output lose `presence`, and `frequency` per occurrence.
    """
    check("penalize", "logits", logits, (None, None))
    rows = logits.shape[0]
    check("penalize", "counts", counts, logits.shape, I32)
    check_given("penalize", "prompt_mask", prompt_mask, logits.shape, (dtypes.uint8, dtypes.bool_))
    penalties = (("repetition", repetition), ("presence", presence), ("frequency", frequency))
    for name, array in penalties:
        check("penalize", name, array, (rows,), F32)
    call(
        "penalize",
        [logits, counts, prompt_mask, repetition, presence, frequency],
        logits.shape,
        logits.device,
        counting.memory_traffic(nbytes(logits, logits, counts, prompt_mask)),
        label,
    )
    return logits


def mask_logits(logits: Array, allowed: Array, *, label: str | None = None) -> Array:
    """Set the logits of tokens that are not allowed to minus infinity, in place.

    `allowed` holds words of 32 bits for each row: token t is allowed where bit t % 32 of word
    t / 32 is set, as in llguidance, XGrammar and vLLM.
    """
    check("mask_logits", "logits", logits, (None, None))
    rows, columns = logits.shape
    check("mask_logits", "allowed", allowed, (rows, -(-columns // 32)), I32)
    call(
        "mask_logits",
        [logits, allowed],
        logits.shape,
        logits.device,
        counting.memory_traffic(nbytes(logits, allowed)),
        label,
    )
    return logits
