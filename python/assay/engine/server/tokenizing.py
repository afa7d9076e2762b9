"""/tokenize and /detokenize, as vLLM has them."""

from __future__ import annotations

from assay.engine.server.chat import check_variables
from assay.engine.server.errors import ApiError
from assay.engine.server.request_schemas import DetokenizeRequest, TokenizeRequest
from assay.engine.server.response_schemas import DetokenizedPrompt, Tokens
from assay.engine.server.service import Service, run_off_loop


async def tokenize(service: Service, body: TokenizeRequest) -> Tokens:
    """The tokens of a prompt, or of a conversation as the chat template renders it."""
    model = service.model
    if (body.prompt is None) == (body.messages is None):
        raise ApiError("expected prompt or messages, one of them", param="prompt")
    text = body.prompt
    adds_special = body.add_special_tokens is not False
    if text is None:
        check_variables(body.chat_template_kwargs)
        tools = [tool.model_dump(exclude_none=True) for tool in body.tools or ()]
        variables = {"tools": tools or None, **(body.chat_template_kwargs or {})}
        text = service.render(
            [message.for_template() for message in body.messages or ()], variables
        )
        adds_special = bool(body.add_special_tokens)
    encode = model.encode if adds_special else model.encode_rendered
    tokens = list(await run_off_loop(len(text), encode, text))
    strings = None
    if body.return_token_strs:
        strings = [model.token_bytes(token).decode("utf-8", "replace") for token in tokens]
    return Tokens(
        count=len(tokens), max_model_len=model.context_limit, tokens=tokens, token_strs=strings
    )


async def detokenize(service: Service, body: DetokenizeRequest) -> DetokenizedPrompt:
    """The text of tokens, special ones included."""
    service.check_tokens(body.tokens, "tokens")
    data = await run_off_loop(len(body.tokens), _bytes, service, body.tokens)
    return DetokenizedPrompt(prompt=data.decode("utf-8", "replace"))


def _bytes(service: Service, tokens: list[int]) -> bytes:
    return b"".join(service.model.token_bytes(token) for token in tokens)
