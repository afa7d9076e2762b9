"""The kept settings as a launch command, a compose override and a Kubernetes patch, and back again."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

NAME: Final = "server"
"""Stands for the service, deployment and container, which only their owner can name."""
_VARIABLE: Final = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*$")
_SHELL: Final = re.compile(r"[|&;<>()$`*?~#\n]")


@dataclass(frozen=True, slots=True)
class Patch:
    """One way of applying the kept settings, and its inverse."""

    title: str
    language: str
    apply: str
    apply_text: str
    """How to use it, in one line."""
    inverse: str
    inverse_text: str


@dataclass(frozen=True, slots=True)
class Launch:
    """A launch command in parts."""

    environment: Mapping[str, str]
    program: tuple[str, ...]
    arguments: tuple[str, ...]


def parse(command: str) -> Launch | None:
    """The parts of a command; one that needs a shell is given to one. None where there is none.

    >>> parse("OMP_NUM_THREADS=2 vllm serve model --max-num-seqs 8")
    Launch(environment={'OMP_NUM_THREADS': '2'}, program=('vllm',), \
arguments=('serve', 'model', '--max-num-seqs', '8'))
    """
    command = command.strip()
    if not command:
        return None
    try:
        words = shlex.split(command)
    except ValueError:
        return Launch({}, ("sh",), ("-c", command))
    environment: dict[str, str] = {}
    while words and "=" in words[0] and _VARIABLE.match(words[0].partition("=")[0]):
        name, _, value = words.pop(0).partition("=")
        environment[name] = value
    if not words:
        return None
    # Quoted characters are data; only those outside quotes are a shell's.
    if _SHELL.search(_unquoted(command)):
        return Launch({}, ("sh",), ("-c", command))
    return Launch(environment, (words[0],), tuple(words[1:]))


_QUOTED: Final = re.compile(r"'[^']*'|\"(?:[^\"\\]|\\.)*\"")


def _unquoted(command: str) -> str:
    return _QUOTED.sub("", command)


def patches(start: str, kept: str) -> list[Patch]:
    """Every form of going from the start's command to the kept one, each with its inverse."""
    before, after = parse(start), parse(kept)
    if before is None or after is None:
        return []
    return [
        Patch(
            "Launch command", "sh", kept.strip(), "start the engine with this command",
            start.strip(), "start it as it was found",
        ),
        Patch(
            "Docker Compose", "yaml", compose(after, before),
            "save as compose.assay.yaml; docker compose -f compose.yaml -f compose.assay.yaml up -d",
            compose(before, after), "the same with this file, or without any override",
        ),
        Patch(
            "Kubernetes", "yaml", kubernetes(after, before),
            f"save as patch.yaml; kubectl patch deployment {NAME} --patch-file patch.yaml",
            kubernetes(before, after),
            f"the same with this file, or kubectl rollout undo deployment {NAME}",
        ),
    ]  # fmt: skip


def _list(key: str, items: Iterable[str]) -> list[str]:
    """A list of YAML, one item a line: a change of one argument is a change of one line."""
    margin = " " * (len(key) - len(key.lstrip()) + 2)
    lines = [f"{margin}- {item}" for item in items]
    return [key, *lines] if lines else [f"{key} []"]


def compose(launch: Launch, other: Launch) -> str:
    """An override file of Docker Compose; `other` is the command that it replaces."""

    def word(text: str) -> str:
        # Compose replaces $NAME in values; $$ is a dollar.
        return json.dumps(text.replace("$", "$$"))

    lines = [
        "services:",
        f"  {NAME}:",
        f"    entrypoint: [{', '.join(map(word, launch.program))}]",
        *_list("    command:", map(word, launch.arguments)),
    ]
    gone = [name for name in other.environment if name not in launch.environment]
    if launch.environment or gone:
        lines.append("    environment:")
        lines += [f"      {name}: {word(value)}" for name, value in launch.environment.items()]
        lines += [f"      {name}: !reset null" for name in gone]
    return "\n".join(lines) + "\n"


def kubernetes(launch: Launch, other: Launch) -> str:
    """A strategic merge patch of a Deployment; `other` is the command that it replaces."""

    def word(text: str) -> str:
        # Kubernetes replaces $(NAME) in commands; $$(NAME) stays.
        return json.dumps(text.replace("$(", "$$("))

    lines = [
        "spec:",
        "  template:",
        "    spec:",
        "      containers:",
        f"        - name: {NAME}",
        f"          command: [{', '.join(map(word, launch.program))}]",
        *_list("          args:", map(word, launch.arguments)),
    ]
    gone = [name for name in other.environment if name not in launch.environment]
    if launch.environment or gone:
        lines.append("          env:")
        for name, value in launch.environment.items():
            lines += [f"            - name: {name}", f"              value: {word(value)}"]
        for name in gone:
            lines += [f"            - name: {name}", "              $patch: delete"]
    return "\n".join(lines) + "\n"
