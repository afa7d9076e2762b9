"""Bodies of multipart/form-data (RFC 7578): fields of a form, and files."""

from __future__ import annotations

from dataclasses import dataclass
from email.message import Message
from typing import Final

from assay.engine.server.errors import ApiError

_MOST_FIELDS: Final = 64
_LONGEST_BOUNDARY: Final = 70
"""Characters, as RFC 2046 says."""


@dataclass(frozen=True, slots=True)
class FormField:
    """A field of a form."""

    name: str
    content: bytes
    filename: str | None = None

    @property
    def text(self) -> str:
        """Its content as text."""
        try:
            return self.content.decode("utf-8")
        except UnicodeDecodeError:
            raise ApiError(f"{self.name}: expected UTF-8, got other bytes") from None


def read_form(content_type: str, body: bytes) -> list[FormField]:
    """The fields of a form, in order."""
    header = Message()
    header["Content-Type"] = content_type
    boundary = header.get_param("boundary")
    is_form = header.get_content_type() == "multipart/form-data"
    if not is_form or not isinstance(boundary, str) or len(boundary) > _LONGEST_BOUNDARY:
        raise ApiError(
            f"content-type: expected multipart/form-data with a boundary, got {content_type!r:.100}"
        )
    delimiter = b"--" + boundary.encode()
    # A form begins with its boundary; every later one is on a line of its own.
    parts = (b"\r\n" + body).split(b"\r\n" + delimiter)
    if len(parts) < 2 or not parts[-1].startswith(b"--"):
        raise ApiError("body: expected a form that ends with its boundary, got another")
    if len(parts) - 2 > _MOST_FIELDS:
        raise ApiError(f"body: expected at most {_MOST_FIELDS} fields, got {len(parts) - 2}")
    return [_field(part) for part in parts[1:-1]]


def _field(part: bytes) -> FormField:
    head, separator, content = part.removeprefix(b"\r\n").partition(b"\r\n\r\n")
    disposition = Message()
    for line in head.decode("utf-8", errors="replace").split("\r\n"):
        name, _, value = line.partition(":")
        if name.strip().lower() == "content-disposition":
            disposition["Content-Disposition"] = value.strip()
    named = disposition.get_param("name", header="content-disposition")
    if not separator or not isinstance(named, str):
        raise ApiError("body: expected fields with a content-disposition and a name")
    return FormField(named, content, disposition.get_filename())
