"""Deterministic work cut into numbered parts: the same results, in the same order, wherever they run.

A task is named `module:function`. The function takes what all parts share and returns a function of
one part; both speak JSON, so that a part can be kept, and run in another process or on another node.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib import import_module
from typing import Any, Final, Protocol

from assay.answers import Progress, silent
from assay.cluster.code import code_digest
from assay.cluster.job_files import enter_files
from assay.errors import AssayError

RETRIES: Final = 3
"""Times that a part is run again whose process or node was lost."""


class WorkerLostError(AssayError):
    """Processes or nodes were lost again and again while they ran a part."""

    exit_code = 4


class PartError(AssayError):
    """A part was refused where it ran; the code is that of the refusal."""

    def __init__(self, message: str, hint: str | None, exit_code: int) -> None:
        """Store what the other process said."""
        super().__init__(message, hint)
        self.exit_code = exit_code


@dataclass(frozen=True)
class Work:
    """A task, what all of its parts share, and the parts."""

    task: str
    shared: Any
    parts: Sequence[Any]
    what: str = "parts"
    """What the parts are, for progress."""

    @cached_property
    def shared_text(self) -> str:
        """What all parts share, as JSON."""
        return json.dumps(self.shared, sort_keys=True)

    def part_text(self, number: int) -> str:
        """A part, as JSON."""
        return json.dumps(self.parts[number], sort_keys=True)

    def key(self, number: int) -> str:
        """What a part's result is kept under: a digest of the code and of all that it reads."""
        words = [code_digest(), self.task, self.shared_text, self.part_text(number)]
        return hashlib.sha256(json.dumps(words).encode()).hexdigest()


class Runner(Protocol):
    """Where parts run."""

    @property
    def place(self) -> str:
        """Where that is, in words."""

    def results(self, work: Work, numbers: Sequence[int]) -> Iterator[tuple[int, str]]:
        """What `perform` returned for these parts, each as soon as it is done."""


class Kept(Protocol):
    """Results of parts that were done before, by key."""

    def get(self, key: str) -> str | None:
        """A result; None where there is none, or a damaged one."""

    def put(self, key: str, result: str) -> None:
        """Keep a result, whole or not at all."""


def perform(task: str, shared: str, part: str, code: str = "") -> str:
    """Run a part in this process: its result as JSON, or what refused it.

    A process whose sources differ from `code` refuses: its results might differ as well.
    """
    try:
        if code and code != code_digest():
            raise _other_code(code)
        if code:
            enter_files()
        return json.dumps({"result": _prepared(task, shared)(json.loads(part))})
    except AssayError as error:
        said = {"message": error.message, "hint": error.hint, "exit_code": error.exit_code}
        return json.dumps({"error": said})


@lru_cache(maxsize=4)
def _prepared(task: str, shared: str) -> Callable[[Any], Any]:
    module, _, name = task.partition(":")
    function: Callable[[Any], Any] = getattr(import_module(module), name)(json.loads(shared))
    return function


def _other_code(code: str) -> AssayError:
    import platform

    return AssayError(
        f"{platform.node()}: expected Assay with sources {code[:12]}, as where the work was cut, "
        f"got {code_digest()[:12]}",
        "install the same release of Assay on every node",
    )


def gathered(
    work: Work, runner: Runner, kept: Kept | None = None, progress: Progress = silent
) -> Iterator[Any]:
    """The results in the order of the parts; those that are kept are not run again."""
    done: dict[int, str] = {}
    keys = [work.key(number) for number in range(len(work.parts))] if kept is not None else []
    if kept is not None:
        for number, key in enumerate(keys):
            if (result := kept.get(key)) is not None:
                done[number] = result
    before = len(done)
    left = [number for number in range(len(work.parts)) if number not in done]
    running = runner.results(work, left)
    finished = before
    for number in range(len(work.parts)):
        while number not in done:
            other, result = next(running)
            answer = json.loads(result)
            if "error" in answer:
                raise PartError(**answer["error"])
            done[other] = result
            finished += 1
            if kept is not None:
                kept.put(keys[other], result)
            again = f", {before:,} of them kept from before" if before else ""
            progress(f"{finished:,} of {len(work.parts):,} {work.what}{again}, {runner.place}")
        yield json.loads(done.pop(number))["result"]
