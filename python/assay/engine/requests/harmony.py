"""Harmony, the format in which gpt-oss writes: messages on channels, between special tokens.

An output continues `<|start|>assistant`. Each message has a header (`<|channel|>analysis`, or
`<|channel|>commentary to=functions.NAME <|constrain|>json`), `<|message|>`, its text and an end:
`<|end|>`, `<|call|>` after a tool call, `<|return|>` after the last one. The channel `analysis` is
reasoning; `final`, and `commentary` to nobody, is for the user.
"""

from __future__ import annotations

import re
from typing import Final, Literal, NamedTuple

Kind = Literal["thought", "content", "call", "arguments"]

START: Final = "<|start|>"
CHANNEL: Final = "<|channel|>"
MESSAGE: Final = "<|message|>"
ENDS: Final = ("<|end|>", "<|call|>", "<|return|>", START)
FINAL: Final = f"{CHANNEL}final{MESSAGE}"
"""What comes before the answer."""

_RECIPIENT: Final = re.compile(r"\bto=([^\s<]{1,256})")
_FUNCTIONS: Final = "functions."


class Part(NamedTuple):
    """A piece of an output: reasoning, text for the user, a call's name, or its arguments."""

    kind: Kind
    text: str


def is_harmony(template: str) -> bool:
    """Whether a chat template writes in this format."""
    return all(marker in template for marker in (START, CHANNEL, MESSAGE))


def call_header(name: str) -> str:
    """What comes before the arguments of a call, after `<|start|>assistant`."""
    return f"{CHANNEL}commentary to={_FUNCTIONS}{name} <|constrain|>json{MESSAGE}"


class HarmonyParser:
    """Parses one output as it arrives.

    >>> parser = HarmonyParser()
    >>> parser.push("<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>fi")
    [Part(kind='thought', text='Hm.')]
    >>> parser.push("nal<|message|>Hello!")
    [Part(kind='content', text='Hello!')]
    """

    def __init__(self, prompt: str = "") -> None:
        """Continue this prompt, which ends within a message or its header."""
        self._text = ""
        self._kind: Kind | None = None
        """The kind of text that is being read; None in a header."""
        self._has_message = False
        begun = prompt.rpartition(START)[2] if START in prompt else ""
        if CHANNEL in begun:
            self.push(begun)

    def push(self, text: str) -> list[Part]:
        """The parts that this text completes."""
        self._text += text
        parts: list[Part] = []
        while self._read_header(parts) if self._kind is None else self._read_text(parts):
            pass
        return parts

    def finish(self) -> list[Part]:
        """What was held back; an output that is not in this format is content as a whole."""
        text, self._text = self._text, ""
        if self._kind is not None:
            return [Part(self._kind, text)] if text else []
        is_other = bool(text.strip()) and not self._has_message and CHANNEL not in text
        return [Part("content", text)] if is_other else []

    def _read_header(self, parts: list[Part]) -> bool:
        header, found, rest = self._text.partition(MESSAGE)
        if not found:
            return False
        self._text, self._has_message = rest, True
        channel = header.rpartition(CHANNEL)[2].split("<|")[0].split()
        recipient = _RECIPIENT.search(header)
        if recipient is not None and recipient[1].startswith(_FUNCTIONS):
            self._kind = "arguments"
            parts.append(Part("call", recipient[1].removeprefix(_FUNCTIONS)))
        elif recipient is not None or channel[:1] == ["analysis"]:
            # Tools of the model's own training, such as a browser, are not here.
            self._kind = "thought"
        else:
            self._kind = "content"
        return True

    def _read_text(self, parts: list[Part]) -> bool:
        assert self._kind is not None
        places = {end: self._text.find(end) for end in ENDS}
        first = min((at for at in places.values() if at >= 0), default=-1)
        cut = len(self._text) - _held_back(self._text) if first < 0 else first
        if shown := self._text[:cut]:
            parts.append(Part(self._kind, shown))
        self._text = self._text[cut:]
        if first < 0:
            return False
        self._kind = None
        return True


def _held_back(text: str) -> int:
    """Characters at the end of a text that may be the beginning of a marker."""
    for length in range(min(max(map(len, ENDS)) - 1, len(text)), 0, -1):
        if any(end.startswith(text[-length:]) for end in ENDS):
            return length
    return 0
