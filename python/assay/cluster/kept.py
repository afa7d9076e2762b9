"""Results of parts in a folder, by content: what was done once is not done again."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from assay import paths


@dataclass(frozen=True)
class KeptParts:
    """A file for each part, which begins with the digest of what follows."""

    folder: Path

    def get(self, key: str) -> str | None:
        """A result; None where there is none, or a damaged one."""
        try:
            digest, _, content = self._path(key).read_bytes().partition(b"\n")
        except OSError:
            return None
        if hashlib.sha256(content).hexdigest().encode() != digest:
            return None
        return content.decode()

    def put(self, key: str, result: str) -> None:
        """Keep a result, whole or not at all."""
        content = result.encode()
        digest = hashlib.sha256(content).hexdigest().encode()
        paths.write_atomically(self._path(key), digest + b"\n" + content)

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / key


def kept_parts() -> KeptParts:
    """Those of this user."""
    return KeptParts(paths.cache("parts"))
