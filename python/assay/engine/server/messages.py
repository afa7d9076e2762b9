"""Messages between the process of HTTP and that of the engines.

A message is its length and a pickle. Both ends are of one program and one release, and the socket has no name: no
client can send one. The outputs of a step are one message, in columns: most of them are one token of text
each, and a column of integers is pickled ten times as fast as as many objects.
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from assay.engine.core.worker import Failure, WorkerState
from assay.engine.requests.outputs import StepOutput
from assay.engine.requests.sampling_params import SamplingParams

_LENGTH: Final = struct.Struct("<Q")


class Submission(NamedTuple):
    """Requests that the process of HTTP has admitted."""

    model: int
    names: Sequence[str]
    prompts: Sequence[Sequence[int]]
    params: Sequence[SamplingParams]
    adapter: str | None
    priority: int


class Cancellation(NamedTuple):
    """Requests whose clients have gone."""

    model: int
    names: Sequence[str]


class Call(NamedTuple):
    """A method to call: of a model's engine between its steps, or of its worker, which may wait."""

    number: int
    model: int
    method: str
    arguments: tuple[Any, ...]
    waits: bool
    """Whether it is the worker's."""


class Reply(NamedTuple):
    """What a call returned, or the error that it raised."""

    number: int
    value: Any
    error: BaseException | None
    states: Sequence[WorkerState]
    """Of every model."""


class Outputs(NamedTuple):
    """What a step added to requests."""

    model: int
    names: Sequence[str]
    """Of requests that got one token and nothing else."""
    texts: Sequence[str]
    """What it adds to the text of each."""
    others: Sequence[StepOutput | Failure]
    """The rest: ends, log-probabilities, several tokens at once, failures."""
    state: WorkerState


class Drain(NamedTuple):
    """Accept no more requests, and end when those under way have ended."""


def outputs_of(model: int, events: Sequence[StepOutput | Failure], state: WorkerState) -> Outputs:
    """The outputs of a step in columns."""
    names: list[str] = []
    texts: list[str] = []
    others: list[StepOutput | Failure] = []
    for event in events:
        if type(event) is StepOutput and len(event.chunks) == 1:
            text, token, logprob, _, reason = event.chunks[0]
            if reason is None and logprob is None and token is not None:
                names.append(event.request_id)
                texts.append(text)
                continue
        others.append(event)
    return Outputs(model, names, texts, others, state)


def pack(message: object) -> bytes:
    """A message with its length."""
    body = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    return _LENGTH.pack(len(body)) + body


class Unpacking:
    """Cuts the bytes of a socket into messages."""

    def __init__(self) -> None:
        self._unread = bytearray()

    def push(self, data: bytes) -> Iterator[Any]:
        """The messages that these bytes complete."""
        unread = self._unread
        unread += data
        start = 0
        try:
            while len(unread) - start >= _LENGTH.size:
                (length,) = _LENGTH.unpack_from(unread, start)
                end = start + _LENGTH.size + length
                if len(unread) < end:
                    break
                body = bytes(unread[start + _LENGTH.size : end])
                start = end
                # Its other end is the same program.
                yield pickle.loads(body)  # noqa: S301
        finally:
            # The reader may have wanted one message only.
            del unread[:start]
