"""`--on http://HEAD:8265`: a command as a job of a Ray cluster, printed as if it had run here."""

import shlex
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Annotated, Any, Final

import typer

from assay.cli import verbosity
from assay.cli.declaring import option
from assay.cli.global_options import parameters_of
from assay.cli.output import show_note, show_progress, working
from assay.errors import AssayError, InputError

COMMANDS: Final = ("sweep", "minimize", "plan", "validate", "bench run", "run", "rollback")
"""Commands that a cluster may run."""
_ADDRESS: Final = "assay.on"


def _keep(ctx: typer.Context, address: str | None) -> None:
    """Called by Typer with the value, which no command takes."""
    ctx.meta[_ADDRESS] = address


def _options(
    on: Annotated[
        str | None,
        option(
            "--on http://HEAD:8265",
            "Run as a job of this Ray cluster, whose nodes share the work. The client may go: "
            "assay jobs attach ID comes back.",
            callback=_keep,
            expose_value=False,
        ),
    ] = None,
) -> None:
    """The signature from which Typer builds the option."""


def add_on(name: str, command: Any) -> None:
    """Give a command, by its whole name, the option."""
    command.params += parameters_of(_options)
    command.invoke = partial(_invoke, name, command, command.invoke)


def _invoke(name: str, command: Any, original: Any, ctx: Any) -> Any:
    from assay.cluster import current

    address = ctx.meta.get(_ADDRESS)
    if not address or current.is_job():
        return original(ctx)
    if name == "run" and not ctx.params.get("replicas"):
        raise InputError(
            "--on: expected it with --replicas URL,URL,..., got it without",
            "a cluster promotes over replicas; one engine is tuned where it runs",
        )
    return submitted(address, name, [*name.split(), *words_of(command, ctx)])


def words_of(command: Any, ctx: Any) -> Iterator[str]:
    """The command's arguments, with what files and environment say of its options here."""
    if verbosity.is_quiet():
        yield "--quiet"
    if verbosity.is_verbose():
        yield "--verbose"
    for parameter in command.params:
        value = ctx.params.get(parameter.name)
        if value is None or value == parameter.default or value == () or value == []:
            continue
        values = value if isinstance(value, (list, tuple)) else [value]
        if parameter.param_type_name == "argument":
            yield from map(str, values)
        elif isinstance(value, bool):
            yield parameter.opts[0] if value else parameter.secondary_opts[0]
        else:
            for each in values:
                yield from (parameter.opts[0], str(each))


def submitted(address: str, subject: str, arguments: list[str]) -> int:
    """Submit the command, wait for it, and print what it printed; its exit code."""
    from assay.cluster import jobs

    with working("submitting") as progress:
        progress(f"submitting to {address}")
        command = shlex.join(["assay", *arguments])
        record = jobs.submit(address, subject, arguments, command)
    show_progress(f"job {record.id}; assay jobs attach {record.id} comes back to it")
    return attached(jobs.Cluster(record.address), record.id)


def attached(cluster: Any, name: str) -> int:
    """Wait for a job and print what it printed; its exit code."""
    errors: list[str] = []

    def said(line: str) -> None:
        if line.startswith("error:"):
            errors.append(line)
        _repeat(line, progress)

    try:
        with working(f"job {name}") as progress:
            ended = cluster.follow(name, said)
    except KeyboardInterrupt:
        show_note(f"job {name} goes on: assay jobs attach {name}, assay jobs cancel {name}")
        raise
    job = ended.job
    if ended.answer is not None:
        sys.stdout.write(ended.answer.decode())
        return int(job.exit_code or 0)
    if job.status == "STOPPED":
        raise AssayError(
            f"job {name} was cancelled", "the same command goes on from the parts that are done"
        )
    if errors and job.exit_code:
        # It said itself why it has no answer.
        return int(job.exit_code)
    raise _failed(name, job)


def _repeat(line: str, progress: Callable[[str], None]) -> None:
    """What the command said beside its answer: errors and notes stay, the rest is progress."""
    if line.startswith(("error:", "hint:")):
        print(line, file=sys.stderr)
    elif line.startswith("note:"):
        show_note(line.removeprefix("note:").strip())
    elif line.strip():
        progress(line)


def _failed(name: str, job: Any) -> AssayError:
    """Why a job never came to its answer."""
    said = " ".join(job.message.split())
    if "No module named" in said or "not found" in said:
        return InputError(
            f"job {name}: the head of the cluster cannot run Assay: {said[-200:]}",
            "start Ray on every node in an environment that has assay[fleet]",
        )
    return AssayError(f"job {name} failed: {said[:200]}", f"assay jobs logs {name}")
