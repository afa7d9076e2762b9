"""Whole processes, timed to their first byte."""

import sys

import pytest

from assay.bench.rivals import process_start

LATE = "import time; time.sleep(0.3); print('a', flush=True); time.sleep(0.3); print('b')"
LARGE = "held = b'x' * (64 << 20); import time; time.sleep(0.2); print('done')"


def test_the_first_byte_is_timed_and_all_of_the_text_is_kept() -> None:
    found = process_start.start([sys.executable, "-S", "-c", LATE])
    assert found.text == "a\nb\n"
    assert found.seconds >= 0.3
    assert found.anonymous_bytes == 0.0


def test_the_most_memory_until_then_is_seen() -> None:
    found = process_start.start([sys.executable, "-S", "-c", LARGE], watches_memory=True)
    assert 64 << 20 < found.anonymous_bytes < 128 << 20


def test_a_process_that_fails_says_why() -> None:
    with pytest.raises(RuntimeError, match="ended with 3: nothing there"):
        process_start.start(
            [
                sys.executable,
                "-S",
                "-c",
                "import sys; sys.stderr.write('nothing there'); sys.exit(3)",
            ]
        )
