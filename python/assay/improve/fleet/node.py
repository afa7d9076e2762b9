"""The controller's end of an agent: one question at a time, each with a deadline."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Protocol

from assay.errors import AssayError
from assay.improve.fleet.agent import MODULE
from assay.improve.fleet.lines import LineReader, send
from assay.improve.fleet.protocol import (
    ReplicaFailedError,
    ReplicaLostError,
    ReplicaRefusedError,
    Sample,
)
from assay.openai_api.address import ServerAddress

AGENT: Final = ("-P", "-m", MODULE)
"""What a Python is told, to be an agent."""
BEAT_S: Final = 20.0
"""How long an agent may take to say that it lives."""
LOST_CODE: Final = 4


class AgentProcess(Protocol):
    """The process of an agent, here, over a remote shell or held by an actor on its node."""

    input: int
    """Where it reads."""
    output: int
    """Where it writes."""

    def close(self) -> None:
        """End the conversation."""

    def wait(self, timeout_s: float) -> bool:
        """Whether it ended in time."""

    def leave(self) -> None:
        """Wait for it no longer."""


class ChildProcess:
    """An agent as a child of this process, or of the remote shell that is one."""

    def __init__(self, name: str, words: list[str], log: Path) -> None:
        """Start it with a Python command."""
        environment = {**os.environ, "PYTHONPATH": _package_places()}
        try:
            with log.open("ab") as errors:
                self._process = subprocess.Popen(
                    [*words, *AGENT],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    bufsize=0,
                    start_new_session=True,
                    env=environment,
                )
        except OSError as error:
            raise ReplicaRefusedError(
                f'{name}: "{shlex.join(words)}" cannot be started: {error.strerror}',
                "--node-python is the command of a Python that has Assay, on the node",
            ) from None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self.input = self._process.stdin.fileno()
        self.output = self._process.stdout.fileno()

    def close(self) -> None:
        """End the conversation."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def wait(self, timeout_s: float) -> bool:
        """Whether it ended in time."""
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def leave(self) -> None:
        """Wait for it no longer."""
        if self._process.poll() is None:
            self._process.returncode = 0


class Node:
    """The agent of one replica."""

    def __init__(self, name: str, process: AgentProcess, log: Path) -> None:
        """Talk to an agent that was started."""
        self.name = name
        self.run = ""
        """The folder of its run, on the node."""
        self.start_timeout_s = 0.0
        self._log = log
        self._lock = threading.Lock()
        self._number = 0
        self.is_lost = False
        self._is_closed = False
        self._process = process
        self._reader = LineReader(process.output)

    def ask(self, do: str, timeout_s: float, **data: Any) -> dict[str, Any]:
        """The agent's answer; raises what it was refused with, or that the node is lost."""
        with self._lock:
            return self._ask(do, timeout_s, data)

    def beat(self) -> None:
        """Tell the agent that the controller lives, unless it is busy with a question."""
        if self.is_lost or not self._lock.acquire(blocking=False):
            return
        try:
            if not self._is_closed:
                self._ask("beat", BEAT_S, {})
        except AssayError:
            # The next question is told.
            return
        finally:
            self._lock.release()

    def close(self, timeout_s: float) -> None:
        """Tell the agent that all is done."""
        with self._lock:
            self._ask("close", timeout_s, {})
            self._is_closed = True

    def sample(self, timeout_s: float, **data: Any) -> Sample:
        """A window of the replica."""
        return Sample(**self.ask("measure", timeout_s, **data)["sample"])

    def end(self) -> None:
        """Close the conversation: an agent that was not told to close goes back by itself."""
        self.is_lost = True
        self._process.close()

    def wait(self, timeout_s: float) -> bool:
        """Whether the agent ended in time."""
        return self._process.wait(timeout_s)

    def leave(self) -> None:
        """Wait for an agent no longer."""
        self._process.leave()

    def _ask(self, do: str, timeout_s: float, data: Mapping[str, Any]) -> dict[str, Any]:
        if self.is_lost:
            raise self._lost("was lost before")
        self._number += 1
        try:
            send(self._process.input, {"id": self._number, "do": do, **data})
            answer = self._reader.read(timeout_s)
        except (OSError, EOFError) as error:
            self.end()
            raise self._lost(f"its agent ended: {error}") from None
        if answer is None:
            # Closing the pipe is what makes an agent go back that still lives.
            self.end()
            raise self._lost(f"no answer to {do} within {timeout_s:.0f} s")
        if "error" in answer:
            raise self._refused(answer["error"])
        return answer

    def _refused(self, error: Mapping[str, Any]) -> AssayError:
        message = str(error["message"])
        text = message if message.startswith(self.name) else f"{self.name}: {message}"
        if error.get("code") == LOST_CODE:
            # The engine did not start: with the change, or at all. The reason is in the text.
            return ReplicaFailedError(text, error.get("hint"))
        if not self.run:
            return ReplicaRefusedError(text, error.get("hint"))
        return ReplicaFailedError(text, error.get("hint"))

    def _lost(self, why: str) -> ReplicaLostError:
        undo = f"; on the node: assay rollback {Path(self.run).name}" if self.run else ""
        return ReplicaLostError(
            f"{self.name}: {why}", f"it goes back by its own journal{undo}; its log is {self._log}"
        )


def start_agent(
    url: str, number: int, python: str | None, by_actors: bool, log: Path
) -> AgentProcess:
    """Start the agent of a replica: here, by a command, or by an actor on the replica's node."""
    host = ServerAddress(url, "--replicas").host
    if not by_actors:
        return ChildProcess(url, python_words(python, host, number), log)
    from assay.cluster.remote_process import RemoteProcess, node_at

    return RemoteProcess(node_at(host, number), AGENT, log)


def python_words(template: str | None, host: str, number: int) -> list[str]:
    """The command of a Python with Assay on a node; this one where none is given.

    >>> python_words("ssh {host} python3", "gpu-7", 0)
    ['ssh', 'gpu-7', 'python3']
    """
    if template is None:
        return [sys.executable]
    replaced = template.replace("{host}", host).replace("{number}", str(number))
    return shlex.split(replaced)


def _package_places() -> str:
    """Where this package is, for an agent of this machine."""
    places = [str(Path(__file__).parents[3]), os.environ.get("PYTHONPATH", "")]
    return os.pathsep.join(filter(None, places))
