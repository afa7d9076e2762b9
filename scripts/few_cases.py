"""A pytest plugin: a few cases of every test, the smallest first, and which kernels they compiled.

`FEW_CASES` is how many of each test are kept; with `FEW_CASES_KERNELS` the names of the kernel
files are written there when the tests are over.
"""

import functools
import os
from collections import defaultdict
from pathlib import Path

import pytest

import kernel_harness

_COMPILED: set[str] = set()
_compile = kernel_harness.compile_kernel


@functools.cache
def _note(file: str, architecture: str, options: tuple[str, ...]) -> bytes:
    _COMPILED.add(Path(file).name)
    return _compile(file, architecture, options)


kernel_harness.compile_kernel = _note


def _size(item: pytest.Item) -> int:
    """The product of the whole numbers that a case is told: about how much it computes."""
    size = 1
    for value in getattr(getattr(item, "callspec", None), "params", {}).values():
        numbers = value if isinstance(value, (tuple, list)) else (value,)
        for number in numbers:
            if isinstance(number, int) and number > 0:
                size *= number
    return size


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep, of each test, cases spread over what they are told, with small ones for their sizes."""
    few = int(os.environ.get("FEW_CASES", "6"))
    by_words: dict[str, dict[str, pytest.Item]] = defaultdict(dict)
    for item in sorted(items, key=_size):
        told = getattr(getattr(item, "callspec", None), "params", {})
        words = repr([value for value in told.values() if isinstance(value, str | bool)])
        by_words[item.nodeid.partition("[")[0]].setdefault(words, item)
    kept = set()
    for cases in by_words.values():
        chosen = list(cases.values())
        step = max(1.0, len(chosen) / few)
        kept |= {id(chosen[int(at * step)]) for at in range(min(few, len(chosen)))}
    items[:] = [item for item in items if id(item) in kept]


def pytest_sessionfinish() -> None:
    """Tell which kernels were compiled."""
    if told := os.environ.get("FEW_CASES_KERNELS"):
        Path(told).write_text("\n".join(sorted(_COMPILED)))
