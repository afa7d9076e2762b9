"""Takes names and prompts out of data: every value becomes a word that stands for it everywhere.

The word is an HMAC of the value under a key that stays on this machine, in letters: equal values stay
equal, nobody without the key can try values, and no number appears that a claim does not have.
Replaced are prompts and messages, names of hosts, users and processes, paths, hosts of URLs, e-mail
addresses, and names that a caller gives. Figures, settings, kernels and models stay.
"""

from __future__ import annotations

import getpass
import hashlib
import hmac
import json
import os
import platform
import re
import secrets
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from assay import paths
from assay.errors import InputError
from assay.lazy_import import pl
from assay.observe.trace import CAPTURED_EVENTS, CAPTURED_STEPS, EVENTS, STEPS, Trace
from assay.parquet import read_table
from assay.report.name_search import holds_name, replaced_names

PROMPTS: Final = frozenset(
    [
        "prompt",
        "prompts",
        "messages",
        "completion",
        "completions",
        "answer",
        "answers",
        "system_prompt",
        "output_text",
    ]
)
"""Entries and columns whose texts are replaced as a whole."""
NAMES: Final = frozenset(["host", "hostname", "node", "user", "username", "processes"])
"""The same for names of machines, people and programs."""
_TEXTS: Final = (".md", ".txt", ".html", ".yaml", ".yml", ".toml", ".csv", ".patch")
_PATH: Final = re.compile(r"(?<![\w./:~-])(?:~|/[\w.@+-]+)(?:/[\w.@+-]+)+/?")
_PUBLIC_PATHS: Final = ("/proc/", "/sys/", "/dev/", "/usr/", "/v1/", "/bin/")
_URL_HOST: Final = re.compile(r"(?<=://)[^/\s:@\"']+")
_EMAIL: Final = re.compile(r"(?<![\w.+-])[\w.+-]+@[\w-]+\.[\w.-]+")
_LOCAL: Final = ("localhost", "127.0.0.1", "0.0.0.0", "[")
_GENERIC: Final = ("root", "user", "ubuntu", "localhost", "admin", "host", "node", "runner")
_LEAST_NAME: Final = 3
_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz"


