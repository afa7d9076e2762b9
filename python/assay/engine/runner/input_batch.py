"""What a step is told: everything that changes from step to step, as one array of words.

Tokens, positions, slots and block tables change each time; how tokens are chosen changes with who
is sampled.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Final

from assay.engine.core.batch_scheduler import Turn
from assay.engine.core.kv_memory import KvMemory
from assay.engine.core.request import Request
from assay.engine.runner.step_buffers import Inputs, Size, Workspace

_NEUTRAL: Final = {
    "temperature": 0.0,
    "top_p": 1.0,
    "min_p": 0.0,
    "repetition": 1.0,
    "presence": 0.0,
    "frequency": 0.0,
}
"""What rows that are padding are told."""

_FIELDS: Final = {
    "repetition": "repetition_penalty",
    "presence": "presence_penalty",
    "frequency": "frequency_penalty",
}


class Telling:
    """Writes the host's side of a step's inputs and uploads it."""

    def __init__(self, workspace: Workspace, kv: KvMemory) -> None:
        """Write into a workspace, with slots and tables from the books of a cache."""
        self._workspace = workspace
        self._kv = kv
        self._size: Size | None = None
        self._told: tuple[tuple[int, int], ...] = ()
        """Who was sampled in the last step, and in how many rows."""

    def upload(self, turns: Sequence[Turn], inputs: Inputs, size: Size, side: int) -> None:
        """Tell a step of this size its turns; it may run then, and only then."""
        if size != self._size:
            # The parts of the inputs lie elsewhere now.
            self._size, self._told = size, ()
        self._write_tokens(turns, inputs, size)
        if size.samples:
            self._write_sampling(turns, inputs, size)
        if size.penalties:
            self._upload_penalties(turns)
        workspace = self._workspace
        told = workspace.staging[: inputs.words]
        workspace.device._context.upload("step_inputs", told, workspace.inputs[side].buffer, 0)

    def _write_tokens(self, turns: Sequence[Turn], inputs: Inputs, size: Size) -> None:
        staging = self._workspace.staging
        ids: list[int] = []
        batch: list[tuple[int, int]] = []
        for turn in turns:
            request = turn.request
            first = request.computed
            if turn.count == 1:
                ids.append(request.tokens[first])
            else:
                ids += (request.tokens[first:] + request.drafts)[: turn.count]
            batch.append((request.sequence or 0, turn.count))
        ids += [-1] * (size.rows - len(ids))
        staging[inputs.ids] = array("i", ids)
        sizes = (size.rows, size.sequences, size.columns)
        self._kv.books.write_step(batch, sizes, staging[inputs.books])

    def _write_sampling(self, turns: Sequence[Turn], inputs: Inputs, size: Size) -> None:
        staging = self._workspace.staging
        sampled = [turn for turn in turns if turn.samples]
        steps: list[int] = []
        for turn in sampled:
            first = turn.request.output_tokens
            steps += range(first, first + turn.samples)
        padding = size.samples - len(steps)
        staging[inputs.integers["steps"]] = array("i", steps + [0] * padding)
        if size.gathers:
            rows = _sample_rows(turns) + [-1] * padding
            staging[inputs.integers["sample_rows"]] = array("i", rows)
        # Who is sampled changes seldom: the rest stays as it was told the last time.
        told = tuple((turn.request.number, turn.samples) for turn in sampled)
        if told == self._told:
            return
        self._told = told
        each = [turn.request for turn in sampled for _ in range(turn.samples)]
        reals = self._workspace.staging_reals
        for name, part in inputs.reals.items():
            values = [_told_real(request, name) for request in each]
            reals[part] = array("f", values + [_NEUTRAL[name]] * padding)
        top_k = [request.params.top_k for request in each]
        staging[inputs.integers["top_k"]] = array("i", top_k + [0] * padding)
        seeds = [request.seed for request in each] + [0] * padding
        staging[inputs.seeds].cast("B").cast("q")[:] = array("q", seeds)

    def _upload_penalties(self, turns: Sequence[Turn]) -> None:
        """Upload how often each token was said, for the rows that are told penalties."""
        workspace = self._workspace
        counts, mask = workspace.counts, workspace.prompt_mask
        if counts is None or mask is None:
            return
        vocabulary = workspace.shape.vocabulary
        context = workspace.device._context
        row = 0
        for turn in turns:
            request = turn.request
            if turn.samples and request.params.penalized:
                said, prompted = request.token_counts(vocabulary)
                context.upload("token_counts", said, counts.buffer, row * said.nbytes)
                context.upload("prompt_mask", prompted, mask.buffer, row * prompted.nbytes)
            row += turn.samples


def _told_real(request: Request, name: str) -> float:
    return float(getattr(request.params, _FIELDS.get(name, name)))


def _sample_rows(turns: Sequence[Turn]) -> list[int]:
    """The last rows of each turn that is sampled."""
    rows: list[int] = []
    end = 0
    for turn in turns:
        end += turn.count
        rows += range(end - turn.samples, end)
    return rows
