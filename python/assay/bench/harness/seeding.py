"""The seed of a run: every generator of inputs shifts its own seed by it.

A claim is measured with several seeds, so that no figure rests on one set of inputs.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator
from typing import Final

_SEED: Final = contextvars.ContextVar("seed", default=0)
_STRIDE: Final = 10_007
"""Beyond the seeds that suites use for their inputs."""
FIRST_UNSEEN: Final = 999_983
"""Seeds from here on are the harness's: of data that no program has seen before it is checked with them."""


@contextlib.contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Prepare cases with the inputs of this seed; 0 has the inputs that suites name."""
    token = _SEED.set(seed)
    try:
        yield
    finally:
        _SEED.reset(token)


def current_seed() -> int:
    """The seed of the run."""
    return _SEED.get()


def shifted(number: int) -> int:
    """The seed of an input of a suite, in this run.

    >>> with seeded(2):
    ...     shifted(1)
    20015
    """
    return number + _STRIDE * _SEED.get()
