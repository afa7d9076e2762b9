"""`assay mcp`: Assay's questions as tools of assistants, by the Model Context Protocol."""

import importlib.util
import inspect
import sys
from typing import Annotated, Any, Final

from assay.cli.declaring import option
from assay.cli.output import show_progress, to_json
from assay.errors import InputError

DEFAULT_PORT: Final = 8322
INSTRUCTIONS: Final = (
    "Assay computes what GPU workloads should do and cost from a sourced, unit-checked model. Every "
    "answer begins with the command that prints it, has an interval where inputs are uncertain (of "
    "90 % unless it says otherwise: measured ratios of runs are of 95 %), and names what was assumed. "
    "Structured content has the data of --json. "
    "Use ask for a question in words; find for names; then resolve, explain, predict, plan or estimate."
    " Quote the interval and the assumptions with a number, and never a number that no tool returned."
)


def mcp_command(
    http: Annotated[
        bool, option("--http", "Serve streamable HTTP on this machine instead of stdin and stdout.")
    ] = False,
    port: Annotated[int, option("--port", "The port of --http.", min=1, max=65535)] = DEFAULT_PORT,
    as_json: Annotated[
        bool, option("--json", "Print the tools as JSON instead of serving them.")
    ] = False,
) -> int:
    """Serve tools to an assistant (Model Context Protocol).

    Its tools are commands that only read: ask, find, resolve, explain, sensitivity, predict,
    predict_load, plan, estimate, diagnose, runs and validate. Assistants start it themselves:
    {"mcpServers": {"assay": {"command": "assay", "args": ["mcp"]}}} is what most of them want in
    their settings. Nothing is sent anywhere. ctrl-c ends it.
    """
    server = mcp_server()
    if as_json:
        sys.stdout.write(to_json({"tools": _described(server)}))
    elif http:
        _refuse_taken(port)
        show_progress(f"serving http://127.0.0.1:{port}/mcp; ctrl-c ends it")
        server.run("streamable-http", host="127.0.0.1", port=port)
    else:
        server.run("stdio")
    return 0


def _refuse_taken(port: int) -> None:
    import socket

    with socket.socket() as probe:
        # As the server does it: a port that was left just now is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise InputError(
                f"--port: expected a free port, got {port}: {error.strerror}",
                "--port N chooses another",
            ) from None


def _described(server: Any) -> list[dict[str, Any]]:
    """What an assistant reads of every tool."""
    import asyncio

    listed = asyncio.run(server.list_tools())
    return [
        {"name": tool.name, "description": tool.description, "input_schema": tool.input_schema}
        for tool in listed
    ]


def mcp_server() -> Any:
    """The server with its tools; it raises where the package is missing."""
    if importlib.util.find_spec("mcp") is None:
        raise InputError(
            "assay mcp needs mcp, which is not installed",
            "install it with: pip install 'assay[mcp]'",
        )
    from mcp.server.mcpserver.resources import TextResource
    from mcp_types import ToolAnnotations

    from assay import __version__
    from assay.cli.mcp_server import Server
    from assay.cli.mcp_tools import TOOLS
    from assay.ui.documents import documents

    server = Server("assay", instructions=INSTRUCTIONS, version=__version__, log_level="WARNING")
    for page in documents().values():
        server.add_resource(
            TextResource(
                uri=f"assay://docs/{page.name}", name=page.name, title=page.title,
                mime_type="text/markdown", text=page.text,
            )
        )  # fmt: skip
    only_reads = ToolAnnotations(read_only_hint=True, open_world_hint=False)
    for tool in TOOLS:
        about = inspect.getdoc(tool)
        server.add_tool(tool, description=about, annotations=only_reads, structured_output=False)
    return server
