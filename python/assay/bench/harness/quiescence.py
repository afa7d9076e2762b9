"""Waits until no other thread of the process runs.

Worker threads of a rival may spin after its call has returned: those of OpenBLAS poll for the
next GEMM for tens of milliseconds before they sleep. On as many threads as cores, the subject
that is sampled next would share a core with them.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Final

_TASKS: Final = Path("/proc/self/task")
_POLL_SECONDS: Final = 2e-4
_TIMEOUT_SECONDS: Final = 0.5


def wait_until_idle() -> bool:
    """Wait until no other thread of this process runs; False if one still did at the timeout.

    Returns at once on systems other than Linux, which do not report the state of threads.
    """
    end = time.perf_counter() + _TIMEOUT_SECONDS
    while _any_other_runs():
        if time.perf_counter() > end:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def _any_other_runs() -> bool:
    own = str(threading.get_native_id())
    if not _TASKS.exists():
        return False
    return any(_runs(task) for task in _TASKS.iterdir() if task.name != own)


def _runs(task: Path) -> bool:
    try:
        stat = (task / "stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return False  # The thread has ended since it was listed.
    # The state follows the name, which is in parentheses and may contain any character.
    return stat.rpartition(b")")[2].split()[0] == b"R"
