"""The output items of /v1/responses, and the events that build them up."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from assay.engine.server.chat_output import ChatOutput, Delta

Item = dict[str, Any]
Event = dict[str, Any]

_PARTS: Final = {"message": "output_text", "reasoning": "reasoning_text"}
"""The content of items that have text."""


class ResponseItems:
    """Reasoning, text and calls of one output as items, with an event for each change."""

    def __init__(self, output: ChatOutput, new_id: Callable[[str], str]) -> None:
        """Start without items."""
        self._output = output
        self._new_id = new_id
        self.items: list[Item] = []
        self._is_open = False

    def push(self, text: str) -> Iterator[Event]:
        """The events of more text."""
        for delta in self._output.push(text):
            yield from self._apply(delta)

    def finish(self) -> Iterator[Event]:
        """The events at the end of the output."""
        for delta in self._output.finish():
            yield from self._apply(delta)
        yield from self._close()

    def _apply(self, delta: Delta) -> Iterator[Event]:
        if text := delta.get("reasoning_content"):
            yield from self._add_text("reasoning", text)
        if text := delta.get("content"):
            yield from self._add_text("message", text)
        for call in delta.get("tool_calls", ()):
            if "id" in call:
                yield from self._close()
                yield from self._open(
                    {
                        "type": "function_call",
                        "id": self._new_id("fc"),
                        "call_id": call["id"],
                        "name": call["function"]["name"],
                        "arguments": "",
                        "status": "in_progress",
                    }
                )
            if arguments := call["function"]["arguments"]:
                self.items[-1]["arguments"] += arguments
                yield self._event("function_call_arguments.delta", delta=arguments)

    def _add_text(self, kind: str, text: str) -> Iterator[Event]:
        part_type = _PARTS[kind]
        if not self._is_open or self.items[-1]["type"] != kind:
            yield from self._close()
            part: Item = {"type": part_type, "text": ""}
            item: Item = {"type": kind, "id": self._new_id("msg" if kind == "message" else "rs")}
            if kind == "message":
                item |= {"role": "assistant"}
                part["annotations"] = []
            else:
                item |= {"summary": []}
            yield from self._open({**item, "status": "in_progress", "content": []})
            self.items[-1]["content"].append(part)
            yield self._event("content_part.added", content_index=0, part=dict(part))
        self.items[-1]["content"][0]["text"] += text
        more: Event = {"logprobs": []} if kind == "message" else {}
        yield self._event(f"{part_type}.delta", content_index=0, delta=text, **more)

    def _open(self, item: Item) -> Iterator[Event]:
        self.items.append(item)
        self._is_open = True
        shown = {**item, "content": []} if "content" in item else dict(item)
        yield {
            "type": "response.output_item.added",
            "output_index": len(self.items) - 1,
            "item": shown,
        }

    def _close(self) -> Iterator[Event]:
        if not self._is_open:
            return
        self._is_open = False
        item = self.items[-1]
        item["status"] = "completed"
        if item["type"] == "function_call":
            yield self._event(
                "function_call_arguments.done", arguments=item["arguments"], name=item["name"]
            )
        else:
            part = item["content"][0]
            more: Event = {"logprobs": []} if item["type"] == "message" else {}
            yield self._event(f"{part['type']}.done", content_index=0, text=part["text"], **more)
            yield self._event("content_part.done", content_index=0, part=part)
        yield {
            "type": "response.output_item.done",
            "output_index": len(self.items) - 1,
            "item": item,
        }

    def _event(self, kind: str, **fields: Any) -> Event:
        index = len(self.items) - 1
        return {
            "type": f"response.{kind}",
            "item_id": self.items[-1]["id"],
            "output_index": index,
            **fields,
        }
