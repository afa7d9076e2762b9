"""How long threads of this process waited for a core while others ran on it.

A sample that waited measures the other programs too. Load averages and busy cores say only that
there was load, not which sample it hit.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

_TASKS: Final = Path("/proc/self/task")
_WAITED: Final = 1
"""Column of `schedstat`: nanoseconds on the run queue."""


def waited_seconds(folder: Path = _TASKS) -> float | None:
    """Seconds that all threads of this process have waited since they began; None where unknown.

    Linux counts them in `/proc/self/task/*/schedstat`; other systems do not.
    """
    waited = [_waited_ns(task) for task in folder.glob("*")]
    known = [wait_ns for wait_ns in waited if wait_ns is not None]
    return sum(known) * 1e-9 if known else None


def _waited_ns(task: Path) -> int | None:
    try:
        columns = (task / "schedstat").read_text("ascii").split()
        return int(columns[_WAITED])
    except (OSError, ValueError, IndexError):
        return None  # The thread has ended since it was listed, or the kernel does not count.
