"""Waits until only this thread works: threads of a rival may spin long after its call is over.

OpenBLAS's threads look for the next product for tens of milliseconds before they sleep. Timed in
turn with it on as many threads as there are cores, whoever comes next shares a core with them.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Final

_TASKS: Final = Path("/proc/self/task")
_LOOK_SECONDS: Final = 2e-4
_LONGEST_SECONDS: Final = 0.5


def settle() -> bool:
    """Wait until no other thread of this process runs; False where one still did after a while.

    Only Linux tells what threads do; elsewhere nothing is waited for.
    """
    end = time.perf_counter() + _LONGEST_SECONDS
    while _others_run():
        if time.perf_counter() > end:
            return False
        time.sleep(_LOOK_SECONDS)
    return True


def _others_run() -> bool:
    own = str(threading.get_native_id())
    if not _TASKS.exists():
        return False
    return any(_runs(task) for task in _TASKS.iterdir() if task.name != own)


def _runs(task: Path) -> bool:
    try:
        told = (task / "stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return False  # The thread has ended since it was listed.
    # The state follows the name, which is in brackets and may hold anything, brackets too.
    return told.rpartition(b")")[2].split()[0] == b"R"
