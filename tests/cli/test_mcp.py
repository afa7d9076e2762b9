"""`assay mcp` through the protocol's own client."""

import json
import os
import re
import shlex
import socket
import sys
from typing import Any

import anyio
import pytest

pytest.importorskip("mcp")
from mcp import Client, StdioServerParameters, stdio_client

from assay.cli.app import COMMANDS, run
from assay.cli.mcp import mcp_server
from assay.cli.mcp_tools import TOOLS


def call(name: str, **arguments: Any) -> tuple[bool, str]:
    async def once() -> tuple[bool, str]:
        async with Client(mcp_server()) as client:
            result = await client.call_tool(name, arguments)
            return bool(result.is_error), result.content[0].text  # type: ignore[union-attr]

    return anyio.run(once)


def test_every_tool_is_described_and_only_reads() -> None:
    async def listed() -> Any:
        async with Client(mcp_server()) as client:
            return (await client.list_tools()).tools

    tools = anyio.run(listed)
    assert [tool.name for tool in tools] == [tool.__name__ for tool in TOOLS]
    for tool in tools:
        assert tool.description, tool.name
        assert tool.annotations.read_only_hint, tool.name
        for name, schema in tool.input_schema["properties"].items():
            assert schema.get("description"), (tool.name, name)
    assert {tool.name.replace("_", "-") for tool in tools} - {"runs", "find"} <= set(COMMANDS)


def test_a_tool_gives_the_number_of_the_command_it_prints(
    capsys: pytest.CaptureFixture[str],
) -> None:
    failed, text = call(
        "resolve",
        variable="econ.cost.per_token",
        preset="dense_training_cost_fixture",
        values=["econ.electricity.energy_price=0.2 USD/kWh"],
    )
    assert not failed
    command, answer = text.split("\n", 1)
    assert command.startswith("$ assay resolve ")
    capsys.readouterr()
    assert run(shlex.split(command)[2:]) == 0
    assert capsys.readouterr().out.strip() in answer


def test_a_question_in_words_is_answered_below_its_command() -> None:
    failed, text = call("ask", question="how much memory does an H200 have?")
    assert not failed
    assert "141" in text or "150" in text


@pytest.mark.parametrize(
    ("tool", "arguments", "message"),
    [
        ("resolve", {"variable": "econ.cost.per_tokem"}, "did you mean econ.cost.per_token"),
        ("resolve", {"variable": "--help"}, 'got "--help"'),
        ("ask", {"question": "how purple is an H100?"}, "purple"),
        ("find", {"text": "x", "what": "nothing"}, "error: what: input should be 'variables'"),
        ("find", {}, "error: text: expected a value, got none\nhint: arguments are text, what"),
        ("find", {"text": "x", "wat": "presets"}, "did you mean what"),
        ("find", {"text": "x", "depth": 3}, 'unknown argument of find: "depth"'),
        (
            "plan",
            {"model": "llama-3.1-8b", "rate": -3},
            "rate: input should be greater than 0, got -3",
        ),
        ("fnd", {"text": "x"}, "did you mean find"),
        ("predict", {"model": "llama-3.1-8b", "gpu": "h10O"}, "h10O"),
    ],
)
def test_bad_input_is_an_error_with_the_message_of_the_command_line(
    tool: str, arguments: dict[str, Any], message: str
) -> None:
    failed, text = call(tool, **arguments)
    assert failed
    assert message in text
    assert text.startswith("error: ")
    assert "pydantic" not in text


def test_missing_inputs_are_an_error_that_an_assistant_can_read() -> None:
    failed, text = call("resolve", variable="serving.throughput")
    assert failed
    # The whole list is ten times as long.
    assert len(text) < 3_300
    assert re.search(r"more characters: assay resolve serving\.throughput\)$", text)


def test_structured_content_is_what_json_prints(capsys: pytest.CaptureFixture[str]) -> None:
    async def once() -> Any:
        async with Client(mcp_server()) as client:
            words = {"text": "cost token", "what": "presets"}
            return (await client.call_tool("find", words)).structured_content

    data = anyio.run(once)
    assert data["exit_code"] == 0
    capsys.readouterr()
    assert run([*shlex.split(data["command"])[1:], "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == data["answer"]


def test_documents_are_resources() -> None:
    async def session() -> tuple[list[str], str]:
        async with Client(mcp_server()) as client:
            listed = [str(each.uri) for each in (await client.list_resources()).resources]
            read = await client.read_resource("assay://docs/guides/store")
            return listed, read.contents[0].text  # type: ignore[union-attr]

    listed, text = anyio.run(session)
    assert {"assay://docs/README", "assay://docs/guides/assistants"} <= set(listed)
    assert text.startswith("# A store that a team shares")


def test_a_taken_port_is_refused_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert run(["mcp", "--http", "--port", str(port)]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"error: --port: expected a free port, got {port}: ")
    assert "hint: --port N" in said


def test_find_takes_words_in_any_order_and_says_where_there_are_none() -> None:
    _, text = call("find", text="token cost per")
    assert re.search(r"^econ\.cost\.per_token\b", text, re.MULTILINE)
    assert "accelerators/h200_sxm" in call("find", text="h200", what="catalog")[1]
    assert "fewer words" in call("find", text="zzzq", what="catalog")[1]
    assert "fewer words" in call("find", text="zzzq", what="presets")[1]


@pytest.mark.slow
def test_an_assistant_starts_it_and_nothing_else_reaches_stdout() -> None:
    server = StdioServerParameters(
        command=sys.executable, args=["-m", "assay", "mcp"], env=dict(os.environ)
    )

    async def session() -> str:
        async with Client(stdio_client(server)) as client:
            result = await client.call_tool("find", {"text": "cost per token"})
            return str(result.content[0].text)  # type: ignore[union-attr]

    assert "econ.cost.per_token" in anyio.run(session)
