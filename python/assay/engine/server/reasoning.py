"""The split of an output into reasoning and answer, by the markers of the model's chat template."""

from __future__ import annotations

from typing import Final, NamedTuple

from assay.engine.requests.harmony import FINAL, is_harmony
from assay.engine.server.tools.events import held_back
from assay.errors import unknown_name


class ReasoningFormat(NamedTuple):
    """The markers around the reasoning."""

    name: str
    start: str
    end: str


_THINK: Final = ("<think>", "</think>")
FORMATS: Final[dict[str, ReasoningFormat]] = {
    "qwen3": ReasoningFormat("qwen3", *_THINK),
    "deepseek_r1": ReasoningFormat("deepseek_r1", *_THINK),
    "mistral": ReasoningFormat("mistral", "[THINK]", "[/THINK]"),
    "openai_gptoss": ReasoningFormat("openai_gptoss", "", FINAL),
}
"""Formats by the names of vLLM's reasoning parsers; the last has no markers but Harmony's channels."""

HARMONY: Final = FORMATS["openai_gptoss"]


def format_named(name: str) -> ReasoningFormat:
    """A format by its name."""
    if name not in FORMATS:
        raise unknown_name("reasoning parser", name, FORMATS)
    return FORMATS[name]


def recognized(template: str) -> ReasoningFormat | None:
    """The format whose end marker is in a chat template; None if there is none."""
    if is_harmony(template):
        return HARMONY
    return next((format_ for format_ in FORMATS.values() if format_.end in template), None)


class ReasoningSplit:
    """Splits one output as it arrives; white space around the markers belongs to neither part.

    >>> split = ReasoningSplit(FORMATS["qwen3"], "<assistant>")
    >>> split.push("<think>one"), split.push(" two</think>four")
    (('one', ''), (' two', 'four'))
    """

    def __init__(self, format_: ReasoningFormat, prompt: str) -> None:
        """`prompt` is the rendered conversation: where it ends with the start marker, reasoning runs."""
        self._format = format_
        self._text = ""
        self._is_reasoning = prompt.rstrip().endswith(format_.start)
        self._at_start = True
        """Whether only white space has come so far, in the part that is being read."""
        self._is_done = False

    @property
    def expects_end(self) -> bool:
        """Whether reasoning is known to run, so that its end marker will come."""
        return self._is_reasoning

    def push(self, text: str) -> tuple[str, str]:
        """The reasoning and the answer that this text completes."""
        if self._is_done:
            return "", self._answer(text)
        self._text += text
        if not self._is_reasoning and not self._begins():
            return "", self._answer("")
        if not self._is_reasoning:
            return "", ""
        before, found, after = self._text.partition(self._format.end)
        if found:
            self._text, self._is_done = "", True
            reasoning = self._shown(before).rstrip() if self._at_start else before.rstrip()
            self._at_start = True
            return reasoning, self._answer(after)
        # White space at the end is held back too: the end marker may follow it.
        keep = held_back(self._text, (self._format.end,))
        kept = self._text[: len(self._text) - keep].rstrip()
        self._text = self._text[len(kept) :]
        return self._shown(kept), ""

    def finish(self) -> tuple[str, str]:
        """The text that was held back."""
        text, self._text = self._text, ""
        return (text.rstrip(), "") if self._is_reasoning else ("", text)

    def _begins(self) -> bool:
        """Whether the output may still begin with the start marker; if not, all of it is answer."""
        text, start = self._text.lstrip(), self._format.start
        if text.startswith(start):
            self._is_reasoning = True
            self._text = text[len(start) :]
            return True
        if start.startswith(text):
            return True
        self._is_done = True
        self._at_start = False
        return False

    def _answer(self, text: str) -> str:
        text, self._text = self._text + text, ""
        return self._shown(text)

    def _shown(self, text: str) -> str:
        """The text, without white space where a part begins."""
        if self._at_start:
            text = text.lstrip()
            self._at_start = not text
        return text
