"""Why a body was refused, in the words of the API: the field, what was expected and what was got.

The library reports an error for every type that a field could have had, and names the types by its
own classes; here the deepest one counts, and what other types expected at that place joins it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from assay.engine.server.foreign_fields import field_hint, kind_hint

INVALID: Final = "invalid_value"

_MAX_SHOWN: Final = 60

_KINDS: Final = {
    **dict.fromkeys(("string_type", "string_unicode"), "a text"),
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "a whole number"),
    **dict.fromkeys(("float_type", "float_parsing"), "a number"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "true or false"),
    "list_type": "a list",
    **dict.fromkeys(("dict_type", "model_type", "model_attributes_type"), "an object"),
    "none_required": "null",
    "finite_number": "a finite number",
}
_BOUNDS: Final = {
    "greater_than": ("gt", "more than {}"),
    "greater_than_equal": ("ge", "at least {}"),
    "less_than": ("lt", "less than {}"),
    "less_than_equal": ("le", "at most {}"),
    "string_too_short": ("min_length", "at least {} characters"),
    "string_too_long": ("max_length", "at most {} characters"),
    "too_short": ("min_length", "at least {} items"),
    "too_long": ("max_length", "at most {} items"),
    "string_pattern_mismatch": ("pattern", "a text that matches {}"),
}
_RANKS: Final = {"literal_error": 0, "union_tag_invalid": 0, "missing": 2, "extra_forbidden": 3}
"""Which of several errors at one depth tells most; others are between."""


class Problem(NamedTuple):
    """What is wrong with a body."""

    field: str
    message: str
    code: str


def problem_of(errors: Sequence[Mapping[str, Any]], body: Any) -> Problem:
    """The error of a body that tells most, without names of the library."""
    if errors[0]["type"] == "json_invalid":
        reason = errors[0].get("ctx", {}).get("error", "")
        return Problem("", f"expected a JSON object, got: {reason}", "invalid_json")
    placed = [(_path(error, body), error) for error in errors]
    deepest = max(len(path) for path, _ in placed)
    candidates = [each for each in placed if len(each[0]) == deepest]
    path, first = min(candidates, key=lambda each: _RANKS.get(each[1]["type"], 1))
    field = ".".join(map(str, path))
    code = str(first["type"])
    if code == "extra_forbidden":
        hint = field_hint(str(path[-1]) if path else "")
        return Problem(field, f"this server does not support it{hint}", "unsupported_parameter")
    if code == "missing":
        return Problem(field, "expected a value, got none", "missing_required_parameter")
    if code == "value_error":
        return Problem(field, str(first["ctx"]["error"]), INVALID)
    if code == "union_tag_invalid":
        field = f"{field}.type" if field else "type"
    same = [error for there, error in candidates if there == path]
    expected = " or ".join(dict.fromkeys(filter(None, map(_expected, same))))
    got = first["ctx"]["tag"] if code == "union_tag_invalid" else first["input"]
    message = f"expected {expected or 'another value'}, got {_shown(got)}{kind_hint(got)}"
    return Problem(field, message, "invalid_type" if code in _KINDS else INVALID)


def _path(error: Mapping[str, Any], body: Any) -> tuple[str | int, ...]:
    """The place of an error in the body: what is no key of it is a type of the library's."""
    path: list[str | int] = []
    here = body
    words = [part for at, part in enumerate(error["loc"]) if (at, part) != (0, "body")]
    for at, part in enumerate(words):
        is_last = at == len(words) - 1
        if (isinstance(here, dict) and part in here) or (
            isinstance(here, list) and isinstance(part, int) and part < len(here)
        ):
            here = here[part]
        elif not (is_last and error["type"] == "missing"):
            continue
        path.append(part)
    return tuple(path)


def _expected(error: Mapping[str, Any]) -> str:
    kind, context = str(error["type"]), error.get("ctx", {})
    if kind in _KINDS:
        return _KINDS[kind]
    if kind in _BOUNDS:
        name, text = _BOUNDS[kind]
        bound = context[name]
        if isinstance(error["input"], str):
            text = text.replace("items", "characters")
        if bound == 1:
            text = text.removesuffix("s")
        return text.format(f"{bound:g}" if isinstance(bound, float) else bound)
    if kind == "literal_error":
        return str(context["expected"])
    if kind == "union_tag_invalid":
        return str(context["expected_tags"]).replace(", ", " or ")
    return ""


def _shown(value: Any) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        text = str(value)
    return text if len(text) <= _MAX_SHOWN else text[: _MAX_SHOWN - 3] + "..."
