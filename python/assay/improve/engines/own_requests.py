"""A planned request as an engine of this process takes it: its prompt, and how its answer is chosen."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from assay.engine import SamplingParams
from assay.engine.loading.model_files import ModelFiles
from assay.engine.requests.structured_output import StructuredOutput
from assay.errors import InputError
from assay.load.workloads.workload import FREE_CHOICES, PlannedRequest

_SAME: Final = ("stop", "presence_penalty", "frequency_penalty", "repetition_penalty")
"""Fields whose names and values are those of sampling parameters."""
_TAKEN: Final = {
    *_SAME, "logit_bias", "response_format", "ignore_eos", "tools", "tool_choice", "chat_template_kwargs",
}  # fmt: skip


def prompt_of(files: ModelFiles, request: PlannedRequest) -> str | Sequence[int]:
    """The tokens of a conversation as the model's chat template renders it; of other requests the text."""
    if not request.messages or files.chat_template is None:
        return request.prompt
    rendered = files.chat_template.render(
        [_for_template(message) for message in request.messages],
        tools=request.fields.get("tools"),
        **request.fields.get("chat_template_kwargs", {}),
    )
    return files.tokenizer.encode(rendered, add_special=False)


def sampling_params(request: PlannedRequest) -> SamplingParams:
    """Greedy unless the request says otherwise; as many tokens as asked for where it has no end of its own."""
    fields = request.fields
    given: dict[str, Any] = {"temperature": 0.0, "ignore_eos": True, **request.sampling}
    given |= {name: fields[name] for name in (*_SAME, "ignore_eos") if name in fields}
    if "logit_bias" in fields:
        given["logit_bias"] = {int(token): bias for token, bias in fields["logit_bias"].items()}
    return SamplingParams(
        max_tokens=request.max_tokens, structured_output=_structured_output(fields), **given
    )


def left_out(files: ModelFiles, requests: Sequence[PlannedRequest]) -> list[str]:
    """What of the requests an engine of this process does not do, in sentences."""
    notes = []
    if files.chat_template is None and any(request.messages for request in requests):
        notes.append(
            "conversations are one text with the roles named: the model has no chat template"
        )
    names = {name for request in requests for name in request.fields.keys() - _TAKEN}
    if any(request.fields.get("tool_choice", "auto") not in FREE_CHOICES for request in requests):
        names.add("tool_choice")
    if names:
        notes.append(f"not applied in this process: {', '.join(sorted(names))}; assay serve does")
    return notes


def _structured_output(fields: Mapping[str, Any]) -> StructuredOutput | None:
    """What an answer must look like, of a field as OpenAI has it."""
    format_ = fields.get("response_format")
    if format_ is None or format_.get("type") == "text":
        return None
    if format_.get("type") == "json_object":
        return StructuredOutput.json_object()
    named = format_.get("json_schema")
    if format_.get("type") != "json_schema" or not isinstance(named, Mapping):
        raise InputError(
            f"response_format: expected json_schema or json_object, got {str(format_)[:60]}"
        )
    return StructuredOutput.json_schema(named.get("schema", True))


def _for_template(message: Mapping[str, Any]) -> dict[str, Any]:
    """The message with its content as one text, and its calls with arguments as objects."""
    content = message.get("content")
    if isinstance(content, list):
        content = "".join(
            str(part.get("text", "")) for part in content if isinstance(part, Mapping)
        )
    calls = [_call_for_template(call) for call in message.get("tool_calls") or ()]
    return {**message, "content": content or "", **({"tool_calls": calls} if calls else {})}


def _call_for_template(call: Any) -> Any:
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(function.get("arguments"), str):
        return call
    try:
        arguments = json.loads(function["arguments"] or "{}")
    except (ValueError, RecursionError):
        # A call that was cut off: the model sees what it wrote.
        return call
    return {**call, "function": {**function, "arguments": arguments}}
