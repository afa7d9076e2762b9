"""The sides of a comparison: commits of a repository, images of containers, or commands."""

from __future__ import annotations

import itertools
import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

from assay.errors import InputError
from assay.gating.commits import Repository
from assay.improve.engines.command import CommandTemplate

PORT: Final = "{port}"
"""Where the port stands in a command."""
RUNTIMES: Final = ("docker", "podman")
CONTAINER_PORT: Final = 8000
"""The port that a server listens on inside its container, where none is given: that of vLLM's image."""

Kind = Literal["commit", "container", "command"]


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two servers: what it is called, and how it is started."""

    label: str
    """base, head, or the commit of a bisection."""
    given: str
    """As it was named: a ref, an image or a command."""
    kind: Kind
    command: str
    """What starts it, with {port} in it."""
    commit: str = ""
    image: str = ""
    runtime: str = ""
    """docker or podman, for a container."""
    subject: str = ""
    """Of a commit."""
    apart: str = ""
    """Of a command: the words that the other one does not have."""
    folder: Path | None = None
    """The checked-out commit; the folder of now for anything else."""

    @property
    def short(self) -> str:
        """A name for tables: a ref with its commit, an image, or what a command has of its own."""
        if self.commit:
            short = self.commit[:12]
            return short if self.commit.startswith(self.given) else f"{self.given} ({short})"
        name = self.apart or self.given
        return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 2]}.."

    @property
    def shown(self) -> str:
        """For errors: which side, and what it is."""
        return f"{self.label} {self.short}"

    def started_on(self, port: int, name: str) -> str:
        """The command on a port; `name` is what a container is called."""
        words = self.command.replace(PORT, str(port))
        return words.replace(_NAME, name) if self.kind == "container" else words

    def in_folder(self, folder: Path) -> Side:
        """The same side, checked out."""
        return replace(self, folder=folder)


_LONGEST: Final = 48
_NAME: Final = "{name}"


@dataclass(frozen=True, slots=True)
class SideOptions:
    """How sides become servers."""

    serve: str | None = None
    """The command that starts a commit, or the arguments of an image."""
    build: str | None = None
    repository: Path = Path()
    container: str | None = None
    """docker or podman: both sides are images."""
    container_port: int = CONTAINER_PORT
    container_options: str = ""


def read_sides(base: str, head: str, options: SideOptions) -> tuple[Side, Side, Repository | None]:
    """Both sides, checked; the repository where they are commits."""
    if options.container is not None:
        sides = (_container("base", base, options), _container("head", head, options))
        repository = None
    elif PORT in base and PORT in head:
        own = _apart(base, head)
        sides = (
            replace(_command("base", base, options), apart=own[0]),
            replace(_command("head", head, options), apart=own[1]),
        )
        repository = None
    elif PORT in base or PORT in head:
        other = head if PORT in base else base
        raise InputError(
            f"BASE and HEAD: expected two commands or two commits, got a command and {other!r}",
            f"a command has {PORT} where the port goes",
        )
    else:
        repository = Repository.open(options.repository)
        sides = (
            commit_side("base", base, repository, options),
            commit_side("head", head, repository, options),
        )
        repository.require_measured([side.commit for side in sides])
    first, second = sides
    if (first.commit, first.image, first.command) == (second.commit, second.image, second.command):
        what = {"commit": f"commit {first.commit[:12]}", "container": "image", "command": "command"}
        raise InputError(
            f"BASE and HEAD: expected two that differ, got the same {what[first.kind]} twice",
            "the noise of equal sides is measured in every gate (A/A)",
        )
    return first, second, repository


def commit_side(label: str, ref: str, repository: Repository, options: SideOptions) -> Side:
    """A commit, and the command that serves it."""
    commit = repository.commit(ref)
    if options.serve is None:
        raise InputError(
            f"{ref}: expected --serve COMMAND that starts a commit's server, got none",
            f"--serve 'python -m server --port {PORT}'; two commands are compared by quoting them, "
            f"with {PORT} in each",
        )
    _check_command("--serve", options.serve)
    return Side(label, ref, "commit", options.serve, commit, subject=repository.subject(commit))


def _command(label: str, text: str, options: SideOptions) -> Side:
    for name, value in (("--serve", options.serve), ("--build", options.build)):
        if value is not None:
            raise InputError(f"{name}: expected none where BASE and HEAD are commands, got it")
    _check_command(label.upper(), text)
    return Side(label, text, "command", text)


def _apart(first: str, second: str) -> tuple[str, str]:
    """The words of two commands from the first to the last that differ, with the option before.

    >>> _apart("serve m --port {port} --threads 2", "serve m --port {port} --threads 4")
    ('--threads 2', '--threads 4')
    >>> _apart("serve m --port {port}", "serve m --port {port} --fast")
    ('serve m --port {port}', '--fast')
    """
    words, other = first.split(), second.split()
    shortest = min(len(words), len(other))
    same = itertools.takewhile(lambda at: words[at] == other[at], range(shortest))
    start = sum(1 for _ in same)
    same = itertools.takewhile(lambda at: words[-1 - at] == other[-1 - at], range(shortest - start))
    end = sum(1 for _ in same)
    if start and words[start - 1].startswith("-"):
        start -= 1
    own = (words[start : len(words) - end], other[start : len(other) - end])
    return " ".join(own[0]) or first, " ".join(own[1]) or second


def _check_command(what: str, text: str) -> None:
    if PORT not in text:
        raise InputError(
            f"{what}: expected {PORT} where the port goes, got: {text}",
            f"for example: assay serve MODEL --port {PORT}",
        )
    try:
        CommandTemplate.parse(f"{text} {{settings}}")
    except InputError as error:
        raise InputError(error.message.replace("restart command", what), error.hint) from None


def _container(label: str, image: str, options: SideOptions) -> Side:
    runtime = options.container or ""
    if runtime not in RUNTIMES:
        raise InputError(
            f"--container: expected {' or '.join(RUNTIMES)}, got {runtime!r}",
            "BASE and HEAD are images then",
        )
    if options.build is not None:
        raise InputError("--build: expected none where BASE and HEAD are images, got it")
    published = f"127.0.0.1:{PORT}:{options.container_port}"
    try:
        words = [runtime, "run", "--rm", "--name", _NAME, "-p", published]
        words += [*shlex.split(options.container_options), image, *shlex.split(options.serve or "")]
    except ValueError as error:
        raise InputError(f"--serve: expected balanced quotes, got: {error}") from None
    # Joined without quotes around the placeholders, which are replaced later.
    command = shlex.join(words).replace(f"'{published}'", published).replace(f"'{_NAME}'", _NAME)
    return Side(label, image, "container", command, image=image, runtime=runtime)
