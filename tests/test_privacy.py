"""Nothing is sent anywhere: only two modules can use the network."""

import ast
from pathlib import Path

NETWORK = {
    "aiohttp", "ftplib", "http", "httpx", "imaplib", "poplib", "requests", "smtplib", "socket",
    "socketserver", "ssl", "urllib", "urllib3", "websockets", "xmlrpc",
}  # fmt: skip
SERVER = "engine/server/http_server.py"
"""Listens for the clients of `assay serve`."""
PULL = "engine/loading/pulling.py"
"""Runs pip for `assay pull`."""


def imported(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {one.name.partition(".")[0] for one in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return found


def test_only_the_server_opens_sockets(root: Path) -> None:
    package = root / "python" / "assay"
    users = {
        str(path.relative_to(package)): imported(path) & NETWORK for path in package.rglob("*.py")
    }
    assert {name: used for name, used in users.items() if used} == {SERVER: {"socket"}}
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


def test_only_pull_and_benchmarks_start_programs(root: Path) -> None:
    package = root / "python" / "assay"
    users = {
        str(path.relative_to(package))
        for path in package.rglob("*.py")
        if imported(path) & {"subprocess", "multiprocessing"}
    }
    assert PULL in users
    assert {name for name in users if not name.startswith("bench/")} == {PULL}
