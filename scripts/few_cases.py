"""A pytest plugin that runs a few small cases of every test and records which kernels they compile.

`FEW_CASES` is the number of cases of each test; the names of the kernel files are written to the
file `FEW_CASES_KERNELS` at the end of the session.
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
    """The product of a case's integer parameters: roughly how much it computes."""
    size = 1
    for value in getattr(getattr(item, "callspec", None), "params", {}).values():
        numbers = value if isinstance(value, (tuple, list)) else (value,)
        for number in numbers:
            if isinstance(number, int) and number > 0:
                size *= number
    return size


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Select cases of each test, spread over its string and boolean parameters, smallest first."""
    limit = int(os.environ.get("FEW_CASES", "6"))
    by_labels: dict[str, dict[str, pytest.Item]] = defaultdict(dict)
    for item in sorted(items, key=_size):
        parameters = getattr(getattr(item, "callspec", None), "params", {})
        labels = repr([value for value in parameters.values() if isinstance(value, str | bool)])
        by_labels[item.nodeid.partition("[")[0]].setdefault(labels, item)
    selected = set()
    for cases in by_labels.values():
        chosen = list(cases.values())
        step = max(1.0, len(chosen) / limit)
        selected |= {id(chosen[int(at * step)]) for at in range(min(limit, len(chosen)))}
    items[:] = [item for item in items if id(item) in selected]


def pytest_sessionfinish() -> None:
    """Write the names of the compiled kernels."""
    if parameters := os.environ.get("FEW_CASES_KERNELS"):
        Path(parameters).write_text("\n".join(sorted(_COMPILED)))
