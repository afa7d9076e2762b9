"""What an output must look like, from the fields of a request: OpenAI's name and both of vLLM's."""

from __future__ import annotations

from collections.abc import Mapping

from assay.engine.requests.structured_output import WHITESPACE, StructuredOutput
from assay.engine.server.errors import ApiError
from assay.engine.server.request_schemas import (
    JsonObjectFormat,
    JsonSchemaFormat,
    Sampling,
    StructuredOutputs,
)


def structured_output_of(body: Sampling) -> StructuredOutput | None:
    """The constraint that a request asks for; None where it asks for none."""
    found = {**_response_format(body), **_structured_outputs(body), **_guided(body)}
    if len(found) > 1:
        raise ApiError(
            f"{' and '.join(found)}: an output has one format, give one of them",
            param=next(iter(found)),
        )
    return next(iter(found.values()), None)


def _response_format(body: Sampling) -> dict[str, StructuredOutput]:
    format_ = body.response_format
    if isinstance(format_, JsonObjectFormat):
        return {"response_format": StructuredOutput.json_object()}
    if isinstance(format_, JsonSchemaFormat):
        schema = format_.json_schema.schema_
        # Without a schema any JSON value is valid.
        return {"response_format": StructuredOutput.json_schema(True if schema is None else schema)}
    return {}


def _structured_outputs(body: Sampling) -> dict[str, StructuredOutput]:
    given = body.structured_outputs
    if given is None:
        return {}
    whitespace = WHITESPACE if given.whitespace_pattern is None else given.whitespace_pattern
    if given.disable_any_whitespace:
        whitespace = ""
    name = "structured_outputs"
    structured_outputs = {
        f"{name}.{kind}": constraint
        for kind, constraint in _constraints(given, whitespace).items()
        if constraint is not None
    }
    if not structured_outputs:
        raise ApiError(f"{name}: expected json, regex, choice, grammar or json_object", param=name)
    return structured_outputs


def _constraints(given: StructuredOutputs, whitespace: str) -> dict[str, StructuredOutput | None]:
    schema = {"type": "object"} if given.json_object else None
    return {
        "json": _json(given.json_, whitespace),
        "json_object": _json(schema, whitespace),
        "regex": None if given.regex is None else StructuredOutput.regex(given.regex),
        "choice": None if given.choice is None else StructuredOutput.choices(given.choice),
        "grammar": None if given.grammar is None else StructuredOutput.grammar(given.grammar),
    }


def _guided(body: Sampling) -> dict[str, StructuredOutput]:
    """The names that vLLM had before `structured_outputs`."""
    pattern = body.guided_whitespace_pattern
    given = StructuredOutputs(
        json=body.guided_json,
        regex=body.guided_regex,
        choice=body.guided_choice,
        grammar=body.guided_grammar,
    )
    constraints = _constraints(given, WHITESPACE if pattern is None else pattern)
    return {f"guided_{kind}": one for kind, one in constraints.items() if one is not None}


def _json(schema: str | Mapping[str, object] | None, whitespace: str) -> StructuredOutput | None:
    return None if schema is None else StructuredOutput.json_schema(schema, whitespace=whitespace)
