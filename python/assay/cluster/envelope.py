"""What goes to a job and comes back: its arguments by the environment, its answer by its log."""

from __future__ import annotations

import base64
import hashlib
import json
import textwrap
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Final

JOB: Final = "ASSAY_JOB"
"""The variable that holds an envelope."""
_BEGIN: Final = "assay-answer begins: "
_END: Final = "assay-answer ends"


@dataclass(frozen=True)
class Envelope:
    """What the driver of a job is told."""

    id: str
    arguments: Sequence[str]
    code: str
    """The digest of the sources where the job was submitted."""
    script: str = ""
    """A Python file that runs in the place of a command of Assay."""

    def to_text(self) -> str:
        """As JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str) -> Envelope:
        """Read back what `to_text` wrote."""
        return cls(**json.loads(text))


@dataclass(frozen=True)
class Log:
    """What a job has printed so far."""

    lines: Sequence[str]
    """What it said beside its answer: progress, notes, errors."""
    answer: bytes | None
    """What the command would have printed on stdout; None where it is not whole."""


def answer_lines(answer: bytes) -> list[str]:
    """An answer as lines of a job's log, with its digest."""
    coded = base64.b64encode(answer).decode()
    return [f"{_BEGIN}{hashlib.sha256(answer).hexdigest()}", *textwrap.wrap(coded, 1000), _END]


def split_log(text: str) -> Log:
    r"""Tell the answer from the lines beside it.

    >>> split_log("\n".join(["note: a", *answer_lines(b"3 USD"), ""]))
    Log(lines=['note: a'], answer=b'3 USD')
    """
    lines: list[str] = []
    answer: bytes | None = None
    digest = ""
    coded: list[str] = []
    # A last line without its end is still being written.
    for line in text.split("\n")[:-1]:
        if line.startswith(_BEGIN):
            digest, coded = line.removeprefix(_BEGIN), []
        elif digest and line == _END:
            content = base64.b64decode("".join(coded))
            answer = content if hashlib.sha256(content).hexdigest() == digest else None
            digest = ""
        elif digest:
            coded.append(line)
        else:
            lines.append(line)
    return Log(lines, answer)
