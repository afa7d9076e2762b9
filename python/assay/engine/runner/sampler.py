"""The sampler: from logits to one sampled token for each row."""

from __future__ import annotations

from assay import ops
from assay.engine.models.step_buffers import StepBuffers


def sample_tokens(step: StepBuffers) -> None:
    """Queue biases, masks, penalties, temperature, top-k, top-p, min-p and the draw."""
    params = step.sampling
    if step.logits_bias is not None:
        logits = step.logits
        logits += step.logits_bias
    if step.token_masks is not None:
        ops.mask_logits(step.logits, step.token_masks, label="mask_logits")
    if step.token_counts is not None:
        ops.penalize(
            step.logits,
            step.token_counts,
            step.prompt_mask,
            params["repetition"],
            params["presence"],
            params["frequency"],
            label="penalize",
        )
    ops.sample(
        step.logits,
        params["temperature"],
        params["top_k"],
        params["top_p"],
        params["min_p"],
        params["seeds"],
        params["steps"],
        tokens_out=step.sampled_tokens,
        logprobs_out=step.sampled_logprobs,
        label="sample",
    )
