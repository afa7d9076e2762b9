"""The input batch: everything that changes from step to step, as one array of words.

Input IDs, positions, slot mapping and block tables change each step; sampling parameters change
with the set of sampled requests.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any, Final, Protocol

from assay.engine.models.input_layout import InputLayout
from assay.engine.models.step_buffers import StepShape
from assay.engine.models.workspace import Workspace
from assay.engine.requests.request import Request
from assay.engine.requests.scheduled_sequence import ScheduledSequence
from assay.engine.runner import recording
from assay.engine.runner.recording import EngineRecorder

PADDING_ID: Final = -1
"""The input ID of padding rows."""

FIRST_PENDING_ID: Final = -2
"""The input ID of the pending token in sample row 0; that of row n is n less.

`ops.embedding` reads such tokens from the previous step's sampled tokens.
"""

_PADDING: Final = {
    "temperature": 0.0,
    "top_p": 1.0,
    "min_p": 0.0,
    "repetition": 1.0,
    "presence": 0.0,
    "frequency": 0.0,
}
"""The sampling parameters of padding rows."""

_FIELDS: Final = {
    "repetition": "repetition_penalty",
    "presence": "presence_penalty",
    "frequency": "frequency_penalty",
}


class Slots(Protocol):
    """Knows where the keys and values of a step's tokens go: a block manager."""

    def write_step(
        self, batch: Sequence[tuple[int, int]], sizes: tuple[int, int, int], out: Any
    ) -> None:
        """Write positions, slot mapping, query starts, lengths and block tables, in order."""


class InputBatch:
    """Writes the inputs of a step to the staging memory and uploads them."""

    def __init__(self, workspace: Workspace, slots: Slots) -> None:
        """Write to a workspace, with slots and block tables from a block manager."""
        self._workspace = workspace
        self.slots = slots
        self._shape: StepShape | None = None
        self._sampled: tuple[tuple[int, int], ...] = ()
        """The requests whose sampling parameters are staged, and the rows of each."""

    def upload(
        self,
        scheduled: Sequence[ScheduledSequence],
        layout: InputLayout,
        shape: StepShape,
        buffer_index: int,
        *,
        recorder: EngineRecorder | None = None,
    ) -> None:
        """Upload the inputs of a step; it can be launched once this has returned."""
        if shape != self._shape:
            # Another layout: nothing that is staged stays valid.
            self._shape, self._sampled = shape, ()
        self._write_tokens(scheduled, layout, shape)
        if shape.num_samples:
            self._write_sampling(scheduled, layout, shape)
        if shape.penalties:
            self._upload_penalties(scheduled)
        workspace = self._workspace
        words = workspace.staging[: layout.num_words]
        buffer = workspace.inputs[buffer_index].buffer
        if recorder is not None:
            recorder.lap(recording.BUILD_INPUTS)
        workspace.device.upload("step_inputs", words, buffer, 0)
        if recorder is not None:
            recorder.lap(recording.UPLOAD, words.nbytes)

    def _write_tokens(
        self, scheduled: Sequence[ScheduledSequence], layout: InputLayout, shape: StepShape
    ) -> None:
        staging = self._workspace.staging
        input_ids: list[int] = []
        batch: list[tuple[int, int]] = []
        for sequence in scheduled:
            request = sequence.request
            first, count = request.num_computed_tokens, sequence.num_scheduled_tokens
            if request.pending is not None:
                # All tokens before a pending one are computed, and no draft follows it.
                input_ids.append(FIRST_PENDING_ID - request.pending.sample_index)
            elif count == 1:
                input_ids.append(request.tokens[first])
            else:
                input_ids += (request.tokens[first:] + request.draft_tokens)[:count]
            batch.append((request.sequence_id or 0, count))
        input_ids += [PADDING_ID] * (shape.num_tokens - len(input_ids))
        staging[layout.input_ids] = array("i", input_ids)
        if shape.adapted:
            indices = [
                one.request.adapter for one in scheduled for _ in range(one.num_scheduled_tokens)
            ]
            indices += [0] * (shape.num_tokens - len(indices))
            staging[layout.adapters] = array("i", indices)
        sizes = (shape.num_tokens, shape.num_seqs, shape.block_table_width)
        self.slots.write_step(batch, sizes, staging[layout.attention_metadata])

    def _write_sampling(
        self, scheduled: Sequence[ScheduledSequence], layout: InputLayout, shape: StepShape
    ) -> None:
        staging = self._workspace.staging
        sampled = [sequence for sequence in scheduled if sequence.num_samples]
        steps: list[int] = []
        for sequence in sampled:
            first = sequence.request.num_output_tokens
            steps += range(first, first + sequence.num_samples)
        padding = shape.num_samples - len(steps)
        staging[layout.integers["steps"]] = array("i", steps + [0] * padding)
        if shape.gathers_samples:
            rows = _logits_indices(scheduled) + [PADDING_ID] * padding
            staging[layout.integers["logits_indices"]] = array("i", rows)
        # The set of sampled requests changes seldom: otherwise the rest is staged already.
        key = tuple((one.request.arrival_order, one.num_samples) for one in sampled)
        if key == self._sampled:
            return
        self._sampled = key
        requests = [one.request for one in sampled for _ in range(one.num_samples)]
        floats = self._workspace.staging_floats
        for name, words in layout.floats.items():
            values = [_parameter(request, name) for request in requests]
            floats[words] = array("f", values + [_PADDING[name]] * padding)
        top_k = [request.params.top_k for request in requests]
        staging[layout.integers["top_k"]] = array("i", top_k + [0] * padding)
        seeds = [request.seed for request in requests] + [0] * padding
        staging[layout.seeds].cast("B").cast("q")[:] = array("q", seeds)

    def _upload_penalties(self, scheduled: Sequence[ScheduledSequence]) -> None:
        """Upload the token counts and prompt masks of the rows with penalties."""
        workspace = self._workspace
        token_counts, prompt_mask = workspace.token_counts, workspace.prompt_mask
        if token_counts is None or prompt_mask is None:
            return
        vocabulary = workspace.model_shape.vocabulary
        device = workspace.device
        row = 0
        for sequence in scheduled:
            request = sequence.request
            if sequence.num_samples and request.params.penalized:
                counts, mask = request.token_counts(vocabulary)
                device.upload("token_counts", counts, token_counts.buffer, row * counts.nbytes)
                device.upload("prompt_mask", mask, prompt_mask.buffer, row * mask.nbytes)
            row += sequence.num_samples


def _parameter(request: Request, name: str) -> float:
    return float(getattr(request.params, _FIELDS.get(name, name)))


def _logits_indices(scheduled: Sequence[ScheduledSequence]) -> list[int]:
    """The last rows of each sampled sequence."""
    rows: list[int] = []
    end = 0
    for sequence in scheduled:
        end += sequence.num_scheduled_tokens
        rows += range(end - sequence.num_samples, end)
    return rows
