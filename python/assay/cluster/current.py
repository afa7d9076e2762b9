"""Where the parts of this process's work run: by Ray inside a job, else on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from assay.answers import Progress, silent
from assay.cluster.kept import kept_parts
from assay.cluster.local import Processes, ThisProcess, cores
from assay.cluster.parts import Runner, Work, gathered
from assay.errors import InputError
from assay.spoken_options import option

_of_the_job: Runner | None = None


def use(runner: Runner) -> None:
    """Run all parts of this process there."""
    global _of_the_job
    _of_the_job = runner


def is_job() -> bool:
    """Whether this process is the driver of a job on a cluster."""
    return _of_the_job is not None


def runner(workers: int | None = None) -> Runner:
    """Where parts run: on the cluster of the job, else in `workers` processes, by default one a core."""
    if workers is not None and workers < 1:
        raise InputError(f"{option('--workers')}: expected 1 or more, got {workers}")
    if _of_the_job is not None:
        return _of_the_job
    count = cores() if workers is None else workers
    return ThisProcess() if count == 1 else Processes(count)


def run(work: Work, workers: int | None = None, progress: Progress = silent) -> Iterator[Any]:
    """The results of all parts, in order; finished ones are kept, and not run again."""
    chosen: Runner = ThisProcess() if len(work.parts) == 1 and not is_job() else runner(workers)
    return gathered(work, chosen, kept_parts(), progress)
