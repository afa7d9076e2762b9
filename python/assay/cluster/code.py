"""The sources of this package as one digest: equal digests compute equal results."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import Final

_READ: Final = (".py", ".json", ".toml", ".yaml")


@cache
def code_digest() -> str:
    """SHA-256 over names and contents of the sources, and of the data that comes with them."""
    package = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*")):
        if path.suffix in _READ:
            digest.update(str(path.relative_to(package)).encode())
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()
