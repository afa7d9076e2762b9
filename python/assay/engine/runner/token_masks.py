"""Which tokens may be sampled: a bit for each token of the rows of one step.

Masks follow from the tokens so far. They are computed in other threads while the forward pass of
their step runs, and uploaded before its logits are sampled.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

from assay.engine.models.workspace import Workspace
from assay.engine.requests.grammar_masks import GrammarMasks
from assay.engine.requests.request import Request
from assay.engine.requests.scheduled_sequence import ScheduledSequence
from assay.lazy_import import np

if TYPE_CHECKING:
    import numpy.typing as npt

_THREADS: Final = 4


class _Task(NamedTuple):
    """Rows to fill for a request."""

    request: Request
    first_row: int
    end_row: int
    num_output_tokens: int
    """Now: by the time that the rows are filled, a token may be pending that they do not follow."""


class TokenMasks:
    """The masks of one step."""

    def __init__(self, workspace: Workspace) -> None:
        """Nothing is allocated before the first step with a mask."""
        self._workspace = workspace
        self._host: npt.NDArray[np.int32] | None = None
        self._used: set[int] = set()
        """Rows of the host's array that mask anything."""
        self._grammars = GrammarMasks()
        self._computing: Future[None] | None = None

    def begin(self, scheduled: Sequence[ScheduledSequence]) -> None:
        """Start to compute the rows of the requests that need them; the others allow every token."""
        # Those of a step that was dropped may still be written.
        self._wait()
        host = self._host
        if host is None:
            host = self._host = np.full(self._workspace.allocate_masks().shape, -1, np.int32)
        tasks: list[_Task] = []
        used: set[int] = set()
        end = 0
        for request, _, num_samples, _ in scheduled:
            first, end = end, end + num_samples
            # One that has finished was launched before that was known.
            if num_samples and request.params.masked and request.finish_reason is None:
                tasks.append(_Task(request, first, end, request.num_output_tokens))
                used.update(range(first, end))
        for stale in self._used - used:
            host[stale] = -1
        self._used = used
        self._computing = _threads().submit(self._fill, host, tasks)

    def upload(self, num_samples: int) -> None:
        """Wait for the rows and copy them to the device."""
        host, array = self._host, self._workspace.token_masks
        if host is None or array is None:
            return
        self._wait()
        data = host[:num_samples].reshape(-1).view(np.uint8)
        self._workspace.device.upload("token_masks", data, array.buffer, array.offset)

    def _wait(self) -> None:
        computing, self._computing = self._computing, None
        if computing is not None:
            computing.result()

    def _fill(self, host: npt.NDArray[np.int32], tasks: Sequence[_Task]) -> None:
        # Most requests have a grammar and nothing else, and one token to sample.
        together = []
        for task in tasks:
            grammar = task.request.grammar
            if grammar is not None and task.request.needs_only_grammar(task.num_output_tokens):
                together.append((grammar, task.first_row))
            else:
                rows = host[task.first_row : task.end_row]
                task.request.fill_masks(rows, task.num_output_tokens)
        self._grammars.fill(together, host)


@cache
def _threads() -> ThreadPoolExecutor:
    """The threads that compute masks: one for each engine of this process that has some to compute."""
    return ThreadPoolExecutor(_THREADS, thread_name_prefix="assay-mask")
