"""The code blocks of all documents, and the commands in them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_BLOCK = re.compile(r"^(?P<margin> *)```(?P<language>\w*)\n(?P<text>.*?)^ *```$", re.M | re.S)
# A comment, or a description in a column of its own.
_REMARK = re.compile(r"(?:\s+# .*| {3,}\S.*)$")
PROGRAMS = re.compile(
    r"(?:\.venv/bin/|\S*/)?(?:assay|make|pip|python[\d.]*|pytest|cargo|curl|tar|cd|echo|eval|export|ffmpeg|lm_eval|ray|uv|vllm)"
    r"(?= |$)"
    r"|[A-Z_]+=\S+ \S"
)
SHELL = ("", "sh", "console")


@dataclass(frozen=True)
class Block:
    """A code block, where it stands, and what it is written in."""

    document: str
    line: int
    language: str
    text: str

    @property
    def place(self) -> str:
        """Document and line."""
        return f"{self.document}:{self.line}"

    @property
    def commands(self) -> list[str]:
        """The command lines, without prompts and remarks; empty where it holds something else."""
        if self.language not in SHELL:
            return []
        joined = re.sub(r"\\\n\s*", "", self.text)
        lines = [line.strip().removeprefix("$ ") for line in joined.splitlines()]
        return [_REMARK.sub("", line) for line in lines if PROGRAMS.match(line)]


def blocks_of(document: str, text: str) -> Iterator[Block]:
    """The code blocks of a document."""
    for match in _BLOCK.finditer(text):
        margin = len(match["margin"])
        lines = [line[margin:] for line in match["text"].splitlines()]
        yield Block(
            document,
            text.count("\n", 0, match.start()) + 1,
            match["language"],
            "\n".join(lines) + "\n",
        )


def all_blocks(root: Path) -> list[Block]:
    """The code blocks of every document of the repository."""
    paths = [*sorted(root.glob("*.md")), *sorted((root / "docs").rglob("*.md"))]
    return [
        block
        for path in paths
        for block in blocks_of(path.relative_to(root).as_posix(), path.read_text("utf-8"))
    ]
