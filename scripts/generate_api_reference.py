"""Writes docs/reference/api.md from the OpenAPI schema of the pages' server.

python scripts/generate_api_reference.py          # write it
python scripts/generate_api_reference.py --check  # exit with 1 if it is out of date
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from assay.ui.app import PREFIX, create_app
from generated_pages import write_or_check

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "api.md"
COMMAND = "python scripts/generate_api_reference.py"
_TOKEN = "the-schema-needs-no-token"


def write_page() -> str:
    """The whole page as Markdown."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    schema = create_app(_TOKEN).openapi()
    yield "# The API of the pages"
    yield ""
    yield f"Written by `{COMMAND}` from the OpenAPI schema, which `assay ui` serves at"
    yield f"`{PREFIX}/openapi.json`; do not edit. `{PREFIX}` is version 1: fields may be added to its answers, none"
    yield "is removed or changes its meaning. What a command prints with `--json --verbose` is sent byte for byte."
    yield ""
    yield "Every request needs `Authorization: Bearer TOKEN` and a Host header that names this server. Refusals are"
    yield '`{"error": {"message", "hint", "exit_code"}}` with status 400, 401, 403, 404, 413, 421 or 422.'
    for tag, operations in _by_tag(schema["paths"]).items():
        yield ""
        yield f"## {tag}"
        yield ""
        yield "| request | answer | parameters |"
        yield "|---|---|---|"
        for path, method, operation in operations:
            request = f"`{method.upper()} {path.removeprefix(PREFIX)}`"
            about = " ".join(operation["description"].split())
            yield f"| {request} | {about} | {_parameters(operation)} |"
    yield ""


def _by_tag(
    paths: Mapping[str, Mapping[str, Any]],
) -> dict[str, list[tuple[str, str, Mapping[str, Any]]]]:
    by_tag: dict[str, list[tuple[str, str, Mapping[str, Any]]]] = {}
    for path, methods in paths.items():
        for method, operation in methods.items():
            by_tag.setdefault(operation["tags"][0], []).append((path, method, operation))
    return by_tag


def _parameters(operation: Mapping[str, Any]) -> str:
    texts = []
    for parameter in operation.get("parameters", ()):
        about = parameter.get("description") or parameter["schema"].get("title", "")
        needed = ", needed" if parameter["in"] == "query" and parameter.get("required") else ""
        texts.append(f"`{parameter['name']}`{needed}: {about.rstrip('.')}")
    return "; ".join(texts).replace("|", "or") or "none"


def main(arguments: Sequence[str]) -> int:
    """Write the page, or compare it."""
    return write_or_check({PAGE: write_page()}, COMMAND, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
