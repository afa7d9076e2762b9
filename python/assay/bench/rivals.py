"""Other libraries that do the same work, where they are installed."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np

from assay.bench.case import Absent, Contestant
from assay.bench.clocks import Call, HostClock
from assay.bench.inputs import NumPyArray
from assay.runtime.hardware import Device


def numpy(call: Call, amount: float) -> Contestant:
    """NumPy, on the host."""
    return Contestant("NumPy", call, HostClock(), amount)


def torch(
    device: Device,
    make: Callable[[Any, Callable[[NumPyArray], Any]], Call],
    amount: float,
) -> Contestant | Absent:
    """PyTorch on the same device, or the reason why it takes no part.

    `make` gets the module and a function that places host values, and returns the call.
    """
    if importlib.util.find_spec("torch") is None:
        return Absent("PyTorch", "not installed")
    if not device.host_memory:
        return Absent("PyTorch", f"has no device {device.name}")
    module = importlib.import_module("torch")
    call = make(module, lambda host: module.from_numpy(np.ascontiguousarray(host)))

    def undifferentiated(number: int) -> object:
        with module.inference_mode():
            return call(number)

    return Contestant("PyTorch", undifferentiated, HostClock(), amount)
