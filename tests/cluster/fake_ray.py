"""A head of a cluster in this process: what its Jobs interface answers, without Ray."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from assay.cluster.envelope import Envelope, answer_lines

VERSION = "2.60.0"


@dataclass
class FakeHead:
    """Jobs by id; each runs at once to `end`."""

    version: str = VERSION
    is_reachable: bool = True
    answer: bytes = b"3 USD\n"
    log: str = "note: a thing to know\n1 of 2 parts\n"
    status: str = "SUCCEEDED"
    exit_code: int | None = 0
    message: str = ""
    failures: int = 0
    """Questions about a job that are answered with an error before the next one is answered."""
    jobs: dict[str, Any] = field(default_factory=dict)

    def module(self, name: str = "ray") -> Any:
        return SimpleNamespace(
            __version__=VERSION, JobSubmissionClient=lambda address: FakeClient(self, address)
        )

    def forget(self) -> None:
        self.jobs.clear()


class FakeClient:
    """Ray's JobSubmissionClient, as far as it is used; errors are as Ray words them."""

    def __init__(self, head: FakeHead, address: str) -> None:
        self.head = head
        if not head.is_reachable:
            raise ConnectionError(f"Failed to connect to Ray at address: {address}.")

    def _do_request(self, method: str, endpoint: str) -> Any:
        assert (method, endpoint) == ("GET", "/api/version")
        return SimpleNamespace(json=lambda: {"ray_version": self.head.version})

    def submit_job(self, **job: Any) -> str:
        name = job["submission_id"]
        if name in self.head.jobs:
            raise RuntimeError(f"Request failed with status code 500: {name} is taken.")
        self.head.jobs[name] = job
        return str(name)

    def get_job_info(self, name: str) -> Any:
        if self.head.failures:
            self.head.failures -= 1
            raise RuntimeError("Request failed with status code 500: 500 Internal Server Error.")
        if name not in self.head.jobs:
            raise RuntimeError(f"Request failed with status code 404: Job {name} does not exist.")
        head = self.head
        return SimpleNamespace(
            submission_id=name, status=SimpleNamespace(value=head.status), start_time=1_000_000,
            end_time=2_000_000, driver_exit_code=head.exit_code, message=head.message,
            metadata=self.head.jobs[name]["metadata"],
        )  # fmt: skip

    def list_jobs(self) -> list[Any]:
        return [self.get_job_info(name) for name in self.head.jobs]

    def get_job_logs(self, name: str) -> str:
        lines = "\n".join(answer_lines(self.head.answer)) if self.head.answer else ""
        return f"{self.head.log}{lines}\n"

    def stop_job(self, name: str) -> bool:
        self.head.status = "STOPPED"
        return True


def envelope_of(head: FakeHead) -> Envelope:
    """What the only job was told."""
    (job,) = head.jobs.values()
    return Envelope.from_text(job["runtime_env"]["env_vars"]["ASSAY_JOB"])


def files_of(head: FakeHead) -> list[str]:
    """Files that travel with the only job."""
    (job,) = head.jobs.values()
    return sorted(os.listdir(job["runtime_env"].get("working_dir", os.devnull)))
