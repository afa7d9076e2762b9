"""The device that the tests of arrays and of the engine run on: ASSAY_TEST_DEVICE, or a processor.

On a GPU they are the same tests. What they say of processors or of virtual time is skipped there,
and what GPUs round differently has its own limit, with the reason beside it.
"""

import os
from typing import Any

import pytest

from assay.runtime import Device

NAME = os.environ.get("ASSAY_TEST_DEVICE", "cpu")
ON_GPU = NAME.startswith("cuda")

about_processors = pytest.mark.skipif(ON_GPU, reason="is about processors")
about_python_functions = pytest.mark.skipif(ON_GPU, reason="GPUs run no Python functions")


def own_device(**options: Any) -> Device:
    """A device that nothing else uses."""
    return Device(NAME, **options)


def blocks_of(tokens: int) -> int:
    """The size of a cache's blocks: GPUs read 16 tokens of a block at a time."""
    return -(-tokens // 16) * 16 if ON_GPU else tokens
