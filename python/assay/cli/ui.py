"""`assay ui`: the pages, served to this machine."""

import importlib.util
import ipaddress
import os
import platform
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Annotated, Final

from assay.cli import options, verbosity
from assay.cli.declaring import option
from assay.cli.output import show_note, show_progress, to_json
from assay.errors import InputError
from assay.paths import scratch

DEFAULT_PORT: Final = 8321


def ui_command(
    host: Annotated[
        str, option("--host", "The address to listen on; 0.0.0.0 is every interface.")
    ] = "127.0.0.1",
    port: Annotated[
        int, option("--port", "The port; 0 picks a free one.", min=0, max=65535)
    ] = DEFAULT_PORT,
    page: Annotated[str, option("--page PATH", "The page to open, such as runs/latest.")] = "",
    no_open: Annotated[bool, option("--no-open", "Print the address and open no browser.")] = False,
    token: Annotated[
        str | None, option("--token", "What the address must hold; a random one if not given.")
    ] = None,
    as_json: options.Json = False,
) -> int:
    """Open Assay's pages in a browser.

    Serves them and the JSON API behind them, /api/v1, which answers what the commands print with
    --json. Only this machine can connect, unless --host names another address; every request needs
    the token in the printed address. ctrl-c ends it.
    """
    missing = [n for n in ("fastapi", "uvicorn") if importlib.util.find_spec(n) is None]
    if missing:
        raise InputError(
            f"assay ui needs {', '.join(missing)}, which is not installed",
            "install them with: pip install 'assay[ui]'",
        )
    from assay.engine.server.http_server import listen
    from assay.ui.app import create_app
    from assay.ui.security import check_token
    from assay.ui.server import leave_busy_threads, serve

    token = secrets.token_urlsafe(24) if token is None else token
    check_token(token)
    with listen(host, port) as listener:
        address, bound_port = listener.getsockname()[:2]
        is_loopback = ipaddress.ip_address(address).is_loopback
        host_names = [host, *(() if is_loopback else (platform.node(),))]
        app = create_app(token, host_names)
        fragment = f"token={token}" + (f"&to=/{page.lstrip('/')}" if page else "")
        link = f"http://{_shown(host, address)}:{bound_port}/#{fragment}"
        sys.stdout.write((to_json({"url": link}) if as_json else link) + "\n")
        sys.stdout.flush()
        if not is_loopback:
            show_note(
                "others can connect: everybody who has this address can use it, over plain HTTP"
            )
        show_progress("serving until ctrl-c")
        # Commands that answer requests would draw their progress over each other.
        verbosity.reset()
        verbosity.choose(verbosity.Verbosity.QUIET)
        with nullcontext() if no_open else _opened(link, bound_port):
            serve(app, listener)
    leave_busy_threads()
    return 0


def _shown(host: str, address: str) -> str:
    """The host of the printed address; every interface is reached by the machine's name."""
    if ipaddress.ip_address(address).is_unspecified:
        return platform.node()
    return f"[{host}]" if ":" in host else host


@contextmanager
def _opened(link: str, port: int) -> Iterator[None]:
    """Open a browser by a file that only this user can read.

    The address on the command line of a browser would show the token to every user.
    """
    import webbrowser

    if sys.platform == "linux" and not {"DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys():
        yield
        return
    path = scratch() / "ui" / f"open-{port}.html"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w") as file:
        file.write(f'<!doctype html><meta http-equiv="refresh" content="0;url={link}">\n')
    try:
        webbrowser.open(path.as_uri())
        yield
    finally:
        path.unlink(missing_ok=True)
