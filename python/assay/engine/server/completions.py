"""/v1/completions: prompts completed without a chat template."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from assay.engine.core.probing import PromptLogprobs
from assay.engine.server.chosen_outputs import check, respond_chosen
from assay.engine.server.errors import ApiError
from assay.engine.server.event_template import MARKED_INDEX, MARKED_TEXT, EventTemplate
from assay.engine.server.fill_in_middle import fill_in_middle
from assay.engine.server.output_delta import OutputDelta
from assay.engine.server.prompt_scores import PromptScores, prompt_scores
from assay.engine.server.request_schemas import CompletionRequest, Inputs
from assay.engine.server.response_schemas import (
    Completion,
    CompletionChoice,
    CompletionLogprobs,
    ScoredChoice,
    ScoredCompletion,
    Usage,
)
from assay.engine.server.responses import respond
from assay.engine.server.service import Service, new_response_id
from assay.engine.server.structured_outputs import structured_output_of

DEFAULT_MAX_TOKENS = 16
"""OpenAI's default for this endpoint."""


async def complete(service: Service, body: CompletionRequest, request: Request) -> Response:
    """Respond to a completion request."""
    is_chosen = check(body)
    prompts = await service.prompts(_with_suffix(service, body))
    constraint = structured_output_of(body)
    await service.compile_grammar(constraint)
    generation = service.generation_request(
        "text_completion",
        body,
        prompts,
        constraint=constraint,
        max_tokens=body.max_tokens or DEFAULT_MAX_TOKENS,
        logprobs=body.logprobs,
        param="prompt",
    )
    formatter = CompletionFormatter(service, has_logprobs=body.logprobs is not None)
    if body.echo:
        given = [body.prompt] if isinstance(body.prompt, str) else body.prompt
        texts = [one for one in given if isinstance(one, str)]
        texts = texts or [service.model.decode(prompt) for prompt in prompts]
        for index, text in enumerate(texts):
            scored = None
            if body.logprobs is not None:
                scored = await service.score(prompts[index], body.logprobs)
            for choice in range(generation.choices_per_prompt):
                number = index * generation.choices_per_prompt + choice
                formatter.echo(number, Echo(text, prompts[index], scored))
    formatter.scores = await prompt_scores(service, body, prompts)
    answer = respond_chosen if is_chosen else respond
    return await answer(service, generation, formatter, body, request)


def _with_suffix(service: Service, body: CompletionRequest) -> Inputs:
    """The prompt; between a prompt and a suffix, that which asks for the middle."""
    if not body.suffix:
        return body.prompt
    if not isinstance(body.prompt, str) or body.echo:
        what = "no echo" if body.echo else "one text as the prompt"
        raise ApiError(f"suffix: expected {what} beside it", param="suffix")
    return fill_in_middle(service.model, body.prompt, body.suffix)


class Echo(NamedTuple):
    """A prompt that the choices of a response begin with."""

    text: str
    tokens: Sequence[int]
    scored: PromptLogprobs | None
    """How likely its tokens are, where the request asks for it."""


class CompletionFormatter:
    """Formats completions as OpenAI's API does."""

    def __init__(self, service: Service, *, has_logprobs: bool) -> None:
        self._service = service
        self._echoes: dict[int, Echo] = {}
        self._offsets: Counter[int] = Counter()
        self._has_logprobs = has_logprobs
        self._name = new_response_id("cmpl")
        self._created = int(time.time())
        self.scores: list[PromptScores] | None = None
        """The scores of each prompt, where the request asks for them."""

    def echo(self, index: int, echo: Echo) -> None:
        """Begin a choice with its prompt."""
        self._echoes[index] = echo

    def chunks(self, index: int, delta: OutputDelta) -> Iterator[Completion]:
        """One event for each delta."""
        yield self._response([self._choice(index, delta)])

    def plain_event(self, index: int, text: str) -> bytes | None:
        """The event of text without log-probabilities or echo."""
        if self._has_logprobs or self._echoes:
            return None
        return self._template.fill(index, text)

    @cached_property
    def _template(self) -> EventTemplate:
        choice = CompletionChoice(index=MARKED_INDEX, text=MARKED_TEXT)
        return EventTemplate(self._response([choice]))

    def usage_chunk(self, usage: Usage) -> Completion:
        """An event with the usage and no choices."""
        return self._response([], usage)

    def full(self, outputs: Sequence[OutputDelta], usage: Usage) -> Completion:
        """All choices and the usage."""
        choices = [self._choice(index, output) for index, output in enumerate(outputs)]
        response = self._response(choices, usage)
        if self.scores is None:
            return response
        per_prompt = len(choices) // len(self.scores)
        scored = [
            ScoredChoice(**dict(choice), prompt_logprobs=self.scores[choice.index // per_prompt])
            for choice in choices
        ]
        return ScoredCompletion(**{**dict(response), "choices": scored})

    def _response(self, choices: list[CompletionChoice], usage: Usage | None = None) -> Completion:
        return Completion(
            id=self._name,
            created=self._created,
            model=self._service.model.name,
            choices=choices,
            usage=usage,
        )

    def _choice(self, index: int, delta: OutputDelta) -> CompletionChoice:
        echo = self._echoes.pop(index, None)
        return CompletionChoice(
            index=index,
            text=delta.text if echo is None else echo.text + delta.text,
            logprobs=self._logprobs(index, delta, echo) if self._has_logprobs else None,
            finish_reason=delta.finish_reason,
        )

    def _logprobs(self, index: int, delta: OutputDelta, echo: Echo | None) -> CompletionLogprobs:
        logprobs = CompletionLogprobs(tokens=[], token_logprobs=[], top_logprobs=[], text_offset=[])
        if echo is not None and echo.scored is not None:
            scored = zip(echo.tokens, echo.scored.logprobs, echo.scored.top, strict=True)
            for token, logprob, top in scored:
                self._add_token(logprobs, index, token, logprob, top)
        for sampled in delta.logprobs:
            self._add_token(logprobs, index, *sampled)
        return logprobs

    def _add_token(
        self,
        logprobs: CompletionLogprobs,
        index: int,
        token: int,
        logprob: float | None,
        top: Sequence[tuple[int, float]],
    ) -> None:
        text = self._text(token)
        logprobs.tokens.append(text)
        logprobs.token_logprobs.append(logprob)
        likely = {self._text(other): value for other, value in top}
        logprobs.top_logprobs.append(None if logprob is None else likely)
        logprobs.text_offset.append(self._offsets[index])
        self._offsets[index] += len(text)

    def _text(self, token: int) -> str:
        """A token's text; an incomplete character is written as its bytes, as OpenAI does."""
        piece = self._service.model.token_bytes(token)
        try:
            return piece.decode()
        except UnicodeDecodeError:
            return "bytes:" + "".join(f"\\x{byte:02x}" for byte in piece)
