"""Machines that lack a CUDA library or have an unsupported GPU, simulated in child processes.

A fake driver library replaces NVIDIA's, so that each case runs on any machine, including one with a
GPU.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from assay import _native
from assay.runtime import cuda

compiler = shutil.which("cc")
if compiler is None:
    pytest.skip("no C compiler to make up a driver with", allow_module_level=True)

DRIVER = """
#include <stddef.h>
#include <string.h>
int cuDriverGetVersion(int* version) { *version = VERSION; return 0; }
int cuDeviceGetCount(int* count) { *count = COUNT; return 0; }
int cuDeviceGet(int* device, int number) { *device = number; return 0; }
int cuDeviceGetName(char* name, int most, int device) { strncpy(name, "Made Up", most); return 0; }
int cuDeviceTotalMem_v2(size_t* bytes, int device) { *bytes = 1 << 30; return 0; }
int cuDeviceGetAttribute(int* value, int which, int device) {
    int capability = device ? 90 : CAPABILITY;
    *value = which == 75 ? capability / 10 : which == 76 ? capability % 10 : 100;
    return 0;
}
"""
"""The driver calls of a probe; 75 and 76 are the attributes of the compute capability."""


class Machine(NamedTuple):
    """A machine's CUDA installation, and the expected error."""

    gpus: int | None
    """None: no driver either."""
    capability: int
    compiler: bool
    code: str
    sentence: str
    version: int = 13000
    """the driver's version, as CUDA encodes it: 12040 is 12.4"""


MACHINES = {
    "no driver": Machine(None, 0, False, "no_driver", "CUDA driver not detected"),
    "no GPU": Machine(
        0, 90, True, "no_devices", "No GPU devices found (cuDeviceGetCount == 0)"
    ),
    "old GPU": Machine(
        1, 75, True, "old_device",
        "GPU too old: expected compute capability 8.0 or newer, got 7.5 (Made Up)",
    ),
    "no compiler": Machine(1, 90, False, "no_nvrtc", "NVRTC JIT compiler not available"),
}  # fmt: skip

PROGRAM = """
import json
from assay import xp
from assay.errors import DeviceError
from assay.runtime import Device, device
for name in ("cuda", "cuda:0"):
    try:
        Device(name)
    except DeviceError as error:
        print(json.dumps([error.code, error.message, error.hint]))
for _ in range(2):
    print(device("auto").name, float(xp.sum(xp.ones(3, device=device("auto")))))
"""


def make_driver(folder: Path, machine: Machine) -> None:
    """Build a fake driver with every function that Assay loads, all of which return success."""
    named = re.findall(
        rb"(cu[A-Z][A-Za-z0-9]{2,40}(?:_v\d)?)\0", Path(_native.__file__).read_bytes()
    )
    names = {name.decode() for name in named} - set(re.findall(r"int (cu\w+)\(", DRIVER))
    assert "cuInit" in names
    rest = "\n".join(f"int {name}(void) {{ return 0; }}" for name in sorted(names))
    source = folder / "driver.c"
    source.write_text(DRIVER + rest, encoding="utf-8")
    settings = [
        f"-DCOUNT={machine.gpus}",
        f"-DCAPABILITY={machine.capability}",
        f"-DVERSION={machine.version}",
    ]
    command = [str(compiler), "-shared", "-fPIC", *settings, "-o", folder / "libcuda.so.1", source]
    subprocess.run(command, check=True)


@pytest.fixture(scope="module", params=MACHINES)
def machine(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Machine, dict[str, str]]:
    """A machine, and the environment of a process on it."""
    case = MACHINES[request.param]
    folder = tmp_path_factory.mktemp("machine")
    environment = dict(os.environ)
    environment["LD_LIBRARY_PATH"] = str(folder)
    if case.gpus is None:
        # A file that is not a library ends the loader's search.
        for name in ("libcuda.so.1", "libcuda.so"):
            (folder / name).touch()
    else:
        make_driver(folder, case)
    if not case.compiler:
        for name in ("CUDA_PATH", "CUDA_HOME", "ASSAY_CUDA_LIBRARIES"):
            environment.pop(name, None)
        for major in (12, 13):
            (folder / f"libnvrtc.so.{major}").touch()
        # An empty package that shadows the wheels.
        (folder / "nvidia").mkdir()
        (folder / "nvidia" / "__init__.py").touch()
        environment["PYTHONPATH"] = f"{folder}:{environment.get('PYTHONPATH', '')}"
    return case, environment


def child(environment: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_missing_gpu_raises_and_auto_warns_once(machine: tuple[Machine, dict[str, str]]) -> None:
    case, environment = machine
    done = child(environment, "-c", PROGRAM)
    assert done.returncode == 0, done.stderr
    first, second, *auto = done.stdout.splitlines()
    assert first == second
    code, message, hint = json.loads(first)
    assert (code, message) == (case.code, case.sentence)
    assert hint
    assert auto == ["cpu 3.0"] * 2
    assert done.stderr.splitlines() == [
        f"{case.sentence}. Falling back to CPU backend. hint: {hint}"
    ]


def test_doctor_reports_missing_cuda(machine: tuple[Machine, dict[str, str]]) -> None:
    case, environment = machine
    # The exit code also depends on this interpreter's packages.
    process = child({**environment, "COLUMNS": "200"}, "-m", "assay", "doctor")
    assert case.sentence in process.stdout, process.stderr


def test_driver_older_than_nvrtc_gets_an_install_hint(tmp_path: Path) -> None:
    if (found := cuda.probe().compiler.version) is None or found[0] < 13:
        pytest.skip("NVRTC here is not newer than a driver of CUDA 12")
    make_driver(tmp_path, Machine(0, 0, True, "no_devices", "", 12040))
    environment = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path), "COLUMNS": "200"}
    process = child(environment, "-m", "assay", "doctor")
    assert "the driver is of CUDA 12.4 and NVRTC of 13: pip install" in process.stdout, (
        process.stderr
    )
    assert "nvidia-cuda-nvrtc-cu12 nvidia-cublas-cu12" in " ".join(process.stdout.split())


def test_usable_gpu_is_found_after_an_unsupported_one(tmp_path: Path) -> None:
    if cuda.probe().compiler.missing:
        pytest.skip("no GPU is usable without NVRTC")
    make_driver(tmp_path, Machine(2, 75, True, "old_device", ""))
    environment = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path)}
    process = child(environment, "-c", "from assay.runtime import cuda; print(*cuda.names())")
    assert process.stdout == "cuda:1\n", process.stderr
