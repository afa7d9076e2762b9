"""Jobs of a Ray cluster by its Jobs interface: submitted, followed, found again, cancelled.

A job is a command of Assay that a cluster runs. Its id is the run's. What was submitted is recorded
here, so that a client may go and come back, and a job that its cluster has forgotten, whose head was
started anew, can be submitted again: parts that are done are not run again.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from assay.answers import Progress
from assay.cluster import records
from assay.cluster.code import code_digest
from assay.cluster.envelope import JOB, Envelope, split_log
from assay.cluster.job_files import FILES, described
from assay.cluster.ray_library import ray_module
from assay.cluster.records import Record
from assay.errors import AssayError, InputError, unknown_name

Reply = TypeVar("Reply")

MODULE: Final = "assay.cli.job_driver"
PYTHON: Final = "python"
"""Of the head's environment: that in which Ray was started."""
_ENDED: Final = ("SUCCEEDED", "FAILED", "STOPPED")
_POLL_S: Final = (0.1, 2.0)
"""First and longest pause between two looks at a job."""
_PATIENCE_S: Final = 30.0
"""How long a head that does not answer is asked again before it counts as lost."""
_METADATA: Final = "assay"
_NOT_STARTED: Final = (
    "is Ray running there? ray start --head --dashboard-host 0.0.0.0 begins a cluster; a job whose "
    "head was lost and is back goes on by: assay jobs attach ID"
)
_LOST: Final = "a head that was lost and is back goes on by: assay jobs attach ID"
_NOT_IN_ID: Final = re.compile(r"[^a-z0-9]+", re.ASCII)


class ClusterLostError(AssayError):
    """The head of a cluster cannot be reached, or not any more."""


@dataclass(frozen=True)
class Job:
    """A job as its cluster knows it."""

    id: str
    status: str
    command: str
    started_at: float | None
    ended_at: float | None
    exit_code: int | None
    message: str

    @property
    def has_ended(self) -> bool:
        """Whether it will not change any more."""
        return self.status in _ENDED


def new_id(subject: str) -> str:
    """An id like that of a run."""
    words = _NOT_IN_ID.sub("-", subject.lower()).strip("-")[:40].strip("-") or "job"
    when = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    return f"{when}-{words}-{secrets.token_hex(2)}"


