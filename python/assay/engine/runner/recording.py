"""The hook of `assay.capture`: sections of a step, and the recorder that times them.

An engine looks for a recorder at the start of each step. Without one a section costs one branch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

if TYPE_CHECKING:
    from assay.engine.requests.scheduled_sequence import ScheduledSequence


class Section(NamedTuple):
    """A section of host code in a step."""

    name: str
    meaning: str
    kind: str = "host"
    """host, or sync where the host waits for the device"""
    copy: str | None = None
    """The copy between host and device inside it."""


SECTIONS: Final = (
    Section("schedule", "chooses the sequences of the step and allocates their KV blocks"),
    Section("copy_blocks", "queues the copies of shared KV blocks before they are written"),
    Section("prepare", "finds the graph of the step's shape, or captures it"),
    Section("build_inputs", "writes input IDs, slot mapping, block tables, sampling parameters"),
    Section("upload", "copies the inputs to the device", copy="step_inputs"),
    Section("launch", "queues the operations; on a CPU it runs them"),
    Section("commit", "counts the tokens of the step in flight in the block manager"),
    Section("wait", "waits for the step on the device", kind="sync"),
    Section("read_back", "copies the sampled tokens to the host", copy="step_outputs"),
    Section("logprobs", "computes top log-probabilities"),
    Section("append_tokens", "appends sampled tokens, detokenizes, checks stop conditions"),
    Section("deliver", "hands outputs over and ends finished requests"),
)
"""The sections in the order of a step; a section's number is its index."""

(
    SCHEDULE,
    COPY_BLOCKS,
    PREPARE,
    BUILD_INPUTS,
    UPLOAD,
    LAUNCH,
    COMMIT,
    WAIT,
    READ_BACK,
    LOGPROBS,
    APPEND_TOKENS,
    DELIVER,
) = range(len(SECTIONS))


class EngineRecorder(Protocol):
    """Follows the steps of one engine: times them, or delays their sections."""

    @property
    def times_kernels(self) -> bool:
        """Whether kernels of a GPU are to store when they ran."""

    def begin(self) -> None:
        """Time begins to count for the first section of a call."""

    def launching(self, scheduled: Sequence[ScheduledSequence]) -> int:
        """The launch of a step begins; returns its number, and what follows belongs to it."""

    def collecting(self, step: int | None) -> None:
        """What follows belongs to a step that was launched before."""

    def lap(self, section: int, copied_bytes: int = 0) -> None:
        """A section ends, and the next begins."""

    def end_step(self) -> None:
        """The step whose outputs were collected has ended."""


class Recorder(Protocol):
    """Records every engine of the process."""

    def attach(self, engine: Any) -> EngineRecorder:
        """Begin to record an `Engine`, which is between two steps."""


active: Recorder | None = None
"""The recorder of the process, if there is one; engines take it up at their next step."""


def set_active(recorder: Recorder | None) -> None:
    """Make a recorder the one that engines take up, or end that."""
    global active
    active = recorder
