"""A pytest plugin that runs a few small cases of every test and records which kernels they compile.

`FEW_CASES` is the number of cases of each test, and `FEW_CASES_LIST` a file to write the chosen ones
to, smallest first. `FEW_CASES_ONLY` is a file of cases to run instead, in its order. Each start and
end of a case is appended to `FEW_CASES_PROGRESS`, the end with the kernels that it compiled.
"""

import functools
import json
import os
from collections import defaultdict
from collections.abc import Iterator
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


def _size(item: pytest.Item) -> float:
    """The product of a case's integer parameters: roughly how much it computes.

    A test without any has its sizes inside, which are seldom small.
    """
    sizes = []
    for value in getattr(getattr(item, "callspec", None), "params", {}).values():
        numbers = value if isinstance(value, (tuple, list)) else (value,)
        sizes += [number for number in numbers if type(number) is int and number > 0]
    size = 1.0
    for number in sizes:
        size *= number
    return size if sizes else 1e6


def _few(items: list[pytest.Item], limit: int) -> list[pytest.Item]:
    """Cases of each test, spread over its string and boolean parameters, smallest first."""
    by_labels: dict[str, dict[str, pytest.Item]] = defaultdict(dict)
    for item in sorted(items, key=_size):
        parameters = getattr(getattr(item, "callspec", None), "params", {})
        labels = repr([value for value in parameters.values() if isinstance(value, str | bool)])
        by_labels[item.nodeid.partition("[")[0]].setdefault(labels, item)
    selected = []
    for cases in by_labels.values():
        chosen = list(cases.values())
        step = max(1.0, len(chosen) / limit)
        selected += [chosen[int(at * step)] for at in range(min(limit, len(chosen)))]
    return sorted(selected, key=_size)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Select the cases to run, and list them."""
    if only := os.environ.get("FEW_CASES_ONLY"):
        by_name = {item.nodeid: item for item in items}
        items[:] = [by_name[name] for name in Path(only).read_text().splitlines()]
    else:
        items[:] = _few(items, int(os.environ.get("FEW_CASES", "6")))
    if listed := os.environ.get("FEW_CASES_LIST"):
        Path(listed).write_text("".join(f"{item.nodeid}\n" for item in items))


def _tell(**event: object) -> None:
    if progress := os.environ.get("FEW_CASES_PROGRESS"):
        with Path(progress).open("a") as file:
            file.write(json.dumps(event) + "\n")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Tell when a case starts and when it has ended."""
    _COMPILED.clear()
    _tell(start=item.nodeid)
    handled = yield
    _tell(end=item.nodeid, kernels=sorted(_COMPILED))
    return handled
