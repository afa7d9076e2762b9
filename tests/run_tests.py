"""Runs all tests as pytest would, and the few that fail beside others once more, one at a time.

Some tests measure time. On a machine that others share, one in thousands of them fails now and then
where nothing is wrong; alone it passes. A test that fails twice fails, and so does everything when
more than a few fail or a worker crashes: then it is no matter of time. Nor is what a test left behind
(a file, a thread's exception, a failing teardown): pytest blames it on a test that passes alone.
"""

import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from xml.etree import ElementTree

MOST_AGAIN = 4
"""More failures than this are not looked at a second time."""
_TESTS_FAILED = 1
"""pytest's exit code; a crashed worker ends with another one (tests/crash_reports.py)."""
_LEFT_BEHIND = ("PytestUnraisableExceptionWarning", "PytestUnhandledThreadExceptionWarning")
_STOP_EARLY = ("-x", "--exitfirst", "--maxfail", "--stepwise", "--sw")


def run_tests(options: Sequence[str]) -> int:
    """Run pytest with these options and judge what failed; the exit code of the verdict."""
    with tempfile.TemporaryDirectory(prefix="assay-test-reports-") as name:
        folder = Path(name)
        pytest = [sys.executable, "-m", "pytest", *options, "-o", f"cache_dir={folder / 'cache'}"]
        code = subprocess.run([*pytest, f"--junitxml={folder / 'all.xml'}"]).returncode
        if code != _TESTS_FAILED or any(option.startswith(_STOP_EARLY) for option in options):
            return code
        failed = list(_failed(folder / "all.xml"))
        if not 1 <= len(failed) <= MOST_AGAIN or None in failed:
            return code
        print(f"\n{len(failed)} failed beside other tests; now one at a time:", flush=True)
        alone = [*pytest, "-n0", "--last-failed", f"--junitxml={folder / 'again.xml'}"]
        code = subprocess.run(alone).returncode
        if code == 0 and _passed(folder / "again.xml") != len(failed):
            print(
                "\nnot all that failed ran again: a test that is skipped has not passed", flush=True
            )
            return _TESTS_FAILED
    if code == 0:
        print("\npassed alone, failed beside other tests:", *failed, sep="\n  ", flush=True)
    return code


def _failed(report: Path) -> Iterator[str | None]:
    """Names of the tests that failed; None for one that no second run can judge."""
    for case in ElementTree.parse(report).iter("testcase"):
        for outcome in [*case.iter("failure"), *case.iter("error")]:
            told = f"{outcome.get('message')}\n{outcome.text}"
            is_left_behind = any(warning in told for warning in _LEFT_BEHIND)
            if is_left_behind or told.startswith("failed on teardown"):
                yield None
            else:
                yield f"{case.get('classname')}::{case.get('name')}"


def _passed(report: Path) -> int:
    return sum(len(case) == 0 for case in ElementTree.parse(report).iter("testcase"))


if __name__ == "__main__":
    sys.exit(run_tests(sys.argv[1:]))
