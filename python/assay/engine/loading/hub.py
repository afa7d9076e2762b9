"""Models of a hub by the name of a repository, and of any server by the address of a file.

Nothing is downloaded here: names, addresses, and where what `assay pull` fetched is stored.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, unquote, urlsplit

from assay.engine.loading.sources import is_stored, models_folder
from assay.errors import InputError

ENDPOINT_VARIABLE: Final = "HF_ENDPOINT"
TOKEN_VARIABLE: Final = "HF_TOKEN"
DEFAULT_ENDPOINT: Final = "https://huggingface.co"
RECORD: Final = ".pulled.json"
"""What was fetched into a folder, by what was asked for."""

_REPOSITORY: Final = re.compile(
    r"(?P<name>[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95})"
    r"(?:@(?P<revision>[\w.-]{1,100}))?(?::(?P<file>[\w./ -]{1,200}))?"
)
_HUB_HOSTS: Final = ("huggingface.co", "www.huggingface.co", "hf.co")


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository of a hub; `file` is one of its files, or the quantization of a GGUF file."""

    name: str
    file: str | None = None
    revision: str = "main"

    @property
    def folder(self) -> Path:
        """Where its files are stored."""
        return models_folder() / "hub" / self.name

    @property
    def key(self) -> str:
        """What was asked for, in the folder's record."""
        return f"{self.revision}:{self.file or ''}"

    @property
    def command(self) -> str:
        """The argument of `assay pull`."""
        revision = "" if self.revision == "main" else f"@{self.revision}"
        return self.name + revision + ("" if self.file is None else f":{self.file}")

    @property
    def listing(self) -> str:
        """The URL that lists its files."""
        return f"{endpoint()}/api/models/{self.name}/revision/{self.revision}?blobs=true"

    def address(self, revision: str, file: str) -> str:
        """The URL of one of its files."""
        return f"{endpoint()}/{self.name}/resolve/{revision}/{quote(file)}"


@dataclass(frozen=True, slots=True)
class FileAddress:
    """A file of a server."""

    url: str

    @property
    def file_name(self) -> str:
        """The last part of its path."""
        return unquote(urlsplit(self.url).path).rpartition("/")[2]

    @property
    def folder(self) -> Path:
        """Where it is stored."""
        return models_folder() / "files" / hashlib.sha256(self.url.encode()).hexdigest()[:16]

    @property
    def key(self) -> str:
        """What was asked for, in the folder's record."""
        return self.url

    @property
    def command(self) -> str:
        """The argument of `assay pull`."""
        return self.url


Remote = Repository | FileAddress


def endpoint() -> str:
    """The hub's address."""
    return os.environ.get(ENDPOINT_VARIABLE, "").rstrip("/") or DEFAULT_ENDPOINT


def parse(text: str) -> Remote | None:
    """A repository (ORG/NAME, ORG/NAME@REVISION, ORG/NAME:FILE) or an address; None if it is neither.

    >>> parse("bartowski/gemma-GGUF:Q4_K_M").file
    'Q4_K_M'
    """
    scheme = text.partition("://")[0]
    if scheme in ("http", "https") and scheme != text:
        return _from_address(text)
    plain = text.removeprefix("hf.co/").removeprefix("huggingface.co/").removeprefix("hf://")
    parts = _REPOSITORY.fullmatch(plain)
    # A file that is not there, not a repository of that name.
    if parts is None or parts["name"].endswith(".gguf"):
        return None
    return Repository(parts["name"], parts["file"], parts["revision"] or "main")


def _from_address(text: str) -> Remote:
    parts = urlsplit(text)
    words = parts.path.strip("/").split("/")
    is_hub = parts.netloc in (*_HUB_HOSTS, urlsplit(endpoint()).netloc)
    if is_hub and len(words) == 2:
        return Repository("/".join(words))
    if is_hub and len(words) >= 5 and words[2] in ("blob", "resolve"):
        return Repository("/".join(words[:2]), unquote("/".join(words[4:])), words[3])
    address = FileAddress(text)
    if Path(address.file_name).suffix != ".gguf":
        raise InputError(
            f"{text}: expected the address of a GGUF file, got {address.file_name or 'no file'!r}",
            "a model of several files is a repository: assay pull ORG/NAME",
        )
    return address


def read_record(folder: Path) -> dict[str, Any]:
    """What was fetched into a folder; nothing where there is no record."""
    try:
        record = json.loads((folder / RECORD).read_bytes())
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}


def fetched() -> Iterator[tuple[Remote, dict[str, Any]]]:
    """Every model that was fetched and is there, with what is recorded of it."""
    for record in sorted((models_folder() / "hub").glob(f"*/*/{RECORD}")):
        name = "/".join(record.parent.parts[-2:])
        for key, entry in read_record(record.parent).items():
            revision, _, file = key.partition(":")
            remote = Repository(name, file or None, revision)
            if stored_path(remote) is not None:
                yield remote, entry
    for record in sorted((models_folder() / "files").glob(f"*/{RECORD}")):
        for key, entry in read_record(record.parent).items():
            if stored_path(FileAddress(key)) is not None:
                yield FileAddress(key), entry


def stored_path(remote: Remote) -> Path | None:
    """What opens a model that was fetched; None unless all of its files are there."""
    entry = read_record(remote.folder).get(remote.key)
    if not isinstance(entry, dict):
        return None
    files = entry["files"].items()
    if not all(is_stored(remote.folder / name, file["nbytes"]) for name, file in files):
        return None
    return remote.folder / entry["opens"] if entry["opens"] else remote.folder
