"""Reports under docs/examples: their runs still verify, and what is shown is what was verified."""

import tarfile
from pathlib import Path

import pytest

from assay.report.verify import verify

EXAMPLES = (
    *("h200-own-engine", "h200-vllm", "h200-vllm-batch", "h200-vllm-chat"),
    *("cpu-speak", "cpu-transcribe"),
    *("cpu-order-book", "cpu-perception", "cpu-protein"),
)


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_kept_example_verifies(root: Path, tmp_path: Path, name: str) -> None:
    folder = root / "docs" / "examples" / name
    with tarfile.open(folder / "run.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    (run,) = tmp_path.iterdir()
    found = verify(run)
    assert found.failures == []
    for shown in ("report.md", "report.html"):
        assert (folder / shown).read_bytes() == (run / shown).read_bytes()


def test_every_kept_example_is_checked(root: Path) -> None:
    kept = {path.parent.name for path in (root / "docs" / "examples").glob("*/run.tar.gz")}
    assert kept == set(EXAMPLES)
