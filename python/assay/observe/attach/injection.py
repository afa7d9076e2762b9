"""The library that the CUDA driver loads into a traced program, and the folder they share."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Self

from assay._native import check_trace_library, write_trace_control
from assay.errors import InputError
from assay.runtime.cuda import library_folders

LIBRARY: Final = Path(__file__).parents[2] / "libassay_inject.so"
"""The injected library, beside the extension."""

ACTIVITIES: Final = ("kernel", "memcpy", "memset", "sync", "api", "nvtx", "overhead", "graph")
"""What can be recorded."""

DEFAULT_ACTIVITIES: Final = ("kernel", "memcpy", "memset", "nvtx")
"""What is recorded unless asked otherwise."""

_INJECTION: Final = "CUDA_INJECTION64_PATH"
_NVTX_INJECTION: Final = "NVTX_INJECTION64_PATH"
_FOLDER: Final = "ASSAY_TRACE_FOLDER"


class TraceFolder:
    """A folder of this user alone: the control file, and a shard of every traced process."""

    def __init__(
        self, parent: Path, activities: Sequence[str] = DEFAULT_ACTIVITIES, period_ms: int = 250
    ) -> None:
        """Make the folder in `parent`; nothing is recorded yet."""
        check_library()
        parent.mkdir(parents=True, exist_ok=True)
        # mkdtemp gives mode 0700, which the library insists on.
        self.path = Path(tempfile.mkdtemp(dir=parent.resolve(), prefix="attach-"))
        self.activities = tuple(activities)
        self.period_ms = period_ms
        try:
            self.control(armed=False)
        except BaseException:
            self.remove()
            raise

    def control(self, *, armed: bool) -> None:
        """Have every traced process record, or stop."""
        write_trace_control(
            self.path,
            armed=armed,
            activities=list(self.activities),
            period_ms=self.period_ms,
            libraries=cupti_libraries(),
        )

    def environment(self, inherited: Mapping[str, str]) -> dict[str, str]:
        """The environment with which a program and its children are traced."""
        if taken := inherited.get(_INJECTION):
            raise InputError(
                f"{_INJECTION}: expected it to be free, got {taken}",
                "another tool injects itself already; start the program without it",
            )
        variables = {**inherited, _INJECTION: str(LIBRARY), _FOLDER: str(self.path)}
        variables.setdefault(_NVTX_INJECTION, str(LIBRARY))
        return variables

    def shards(self) -> list[Path]:
        """The shards so far."""
        return sorted(self.path.glob("shard-*.events"))

    def remove(self) -> None:
        """Delete the folder with its shards."""
        shutil.rmtree(self.path, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()


def check_library() -> None:
    """Refuse a missing library, and one that other users may write."""
    if not LIBRARY.is_file():
        raise InputError(
            f"{LIBRARY}: expected the injected library, got no file",
            "make setup builds it; wheels for Linux have it",
        )
    check_trace_library(LIBRARY)


def cupti_libraries() -> list[str]:
    """Files of CUPTI in the wheels of this interpreter, the latest CUDA first."""
    chosen = os.environ.get("ASSAY_CUDA_LIBRARIES", "")
    folders = [*filter(None, chosen.split(os.pathsep)), *library_folders()]
    paths = [path for folder in folders for path in Path(folder).glob("libcupti.so.*")]
    return [str(path) for path in sorted(paths, key=lambda file: file.suffix, reverse=True)]
