"""Parts as tasks of Ray: on whichever node has a free core, again where a node was lost."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

from assay.cluster.code import code_digest
from assay.cluster.parts import RETRIES, Work, WorkerLostError, perform
from assay.cluster.ray_library import ray_module
from assay.errors import AssayError, InputError

_AHEAD: Final = 3
"""Parts that wait or run for each core: enough that none is idle, few enough to be cancelled soon."""
_LOOK_S: Final = 5.0
"""How often nodes that have come or gone are counted."""


class RayRunner:
    """The cluster that this process is connected to."""

    def __init__(self) -> None:
        """Connect to the cluster whose job this process is."""
        self._ray = ray_module()
        if not self._ray.is_initialized():
            try:
                address = os.environ.get("RAY_ADDRESS", "auto")
                self._ray.init(address=address, log_to_driver=False, logging_level="error")
            except ConnectionError as error:
                raise InputError(
                    f"expected a Ray cluster on this machine, got none: {_first_line(error)}",
                    "ray start --head begins one; assay ... --on http://HEAD:8265 submits to it",
                ) from None

        self._looked = -math.inf
        self._nodes = 0
        self._cores = 0.0

    @property
    def place(self) -> str:
        """How many nodes, of how many cores together."""
        self._look()
        word = "node" if self._nodes == 1 else "nodes"
        return f"on {self._nodes} {word} with {self._cores:g} cores"

    def _look(self) -> None:
        """Count the nodes that live; asked for each part, the head would have little else to do."""
        if time.monotonic() - self._looked < _LOOK_S:
            return
        alive = [node for node in self._ray.nodes() if node["Alive"]]
        self._nodes = len(alive)
        self._cores = float(sum(node["Resources"].get("CPU", 0.0) for node in alive))
        self._looked = time.monotonic()

    def results(self, work: Work, numbers: Sequence[int]) -> Iterator[tuple[int, str]]:
        """What `perform` returned, as parts are done."""
        ray = self._ray
        remote = ray.remote(num_cpus=1, max_retries=RETRIES)(perform)
        shared = ray.put(work.shared_text)
        waiting = iter(numbers)
        running: dict[Any, int] = {}
        try:
            while True:
                self._look()
                most = max(2, int(_AHEAD * self._cores))
                while len(running) < most:
                    number = next(waiting, None)
                    if number is None:
                        break
                    text = work.part_text(number)
                    running[remote.remote(work.task, shared, text, code_digest())] = number
                if not running:
                    return
                done, _ = ray.wait(list(running), num_returns=1, timeout=_LOOK_S)
                for reference in done:
                    yield running.pop(reference), self._result(work, reference)
        finally:
            for reference in running:
                ray.cancel(reference, force=True)

    def _result(self, work: Work, reference: Any) -> str:
        errors = ray_module("ray.exceptions")
        try:
            result: str = self._ray.get(reference)
        except errors.RayTaskError as error:
            raise _refused(error) from None
        except errors.RayError as error:
            raise WorkerLostError(
                f"a part was lost with its worker {RETRIES + 1} times: {_first_line(error)}",
                "nodes may lack memory; parts that are done are kept, and not run again",
            ) from None
        return result


def _refused(error: Any) -> AssayError:
    """What a worker could not even begin with, or a bug."""
    cause = getattr(error, "cause", None) or error
    if isinstance(cause, ImportError) or "ModuleNotFoundError" in str(error):
        return InputError(
            f"a node of the cluster cannot run Assay: {_first_line(cause)}",
            "install the same release of Assay on every node",
        )
    return AssayError(f"a part failed on the cluster: {type(cause).__name__}: {_first_line(cause)}")


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
