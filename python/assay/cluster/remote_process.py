"""A Python program on another node: an actor of Ray holds it, and what is said goes to and fro.

The program is a child of the actor. Where the node, the actor or the process that asked for it is
lost, its input ends: a program that reads it knows that nobody is there any more.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from assay.cluster.job_files import enter_files
from assay.cluster.ray_library import ray_module
from assay.errors import InputError

_CHUNK: Final = 1 << 16
_STREAMS: Final = 4
"""Calls that the actor serves at once: two reads, a write and a wait."""
_GRACE_S: Final = 10.0


class Held:
    """On the node: the program, and its streams."""

    def __init__(self, words: Sequence[str]) -> None:
        """Start this Python with the words."""
        import subprocess
        import sys

        enter_files()
        self._process = subprocess.Popen(
            [sys.executable, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )

    def read(self, stream: str) -> bytes:
        """What the program wrote to `stdout` or `stderr`; nothing at its end."""
        source = self._process.stdout if stream == "stdout" else self._process.stderr
        return b"" if source is None else os.read(source.fileno(), _CHUNK)

    def write(self, content: bytes) -> None:
        """Give the program input."""
        if self._process.stdin is not None:
            self._process.stdin.write(content)

    def close(self) -> None:
        """End the program's input."""
        if self._process.stdin is not None:
            self._process.stdin.close()

    def wait(self, timeout_s: float) -> bool:
        """Whether the program ended in time."""
        import subprocess

        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        return True


class RemoteProcess:
    """Here: file descriptors as if the program were a child of this process."""

    def __init__(self, node_id: str, words: Sequence[str], log: Path) -> None:
        """Start the program on a node; what it writes to stderr goes to `log`."""
        ray = ray_module()
        pin = ray_module("ray.util.scheduling_strategies").NodeAffinitySchedulingStrategy
        self._ray = ray
        actor = ray.remote(num_cpus=0, max_restarts=0, max_concurrency=_STREAMS)(Held)
        self._held = actor.options(scheduling_strategy=pin(node_id, soft=False)).remote(list(words))
        reads, self.input = os.pipe()
        self.output, writes = os.pipe()
        errors = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._is_closed = False
        self._start(lambda: self._send(reads), "input")
        self._start(lambda: self._take("stdout", writes), "stdout")
        self._start(lambda: self._take("stderr", errors), "stderr")

    def close(self) -> None:
        """End the conversation."""
        if not self._is_closed:
            self._is_closed = True
            os.close(self.input)
            os.close(self.output)

    def wait(self, timeout_s: float) -> bool:
        """Whether the program ended in time, or its node is gone."""
        errors = ray_module("ray.exceptions")
        try:
            ended = self._ray.get(self._held.wait.remote(timeout_s), timeout=timeout_s + _GRACE_S)
        except errors.GetTimeoutError:
            return False
        except errors.RayError:
            return True
        return bool(ended)

    def leave(self) -> None:
        """Nothing is waited for any more; the actor ends with this process."""

    def _start(self, pump: Callable[[], None], name: str) -> None:
        threading.Thread(target=pump, name=f"assay-remote-{name}", daemon=True).start()

    def _send(self, source: int) -> None:
        errors = ray_module("ray.exceptions")
        try:
            while content := os.read(source, _CHUNK):
                self._ray.get(self._held.write.remote(content))
            self._ray.get(self._held.close.remote())
        except (errors.RayError, OSError):
            # The reader of its output finds that it is gone.
            return
        finally:
            os.close(source)

    def _take(self, stream: str, target: int) -> None:
        errors = ray_module("ray.exceptions")
        try:
            while content := self._ray.get(self._held.read.remote(stream)):
                while content:
                    content = content[os.write(target, content) :]
        except (errors.RayError, OSError):
            # Lost, or nobody listens any more.
            return
        finally:
            os.close(target)


def node_at(host: str, number: int) -> str:
    """The id of the node that a host is; of several on one machine they are taken in turn."""
    ray = ray_module()
    nodes = sorted((node for node in ray.nodes() if node["Alive"]), key=lambda node: node["NodeID"])
    wanted = {host}
    # A name may be known to the cluster only.
    with contextlib.suppress(OSError):
        wanted |= {str(entry[4][0]) for entry in socket.getaddrinfo(host, None)}
    if wanted & {"127.0.0.1", "::1", "localhost"}:
        wanted.add(ray_module("ray.util").get_node_ip_address())
    at = [
        node["NodeID"]
        for node in nodes
        if {node["NodeManagerAddress"], node["NodeManagerHostname"]} & wanted
    ]
    if not at:
        known = ", ".join(dict.fromkeys(node["NodeManagerAddress"] for node in nodes))
        raise InputError(
            f"--replicas: expected a node of the cluster at {host}, got none", f"nodes: {known}"
        )
    return str(at[number % len(at)])
