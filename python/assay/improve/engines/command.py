"""The command that starts a server: a template with {settings}, and variables before it."""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from assay.errors import InputError

SETTINGS = "{settings}"
_NUMBER: Final = re.compile(r"[0-9]{1,20}")


@dataclass(frozen=True, slots=True)
class CommandTemplate:
    """A command without its settings.

    >>> template = CommandTemplate.parse("OMP_NUM_THREADS=2 llama-server -m m.gguf {settings}")
    >>> template.arguments(["--threads", "2"])
    ['llama-server', '-m', 'm.gguf', '--threads', '2']
    """

    words: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    text: str = ""

    @classmethod
    def parse(cls, text: str) -> CommandTemplate:
        """Take a command apart as a shell would; nothing of it is run by a shell."""
        try:
            words = shlex.split(text)
        except ValueError as error:
            raise InputError(f"restart command: expected balanced quotes, got: {error}") from None
        environment = {}
        while words and _is_assignment(words[0]):
            name, _, value = words.pop(0).partition("=")
            environment[name] = value
        if not words:
            raise InputError("restart command: expected a program, got none")
        if not any(SETTINGS in word for word in words):
            raise InputError(
                f"restart command: expected {SETTINGS} where the settings go, got: {text}",
                "for example: llama-server -m model.gguf --port 8080 {settings}",
            )
        return cls(tuple(words), environment, text)

    def arguments(self, settings: Sequence[str]) -> list[str]:
        """The command with settings; inside a longer word, as after sh -c, they are quoted."""
        words: list[str] = []
        for word in self.words:
            if word == SETTINGS:
                words += settings
            else:
                words.append(word.replace(SETTINGS, shlex.join(settings)))
        return words

    def port(self) -> int | None:
        """The port that the command gives by --port; None where it gives none.

        >>> CommandTemplate.parse("serve m --port 8000 {settings}").port()
        8000
        """
        words = " ".join(self.words).replace("--port=", "--port ").split()
        given = [after for word, after in itertools.pairwise(words) if word == "--port"]
        return int(given[-1]) if given and _NUMBER.fullmatch(given[-1]) else None

    def at_port(self, port: int, other: int, more: Sequence[str] = ()) -> CommandTemplate:
        """The command with another port in the place of `port`, and more arguments.

        >>> template = CommandTemplate.parse("serve m --port 8000 {settings}")
        >>> template.at_port(8000, 8001, ["--sleepy"]).text
        'serve m --port 8001 --sleepy {settings}'
        """

        def moved(number: re.Match[str]) -> str:
            return str(other) if int(number[0]) == port else number[0]

        words = [_NUMBER.sub(moved, word) for word in self.words]
        if words == list(self.words):
            raise InputError(
                f"restart command: expected its port {port} in it, got: {self.text}",
                "servers of other settings need other ports",
            )
        place = next(at for at, word in enumerate(words) if SETTINGS in word)
        words[place:place] = more
        given = [f"{name}={shlex.quote(value)}" for name, value in self.environment.items()]
        line = " ".join([*given, *map(_quoted, words)])
        return CommandTemplate(tuple(words), self.environment, line)

    def line(self, settings: Sequence[str], variables: Mapping[str, str]) -> str:
        """The command as one would type it."""
        given = [f"{name}={shlex.quote(value)}" for name, value in variables.items()]
        return " ".join([*given, shlex.join(self.arguments(settings))])


def _quoted(word: str) -> str:
    return word if word == SETTINGS else shlex.quote(word)


def _is_assignment(word: str) -> bool:
    name, equals, _ = word.partition("=")
    return bool(equals) and name.isidentifier()
