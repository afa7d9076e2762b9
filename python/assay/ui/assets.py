"""The built front end. Every file is known at the start, so that no path reaches another one."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final, NamedTuple

FOLDER: Final = Path(__file__).parent / "assets"

_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".wasm": "application/wasm",
    ".woff2": "font/woff2",
}


class Asset(NamedTuple):
    """A file of the front end."""

    content: bytes
    media_type: str
    etag: str


def read_assets(folder: Path = FOLDER) -> dict[str, Asset]:
    """Every file of the front end by its address; `/` is the page."""
    assets = {}
    for path in sorted(folder.rglob("*")):
        if path.suffix not in _TYPES or not path.is_file():
            continue
        content = path.read_bytes()
        etag = f'"{hashlib.sha256(content).hexdigest()[:20]}"'
        name = path.relative_to(folder).as_posix()
        assets[f"/{name}"] = Asset(content, _TYPES[path.suffix], etag)
    if page := assets.get("/index.html"):
        assets["/"] = page
    return assets
