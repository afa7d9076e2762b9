"""Decodes draft tokens one after the other, ahead of the text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from assay.engine.requests.pending_token import pending_token
from assay.engine.requests.request import Request
from assay.engine.requests.scheduled_sequence import ScheduledSequence
from assay.engine.runner.model_runner import InFlightStep, ModelRunner
from assay.engine.speculation.slots_ahead import SlotsAhead


def draft_request(request: Request) -> Request:
    """A request of the draft model: the text and the sampling of another, without its rules.

    Draft tokens are sampled with the request's own seed: the same random number picks equal tokens
    more often than another one would. Masks and biases are left to the model.
    """
    draft = Request.forward_only(list(request.tokens))
    draft.request_id = request.request_id
    draft.arrival_order = request.arrival_order
    draft.num_prompt_tokens = request.num_prompt_tokens
    draft.seed = request.seed
    draft.params = replace(request.params, logprobs=None, logit_bias=(), structured_output=None)
    return draft


class DraftDecoder:
    """Runs a draft model over sequences whose draft tokens are reserved and not committed."""

    def __init__(self, runner: ModelRunner, slots: SlotsAhead, vocabulary: int) -> None:
        """Decode with a runner whose inputs these slots write, for a model of `vocabulary` tokens."""
        self._runner = runner
        self._slots = slots
        self._vocabulary = vocabulary

    def decode(
        self, requests: Sequence[Request], counts: Sequence[int], step: InFlightStep, *, ahead: int
    ) -> list[list[int]]:
        """At most `counts` draft tokens of each request; `step` samples the first of each.

        The tokens of the requests are computed up to their last one, of which `ahead` are not
        committed. A step is launched before the one before it is read back.
        """
        lengths = [len(request.tokens) for request in requests]
        drafts: list[list[int]] = [[] for _ in requests]
        active = list(range(len(requests)))
        following = active
        number = 0
        while following:
            number += 1
            following = [index for index in active if counts[index] > number]
            next_step = None
            if following:
                rows = {index: row for row, index in enumerate(active)}
                for index in following:
                    request = requests[index]
                    request.num_computed_tokens = lengths[index] + number - 1
                    request.pending = pending_token(rows[index])
                self._slots.ahead = ahead + number - 1
                scheduled = [ScheduledSequence(requests[index], 1, 1) for index in following]
                next_step = self._runner.launch(scheduled, after=step)
            tokens, _ = self._runner.collect(step)
            for index, token in zip(active, tokens, strict=True):
                drafts[index].append(token)
                requests[index].tokens.append(token)
            if next_step is not None:
                self._runner.begin_masks(next_step)
                step, active = next_step, following
        self._slots.ahead = 0
        for request, length in zip(requests, lengths, strict=True):
            del request.tokens[length:]
            request.pending = None
        return [self._valid(draft) for draft in drafts]

    def _valid(self, draft: list[int]) -> list[int]:
        """The draft up to a token that the model does not have, such as that of NaN logits."""
        for index, token in enumerate(draft):
            if not 0 <= token < self._vocabulary:
                return draft[:index]
        return draft
