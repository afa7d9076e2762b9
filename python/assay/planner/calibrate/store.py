"""Calibrations on disk, by the fingerprint of machine and device."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from assay import json_records, paths
from assay.errors import AssayError, InputError
from assay.files import read_json
from assay.planner.calibrate.calibration import Calibration, from_data
from assay.planner.specs import HardwareSpec

HERE: Final = "here"
"""This machine: its first GPU, or its CPU if it has none."""

_FINGERPRINT: Final = re.compile(r"[0-9a-f]{16}")
_DEVICE: Final = re.compile(r"cpu|cuda:\d{1,4}")


def path_of(fingerprint: str) -> Path:
    """The file of a machine and device, whether or not it exists."""
    return paths.cache("calibration") / f"{fingerprint}.json"


def save(calibration: Calibration, path: Path | None = None) -> Path:
    """Write the whole file or none of it, by default where `load` finds it."""
    target = path_of(calibration.fingerprint) if path is None else path
    text = json_records.dumps(calibration.to_data(), depth=2)
    paths.write_atomically(target, f"{text}\n".encode())
    return target


def read(path: Path) -> Calibration:
    """Read a file that `save` wrote; raises `InputError` for anything else."""
    return from_data(read_json("calibration", path), str(path))


def stored(device: str) -> Calibration | None:
    """The calibration of a device of this machine; None if it was never calibrated."""
    path = path_of(_fingerprint(device))
    return read(path) if path.exists() else None


def load(text: str) -> HardwareSpec:
    """Calibrated hardware: `here`, a device of this machine, a fingerprint or a file.

    A calibration of another machine is one to predict for; a note says that it is another's.
    """
    if text == HERE:
        return load(_first_device())
    if _DEVICE.fullmatch(text):
        path = path_of(_fingerprint(text))
        if not path.exists():
            raise InputError(
                f"{text} of this machine is not calibrated", f"assay calibrate --device {text}"
            )
        return read(path).spec(str(path))
    is_fingerprint = _FINGERPRINT.fullmatch(text) is not None
    path = path_of(text) if is_fingerprint else Path(text)
    if is_fingerprint and not path.exists():
        raise InputError(
            f"no calibration of the machine {text}: expected {path}",
            "copy the file there that assay calibrate --out FILE wrote on that machine",
        )
    calibration = read(path)
    return calibration.spec(str(path), _foreign(calibration))


def _foreign(calibration: Calibration) -> tuple[str, ...]:
    """A note where the calibration is of another machine, or of a device that is not here."""
    try:
        here = _fingerprint(calibration.device)
    except AssayError:
        here = ""
    if here == calibration.fingerprint:
        return ()
    processor, cores = calibration.machine.get("processor"), calibration.machine.get("usable_cores")
    return (
        f"calibrated on another machine: {calibration.description} ({processor}, {cores} cores)",
    )


def _fingerprint(device: str) -> str:
    from assay.runtime.fingerprint import machine
    from assay.runtime.hardware import device as shared

    return machine(shared(device)).fingerprint


def _first_device() -> str:
    from assay.runtime.cuda import probe

    probed = probe()
    usable = [index for index, gpu in enumerate(probed.gpus) if gpu.usable]
    return f"cuda:{usable[0]}" if usable and probed.missing is None else "cpu"
