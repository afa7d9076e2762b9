"""What makes a run of all tests cheap: fewer doctest modules, and no garbage searched twice."""

import gc
from collections.abc import Generator
from pathlib import Path

import pytest
from _pytest.doctest import DoctestModule

Collectors = list[pytest.Collector]


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Generator[None, Collectors, Collectors]:
    """Leaves out modules without an example, which would be imported and searched for nothing."""
    collectors = yield
    if ">>> " in file_path.read_text("utf-8", errors="replace"):
        return collectors
    return [one for one in collectors if not isinstance(one, DoctestModule)]


def pytest_collection_finish() -> None:
    """Tells the garbage collector that modules and tests stay.

    It would look at each of their millions of objects again and again: an eighth of the CPU time.
    """
    gc.collect()
    gc.freeze()
