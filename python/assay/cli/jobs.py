"""`assay jobs`: commands that run on a Ray cluster."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

from assay.cli import options, styles
from assay.cli.declaring import argument, option
from assay.cli.on_cluster import attached
from assay.cli.output import Canvas, Line, Part, Report, facts, show_note, table
from assay.cli.runs import when
from assay.errors import InputError

if TYPE_CHECKING:
    from assay.cluster.jobs import Job

JobId = Annotated[str, argument("JOB", "The id of a job, or the start of one.")]
On = Annotated[
    str | None,
    option(
        "--on http://HEAD:8265", "The head of its cluster; that it was submitted to if not given."
    ),
]


def jobs_list_command(on: On = None, as_json: options.Json = False) -> Report:
    """List the jobs of a cluster, the latest first.

    Without --on it is the cluster that a job was last submitted to from here.
    """
    from assay.cluster import records
    from assay.cluster.jobs import Cluster

    address = on or next(iter(records.addresses()), None)
    if address is None:
        raise InputError(
            "jobs: expected --on http://HEAD:8265, since none was submitted from here",
            "assay sweep ... --on http://HEAD:8265 submits one",
        )
    jobs = Cluster(address).jobs()

    def text(canvas: Canvas) -> Iterator[Line]:
        yield f"{address}: {len(jobs)} jobs" if jobs else f"{address}: no jobs"
        rows: list[tuple[Part, ...]] = [
            ((job.id, styles.NAME), job.status.lower(), when(job.started_at), job.command)
            for job in jobs
        ]
        if rows:
            yield from table(("job", "status", "started", "command"), rows, canvas)

    return Report({"address": address, "jobs": [_data(job) for job in jobs]}, text, as_json)


def jobs_status_command(job: JobId, on: On = None, as_json: options.Json = False) -> Report:
    """Say how a job stands."""
    from assay.cluster.jobs import find

    cluster, name = find(job, on)
    known = cluster.job(name)
    return Report(_data(known), lambda canvas: _lines(known, canvas), as_json)


def jobs_logs_command(job: JobId, on: On = None, as_json: options.Json = False) -> Report:
    """Print what a job has said beside its answer."""
    from assay.cluster.envelope import split_log
    from assay.cluster.jobs import find

    cluster, name = find(job, on)
    lines = split_log(cluster.log(name)).lines
    return Report({"lines": list(lines)}, lambda canvas: iter(lines), as_json)


def jobs_cancel_command(job: JobId, on: On = None, as_json: options.Json = False) -> Report:
    """Cancel a job, and wait until it has stopped.

    Parts that are done are kept: the same command does not run them again.
    """
    from assay.cluster.jobs import find

    cluster, name = find(job, on)
    ended = cluster.cancel(name)
    return Report(_data(ended), lambda canvas: _lines(ended, canvas), as_json)


def jobs_attach_command(job: JobId, on: On = None, as_json: options.Json = False) -> Report | int:
    """Wait for a job and print its answer.

    It is what the command itself would have printed; with --json, an object that holds it as text.
    A job that its cluster has forgotten, since its head was lost and started anew, is submitted
    again; parts that are done are not run again.
    """
    from assay.cluster.jobs import find, resume

    cluster, name = find(job, on)
    if resume(cluster, name):
        show_note(f"job {name} is not known at {cluster.address}, and was submitted again")
    if not as_json:
        return attached(cluster, name)
    ended = cluster.follow(name, lambda line: None)
    answer = None if ended.answer is None else ended.answer.decode()
    return Report({**_data(ended.job), "answer": answer}, lambda canvas: iter(()), True)


def _data(job: "Job") -> dict[str, Any]:
    return {
        "id": job.id,
        "status": job.status.lower(),
        "command": job.command,
        "started_at": job.started_at,
        "ended_at": job.ended_at,
        "exit_code": job.exit_code,
    }


def _lines(job: "Job", canvas: Canvas) -> Iterator[Line]:
    yield from facts(
        [
            ("job", job.id),
            ("status", job.status.lower()),
            ("command", job.command),
            ("started", when(job.started_at)),
            ("ended", when(job.ended_at) if job.ended_at else ""),
            ("exit code", "" if job.exit_code is None else str(job.exit_code)),
        ],
        canvas,
    )
