"""Parses a kernel's parameters from its declaration in CUDA C++."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from assay.errors import InputError

# A comment that never ends goes to the end: to look for its end again from every `/*` within would
# take quadratic time.
_COMMENT: Final = re.compile(r"//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_QUALIFIED_VOID: Final = re.compile(r"[\w\s(),*+]*")
_VOID: Final = re.compile(r"\bvoid\b")
_QUALIFIERS: Final = frozenset(
    {"const", "volatile", "__restrict__", "restrict", "__grid_constant__"}
)

_INTEGERS: Final = {
    "bool": "bool",
    "char": "int8",
    "signed char": "int8",
    "int8_t": "int8",
    "unsigned char": "uint8",
    "uint8_t": "uint8",
    "u8": "uint8",
    "short": "int16",
    "int16_t": "int16",
    "unsigned short": "uint16",
    "uint16_t": "uint16",
    "u16": "uint16",
    "int": "int32",
    "signed": "int32",
    "signed int": "int32",
    "int32_t": "int32",
    "unsigned": "uint32",
    "unsigned int": "uint32",
    "uint32_t": "uint32",
    "u32": "uint32",
    "long": "int64",
    "long int": "int64",
    "long long": "int64",
    "long long int": "int64",
    "int64_t": "int64",
    "ptrdiff_t": "int64",
    "i64": "int64",
    "unsigned long": "uint64",
    "unsigned long int": "uint64",
    "unsigned long long": "uint64",
    "unsigned long long int": "uint64",
    "uint64_t": "uint64",
    "size_t": "uint64",
    "u64": "uint64",
}
_ELEMENTS: Final = _INTEGERS | {
    "float": "float32",
    "double": "float64",
    "__half": "float16",
    "half": "float16",
    "fp16": "float16",
    "__nv_bfloat16": "bfloat16",
    "bf16": "bfloat16",
}
"""C++ types and the element types of arrays that they point to."""

_SCALARS: Final = {
    "int32": "i32",
    "uint32": "u32",
    "int64": "i64",
    "uint64": "u64",
    "float32": "f32",
    "float64": "f64",
}
"""Element types that can be passed by value, and their names in a launch."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a kernel."""

    name: str
    type: str
    """as in C++, without qualifiers"""
    pointer: bool
    writes: bool
    """whether the pointee is not const"""
    element: str | None
    """the arrays' element type; None accepts any"""
    scalar: str | None
    """the name of a scalar type in a launch"""


@dataclass(frozen=True, slots=True)
class Signature:
    """A kernel's name and parameters."""

    name: str
    parameters: tuple[Parameter, ...]


def read(source: str, name: str | None) -> Signature:
    """The kernel of this name in a source, or its only one.

    >>> read('extern "C" __global__ void f(const float* x, int n) { }', None).parameters[0].writes
    False
    """
    code = _COMMENT.sub(" ", source)
    kernels = dict(_kernels(code))
    if not kernels:
        raise InputError(
            "jit.kernel: expected a kernel, got a source without one",
            'write: extern "C" __global__ void name(float* x, int n) { ... }',
        )
    if name is None and len(kernels) > 1:
        raise InputError(
            f"jit.kernel: expected the name of one kernel, got a source with {', '.join(kernels)}",
            'say which: jit.kernel(source, "name")',
        )
    selected = next(iter(kernels)) if name is None else name
    if selected not in kernels:
        raise InputError(
            f'jit.kernel: expected a kernel "{selected}", got a source with {", ".join(kernels)}'
        )
    texts = [text for text in kernels[selected].split(",") if text.strip() not in ("", "void")]
    return Signature(selected, tuple(_parameter(selected, text) for text in texts))


def _kernels(code: str) -> Iterator[tuple[str, str]]:
    """The name and the parameters of each kernel that has a body.

    >>> list(_kernels("__global__ void __launch_bounds__(256) f(float* x, int n) { }"))
    [('f', 'float* x, int n')]
    """
    for text in code.split("__global__")[1:]:
        head, body, _ = text.partition("{")
        head = head.rstrip()
        if not body or not head.endswith(")"):
            continue
        left, parenthesis, parameters = head[:-1].rpartition("(")
        left = left.rstrip()
        start = len(left)
        while start and (left[start - 1].isalnum() or left[start - 1] == "_"):
            start -= 1
        name, before = left[start:], left[:start]
        if (
            parenthesis
            and ")" not in parameters
            and name.isidentifier()
            and _QUALIFIED_VOID.fullmatch(before)
            and _VOID.search(before)
        ):
            yield name, parameters


def _parameter(kernel: str, text: str) -> Parameter:
    shown = " ".join(text.split())
    left, star, right = text.rpartition("*")
    words = (left if star else text).split()
    name = right.split() if star else words[-1:]
    identifiers = [word for word in name if word not in _QUALIFIERS]
    type_words = [word for word in (words if star else words[:-1]) if word not in _QUALIFIERS]
    if len(identifiers) != 1 or not type_words or "*" in left or "[" in text or "&" in text:
        raise InputError(
            f'jit.kernel: {kernel}: expected a parameter such as "const float* x" or "int n", '
            f'got "{shown}"'
        )
    spelled = " ".join(type_words)
    element = _ELEMENTS.get(spelled)
    scalar = None if star or element is None else _SCALARS.get(element)
    if not star and scalar is None:
        raise InputError(
            f'jit.kernel: {kernel}: expected a number of 32 or 64 bits or a pointer, got "{shown}"',
            "pass smaller things by pointer, or as int or float",
        )
    return Parameter(
        name=identifiers[0],
        type=spelled,
        pointer=bool(star),
        writes=bool(star) and "const" not in words,
        element=element if star else None,
        scalar=scalar,
    )
