"""Nothing is sent anywhere that was not named: few modules can use the network."""

import ast
from functools import cache
from pathlib import Path

import pytest

NETWORK = {
    "aiohttp", "ftplib", "http", "httpx", "imaplib", "obstore", "poplib", "requests", "smtplib",
    "socket", "socketserver", "ssl", "urllib", "urllib3", "websockets", "xmlrpc",
}  # fmt: skip
TEXT_ONLY = "urllib.parse"
"""Takes URLs apart and opens none."""
STORE = "object_store.py"
"""Opens buckets: of the store, and of the S3 sink of telemetry."""
BUCKET = "store/bucket.py"
"""The store in a bucket that `assay store --store`, or `ASSAY_STORE`, names."""
OPENING = {"answered", "connect", "KeptConnection"}
"""What the HTTP client opens connections with."""
SERVER = "engine/server/http_server.py"
"""Listens for the clients of `assay serve`."""
CLIENT = "http_client.py"
"""The HTTP client; `SENDERS` are who uses it."""
ENDPOINT = "observe/telemetry/sources/endpoint.py"
"""Asks the metrics endpoints that were named, and the usual ports of this machine."""
OTLP = "observe/telemetry/sinks/otlp.py"
S3 = "observe/telemetry/sinks/s3.py"
"""Sinks of `assay telemetry` that a caller names, with their address."""
UI_SERVER = "ui/server.py"
"""Serves the pages on a socket that `assay ui` listens on."""
LOAD = "load/connection.py"
"""Sends a workload to a server that was named: `assay load`."""
RECOVERY = "improve/journal/recovery.py"
"""Asks a server that a run started or was told to restart whether it is healthy."""
EXCHANGE = "openai_api/exchange.py"
"""Asks a server for its health and settings, probes it, has it record itself: one that was named (`assay
run --engine URL`, `assay diagnose --url`, `assay trace attach --url`), or one that telemetry found on
this machine, without a key: the page Live."""
BENCH = "bench/serving/servers.py"
"""Asks the servers that `assay bench serving` started whether they are up, and for their counters."""
HUB = "engine/loading/downloading.py"
"""Fetches files of the repository or address that `assay pull` was given."""
SENDERS = {BENCH, HUB, ENDPOINT, OTLP, RECOVERY, EXCHANGE}
FREE_PORT = "improve/engines/vllm.py"
"""Looks for a free port of the loopback address, for a server of its own."""
SERVER_PROCESS = "improve/engines/process.py"
"""Starts the server of `assay run --restart`."""
WATCHDOG = "improve/journal/watchdog.py"
"""A second process of `assay run`, which restores the engine if the first dies."""
ENGINES = "engine/server/engine_process.py"
HTTP = "engine/server/http_process.py"
LINK = "engine/server/remote_engine.py"
SECOND = "second_process.py"
"""The two processes of `assay serve`, which talk over a socket without a name, and how the first starts the second."""
MCP = "cli/mcp.py"
"""Looks whether the port is free that `assay mcp --http` is to listen on."""
VETTING = "engine/requests/grammar_vetting.py"
"""A second process of `assay serve`, which compiles the schemas of clients."""
SOUNDS = "speech/other_formats.py"
"""Has ffmpeg, where it is installed, convert the recordings of a command line that are neither WAV nor FLAC."""
PAGES = "ui/children.py"
"""Runs slow commands of the pages in processes of their own."""
PULL = "engine/loading/wheels.py"
"""Runs pip for `assay pull`."""
POWER = "validate/fitting/measure_power.py"
"""Runs nvidia-smi to lock clocks while the power of kernels is measured for a fit."""
AGENTS = "improve/fleet/node.py"
"""Starts the agents of a fleet, by the command that the user names."""
PROCESSES = "cluster/local.py"
"""Shares points out among processes, where the user says how many."""
ON_NODES = "cluster/remote_process.py"
"""Starts those agents on nodes of a cluster, and looks up which node a replica is at."""
ATTACH = "observe/attach/program.py"
"""Runs the program of `assay trace attach`."""


@cache
def imported(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {one.name.partition(".")[0] for one in node.names if one.name != TEXT_ONLY}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            if node.module == TEXT_ONLY:
                continue
            found.add(node.module.partition(".")[0])
    return found


def sends(path: Path) -> bool:
    """Whether a module imports what opens connections from the HTTP client, or all of it."""
    return any(
        isinstance(node, ast.ImportFrom)
        and (
            (node.module == "assay.http_client" and {one.name for one in node.names} & OPENING)
            or (node.module == "assay" and "http_client" in {one.name for one in node.names})
        )
        for node in ast.walk(ast.parse(path.read_text()))
    )


def test_network_is_used_only_where_the_user_names_it(root: Path) -> None:
    package = root / "python" / "assay"
    users = {
        str(path.relative_to(package)): imported(path) & NETWORK for path in package.rglob("*.py")
    }
    used = {name: modules for name, modules in users.items() if modules}
    assert used == {
        SERVER: {"socket"},
        ENGINES: {"socket"},
        HTTP: {"socket"},
        LINK: {"socket"},
        SECOND: {"socket"},
        UI_SERVER: {"socket"},
        MCP: {"socket"},
        STORE: {"obstore"},
        BUCKET: {"obstore"},
        S3: {"obstore"},
        CLIENT: {"http", "ssl"},
        FREE_PORT: {"socket"},
        ON_NODES: {"socket"},
    }
    assert {name for name in users if sends(package / name)} == SENDERS
    assert "create_connection" in (package / LOAD).read_text()
    # It listens; it connects nowhere.
    calls = {
        node.attr
        for node in ast.walk(ast.parse((package / SERVER).read_text()))
        if isinstance(node, ast.Attribute)
    }
    assert "create_server" in calls
    assert (
        calls & {"connect", "connect_ex", "create_connection", "open_connection", "sendto"} == set()
    )


def test_only_few_modules_start_programs(root: Path) -> None:
    package = root / "python" / "assay"
    users = {
        str(path.relative_to(package))
        for path in package.rglob("*.py")
        if imported(path) & {"subprocess", "multiprocessing"}
    }
    assert PULL in users
    assert {name for name in users if not name.startswith("bench/")} == {
        PULL,
        ATTACH,
        SERVER_PROCESS,
        WATCHDOG,
        VETTING,
        SECOND,
        SOUNDS,
        PAGES,
        POWER,
        AGENTS,
        PROCESSES,
        ON_NODES,
    }


def test_telemetry_looks_for_servers_on_this_machine_only(root: Path) -> None:
    (finder,) = [
        node
        for node in ast.parse((root / "python/assay" / ENDPOINT).read_text()).body
        if isinstance(node, ast.FunctionDef) and node.name == "find_endpoints"
    ]
    first, other = [
        node.args[0]
        for node in ast.walk(finder)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "Endpoint"
    ]
    assert ast.unparse(first).startswith("f'http://127.0.0.1:")
    assert ast.unparse(other) == "endpoint.url"


def test_without_a_sink_that_is_named_telemetry_stays_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from assay.observe.telemetry import telemetry

    monkeypatch.setenv("ASSAY_SCRATCH", str(tmp_path))
    state = telemetry(run="r", sources=[])
    assert [one.name for one in state.sinks] == [f"parquet:{tmp_path}/telemetry/r"]
