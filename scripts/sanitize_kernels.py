"""Runs a few cases of every kernel's tests under compute-sanitizer, and stores the findings.

Needs a GPU, PyTorch (for the references) and compute-sanitizer. Cases run in several processes, with
a limit for each case and for everything. Exits with 1 if a tool reports anything, a test fails, or a
kernel is not covered by a case that ended.
"""

import argparse
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from assay import json_records

sys.path.insert(0, str(Path(__file__).parent))
import sanitizer_batches as batches

ROOT: Final = Path(__file__).resolve().parents[1]
TESTS: Final = (
    "test_kernels.py",
    "test_plain_kernels.py",
    "test_packing_kernels.py",
    "test_array_kernels.py",
    "test_cuda_operations.py",
)
"""The kernels themselves, then the operations as the runtime launches them."""
CASES: Final = {"memcheck": 6, "racecheck": 2}
"""Cases of each test: racecheck follows every access to shared memory, and takes many times longer."""


def run_all(
    tool: str, files: list[Path], cases: int, workers: int, limits: batches.Limits
) -> dict[str, Any]:
    """Run a few cases of every file under one tool and combine the results."""
    start = time.perf_counter()
    with ThreadPoolExecutor(len(files)) as pool:
        chosen = dict(
            zip(files, pool.map(lambda file: batches.chosen_cases(file, cases), files), strict=True)
        )
    made = batches.batches(chosen, workers)
    outcomes, unstarted = batches.run_batches(tool, made, workers, limits)
    failed = [outcome for outcome in outcomes if outcome.status not in (0, None)]
    return {
        "tool": tool,
        "findings": sum(outcome.findings for outcome in outcomes),
        "cases": sum(len(outcome.finished) for outcome in outcomes),
        "slow": sorted(case for outcome in outcomes for case in outcome.slow),
        "unstarted": sorted(unstarted),
        "exit_status": failed[0].status if failed else 0,
        "workers": workers,
        "seconds": round(time.perf_counter() - start, 1),
        "kernels": sorted({name for outcome in outcomes for name in outcome.kernels}),
        "report": [line for outcome in outcomes for line in batches.report(outcome.output)],
        "tail": [line for outcome in failed for line in outcome.output.splitlines()[-30:]],
    }


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


def parse_arguments() -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tests", type=Path, default=ROOT / "tests" / "gpu")
    parser.add_argument("--files", nargs="+", default=TESTS, help="files of tests")
    parser.add_argument("--kernels", type=Path, default=ROOT / "kernels")
    parser.add_argument("--cases", type=int, help=f"cases of each test (default: {CASES})")
    parser.add_argument("--workers", type=int, default=min(12, os.cpu_count() or 1),
                        help="processes that run at once")  # fmt: skip
    parser.add_argument("--case-seconds", type=float, default=60.0, help="limit of each case")
    parser.add_argument("--seconds", type=float, default=540.0, help="limit of each tool")
    parser.add_argument("--tools", nargs="+", default=list(CASES), choices=CASES)
    parser.add_argument("--commit", help="the commit, where there is no repository")
    parser.add_argument("--save", type=Path, help="where to keep the result as JSON")
    return parser.parse_args()


def main() -> int:
    """Run each tool, print a line for each, and keep the result."""
    arguments = parse_arguments()
    if shutil.which("compute-sanitizer") is None:
        sys.exit(
            "compute-sanitizer: expected on the path, got nothing; it is part of the CUDA Toolkit"
        )
    all_kernels = {path.name for path in arguments.kernels.rglob("*.cu")}
    runs = []
    sound = True
    for tool in arguments.tools:
        files = [arguments.tests / name for name in arguments.files]
        limits = batches.Limits(arguments.case_seconds, time.monotonic() + arguments.seconds)
        cases = arguments.cases or CASES[tool]
        run = run_all(tool, files, cases, arguments.workers, limits)
        run["not_covered"] = sorted(all_kernels - set(run["kernels"]))
        runs.append(run)
        sound &= run["findings"] == 0 and run["exit_status"] == 0 and not run["not_covered"]
        print(
            f"{tool}: {run['findings']} findings in {run['cases']} cases of {len(run['kernels'])} "
            f"kernels, {run['seconds']} s, exit {run['exit_status']}, not covered: "
            f"{', '.join(run['not_covered']) or 'none'}"
        )
        for name in ("slow", "unstarted"):
            print("\n".join(f"  {name}: {case}" for case in run[name]), end="\n" * bool(run[name]))
        print("\n".join([*run["report"], *run["tail"]]))
    if arguments.save:
        result = {"machine": machine(arguments.commit), "runs": runs}
        arguments.save.write_text(json_records.dumps(result, depth=2) + "\n")
    return 0 if sound else 1


if __name__ == "__main__":
    sys.exit(main())
