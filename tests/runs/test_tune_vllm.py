"""Which run `scripts/tune_vllm.sh` archives as the result of a workload."""

from __future__ import annotations

import os
import subprocess
import tarfile
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "tune_vllm.sh"
OLD, OTHER = "20260101-vllm-rag-1", "20260102-vllm-rag-2"


def archived(folder: Path, line: str, **environment: str) -> list[str]:
    """The folders in the archive of a run where `assay run` is this shell line; none without one."""
    programs, runs = folder / "programs", folder / "scratch" / "runs"
    programs.mkdir()
    (runs / OLD).mkdir(parents=True)
    python = f"""#!/bin/sh
runs={runs}
case "$*" in
  *paths.scratch*) echo {folder / "scratch"} ;;
  "-m assay run"*) {line} ;;
esac
"""
    for name, body in {"python": python, "vllm": "#!/bin/sh\n"}.items():
        (programs / name).write_text(body, encoding="utf-8")
        (programs / name).chmod(0o755)
    subprocess.run(
        [SCRIPT, folder / "kept"],
        env={
            "PATH": f"{programs}:{os.environ['PATH']}",
            "PYTHON": "python",
            "RUNS": "rag",
            **environment,
        },
        capture_output=True,
        check=False,
    )
    path = folder / "kept" / "rag.tar.gz"
    if not path.exists():
        return []
    with tarfile.open(path) as archive:
        return archive.getnames()


@pytest.mark.parametrize(
    ("line", "resume", "expected"),
    [
        # It ended before it had a folder: the latest is an earlier run's.
        ("exit 3", "", []),
        (f"mkdir $runs/{OTHER}", "", [OTHER]),
        (":", "1", [OLD]),
        # Another run began meanwhile: what was resumed is the result.
        (f"mkdir $runs/{OTHER}", "1", [OLD]),
    ],
)
def test_only_the_run_that_was_made_is_archived(
    tmp_path: Path, line: str, resume: str, expected: list[str]
) -> None:
    assert archived(tmp_path, line, RESUME=resume) == expected
