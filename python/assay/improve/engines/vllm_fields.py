"""The fields of vLLM's `EngineArgs` as data, read by whatever interpreter has vLLM.

A program of its own that needs the standard library only: `python vllm_fields.py` prints JSON.
"""

import dataclasses
import enum
import json
import sys
import types
import typing
from typing import Any

SCALARS = (bool, int, float, str)
OPTIONAL = ("flashinfer",)
"""Packages that vLLM runs without, and that some values of its arguments need."""


def read(vllm: Any) -> dict[str, Any]:
    """Release and names of the module `vllm`, and the fields that a command line takes as one word."""
    from importlib import import_module
    from importlib.util import find_spec

    arguments = import_module(f"{vllm.__name__}.engine.arg_utils").EngineArgs
    try:
        hints = typing.get_type_hints(arguments)
    except Exception:
        # Names that are imported for type checkers only: those fields are told by their defaults.
        hints = {}
    fields = []
    for field in dataclasses.fields(arguments):
        if field.name.startswith("_"):
            continue
        default = default_of(field)
        kinds = parts(hints.get(field.name, field.type))
        described = describe(kinds, default)
        if described is not None:
            fields.append({"name": field.name, "default": plain(default), **described})
    names = [field.name for field in dataclasses.fields(arguments)]
    lacks = [name for name in OPTIONAL if find_spec(name) is None]
    return {"release": str(vllm.__version__), "fields": fields, "names": names, "lacks": lacks}


def default_of(field: Any) -> Any:
    """The default value of a dataclass field, of pydantic's kind too."""
    default = field.default
    if default is dataclasses.MISSING:
        if field.default_factory is dataclasses.MISSING:
            return None
        return field.default_factory()
    if hasattr(default, "default_factory") and hasattr(default, "default"):
        return default.default if default.default_factory is None else None
    return default


def parts(hint: Any) -> list[Any]:
    """The members of a union, without annotations."""
    origin = typing.get_origin(hint)
    if origin is typing.Annotated:
        return parts(typing.get_args(hint)[0])
    if origin in (typing.Union, types.UnionType):
        return [part for argument in typing.get_args(hint) for part in parts(argument)]
    return [hint]


def describe(kinds: list[Any], default: Any) -> dict[str, Any] | None:
    """Type and choices of a field; None for what is neither a scalar nor JSON text."""
    literals = [value for kind in kinds for value in literal(kind)]
    known = [kind for kind in kinds if kind in SCALARS]
    optional = type(None) in kinds
    if bool in known or isinstance(default, bool):
        return {"type": "boolean", "choices": None, "optional": optional}
    if literals and all(isinstance(value, int) for value in literals):
        return {"type": "integer", "choices": literals, "optional": optional}
    if literals:
        # A text beside the literals allows others than the listed ones.
        choices = None if str in known else [str(value) for value in literals]
        return {"type": "text", "choices": choices, "optional": optional}
    for kind, name in ((int, "integer"), (float, "number"), (str, "text")):
        if kind in known or type(default) is kind:
            return {"type": name, "choices": None, "optional": optional}
    if any(typing.get_origin(kind) is dict or kind is dict for kind in kinds) and default is None:
        return {"type": "text", "choices": None, "optional": True, "json": True}
    return None


def literal(kind: Any) -> list[Any]:
    """The values of a Literal, and the names of an enumeration."""
    if typing.get_origin(kind) is typing.Literal:
        return list(typing.get_args(kind))
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return [member.value if issubclass(kind, int) else member.name for member in kind]
    return []


def plain(value: Any) -> bool | int | float | str | None:
    """A default as JSON; what is no scalar is the server's to choose."""
    if isinstance(value, enum.Enum):
        value = value.value if isinstance(value.value, int) else value.name
    return value if isinstance(value, SCALARS) else None


if __name__ == "__main__":
    import vllm

    # Importing prints log lines: the answer is the last line.
    sys.stdout.write("\n" + json.dumps(read(vllm)) + "\n")