class Cluster:
    """The head of a cluster, by the address of its dashboard."""

    def __init__(self, address: str) -> None:
        """Connect; raises where nothing answers, or another release of Ray."""
        self.address = address.rstrip("/")
        if not re.fullmatch(r"https?://[^\s/]+", self.address):
            raise InputError(
                f"--on: expected http://HEAD:8265, got {address!r}",
                "the address that ray start --head prints for its dashboard",
            )
        module = ray_module("ray.job_submission")
        try:
            self._client = module.JobSubmissionClient(self.address)
            theirs = self._client._do_request("GET", "/api/version").json()
        except (ConnectionError, RuntimeError, OSError, ValueError) as error:
            raise self._lost(error, _NOT_STARTED) from None
        ours = ray_module().__version__
        if ours.split(".")[:2] != str(theirs.get("ray_version", "")).split(".")[:2]:
            raise InputError(
                f"{self.address}: expected Ray {ours}, as here, got {theirs.get('ray_version')}",
                "install the same release of Ray on both sides: pip install ray[default]==VERSION",
            )

    def submit(self, record: Record) -> None:
        """Start what was recorded."""
        envelope = Envelope(record.id, list(record.arguments), code_digest(), record.script)
        environment: dict[str, Any] = {"env_vars": {JOB: envelope.to_text()}}
        if record.files is not None:
            environment["env_vars"][FILES] = described(record.files)
            environment["working_dir"] = str(record.files)
        try:
            self._client.submit_job(
                entrypoint=f"{PYTHON} -m {MODULE}",
                submission_id=record.id,
                runtime_env=environment,
                metadata={_METADATA: record.command},
            )
        except (ConnectionError, OSError) as error:
            raise self._lost(error) from None
        except RuntimeError as error:
            raise InputError(
                f"{self.address}: refused the job: {_first_line(error)}", "assay jobs list"
            ) from None

    def job(self, name: str) -> Job:
        """A job by its id."""
        job = self._known(name)
        if job is None:
            raise self._unknown(name)
        return job

    def knows(self, name: str) -> bool:
        """Whether the cluster has such a job."""
        return self._known(name) is not None

    def jobs(self) -> list[Job]:
        """The jobs of Assay, the latest first."""
        try:
            infos = self._client.list_jobs()
        except (ConnectionError, RuntimeError, OSError) as error:
            raise self._lost(error) from None
        own = [_job(info) for info in infos if _METADATA in (info.metadata or {})]
        return sorted(own, key=lambda job: job.id, reverse=True)

    def log(self, name: str) -> str:
        """All that a job has printed, its answer too."""
        try:
            return str(self._client.get_job_logs(name))
        except RuntimeError as error:
            if not self.knows(name):
                raise self._unknown(name) from None
            raise self._lost(error) from None
        except (ConnectionError, OSError) as error:
            raise self._lost(error) from None

    def cancel(self, name: str) -> Job:
        """Stop a job, and wait until it has stopped."""
        self.job(name)
        try:
            self._client.stop_job(name)
        except (ConnectionError, RuntimeError, OSError) as error:
            raise self._lost(error) from None
        for job in self.watched(name):
            if job.has_ended:
                return job
        raise AssertionError

    def watched(self, name: str) -> Iterator[Job]:
        """The job again and again, until it has ended."""
        pause, most = _POLL_S
        while True:
            job = self._patiently(lambda: self.job(name))
            yield job
            if job.has_ended:
                return
            time.sleep(pause)
            pause = min(2 * pause, most)

    def follow(self, name: str, say: Progress) -> Answered:
        """Wait for a job; `say` is told every line beside its answer as it comes."""
        shown = 0
        for job in self.watched(name):
            is_begun = job.status != "PENDING"
            log = split_log(self._patiently(lambda: self.log(name)) if is_begun else "")
            for line in log.lines[shown:]:
                say(line)
            shown = len(log.lines)
            if job.has_ended:
                return Answered(job, log.answer)
        raise AssertionError

    def _patiently(self, ask: Callable[[], Reply]) -> Reply:
        """Ask again for a while: a busy head fails to answer now and then, and its job goes on."""
        end_s = time.monotonic() + _PATIENCE_S
        while True:
            try:
                return ask()
            except ClusterLostError:
                if time.monotonic() >= end_s:
                    raise
            time.sleep(_POLL_S[1])

    def _known(self, name: str) -> Job | None:
        try:
            return _job(self._client.get_job_info(name))
        except RuntimeError as error:
            # The client has no other sign of an id that the head does not know.
            if "404" in str(error) or "does not exist" in str(error):
                return None
            raise self._lost(error) from None
        except (ConnectionError, OSError) as error:
            raise self._lost(error) from None

    def _unknown(self, name: str) -> AssayError:
        known = [job.id for job in self.jobs()]
        return unknown_name("job", name, known, f"assay jobs list --on {self.address}")

    def _lost(self, error: Exception, hint: str = _LOST) -> ClusterLostError:
        return ClusterLostError(
            f"{self.address}: expected the head of a Ray cluster, got: {_first_line(error)}", hint
        )


@dataclass(frozen=True)
class Answered:
    """A job that has ended, and what it printed as its answer; None where it never got there."""

    job: Job
    answer: bytes | None


def find(name: str, address: str | None) -> tuple[Cluster, str]:
    """The cluster of a job: as named, else as recorded when it was submitted."""
    record = records.read(name)
    chosen = address or (record.address if record is not None else None)
    if chosen is None:
        raise InputError(
            f"job {name}: expected --on http://HEAD:8265, since it was not submitted here",
            "assay jobs list shows those that were",
        )
    return Cluster(chosen), name if record is None else record.id


def submit(
    address: str, subject: str, arguments: Sequence[str], command: str, script: Path | None = None
) -> Record:
    """Submit a command, or a script; files that its arguments name travel with it."""
    cluster = Cluster(address)
    record = records.write(new_id(subject), cluster.address, arguments, command, script)
    cluster.submit(record)
    return record


def resume(cluster: Cluster, name: str) -> bool:
    """Submit a job again that its cluster has forgotten; whether that was needed."""
    if cluster.knows(name):
        return False
    record = records.read(name)
    if record is None:
        cluster.job(name)
        return False
    cluster.submit(record)
    return True


def _job(info: Any) -> Job:
    metadata: Mapping[str, str] = info.metadata or {}
    return Job(
        id=str(info.submission_id),
        status=str(getattr(info.status, "value", info.status)),
        command=metadata.get(_METADATA, ""),
        started_at=None if info.start_time is None else info.start_time / 1e3,
        ended_at=None if not info.end_time else info.end_time / 1e3,
        exit_code=getattr(info, "driver_exit_code", None),
        message=str(info.message or ""),
    )


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
