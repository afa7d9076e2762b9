"""The device that the tests of arrays and of the engine run on: ASSAY_TEST_DEVICE, or the CPU.

The tests are the same on a GPU. Tests specific to CPUs or to virtual time are skipped there, and
results that GPUs round differently have their own tolerance, with the reason.
"""

import os
from typing import Any

import pytest

from assay.runtime import Device

NAME = os.environ.get("ASSAY_TEST_DEVICE", "cpu")
ON_GPU = NAME.startswith("cuda")

cpu_only = pytest.mark.skipif(ON_GPU, reason="tests the CPU")
requires_host_functions = pytest.mark.skipif(ON_GPU, reason="GPUs run no Python functions")


def new_device(**options: Any) -> Device:
    """A device that nothing else uses."""
    return Device(NAME, **options)


def kv_block_size(tokens: int) -> int:
    """The size of a cache's blocks: GPUs read 16 tokens of a block at a time."""
    return -(-tokens // 16) * 16 if ON_GPU else tokens
