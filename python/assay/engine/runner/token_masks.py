"""Which tokens may be sampled: a bit for each token of the rows of one step.

Masks follow from the tokens so far. They are computed in other threads while the forward pass of
their step runs, and uploaded before its logits are sampled.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import TYPE_CHECKING, Final

from assay.engine.models.workspace import Workspace
from assay.engine.requests.request import Request
from assay.engine.requests.scheduled_sequence import ScheduledSequence
from assay.lazy_import import np

if TYPE_CHECKING:
    import numpy.typing as npt

_THREADS: Final = 4


class TokenMasks:
    """The masks of one step."""

    def __init__(self, workspace: Workspace) -> None:
        """Nothing is allocated before the first step with a mask."""
        self._workspace = workspace
        self._host: npt.NDArray[np.int32] | None = None
        self._used: set[int] = set()
        """Rows of the host's array that mask anything."""
        self._computing: list[Future[None]] = []

    def begin(self, scheduled: Sequence[ScheduledSequence]) -> None:
        """Start to compute the rows of the requests that need them; the others allow every token."""
        host = self._host
        if host is None:
            host = self._host = np.full(self._workspace.allocate_masks().shape, -1, np.int32)
        tasks: list[tuple[Request, npt.NDArray[np.int32]]] = []
        used: set[int] = set()
        row = 0
        for sequence in scheduled:
            rows = slice(row, row + sequence.num_samples)
            row += sequence.num_samples
            request = sequence.request
            # One that has finished was launched before that was known.
            if sequence.num_samples and request.params.masked and request.finish_reason is None:
                tasks.append((request, host[rows]))
                used.update(range(rows.start, rows.stop))
        for stale in self._used - used:
            host[stale] = -1
        self._used = used
        # A mask takes microseconds: a thread takes many.
        self._computing = [
            _threads().submit(_fill, tasks[first::_THREADS])
            for first in range(min(_THREADS, len(tasks)))
        ]

    def upload(self, num_samples: int) -> None:
        """Wait for the rows and copy them to the device."""
        host, array = self._host, self._workspace.token_masks
        if host is None or array is None:
            return
        for future in self._computing:
            future.result()
        self._computing = []
        data = host[:num_samples].reshape(-1).view(np.uint8)
        self._workspace.device.upload("token_masks", data, array.buffer, array.offset)


def _fill(tasks: Sequence[tuple[Request, npt.NDArray[np.int32]]]) -> None:
    for request, rows in tasks:
        request.fill_masks(rows)


@cache
def _threads() -> ThreadPoolExecutor:
    """The threads that compute masks, of all engines of this process."""
    return ThreadPoolExecutor(_THREADS, thread_name_prefix="assay-mask")
