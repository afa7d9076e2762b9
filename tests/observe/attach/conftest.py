"""A CUDA driver and a CUPTI without a GPU, for programs that are traced."""

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

HERE = Path(__file__).parent

PRELUDE = """
import ctypes, os, signal, sys, time
cuda = ctypes.CDLL("libcuda.so.1")
for function in ("fake_copy", "fake_fill", "fake_peer_copy"):
    getattr(cuda, function).argtypes = [ctypes.c_uint64]
cuda.fake_call.argtypes = [ctypes.c_uint64, ctypes.c_char_p]
cuda.fake_drop.argtypes = [ctypes.c_size_t]
NAMES = {}

def launch(count, graph=0, name=b"_Z6kernelif"):
    # CUPTI keeps the names of kernels for good.
    kept = NAMES.setdefault(name, ctypes.create_string_buffer(name))
    cuda.fake_launch(count, graph, kept)

def tool():
    found = (ctypes.c_uint32 * 4)()
    cuda.fake_tool(found)
    return dict(zip(("subscribed", "enabled", "flushes", "nvtx"), found))

def wait_until(condition, seconds=10.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "timed out"
        time.sleep(0.005)
"""
"""What every test program begins with: the fake driver, and how to give it work."""


@pytest.fixture(scope="session")
def fake_cuda(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of libcuda.so.1 and libcupti.so.13, one library under two names."""
    folder = tmp_path_factory.mktemp("fake-cuda")
    command = ["rustc", "--edition", "2021", "-O", "--crate-type", "cdylib"]
    command += ["-o", str(folder / "libcupti.so.13"), str(HERE / "fake_cuda.rs")]
    subprocess.run(command, check=True)
    (folder / "libcuda.so.1").symlink_to("libcupti.so.13")
    return folder


@pytest.fixture
def environment(fake_cuda: Path, root: Path, tmp_path: Path) -> dict[str, str]:
    """The environment of a program that finds the fake driver."""
    left_out = ("CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH", "ASSAY_TRACE_FOLDER")
    inherited = {name: value for name, value in os.environ.items() if name not in left_out}
    return {
        **inherited,
        "LD_LIBRARY_PATH": str(fake_cuda),
        "PYTHONPATH": str(root / "python"),
        "ASSAY_SCRATCH": str(tmp_path / "scratch"),
    }


@pytest.fixture
def script(tmp_path: Path) -> Callable[[str], Path]:
    """Writes a test program."""

    def write(body: str) -> Path:
        path = tmp_path / f"program{len(list(tmp_path.glob('program*.py')))}.py"
        path.write_text(PRELUDE + textwrap.dedent(body))
        return path

    return write


@pytest.fixture
def run_script(
    script: Callable[[str], Path], environment: dict[str, str]
) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs a test program to its end."""

    def run(body: str, **settings: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, str(script(body))],
            env={**environment, **settings},
            capture_output=True,
            text=True,
            timeout=60,
        )

    return run
