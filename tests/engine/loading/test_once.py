"""A value that several threads need is computed once, and so is its failure."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from assay.engine.loading.once import Once
from assay.errors import InputError


def test_concurrent_threads_get_one_value() -> None:
    computed: list[object] = []
    together = threading.Barrier(8)

    def compute() -> object:
        time.sleep(0.02)
        computed.append(object())
        return computed[-1]

    value = Once(compute)

    def get() -> object:
        together.wait()
        return value.get()

    with ThreadPoolExecutor(8) as threads:
        found = {id(one.result()) for one in [threads.submit(get) for _ in range(8)]}
    assert len(computed) == len(found) == 1


def test_value_begun_in_the_background_is_computed_once() -> None:
    computed: list[int] = []
    value = Once(lambda: computed.append(1))
    value.begin()
    value.begin()
    value.get()
    assert computed == [1]


def test_failure_is_raised_on_every_use() -> None:
    calls: list[int] = []

    def fail() -> int:
        calls.append(1)
        raise InputError("no value")

    value = Once(fail)
    value.begin()
    for _ in range(2):
        with pytest.raises(InputError, match="no value"):
            value.get()
    assert (calls, value.is_ready) == ([1], False)


def test_value_is_computed_again_after_an_interrupt() -> None:
    results = iter([KeyboardInterrupt(), 7])

    def compute() -> int:
        result = next(results)
        if isinstance(result, BaseException):
            raise result
        return result

    value = Once(compute)
    with pytest.raises(KeyboardInterrupt):
        value.get()
    assert value.get() == 7


def test_different_values_are_computed_concurrently() -> None:
    """A lock shared by all instances, as in cached_property of Python 3.11, would deadlock."""
    inside = threading.Barrier(2, timeout=10)
    first, second = Once(lambda: inside.wait()), Once(lambda: inside.wait())
    first.begin()
    second.get()
    assert first.get() in (0, 1)
