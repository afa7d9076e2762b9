"""The server of `assay mcp`: arguments that do not fit are refused as the command line refuses them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import anyio
from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from mcp_types import INVALID_REQUEST, PARSE_ERROR, ErrorData, JSONRPCError
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

    async def run_stdio_async(self) -> None:
        """Serve stdin and stdout; what is no message is answered, where the package is silent."""
        async with stdio_server() as (lines, answers):
            messages, read = anyio.create_memory_object_stream[Any](0)

            async def pass_on() -> None:
                async with messages:
                    async for item in lines:
                        if isinstance(item, Exception):
                            await answers.send(SessionMessage(_no_message(item)))
                        else:
                            await messages.send(item)

            async with anyio.create_task_group() as group:
                group.start_soon(pass_on)
                server = self._lowlevel_server
                await server.run(read, answers, server.create_initialization_options())
                group.cancel_scope.cancel()


def _no_message(error: Exception) -> JSONRPCError:
    """The answer of JSON-RPC to a line that is no JSON, or JSON that is no message."""
    is_json = not isinstance(error, ValidationError) or all(
        each["type"] != "json_invalid" for each in error.errors(include_url=False)
    )
    code, got = (
        (INVALID_REQUEST, "other JSON") if is_json else (PARSE_ERROR, "a line that is no JSON")
    )
    message = f"expected a JSON-RPC 2.0 message in one line, got {got}"
    return JSONRPCError(jsonrpc="2.0", id=None, error=ErrorData(code=code, message=message))


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
