"""What is added to logits before sampling: the biases of requests, which their outputs do not change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from assay.engine.models.workspace import Workspace
from assay.engine.requests.scheduled_sequence import ScheduledSequence
from assay.lazy_import import np

if TYPE_CHECKING:
    import numpy.typing as npt

Biases: TypeAlias = tuple[tuple[int, float], ...]


class LogitsBias:
    """The rows of one step that are added to its logits."""

    def __init__(self, workspace: Workspace) -> None:
        """Nothing is allocated before the first step with a bias."""
        self._workspace = workspace
        self._row: npt.NDArray[np.float32] | None = None
        self._uploaded: dict[int, Biases] = {}
        """What the rows of the device's array hold."""

    def upload(self, scheduled: Sequence[ScheduledSequence], num_samples: int) -> None:
        """Copy the rows that change to the device; those of other requests are zero."""
        array = self._workspace.allocate_bias()
        if self._row is None:
            self._row = np.zeros(array.shape[1], np.float32)
        wanted = [
            sequence.request.params.biases
            for sequence in scheduled
            for _ in range(sequence.num_samples)
        ]
        # Rows that pad the step are zero too.
        wanted += [()] * (num_samples - len(wanted))
        data = self._row.view(np.uint8)
        for row, biases in enumerate(wanted):
            # The device's array is uninitialized: a row that was never written is not zero.
            if self._uploaded.get(row) == biases:
                continue
            self._row[:] = 0
            for token, bias in biases:
                self._row[token] += bias
            offset = array.offset + row * data.nbytes
            self._workspace.device.upload("logits_bias", data, array.buffer, offset)
            self._uploaded[row] = biases
