"""The server of `assay mcp`: arguments that do not fit are refused as the command line refuses them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import ValidationError

from assay.errors import UnknownNameError, unknown_name


class Server(MCPServer[Any]):
    """A server whose errors are one line and a hint."""

    async def call_tool(self, name: str, arguments: dict[str, Any], context: Any = None) -> Any:
        """Call a tool; an argument that it does not have is an error, and not left out."""
        schemas = {tool.name: tool.input_schema for tool in await self.list_tools()}
        if name not in schemas:
            raise ToolError(_said(unknown_name("tool", name, schemas)))
        known = list(schemas[name].get("properties", {}))
        for given in arguments:
            if given not in known:
                raise ToolError(_said(unknown_name(f"argument of {name}:", given, known)))
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as error:
            if isinstance(error.__cause__, ValidationError):
                raise ToolError(_refusal(error.__cause__, known)) from None
            if type(error.__cause__) is ToolError:
                # Without the words that the package puts before it: the line of the command line.
                raise ToolError(str(error.__cause__)) from None
            raise


def _refusal(error: ValidationError, known: list[str]) -> str:
    """What does not fit, a line each, and the arguments that there are."""
    lines = [_line(each) for each in error.errors(include_url=False)]
    return "\n".join([*lines, f"hint: arguments are {', '.join(known)}"])


def _line(error: Mapping[str, Any]) -> str:
    """One argument that does not fit.

    >>> _line({"type": "missing", "loc": ("text",), "msg": "Field required", "input": {}})
    'error: text: expected a value, got none'
    >>> _line({"type": "x", "loc": ("n",), "msg": "Input should be greater than 0", "input": -3})
    'error: n: input should be greater than 0, got -3'
    """
    name = ".".join(str(part) for part in error["loc"])
    if error["type"] == "missing":
        return f"error: {name}: expected a value, got none"
    wanted = str(error["msg"])
    return f"error: {name}: {wanted[:1].lower()}{wanted[1:]}, got {str(error['input'])[:60]}"


def _said(error: UnknownNameError) -> str:
    return f"error: {error.message}" + (f"\nhint: {error.hint}" if error.hint else "")
