"""/v1/chat/completions: a conversation rendered with the model's chat template and completed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from assay.engine.requests.harmony import call_header
from assay.engine.server.chat_formatter import ChatFormatter
from assay.engine.server.chat_output import ChatOutput
from assay.engine.server.chosen_outputs import check, respond_chosen
from assay.engine.server.errors import ApiError
from assay.engine.server.prompt_scores import prompt_scores
from assay.engine.server.reasoning import HARMONY, ReasoningFormat, ReasoningSplit
from assay.engine.server.reasoning_effort import effort_variables
from assay.engine.server.request_schemas import ChatRequest, NamedTool
from assay.engine.server.responses import respond
from assay.engine.server.served_model import ServedModel
from assay.engine.server.service import GenerationRequest, Service, new_response_id, run_off_loop
from assay.engine.server.structured_outputs import structured_output_of
from assay.engine.server.tool_choice import ToolPlan, tool_plan
from assay.engine.server.tools.harmony_calls import HarmonyCalls

_RESERVED: Final = ("messages", "tools", "add_generation_prompt")
"""Variables of chat templates that have fields of their own."""


class PreparedChat(NamedTuple):
    """A conversation that is ready for the engine, and how its outputs are parsed."""

    generation: GenerationRequest
    model: ServedModel
    plan: ToolPlan
    prompt: str
    """The rendered conversation."""

    def new_output(self) -> ChatOutput:
        """The parser of one choice."""
        format_, new_parser = self.model.reasoning, self.plan.new_parser
        if format_ is HARMONY and not self.plan.constraint:
            # Reasoning, text and calls are one format, whether there are tools or not.
            format_, new_parser = None, partial(HarmonyCalls, self.prompt)
        return ChatOutput(
            None if format_ in (None, HARMONY) else ReasoningSplit(format_, self.prompt),
            None if new_parser is None else new_parser(),
            lambda: new_response_id("call"),
            max_calls=self.plan.max_calls,
        )


async def chat(service: Service, body: ChatRequest, request: Request) -> Response:
    """Respond to a chat completion request."""
    is_chosen = check(body)
    prepared = await prepare_chat(service, body)
    formatter = ChatFormatter(
        service,
        prepared.new_output,
        has_logprobs=bool(body.logprobs),
        shows_reasoning=body.include_reasoning is not False,
        calls_finish=prepared.plan.calls_finish,
    )
    prompt = prepared.generation.prompts[0]
    scores = await prompt_scores(service, body, [prompt])
    formatter.scores = None if scores is None else scores[0]
    answer = respond_chosen if is_chosen else respond
    return await answer(service, prepared.generation, formatter, body, request)


async def prepare_chat(service: Service, body: ChatRequest) -> PreparedChat:
    """Check a conversation, render it and compile what its answer must look like."""
    _check(body)
    plan = tool_plan(body, service.model)
    messages = [message.for_template() for message in body.messages]
    if service.model.reasoning is HARMONY:
        messages = [_with_thinking(message) for message in messages]
    characters = sum(len(message["content"]) for message in messages)
    variables = {
        "tools": plan.tools,
        **effort_variables(service.model, body.reasoning_effort),
        **(body.chat_template_kwargs or {}),
    }
    rendered = await run_off_loop(characters, service.render, messages, variables)
    format_ = service.model.reasoning
    if format_ is HARMONY and isinstance(body.tool_choice, NamedTool):
        rendered += call_header(body.tool_choice.function.name)
    prompt = await run_off_loop(len(rendered), service.model.encode_rendered, rendered)
    constraint = structured_output_of(body) or plan.constraint
    if constraint and format_ and _expects_answer(format_, rendered, plan):
        constraint = replace(constraint, after=format_.end)
    await service.compile_grammar(constraint)
    generation = service.generation_request(
        "chat",
        body,
        [prompt],
        constraint=constraint,
        show_special=plan.shows_special or _marks_reasoning_by_special_tokens(service.model),
        max_tokens=body.max_completion_tokens or body.max_tokens,
        logprobs=(body.top_logprobs or 0) if body.logprobs else None,
        param="messages",
    )
    return PreparedChat(generation, service.model, plan, rendered)


def _check(body: ChatRequest) -> None:
    """Refuse fields that contradict each other."""
    if body.top_logprobs and not body.logprobs:
        raise ApiError("top_logprobs needs logprobs to be true", param="top_logprobs")
    if body.max_tokens and body.max_completion_tokens:
        raise ApiError(
            "max_tokens and max_completion_tokens mean the same: give one of them",
            param="max_completion_tokens",
        )
    check_variables(body.chat_template_kwargs)


def check_variables(variables: Mapping[str, Any] | None) -> None:
    """Refuse variables of a chat template that have fields of their own."""
    for name in variables or ():
        if name in _RESERVED:
            raise ApiError(f"{name} has a field of its own", param=f"chat_template_kwargs.{name}")


def _expects_answer(format_: ReasoningFormat, rendered: str, plan: ToolPlan) -> bool:
    """Whether a constraint holds for what comes after reasoning, and not from the start on."""
    if format_ is HARMONY:
        return plan.constraint is None
    return ReasoningSplit(format_, rendered).expects_end


def _with_thinking(message: dict[str, Any]) -> dict[str, Any]:
    """The message with its reasoning under the name that gpt-oss's template has for it.

    That of a message that calls tools has text or reasoning, never both.
    """
    thought = message.get("reasoning_content")
    if thought is None or (message.get("tool_calls") and message["content"]):
        return message
    return {**message, "thinking": thought}


def _marks_reasoning_by_special_tokens(model: ServedModel) -> bool:
    format_ = model.reasoning
    if format_ is HARMONY:
        return True
    return format_ is not None and not model.special_tokens.isdisjoint(format_[1:])
