"""What a request's tools mean for its prompt, its grammar and the parsing of its outputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from assay.engine.requests.structured_output import StructuredOutput
from assay.engine.server.errors import ApiError
from assay.engine.server.request_schemas import ChatRequest, NamedTool
from assay.engine.server.served_model import ServedModel
from assay.engine.server.structured_outputs import structured_output_of
from assay.engine.server.tools.events import ToolParser
from assay.engine.server.tools.forced import OneCall, schemas_of, some_calls
from assay.engine.server.tools.json_calls import JsonCalls


class ToolPlan(NamedTuple):
    """How one request uses tools."""

    tools: list[dict[str, Any]] | None = None
    """The tools that the chat template renders."""
    constraint: StructuredOutput | None = None
    """What forces a call, where the request does."""
    new_parser: Callable[[], ToolParser] | None = None
    """Makes the parser of one output; None where outputs have no calls."""
    shows_special: bool = False
    """Whether the markers of calls are special tokens."""
    max_calls: int | None = None
    calls_finish: bool = True
    """Whether a call is the finish reason; a call of a named tool is not, as OpenAI has it."""


def tool_plan(body: ChatRequest, model: ServedModel) -> ToolPlan:
    """The plan of a request; raises where its fields contradict each other or the model."""
    choice = body.tool_choice
    if not body.tools:
        if choice not in (None, "none"):
            raise ApiError("tool_choice needs tools", param="tool_choice")
        return ToolPlan()
    tools = [tool.model_dump(exclude_none=True) for tool in body.tools]
    names = [tool.function.name for tool in body.tools]
    if repeated := next((name for name in names if names.count(name) > 1), None):
        raise ApiError(f'tools: expected each name once, got "{repeated}" twice', param="tools")
    if choice == "none":
        return ToolPlan(tools if model.renders_tools else None)
    if not model.renders_tools:
        raise ApiError(
            f'the chat template of "{model.name}" does not show tools to the model: --chat-template '
            "of the server gives it another one",
            param="tools",
            code="no_tool_template",
        )
    max_calls = 1 if body.parallel_tool_calls is False else None
    if choice is None or choice == "auto":
        return _auto(tools, body, model, max_calls)
    if structured_output_of(body) is not None:
        raise ApiError("a forced tool call has a format already", param="response_format")
    schemas = schemas_of(tools)
    if isinstance(choice, NamedTool):
        name = choice.function.name
        if name not in schemas:
            raise ApiError(f'the tool "{name}" is not among the tools', param="tool_choice")
        constraint = StructuredOutput.json_schema(schemas[name])
        return ToolPlan(tools, constraint, lambda: OneCall(name), calls_finish=False)
    constraint = some_calls(schemas, only_one=max_calls == 1)
    return ToolPlan(tools, constraint, lambda: JsonCalls("["), max_calls=max_calls)


def _auto(
    tools: list[dict[str, Any]], body: ChatRequest, model: ServedModel, max_calls: int | None
) -> ToolPlan:
    """The model decides whether it calls; calls have the format of its family."""
    family = model.tool_family
    if family is None:
        raise ApiError(
            f'the format of tool calls of "{model.name}" is not known: '
            "start the server with --tool-call-parser, or force a call with tool_choice",
            param="tools",
            code="no_tool_parser",
        )
    if structured_output_of(body) is not None:
        raise ApiError(
            "an output with a format cannot call tools: set tool_choice to none or required",
            param="response_format",
        )
    schemas = schemas_of(tools)
    special = family.special and not model.special_tokens.isdisjoint(family.markers)
    return ToolPlan(
        tools, new_parser=lambda: family.make(schemas), shows_special=special, max_calls=max_calls
    )
