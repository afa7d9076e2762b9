"""Values of options that are text, as they are.

Typer converts every value by pydantic, whose import takes longer than most answers. Text and options
that were not given need no conversion; numbers, paths and what is not Unicode go the usual way.
"""

from collections.abc import Callable
from functools import partial
from typing import Any


def keep_text(command: Any) -> None:
    """Spare a command the conversion of its text; Typers without this conversion stay as they are."""
    for parameter in command.params:
        _spare(parameter)
    command.get_help_option = partial(_help_option, command.get_help_option)


def _help_option(find: Callable[[Any], Any], ctx: Any) -> Any:
    option = find(ctx)
    if option is not None:
        _spare(option)
    return option


def _spare(parameter: Any) -> None:
    convert = getattr(parameter, "get_runtime_param", None)
    descriptor = getattr(parameter, "type_descriptor", None)
    if convert is None or descriptor is None or isinstance(convert, _Values):
        return
    is_text = descriptor.annotation in (str, list[str]) and descriptor.parameter_info.parser is None
    parameter.get_runtime_param = _Values(convert, is_text)


class _Values:
    """The conversion of values, in place of Typer's; called, it is itself."""

    def __init__(self, convert: Callable[[], Any], is_text: bool) -> None:
        self._convert = convert
        self._is_text = is_text

    def __call__(self) -> "_Values":
        return self

    def coerce(self, value: Any, *, param: Any, ctx: Any) -> Any:
        """The value of a parameter: None or an empty tuple where it was not given."""
        is_list = param.multiple or param.nargs == -1
        if value is None:
            return () if is_list else None
        if self._is_text and is_list and not isinstance(value, str) and all(map(_is_text, value)):
            return list(value)
        if self._is_text and not is_list and _is_text(value):
            return value
        return self._convert().coerce(value, param=param, ctx=ctx)


def _is_text(value: object) -> bool:
    """Whether a value is text without the escapes of bytes that are no Unicode."""
    if not isinstance(value, str):
        return False
    return value.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in value)
