"""`assay mcp` through the protocol's own client."""

import json
import os
import re
import shlex
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

pytest.importorskip("mcp")
from mcp import Client, StdioServerParameters, stdio_client

from assay.cli.app import COMMANDS, run
from assay.cli.mcp import mcp_server
from assay.cli.mcp_tools import MOST_CHARACTERS, TOOLS

COST = "econ.cost.per_token"
ESTIMATED = {"model": "llama-3.1-8b", "accelerator": "h100_sxm", "tokens": "15T"}


def result_of(name: str, **arguments: Any) -> Any:
    async def once() -> Any:
        async with Client(mcp_server()) as client:
            return await client.call_tool(name, arguments)

    return anyio.run(once)


def call(name: str, **arguments: Any) -> tuple[bool, str]:
    result = result_of(name, **arguments)
    return bool(result.is_error), result.content[0].text


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
    assert re.search(r"^20 of \d+ missing inputs$", text, re.MULTILINE)


@pytest.mark.parametrize(
    ("tool", "arguments", "said", "unsaid"),
    [
        ("resolve", {"variable": COST}, 'values=["name=value unit"], or use preset', "--"),
        ("resolve", {"variable": COST}, 'preset=NAME, of find(what="presets")', "--"),
        ("predict", {"model": "llama-3.1-70b", "gpu": "h100"}, "it fits with tensor=2", "--"),
        (
            "ask",
            {"question": "does llama-3.1-70b fit in narnia?"},
            'nearest: resolve(variable="serving.kv.max_concurrency"',
            "hint",
        ),
        ("ask", {"question": "how purple is an H100?"}, "nearest: find", "assay list"),
        # A tool that only reads cannot do what this command does.
        ("runs", {"store": "nowhere"}, "assay store init --store", "command line's alone"),
        (
            "estimate",
            {**ESTIMATED, "where": "narnia"},
            "error: where: unknown place",
            "did you mean",
        ),
    ],
)
def test_a_refusal_is_in_the_words_of_the_tool_and_said_once(
    tool: str, arguments: dict[str, Any], said: str, unsaid: str
) -> None:
    failed, text = call(tool, **arguments)
    assert failed
    assert text.count(said) == 1
    assert unsaid not in text


def test_a_file_that_is_no_trace_is_refused_without_what_it_holds(tmp_path: Path) -> None:
    (tmp_path / "trace.json").write_text("password=hunter2\n")
    failed, text = call("diagnose", trace=str(tmp_path / "trace.json"))
    assert failed
    assert "expected a trace, got a file of another kind" in text
    assert "hunter2" not in text
    assert "command line's alone" not in text


@pytest.mark.parametrize(
    "words",
    [
        {"text": "cost token", "what": "presets"},
        {"text": "h200", "what": "catalog"},
        {"text": "h200", "what": "catalog", "limit": 2},
    ],
)
def test_structured_content_is_what_json_prints(
    words: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    result = result_of("find", **words)
    data = result.structured_content
    assert data["exit_code"] == 0
    capsys.readouterr()
    assert run([*shlex.split(data["command"])[1:], "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == data["answer"]
    # The command line prints the very rows.
    assert run(shlex.split(data["command"])[1:]) == 0
    assert capsys.readouterr().out.strip() in result.content[0].text


def test_a_long_answer_is_cut_and_says_what_its_lists_lack() -> None:
    result = result_of("resolve", variable=COST, preset="llama3_8b_8_h100_training")
    data = result.structured_content
    assert data["answer"]["value"] == pytest.approx(5.9e-8, rel=0.05)
    assert data["answer"]["unit"] == "USD/token"
    assert data["left_out"]["trace"] > 0
    assert len(json.dumps(data["answer"], separators=(",", ":"))) <= MOST_CHARACTERS


def test_runs_of_a_store_are_listed(tmp_path: Path) -> None:
    assert run(["store", "init", "--store", str(tmp_path / "store")]) == 0
    failed, text = call("runs", store=str(tmp_path / "store"))
    assert not failed
    assert text.startswith(f"$ assay store find --store {tmp_path / 'store'} kind=run\n")
    assert "nothing matches" in text


@pytest.mark.parametrize("name", ["trtllm", "tensorrt-llm"])
def test_engines_are_named_as_answers_name_them(name: str) -> None:
    _, text = call("predict", model="llama-3.1-8b", gpu="h100", engine=name)
    assert "h100_sxm, trtllm, " in text
    assert all("tensorrt" not in (tool.__doc__ or "") for tool in TOOLS)


def test_what_is_no_message_is_answered() -> None:
    lines = ["{not json", '{"jsonrpc": "2.0", "id": true}', ""]
    server = subprocess.run(
        [sys.executable, "-m", "assay", "mcp"],
        input="\n".join(lines), capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    answers = [json.loads(line) for line in server.stdout.splitlines()]
    assert [(each["id"], each["error"]["code"]) for each in answers] == [
        (None, -32700),
        (None, -32600),
    ]
    assert answers[0]["error"]["message"].endswith("got a line that is no JSON")


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


def test_a_plan_without_a_load_names_arguments_of_the_tool() -> None:
    failed, text = call("plan", model="llama-3.1-8b")
    assert failed
    assert "--" not in text
    assert "expected recorded requests, rate or users" in text
    # A user who asks every five minutes: 600 of them send 2 requests a second.
    asked = result_of("plan", model="llama-3.1-8b", users=600, every="5m", gpus="h200", tensor="1")
    assert "2 requests/s" in asked.content[0].text


@pytest.mark.parametrize(
    ("argument", "value"),
    [("where", "atlantis"), ("model", "lama"), ("accelerator", "h1000000"), ("tokens", "lots")],
)
def test_an_error_of_an_estimate_names_its_argument(argument: str, value: str) -> None:
    given = {
        "model": "llama-3.1-8b", "accelerator": "h100_sxm", "tokens": "15T", "where": "france",
        argument: value,
    }  # fmt: skip
    failed, text = call("estimate", **given)
    assert failed
    assert text.startswith(f"error: {argument}: ")


def test_words_of_a_cost_find_a_cost_first() -> None:
    found = result_of("find", text="cost per token").structured_content["answer"]
    names = [row["name"] for row in found]
    assert names[0] == "econ.cost.per_token"
