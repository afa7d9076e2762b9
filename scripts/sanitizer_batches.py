"""Cases of kernel tests in batches, each under compute-sanitizer in a process of its own.

A batch reports the start and end of each case. A case that takes longer than its limit is stopped
with its process, named, and the rest of the batch goes on in a new process.
"""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Final, NamedTuple

SUMMARY: Final = {
    "memcheck": re.compile(r"ERROR SUMMARY: (\d+) error"),
    "racecheck": re.compile(r"RACECHECK SUMMARY: (\d+) hazard"),
}
"""The last line of each tool, with its findings."""
REPORTED: Final = re.compile(r"^========= (?:Error|Warning|Invalid|Program hit|Race|Uninit)", re.M)
"""The first line of a finding, for a process that was stopped before its summary."""
NOT_OURS: Final = (
    *("at6native", "cublas", "cutlass", "cub"),
    *("gemm_", "gemmSN", "gemmk1", "gemv2", "gemvN", "gemvx"),
)
"""Parts of the names of PyTorch's kernels, which compute the references. Ours are `gemv` and
`small_m_gemm`, which none of these matches."""
START_SECONDS: Final = 120.0
"""What importing PyTorch under a tool may take before the first case starts."""


class Batch(NamedTuple):
    """Cases of one file of tests."""

    file: Path
    cases: tuple[str, ...]


class Limits(NamedTuple):
    """Times in seconds: of one case, and the clock's value at which everything ends."""

    case_seconds: float
    deadline: float


class Outcome(NamedTuple):
    """What became of a batch."""

    findings: int
    finished: tuple[str, ...]
    slow: tuple[str, ...]
    """The case that was stopped, if one was."""
    left: tuple[str, ...]
    """Cases that did not start."""
    kernels: frozenset[str]
    status: int | None
    """The exit status; None where the process was stopped."""
    output: str


def pytest_command(file: Path, *options: str) -> list[str]:
    """The command that runs a file of tests with the plugin."""
    return [
        sys.executable, "-m", "pytest", "-q", "-c", os.devnull, f"--rootdir={file.parent}",
        "-p", "no:cacheprovider", "-p", "few_cases", "--import-mode=importlib", *options, str(file),
    ]  # fmt: skip


def environment(file: Path, **variables: str) -> dict[str, str]:
    """The environment in which the plugin and the tests are found."""
    folders = [str(Path(__file__).parent), str(file.parents[1]), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, **variables, "PYTHONPATH": os.pathsep.join(folders)}


def chosen_cases(file: Path, cases: int) -> list[str]:
    """A few cases of each test of a file, smallest first."""
    with tempfile.TemporaryDirectory() as folder:
        listed = Path(folder) / "cases"
        variables = {"FEW_CASES": str(cases), "FEW_CASES_LIST": str(listed)}
        done = subprocess.run(
            pytest_command(file, "--collect-only"),
            env=environment(file, **variables),
            capture_output=True,
            text=True,
        )
        if not listed.exists():
            raise SystemExit(f"{file}: expected tests, got none:\n{done.stdout}{done.stderr}")
        return listed.read_text().splitlines()


def batches(files: dict[Path, list[str]], count: int) -> list[Batch]:
    """About `count` batches; each of a file's has cases of every size."""
    total = max(1, sum(len(cases) for cases in files.values()))
    made = []
    for file, cases in files.items():
        parts = max(1, min(len(cases), round(count * len(cases) / total)))
        made += [Batch(file, tuple(cases[part::parts])) for part in range(parts)]
    return [batch for batch in made if batch.cases]


def run_batch(tool: str, batch: Batch, limits: Limits) -> Outcome:
    """Run a batch under a tool until it ends, a case exceeds its limit, or time is up."""
    excluded = [word for name in NOT_OURS for word in ("--kernel-name-exclude", f"kns={name}")]
    with tempfile.TemporaryDirectory() as folder:
        only, progress = Path(folder) / "only", Path(folder) / "progress"
        only.write_text("".join(f"{case}\n" for case in batch.cases))
        command = [
            # The runtime enumerates a kernel's parameters until the driver returns an error.
            "compute-sanitizer", "--tool", tool, "--report-api-errors", "no", *excluded,
            *pytest_command(batch.file),
        ]  # fmt: skip
        variables = {"FEW_CASES_ONLY": str(only), "FEW_CASES_PROGRESS": str(progress)}
        output, status = run_watched(
            command, environment(batch.file, **variables), progress, limits
        )
        events = list(_events(progress))
    finished = tuple(str(event["end"]) for event in events if "end" in event)
    started = {str(event["start"]) for event in events if "start" in event}
    matched = SUMMARY[tool].search(output)
    return Outcome(
        findings=int(matched.group(1)) if matched else len(REPORTED.findall(output)),
        finished=finished,
        slow=tuple(sorted(started - set(finished))),
        left=tuple(case for case in batch.cases if case not in started),
        kernels=frozenset(name for event in events for name in event.get("kernels", ())),  # type: ignore[attr-defined]
        status=status,
        output=output,
    )


def _events(progress: Path) -> Iterator[dict[str, object]]:
    if progress.exists():
        for line in progress.read_text().splitlines():
            yield json.loads(line)


def run_watched(
    command: Sequence[str], environment: dict[str, str], progress: Path, limits: Limits
) -> tuple[str, int | None]:
    """A command's output and exit status; none where it was stopped.

    It is stopped when the progress file does not grow for the time of one case, or at the deadline;
    its whole process group is killed, since tests left behind would go on using the GPU.
    """
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, env=environment,
            start_new_session=True,
        )  # fmt: skip
        size, since, allowed = 0, time.monotonic(), START_SECONDS + limits.case_seconds
        status: int | None = None
        while True:
            try:
                status = process.wait(timeout=0.2)
                break
            except subprocess.TimeoutExpired:
                now = time.monotonic()
            grown = progress.stat().st_size if progress.exists() else 0
            if grown > size:
                size, since, allowed = grown, now, limits.case_seconds
            if now - since > allowed or now > limits.deadline:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                break
        output.seek(0)
        return output.read(), status


def run_batches(
    tool: str, waiting: Sequence[Batch], workers: int, limits: Limits
) -> tuple[list[Outcome], list[str]]:
    """The outcomes of all batches, and the cases for which no time was left."""
    outcomes: list[Outcome] = []
    unstarted: list[str] = []
    with ThreadPoolExecutor(workers) as pool:
        running: dict[Future[Outcome], Batch] = {
            pool.submit(_run_in_time, tool, batch, limits): batch for batch in waiting
        }
        while running:
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                batch, outcome = running.pop(future), future.result()
                outcomes.append(outcome)
                # Without a slow case the process ended by itself, or time was up.
                if outcome.slow and outcome.left and time.monotonic() < limits.deadline:
                    rest = Batch(batch.file, outcome.left)
                    running[pool.submit(_run_in_time, tool, rest, limits)] = rest
                else:
                    unstarted += outcome.left
    return outcomes, unstarted


def _run_in_time(tool: str, batch: Batch, limits: Limits) -> Outcome:
    if time.monotonic() >= limits.deadline:
        return Outcome(0, (), (), batch.cases, frozenset(), 0, "")
    return run_batch(tool, batch, limits)


def report(output: str) -> list[str]:
    """The tool's own lines, with counts of each finding's first line."""
    lines = [line.removeprefix("========= ") for line in output.splitlines() if "=========" in line]
    heads = Counter(line for line in lines if line[:1].isupper())
    counted = [f"{count} x {line}" for line, count in heads.most_common(40)]
    return [*counted, *lines[:60]] if len(heads) > 2 else []
