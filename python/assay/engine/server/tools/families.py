"""The tool-call formats of model families, by the names of vLLM's parsers, and how one is recognized."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from assay.engine.requests.harmony import CHANNEL
from assay.engine.server.tools.events import ToolParser
from assay.engine.server.tools.harmony_calls import HarmonyCalls
from assay.engine.server.tools.json_calls import JsonCalls
from assay.engine.server.tools.mistral_calls import MARKER, MistralCalls
from assay.engine.server.tools.named_calls import NamedCalls
from assay.engine.server.tools.pythonic_calls import PythonicCalls
from assay.engine.server.tools.xml_calls import XmlCalls
from assay.errors import unknown_name

Schemas = Mapping[str, Mapping[str, Any]]
"""The parameters of tools, by the tools' names."""

_DEEPSEEK: Final = {
    name: f"<\uff5ctool\u2581{name}\uff5c>"
    for name in ("calls\u2581begin", "calls\u2581end", "call\u2581begin", "call\u2581end", "sep")
}
_FENCE: Final = re.compile(r"```(?:json)?")


class Family(NamedTuple):
    """One format."""

    name: str
    make: Callable[[Schemas], ToolParser]
    markers: tuple[str, ...]
    """Texts in a chat template that tell the format; any of them."""
    special: bool = False
    """Whether its markers may be special tokens, which are otherwise left out of the text."""


def _deepseek_name(header: str) -> str:
    before, _, after = header.partition(_DEEPSEEK["sep"])
    # V3 writes the type, the separator, the name and a code fence; V3.1 the name and the separator.
    name = _FENCE.sub("", after).strip()
    return name or before.strip()


HARMONY: Final = Family("openai", lambda _: HarmonyCalls(), (CHANNEL,), True)
"""gpt-oss: reasoning, text and calls are messages of one format."""

FAMILIES: Final[dict[str, Family]] = {
    family.name: family
    for family in (
        HARMONY,
        Family("qwen3_coder", XmlCalls, ("<function=",)),
        Family(
            "hermes", lambda _: JsonCalls("<tool_call>", "</tool_call>"), ("<tool_call>",), True
        ),
        Family("mistral", lambda _: MistralCalls(), (MARKER,), True),
        Family(
            "deepseek_v3",
            lambda _: NamedCalls(
                _DEEPSEEK["call\u2581begin"],
                _deepseek_name,
                (
                    _DEEPSEEK["calls\u2581begin"],
                    _DEEPSEEK["calls\u2581end"],
                    _DEEPSEEK["call\u2581end"],
                ),
            ),
            (_DEEPSEEK["call\u2581begin"], _DEEPSEEK["calls\u2581begin"]),
            True,
        ),
        Family("granite", lambda _: JsonCalls("<|tool_call|>"), ("<|tool_call|>",), True),
        Family("phi4_mini_json", lambda _: JsonCalls("functools"), ("functools[",)),
        Family("pythonic", lambda _: PythonicCalls("<|python_start|>"), ("[func_name1(",), True),
        Family(
            "llama3_json",
            lambda _: JsonCalls(None, prefix="<|python_tag|>"),
            ("<|python_tag|>", '{"name": function name, "parameters"'),
            True,
        ),
    )
}
"""Formats by name, in the order in which a template is searched for them."""


def family_named(name: str) -> Family:
    """A format by its name."""
    if name not in FAMILIES:
        raise unknown_name("tool-call parser", name, FAMILIES)
    return FAMILIES[name]


def recognized(template: str) -> Family | None:
    """The format that a chat template asks the model for; None if it is not known."""
    for family in FAMILIES.values():
        if any(marker in template for marker in family.markers):
            return family
    return None
