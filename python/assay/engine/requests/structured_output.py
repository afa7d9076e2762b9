"""What an output must look like: a JSON schema, a regular expression, choices or a grammar."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from assay.errors import InputError

Kind = Literal["json", "regex", "choice", "grammar", "lark"]

WHITESPACE: Final = r"[ \t]{1,40}|(\r?\n){1,2}[ \t]{0,40}"
"""White space between tokens of JSON: blanks, or a line's end and an indent. Weak models would write it forever."""


@dataclass(frozen=True, slots=True)
class StructuredOutput:
    """A constraint on the text of an output, checked when it is compiled for a model.

    >>> StructuredOutput.choices(["yes", "no"]).kind
    'choice'
    """

    kind: Kind
    text: str
    """The schema, list of choices (both as JSON), regular expression or grammar."""
    whitespace: str = WHITESPACE
    """The pattern of white space between the tokens of JSON; empty allows none."""
    after: str | None = None
    """The constraint holds after this text, such as the end of reasoning; None: from the start."""

    @classmethod
    def json_schema(
        cls, schema: Mapping[str, Any] | bool | str, *, whitespace: str = WHITESPACE
    ) -> StructuredOutput:
        """JSON that is valid under a schema, given as an object or as its JSON text."""
        text = schema if isinstance(schema, str) else _as_json("schema", schema)
        return cls("json", text, whitespace)

    @classmethod
    def json_object(cls) -> StructuredOutput:
        """Any JSON object."""
        return cls.json_schema({"type": "object"})

    @classmethod
    def regex(cls, pattern: str) -> StructuredOutput:
        """A text that a regular expression matches as a whole, in the syntax of Rust's regex crate."""
        return cls("regex", pattern)

    @classmethod
    def choices(cls, texts: Sequence[str]) -> StructuredOutput:
        """One of these texts."""
        if not texts or not all(isinstance(text, str) and text for text in texts):
            raise InputError(f"choice: expected texts with characters, got {list(texts)[:3]!r}")
        return cls("choice", _as_json("choice", list(dict.fromkeys(texts))))

    @classmethod
    def grammar(cls, text: str) -> StructuredOutput:
        """A text of a context-free grammar, in the syntax of Lark or llama.cpp's GBNF."""
        return cls("grammar", text)


def _as_json(what: str, value: object) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"{what}: expected JSON, got one that is not: {error}") from None
