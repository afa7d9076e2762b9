"""Runs all tests as pytest would, and the few that fail beside others once more, one at a time.

Some tests measure time. On a machine that others share, one in thousands of them fails now and then
where nothing is wrong; alone it passes. A test that fails twice fails, and so does everything when
more than a few fail or a worker crashes: then it is no matter of time.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

MOST_AGAIN = 4
"""More failures than this are not looked at a second time."""
_TESTS_FAILED = 1
"""pytest's exit code; a crashed worker ends with another one (tests/crash_reports.py)."""


def run_tests(options: Sequence[str]) -> int:
    """Run pytest with these options and judge what failed; the exit code of the verdict."""
    with tempfile.TemporaryDirectory(prefix="assay-test-cache-") as cache:
        pytest = [sys.executable, "-m", "pytest", "-o", f"cache_dir={cache}"]
        code = subprocess.run([*pytest, *options]).returncode
        failures = _failures(Path(cache))
    if code != _TESTS_FAILED or not 1 <= len(failures) <= MOST_AGAIN:
        return code
    print(f"\n{len(failures)} failed beside other tests; now one at a time:", flush=True)
    again = subprocess.run([sys.executable, "-m", "pytest", "-p", "no:xdist", *failures]).returncode
    if again == 0:
        print("\npassed alone, failed beside other tests:", *failures, sep="\n  ", flush=True)
    return again


def _failures(cache: Path) -> list[str]:
    """Names of the tests that failed; of a test that could not be collected, the file's."""
    path = cache / "v" / "cache" / "lastfailed"
    return sorted(json.loads(path.read_text())) if path.exists() else []


if __name__ == "__main__":
    sys.exit(run_tests(sys.argv[1:]))
