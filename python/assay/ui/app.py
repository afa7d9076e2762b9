"""The FastAPI application: the API of every page, and the built front end."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterable
from importlib import import_module
from typing import Final

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import Response

from assay import __version__
from assay.ui import api, errors
from assay.ui.assets import read_assets
from assay.ui.security import Guard, check_token

PREFIX: Final = "/api/v1"

_ABOUT: Final = """\
The answers of the commands over HTTP: each is what the command prints with `--json --verbose`. Every request
needs the token that `assay ui` printed, as `Authorization: Bearer TOKEN`.
"""


def routers() -> list[APIRouter]:
    """The router of every module in `assay.ui.api` that has one."""
    of_modules = []
    for module in sorted(pkgutil.iter_modules(api.__path__), key=lambda module: module.name):
        router = getattr(import_module(f"{api.__name__}.{module.name}"), "router", None)
        if isinstance(router, APIRouter):
            of_modules.append(router)
    return of_modules


def create_app(token: str, host_names: Iterable[str] = ()) -> FastAPI:
    """An application whose API needs a token; `host_names` are what browsers may call it."""
    check_token(token)
    # FastAPI's documentation pages would load scripts from other hosts.
    app = FastAPI(
        title="Assay",
        version=__version__,
        description=_ABOUT,
        docs_url=None,
        redoc_url=None,
        openapi_url=f"{PREFIX}/openapi.json",
    )
    app.add_middleware(Guard, token=token, host_names=tuple(host_names))
    errors.install(app)
    for router in routers():
        app.include_router(router, prefix=PREFIX)
    assets = read_assets()

    @app.api_route("/{path:path}", methods=["GET", "HEAD"], include_in_schema=False)
    def asset(path: str, request: Request) -> Response:
        stored = assets.get(f"/{path}")
        if stored is None:
            raise errors.NotThereError(f"there is no {request.url.path}")
        headers = {"ETag": stored.etag, "Cache-Control": "no-cache"}
        if request.headers.get("if-none-match") == stored.etag:
            return Response(status_code=304, headers=headers)
        return Response(stored.content, headers=headers, media_type=stored.media_type)

    return app
