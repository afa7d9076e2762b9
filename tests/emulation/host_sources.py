"""The sources of kernels/ for a host compiler: functions of inline PTX make room for emulated ones."""

import re
from collections.abc import Iterator
from pathlib import Path

from assay._native import cuda_sources

KERNELS = Path(__file__).parents[2] / "kernels"
HERE = Path(__file__).parent

_SKIPPED = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.DOTALL)
_DIRECTIVE = re.compile(r"[ \t]*#(?:[^\n\\]|\\.|\\\n)*\n?")
_MACRO = re.compile(r"\s*#define (\w+)")
_PTX = re.compile(r"\basm\b")
_KERNEL = re.compile(r"\bKERNEL\b")
_ALIGNED = re.compile(r"\balignas\((\w+)\)")
_SHARED = re.compile(r"\b__shared__ (\w+(?:<[^;<>]*>)?) (?=\w)")
_DYNAMIC = re.compile(r"extern __shared__ (?:__align__\(\d+\) )?(\w+) (\w+)\[\];")


class UnsupportedKernelError(Exception):
    """A kernel that has inline PTX in its own body."""


def declarations(text: str) -> Iterator[str]:
    """The declarations and directives at the top level of a file, with what stands before each."""
    at = begin = depth = 0
    while at < len(text):
        if depth == 0 and not text[begin:at].strip() and (found := _DIRECTIVE.match(text, at)):
            at = found.end()
            yield text[begin:at]
            begin = at
            continue
        if skipped := _SKIPPED.match(text, at):
            at = skipped.end()
            if depth == 0 and not _code(text[begin:at]):
                yield text[begin:at]
                begin = at
            continue
        character = text[at]
        at += 1
        if character in "({[":
            depth += 1
        elif character in ")}]":
            depth -= 1
        if depth == 0 and character in ";}":
            yield text[begin:at]
            begin = at
    yield text[begin:]


def _code(text: str) -> str:
    """The text without comments and strings."""
    return _SKIPPED.sub("", text).strip()


def host_source(name: str, text: str) -> str:
    """A file of kernels/ with its inline PTX left out."""
    for macro in [
        found[1]
        for one in declarations(text)
        if (found := _MACRO.match(one.lstrip())) and _PTX.search(_SKIPPED.sub("", one))
    ]:
        text = re.sub(rf"(?m)^{macro}\(.*\)$", "", text)
    parts = []
    included = False
    for declaration in declarations(text):
        code = _code(declaration)
        if not _PTX.search(code):
            parts.append(declaration)
            continue
        if _KERNEL.search(code):
            raise UnsupportedKernelError(f"{name}: expected a kernel without inline PTX of its own")
        if name == "prelude.cuh" and not included:
            included = True
            parts.append('\n#include "instructions.h"\n')
    dynamic = r"\1* const \2 = reinterpret_cast<\1*>(emulated::dynamic_shared);"
    text = _DYNAMIC.sub(dynamic, "".join(parts))
    # By default GCC aligns large objects to 32 bytes, a GPU's compiler as their type asks for.
    text = _SHARED.sub(r"__shared__ __attribute__((aligned(alignof(\1)))) \1 ", text)
    # GCC takes alignas only before other attributes.
    return _ALIGNED.sub(r"__attribute__((aligned(\1)))", text)


def write(folder: Path, changes: dict[str, tuple[str, str]] | None = None) -> None:
    """Write all sources that a host can compile; `changes` are texts to replace in files."""
    files = {path.name: path.read_text() for path in KERNELS.rglob("*.cu*")}
    for name, text in (dict(cuda_sources()) | files).items():
        if changes and name in changes:
            old, new = changes[name]
            assert text.count(old) == 1, f"{name}: expected one {old!r}, got {text.count(old)}"
            text = text.replace(old, new)
        try:
            text = host_source(name, text)
        except UnsupportedKernelError as error:
            text = f'#error "{error}"\n'
        (folder / name).write_text(text)
    for header in HERE.glob("*.h"):
        (folder / header.name).write_text(header.read_text())
