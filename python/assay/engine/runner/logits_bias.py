"""What is added to logits before sampling: minus infinity where a grammar masks a token, and biases.

Masks follow from the tokens so far. They are computed in other threads while the forward pass of
their step runs, and uploaded before its logits are sampled.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import TYPE_CHECKING, Final

from assay.engine.models.step_buffers import Workspace
from assay.engine.requests.scheduled_sequence import ScheduledSequence
from assay.lazy_import import np

if TYPE_CHECKING:
    import numpy.typing as npt

_THREADS: Final = 4


class LogitsBias:
    """The rows of one step that are added to its logits."""

    def __init__(self, workspace: Workspace) -> None:
        """Nothing is allocated before the first step with a bias."""
        self._workspace = workspace
        self._host: npt.NDArray[np.float32] | None = None
        self._used: set[int] = set()
        """Rows of the device array that are not zero."""
        self._computing: list[tuple[slice, Future[None]]] = []

    def begin(self, scheduled: Sequence[ScheduledSequence]) -> None:
        """Start to compute the rows of the requests that need them."""
        host = self._host
        if host is None:
            array = self._workspace.allocate_bias()
            host = self._host = np.zeros(array.shape, np.float32)
            # The device array is uninitialized: every row is to be cleared.
            self._used = set(range(len(host)))
        self._computing = []
        row = 0
        for sequence in scheduled:
            rows = slice(row, row + sequence.num_samples)
            row += sequence.num_samples
            request = sequence.request
            if sequence.num_samples and request.params.biased:
                future = _threads().submit(request.fill_logits_bias, host[rows])
                self._computing.append((rows, future))

    def upload(self, num_samples: int) -> None:
        """Wait for the rows and copy them to the device; rows of other requests become zero."""
        host, array = self._host, self._workspace.logits_bias
        if host is None or array is None:
            return
        biased: set[int] = set()
        for rows, future in self._computing:
            future.result()
            biased.update(range(rows.start, rows.stop))
        self._computing = []
        stale = {row for row in self._used if row < num_samples} - biased
        for row in stale:
            host[row] = 0
        for row in sorted(biased | stale):
            data = host[row].view(np.uint8)
            self._workspace.device.upload(
                "logits_bias", data, array.buffer, array.offset + row * data.nbytes
            )
        self._used = (self._used - stale) | biased


@cache
def _threads() -> ThreadPoolExecutor:
    """The threads that compute masks, of all engines of this process."""
    return ThreadPoolExecutor(_THREADS, thread_name_prefix="assay-mask")
