"""The command that starts a server: a template with {settings}, and variables before it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from assay.errors import InputError

SETTINGS = "{settings}"


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

    def line(self, settings: Sequence[str], variables: Mapping[str, str]) -> str:
        """The command as one would type it."""
        given = [f"{name}={shlex.quote(value)}" for name, value in variables.items()]
        return " ".join([*given, shlex.join(self.arguments(settings))])


def _is_assignment(word: str) -> bool:
    name, equals, _ = word.partition("=")
    return bool(equals) and name.isidentifier()
