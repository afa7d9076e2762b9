"""The output of one choice of a chat: reasoning, text for the user and tool calls, as it arrives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from assay.engine.server.reasoning import ReasoningSplit
from assay.engine.server.tools.events import (
    CallArguments,
    CallStart,
    Content,
    Event,
    Thought,
    ToolParser,
)

Delta = dict[str, Any]
"""A change of the assistant's message, as OpenAI's API writes it."""


class ChatOutput:
    """Parses the text of one choice into deltas."""

    def __init__(
        self,
        reasoning: ReasoningSplit | None,
        tools: ToolParser | None,
        new_call_id: Callable[[], str],
        *,
        max_calls: int | None = None,
    ) -> None:
        """Without `reasoning` and `tools` all text is content; calls beyond `max_calls` are dropped."""
        self._reasoning = reasoning
        self._tools = tools
        self._new_call_id = new_call_id
        self._max_calls = max_calls
        self._space = ""
        """White space that is content if more content follows it."""
        self.num_calls = 0

    @property
    def is_plain(self) -> bool:
        """Whether all text is content."""
        return self._reasoning is None and self._tools is None

    def push(self, text: str) -> list[Delta]:
        """The deltas that this text completes."""
        if self._reasoning is None:
            return self._answer(text)
        thought, answer = self._reasoning.push(text)
        return [*_thought(thought), *self._answer(answer)]

    def finish(self) -> list[Delta]:
        """The deltas of the text that was held back."""
        deltas: list[Delta] = []
        if self._reasoning is not None:
            thought, answer = self._reasoning.finish()
            deltas = [*_thought(thought), *self._answer(answer)]
        if self._tools is not None:
            deltas += self._deltas(self._tools.finish())
        return deltas

    def _answer(self, text: str) -> list[Delta]:
        if self._tools is None:
            return [{"content": text}] if text else []
        return self._deltas(self._tools.push(text)) if text else []

    def _deltas(self, events: list[Event]) -> list[Delta]:
        deltas = [self._delta(event) for event in events]
        return [delta for delta in deltas if delta]

    def _delta(self, event: Event) -> Delta:
        if isinstance(event, Content):
            text = self._space + event.text
            shown = text.rstrip()
            # The white space before calls and between them is not for the user.
            self._space = text[len(shown) :] if shown or not self.num_calls else ""
            return {"content": shown} if shown else {}
        if isinstance(event, Thought):
            return {"reasoning_content": event.text} if event.text else {}
        self._space = ""
        if isinstance(event, CallStart):
            self.num_calls += 1
        index = self.num_calls - 1
        if self._max_calls is not None and index >= self._max_calls:
            return {}
        if isinstance(event, CallArguments):
            return _call({"index": index, "function": {"arguments": event.text}})
        function = {"name": event.name, "arguments": ""}
        call = {"index": index, "id": self._new_call_id(), "type": "function", "function": function}
        return _call(call)


def message_of(deltas: list[Delta]) -> Delta:
    """The assistant's message that deltas add up to."""
    message: Delta = {}
    calls: list[Delta] = []
    for delta in deltas:
        for name in ("content", "reasoning_content"):
            if name in delta:
                message[name] = message.get(name, "") + delta[name]
        for part in delta.get("tool_calls", ()):
            if "id" in part:
                calls.append({key: part[key] for key in ("id", "type")} | {"function": {}})
            function = calls[part["index"]]["function"]
            for name, text in part["function"].items():
                function[name] = function.get(name, "") + text
    return message | ({"tool_calls": calls} if calls else {})


def _thought(text: str) -> list[Delta]:
    return [{"reasoning_content": text}] if text else []


def _call(part: Delta) -> Delta:
    return {"tool_calls": [part]}
