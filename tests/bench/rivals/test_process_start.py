"""Processes timed to their first byte of output."""

import sys

import pytest

from assay.bench.rivals import process_start

LATE = "import time; time.sleep(0.3); print('a', flush=True); time.sleep(0.3); print('b')"
LARGE = "held = b'x' * (64 << 20); import time; time.sleep(0.2); print('done')"


def test_first_byte_is_timed_and_whole_output_is_returned() -> None:
    found = process_start.run_to_first_byte([sys.executable, "-S", "-c", LATE])
    assert found.text == "a\nb\n"
    assert found.seconds >= 0.3
    assert found.anonymous_bytes == 0.0


def test_peak_memory_until_the_first_byte_is_measured() -> None:
    found = process_start.run_to_first_byte(
        [sys.executable, "-S", "-c", LARGE], monitor_memory=True
    )
    assert 64 << 20 < found.anonymous_bytes < 128 << 20


def test_failed_process_raises_with_its_stderr() -> None:
    with pytest.raises(RuntimeError, match="ended with 3: nothing there"):
        process_start.run_to_first_byte(
            [
                sys.executable,
                "-S",
                "-c",
                "import sys; sys.stderr.write('nothing there'); sys.exit(3)",
            ]
        )
