"""Runs a few cases of every kernel's tests under compute-sanitizer, and stores the findings.

Needs a GPU, PyTorch (for the references) and compute-sanitizer. Exits with 1 if a tool reports
anything, a test fails, or a kernel is not covered.
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from assay import json_records

ROOT: Final = Path(__file__).resolve().parents[1]
TESTS: Final = (
    "test_kernels.py",
    "test_plain_kernels.py",
    "test_packing_kernels.py",
    "test_array_kernels.py",
    "test_cuda_operations.py",
)
"""The kernels themselves, then the operations as the runtime launches them."""
SUMMARY: Final = {
    "memcheck": re.compile(r"ERROR SUMMARY: (\d+) error"),
    "racecheck": re.compile(r"RACECHECK SUMMARY: (\d+) hazard"),
}
NOT_OURS: Final = (
    *("at6native", "cublas", "cutlass", "cub"),
    *("gemm_", "gemmSN", "gemmk1", "gemv2", "gemvN", "gemvx"),
)
"""Parts of the names of PyTorch's kernels, which compute the references. Ours are `gemv` and
`small_m_gemm`, which none of these matches."""


def run(tool: str, file: Path, cases: int, seconds: float) -> dict[str, Any]:
    """Run a file of tests under one tool and return its result."""
    excluded = [word for name in NOT_OURS for word in ("--kernel-name-exclude", f"kns={name}")]
    with tempfile.TemporaryDirectory() as folder:
        kernels = Path(folder) / "kernels"
        environment = {
            **os.environ,
            "FEW_CASES": str(cases),
            "FEW_CASES_KERNELS": str(kernels),
            "PYTHONPATH": os.pathsep.join(
                [
                    str(Path(__file__).parent),
                    str(file.parents[1]),  # what their conftest imports
                    os.environ.get("PYTHONPATH", ""),
                ]
            ),
        }
        command = [
            # The runtime enumerates a kernel's parameters until the driver returns an error.
            "compute-sanitizer", "--tool", tool, "--report-api-errors", "no", *excluded,
            sys.executable, "-m", "pytest", "-q", "-c", os.devnull, f"--rootdir={file.parent}",
            "-p", "no:cacheprovider", "-p", "few_cases", "--import-mode=importlib", str(file),
        ]  # fmt: skip
        start = time.perf_counter()
        output, status = _run_until(command, seconds, environment)
        covered = kernels.read_text().split() if kernels.exists() else []
    found = SUMMARY[tool].search(output)
    passed = re.search(r"(\d+) passed", output)
    return {
        "file": file.name,
        "findings": int(found.group(1)) if found else None,
        "cases": int(passed.group(1)) if passed else 0,
        "exit_status": status,
        "seconds": round(time.perf_counter() - start, 1),
        "kernels": covered,
        "report": _report(output),
        "tail": [] if status == 0 else output.splitlines()[-30:],
    }


def run_all(tool: str, files: list[Path], cases: int, seconds: float) -> dict[str, Any]:
    """Run every file under one tool in parallel and combine the results."""
    start = time.perf_counter()
    with ThreadPoolExecutor(len(files)) as pool:
        parts = list(pool.map(lambda file: run(tool, file, cases, seconds), files))
    unfinished = [part["file"] for part in parts if part["findings"] is None]
    return {
        "tool": tool,
        # The findings of a tool that was stopped are unknown.
        "findings": None if unfinished else sum(part["findings"] for part in parts),
        "unfinished": unfinished,
        "cases": sum(part["cases"] for part in parts),
        "exit_status": next((part["exit_status"] for part in parts if part["exit_status"] != 0), 0),
        "seconds": round(time.perf_counter() - start, 1),
        "kernels": sorted({name for part in parts for name in part["kernels"]}),
        "report": [line for part in parts for line in part["report"]],
        "tail": [line for part in parts for line in part["tail"]],
    }


def _report(output: str) -> list[str]:
    """The tool's own lines, with counts of each finding's first line."""
    lines = [line.removeprefix("========= ") for line in output.splitlines() if "=========" in line]
    heads = Counter(line for line in lines if line[:1].isupper())
    counted = [f"{count} x {line}" for line, count in heads.most_common(40)]
    return [*counted, *lines[:60]] if len(heads) > 2 else []


def _run_until(
    command: list[str], seconds: float, environment: dict[str, str]
) -> tuple[str, int | None]:
    """A command's output, and its exit status; none where it exceeded the time and was killed.

    Its whole process group is killed: tests left behind would go on using the GPU.
    """
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=environment,
        start_new_session=True,
    ) as process:
        try:
            return process.communicate(timeout=seconds)[0], process.returncode
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return process.communicate()[0], None


def machine(commit: str | None) -> dict[str, str]:
    """What it ran on."""
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    told = subprocess.run(query, capture_output=True, text=True, check=True).stdout
    name, driver = (word.strip() for word in told.splitlines()[0].split(","))
    version = subprocess.run(["compute-sanitizer", "--version"], capture_output=True, text=True)
    commit = (
        commit
        or subprocess.run(
            ["git", "-C", str(ROOT), "rev-parse", "HEAD"], capture_output=True, text=True
        ).stdout.strip()
    )
    lines = [line for line in version.stdout.splitlines() if line.startswith("Version")]
    return {
        "gpu": name,
        "driver": driver,
        "compute_sanitizer": lines[0].removeprefix("Version ") if lines else "",
        "commit": commit,
    }


def main() -> int:
    """Run each tool, print a line for each, and keep the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tests", type=Path, default=ROOT / "tests" / "gpu")
    parser.add_argument("--files", nargs="+", default=TESTS, help="files of tests")
    parser.add_argument("--kernels", type=Path, default=ROOT / "kernels")
    parser.add_argument("--cases", type=int, default=6, help="cases of each test")
    parser.add_argument("--seconds", type=float, default=120.0, help="limit of each file of tests")
    parser.add_argument("--tools", nargs="+", default=["memcheck", "racecheck"], choices=SUMMARY)
    parser.add_argument("--commit", help="the commit, where there is no repository")
    parser.add_argument("--save", type=Path, help="where to keep the result as JSON")
    arguments = parser.parse_args()
    if shutil.which("compute-sanitizer") is None:
        sys.exit(
            "compute-sanitizer: expected on the path, got nothing; it is part of the CUDA Toolkit"
        )
    all_kernels = {path.name for path in arguments.kernels.rglob("*.cu")}
    runs = []
    sound = True
    for tool in arguments.tools:
        files = [arguments.tests / name for name in arguments.files]
        one = run_all(tool, files, arguments.cases, arguments.seconds)
        one["not_covered"] = sorted(all_kernels - set(one["kernels"]))
        runs.append(one)
        clean = one["findings"] == 0 and one["exit_status"] == 0 and not one["not_covered"]
        sound &= clean
        print(
            f"{tool}: {one['findings']} findings in {one['cases']} cases of {len(one['kernels'])} "
            f"kernels, {one['seconds']} s, exit {one['exit_status']}, "
            f"unfinished: {', '.join(one['unfinished']) or 'none'}, "
            f"not covered: {', '.join(one['not_covered']) or 'none'}"
        )
        print("\n".join([*one["report"], *one["tail"]]))
    if arguments.save:
        arguments.save.write_text(
            json_records.dumps({"machine": machine(arguments.commit), "runs": runs}, depth=2)
        )
    return 0 if sound else 1


if __name__ == "__main__":
    sys.exit(main())
