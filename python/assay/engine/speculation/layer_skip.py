"""Self-speculation: the model drafts with some of its own layers and verifies with all of them.

After Draft & Verify (Zhang et al., 2024). The draft needs no memory: it reads the keys and values of
the text that the whole model wrote, and writes those of its draft tokens to slots that the
verifying step overwrites.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from assay._native import BlockManager
from assay.engine.models.model import Model
from assay.engine.requests.request import Request
from assay.engine.requests.scheduled_sequence import ScheduledSequence
from assay.engine.runner.model_runner import ModelRunner
from assay.engine.speculation.draft_decoder import DraftDecoder, draft_request
from assay.engine.speculation.proposer import DraftWanted
from assay.engine.speculation.slots_ahead import SlotsAhead
from assay.errors import OutOfMemoryError
from assay.runtime import Array


def kept_layers(layers: int, count: int) -> tuple[int, ...]:
    """Which layers a draft keeps: the first and the last ones; those in the middle change least.

    >>> kept_layers(8, 5)
    (0, 1, 2, 6, 7)
    """
    last = count // 2
    return (*range(count - last), *range(layers - last, layers))


def skipping(model: Model, kept: Sequence[int]) -> Model:
    """The model with these layers only; the weights are shared."""
    return replace(
        model,
        blocks=tuple(model.blocks[layer] for layer in kept),
        shape=model.shape._replace(layers=len(kept)),
    )


@dataclass(frozen=True, slots=True)
class KvLayers:
    """The keys and values of some layers of a KV cache."""

    keys: tuple[Array, ...]
    values: tuple[Array, ...]
    block_manager: BlockManager


class LayerSkipProposer:
    """Drafts of the model's own layers."""

    def __init__(
        self,
        runner: ModelRunner,
        block_manager: BlockManager,
        copy_block: Callable[[int, int], None],
        vocabulary: int,
    ) -> None:
        """Draft with a runner over the model's own KV cache."""
        self._runner = runner
        self._block_manager = block_manager
        self._copy_block = copy_block
        self._slots = SlotsAhead(block_manager)
        runner.slots = self._slots
        self._decoder = DraftDecoder(runner, self._slots, vocabulary)
        self._requests: dict[str, Request] = {}

    def propose(self, wanted: Sequence[DraftWanted]) -> list[list[int]]:
        """Draft for all requests in one batch; none for those without free blocks."""
        drafts: list[list[int]] = [[] for _ in wanted]
        chosen = [
            index for index, (request, count) in enumerate(wanted) if self._reserve(request, count)
        ]
        if not chosen:
            return drafts
        requests = [self._follow(wanted[index].request) for index in chosen]
        counts = [wanted[index].num_tokens for index in chosen]
        step = self._runner.launch([ScheduledSequence(request, 1, 1) for request in requests])
        decoded = self._decoder.decode(requests, counts, step, ahead=1)
        for index, draft in zip(chosen, decoded, strict=True):
            drafts[index] = draft
        return drafts

    def observe(self, request: Request, sampled: Sequence[int]) -> None:
        """Nothing to learn: accepted tokens are in the text."""

    def release(self, request: Request) -> None:
        """Drop the copy of a request's text."""
        self._requests.pop(request.request_id, None)

    def close(self) -> None:
        """Free the step buffers."""
        self._requests.clear()
        self._runner.close()

    @property
    def degradations(self) -> Sequence[str]:
        """Steps of the draft that run without a graph."""
        return self._runner.degradations

    def _reserve(self, request: Request, count: int) -> bool:
        """Reserve slots for the last token and the draft, as the verifying step will."""
        if count < 1 or request.sequence_id is None:
            return False
        try:
            copy = self._block_manager.reserve(request.sequence_id, 1 + count)
        except OutOfMemoryError:
            # The scheduler decides who is preempted; here a request goes without a draft.
            return False
        if copy is not None:
            self._copy_block(*copy)
        return True

    def _follow(self, request: Request) -> Request:
        """The request as the draft sees it, with all of its tokens."""
        own = self._requests.get(request.request_id)
        if own is None:
            own = self._requests[request.request_id] = draft_request(request)
        own.tokens += request.tokens[len(own.tokens) :]
        own.sequence_id = request.sequence_id
        own.num_computed_tokens = request.num_computed_tokens
        return own
