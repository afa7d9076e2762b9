"""A value that several threads want is made once, and so is its failure."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from assay.engine.loading.once import Once
from assay.errors import InputError


def test_threads_that_meet_get_one_value() -> None:
    made: list[object] = []
    together = threading.Barrier(8)

    def make() -> object:
        time.sleep(0.02)
        made.append(object())
        return made[-1]

    value = Once(make)

    def ask() -> object:
        together.wait()
        return value.get()

    with ThreadPoolExecutor(8) as threads:
        found = {id(one.result()) for one in [threads.submit(ask) for _ in range(8)]}
    assert len(made) == len(found) == 1


def test_what_is_begun_is_not_made_again() -> None:
    made: list[int] = []
    value = Once(lambda: made.append(1))
    value.begin()
    value.begin()
    value.get()
    assert made == [1]


def test_a_failure_is_raised_to_everyone() -> None:
    calls: list[int] = []

    def fail() -> int:
        calls.append(1)
        raise InputError("no value")

    value = Once(fail)
    value.begin()
    for _ in range(2):
        with pytest.raises(InputError, match="no value"):
            value.get()
    assert (calls, value.made) == ([1], False)


def test_an_interrupt_is_not_kept() -> None:
    answers = iter([KeyboardInterrupt(), 7])

    def make() -> int:
        answer = next(answers)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    value = Once(make)
    with pytest.raises(KeyboardInterrupt):
        value.get()
    assert value.get() == 7


def test_values_of_different_models_do_not_wait_for_each_other() -> None:
    """A lock that all instances share, as that of cached_property in Python 3.11, would."""
    inside = threading.Barrier(2, timeout=10)
    first, second = Once(lambda: inside.wait()), Once(lambda: inside.wait())
    first.begin()
    second.get()
    assert first.get() in (0, 1)
