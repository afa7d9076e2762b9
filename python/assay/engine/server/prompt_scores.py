"""`prompt_logprobs`, as vLLM answers it: the log-probability of each token of a prompt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from assay.engine.server.errors import ApiError
from assay.engine.server.output_delta import LEAST_LOGPROB
from assay.engine.server.request_schemas import Sampling
from assay.engine.server.service import Service

PromptScores = list[dict[str, dict[str, Any]] | None]


async def prompt_scores(
    service: Service, body: Sampling, prompts: Sequence[Sequence[int]]
) -> list[PromptScores] | None:
    """The scores of each prompt; None where the request does not ask for them."""
    if body.prompt_logprobs is None:
        return None
    if body.stream:
        raise ApiError(
            "prompt_logprobs: expected a whole response, got stream", param="prompt_logprobs"
        )
    return [await _scores(service, prompt, body.prompt_logprobs) for prompt in prompts]


async def _scores(service: Service, prompt: Sequence[int], top: int) -> PromptScores:
    scored = await service.score(prompt, top)
    scores: PromptScores = []
    for at, (token, logprob) in enumerate(zip(prompt, scored.logprobs, strict=True)):
        if logprob is None:
            scores.append(None)
            continue
        entry = {
            str(other): _entry(service, other, value, rank)
            for rank, (other, value) in enumerate(scored.top[at], 1)
        }
        entry[str(token)] = _entry(service, token, logprob, scored.ranks[at] or 0)
        scores.append(entry)
    return scores


def _entry(service: Service, token: int, logprob: float, rank: int) -> dict[str, Any]:
    text = service.model.token_bytes(token).decode("utf-8", "replace")
    return {"logprob": max(logprob, LEAST_LOGPROB), "rank": rank, "decoded_token": text}