class Redactor:
    """Replaces what is private, the same value by the same word."""

    def __init__(self, names: Sequence[str] = (), key: bytes | None = None) -> None:
        for name in names:
            if len(name) < _LEAST_NAME:
                raise InputError(
                    f"--redact-name: expected {_LEAST_NAME} letters or more, got {name!r}"
                )
        own = [name for name in (platform.node(), _user()) if name.lower() not in _GENERIC]
        self._names = sorted({*names, *(name for name in own if len(name) >= _LEAST_NAME)})
        self._key = _stored_key() if key is None else key

    def word(self, value: str) -> str:
        """The word that stands for a value.

        >>> Redactor(key=b"k").word("a") == Redactor(key=b"k").word("a") != Redactor(key=b"l").word("a")
        True
        """
        digest = hmac.new(self._key, value.encode(), hashlib.sha256).digest()
        return "redacted-" + "".join(_LETTERS[byte % 26] for byte in digest[:12])

    def text(self, text: str) -> str:
        """A text without paths, hosts, addresses and names.

        >>> Redactor(key=b"").text("9 tokens/s of http://localhost:8000/v1, 5 % of /proc/stat")
        '9 tokens/s of http://localhost:8000/v1, 5 % of /proc/stat'
        """
        text = _EMAIL.sub(lambda match: self.word(match[0]), text)
        text = _URL_HOST.sub(self._host, text)
        text = _PATH.sub(self._path, text)
        return replaced_names(text, self._names, self.word)

    def data(self, value: Any, key: str = "") -> Any:
        """The same for every text of JSON data; entries of prompts and names as a whole."""
        if isinstance(value, str):
            is_whole = bool(value) and (key in PROMPTS or key in NAMES)
            return self.word(value) if is_whole else self.text(value)
        if isinstance(value, dict):
            whole = key if key in PROMPTS or key in NAMES else ""
            return {
                self.text(str(name)): self.data(item, whole or name) for name, item in value.items()
            }
        if isinstance(value, (list, tuple)):
            return [self.data(item, key) for item in value]
        return value

    def folder(self, source: Path, target: Path, names: Sequence[str]) -> list[str]:
        """Write files of a folder to another without what is private; those that were left out."""
        left_out = []
        for name in names:
            if (
                Path(name).name == CAPTURED_STEPS
                and (source / name).with_name(CAPTURED_EVENTS).is_file()
            ):
                # Written with its events.
                continue
            if not self.file(source / name, target / name):
                left_out.append(name)
        return left_out

    def file(self, source: Path, target: Path) -> bool:
        """Write a file without what is private; False, and nothing written, where its kind is unknown."""
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.name == CAPTURED_EVENTS:
            # As tables: those of a capture cannot be written again.
            trace = Trace.open(source.parent)
            self.table(trace.events).write_parquet(target.with_name(EVENTS))
            self.table(trace.steps).write_parquet(target.with_name(STEPS))
        elif source.suffix == ".parquet":
            self.table(read_table(source)).write_parquet(target)
        elif source.suffix == ".json":
            data = json.loads(source.read_text(encoding="utf-8"))
            target.write_text(json.dumps(self.data(data), indent=1) + "\n", encoding="utf-8")
        elif source.suffix == ".jsonl":
            target.write_text("".join(self._lines(source)), encoding="utf-8")
        elif source.suffix in _TEXTS:
            target.write_text(self.text(source.read_text(encoding="utf-8")), encoding="utf-8")
        else:
            return False
        return True

    def table(self, frame: pl.DataFrame) -> pl.DataFrame:
        """A table whose texts, nested ones too, have nothing private."""
        changed = []
        for name, kind in frame.schema.items():
            if kind == pl.String:
                values = frame[name].unique().drop_nulls().to_list()
                words = {value: self._cell(value, name) for value in values}
                changed.append(
                    pl.Series(name, frame[name].replace_strict(words, return_dtype=kind))
                )
            elif kind.is_nested():
                values = [self.data(value, name) for value in frame[name].to_list()]
                changed.append(pl.Series(name, values, dtype=kind))
        result = frame.with_columns(changed)
        if {"source", "device"} <= set(frame.columns) and frame.schema["device"] == pl.String:
            # Telemetry of a host has the host's name as its device.
            devices = frame.filter(pl.col("source") == "host")["device"].unique().drop_nulls()
            words = {device: self.word(device) for device in devices}
            named = pl.col("device").replace(words) if words else pl.col("device")
            is_host = frame["source"] == "host"
            result = result.with_columns(
                pl.when(is_host).then(named).otherwise(pl.col("device")).alias("device")
            )
        return result

    def left_in(self, folder: Path) -> list[str]:
        """Files that still have a name in plain bytes; nothing is passed on while there are any."""
        files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
        return [
            path.relative_to(folder).as_posix()
            for path in files
            if holds_name(path.read_bytes(), self._names)
        ]

    def _cell(self, value: str, column: str) -> str:
        if value.startswith(("{", "[")):
            try:
                return json.dumps(self.data(json.loads(value), column))
            except (ValueError, RecursionError):
                # Not JSON after all.
                return self.text(value)
        return str(self.data(value, column))

    def _lines(self, source: Path) -> Iterator[str]:
        for line in source.read_text(encoding="utf-8").splitlines():
            if line.strip():
                yield json.dumps(self.data(json.loads(line))) + "\n"

    def _path(self, match: re.Match[str]) -> str:
        return match[0] if match[0].startswith(_PUBLIC_PATHS) else self.word(match[0])

    def _host(self, match: re.Match[str]) -> str:
        return match[0] if match[0].startswith((*_LOCAL, "redacted-")) else self.word(match[0])


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""


def _stored_key() -> bytes:
    """The key of this machine, made once: the same run redacted again is the same."""
    path = paths.scratch() / "redaction.key"
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return path.read_bytes()
    with os.fdopen(handle, "wb") as file:
        key = secrets.token_bytes(32)
        file.write(key)
    return key
