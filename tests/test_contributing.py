"""The page for contributors: every file and folder that it sends one to exists."""

import re
from pathlib import Path

SPAN = re.compile(r"`((?:python|crates|kernels|web|scripts|tests|docs)(?:/[\w.*-]+)*)`")
POINTS = (
    *("an equation", "a layer of equations", "an operation", "a CUDA kernel", "an architecture"),
    *("a mechanism", "a lever", "an importer", "an adapter of a server", "a page"),
    *(
        "an invariant of answers",
        "a question of `assay ask`",
        "an option of a command",
        "a knob of the engine",
        "a workload that is no language model",
        "a claim about speed",
    ),
)


def test_files_of_every_extension_point_exist(root: Path) -> None:
    text = (root / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| (an? [^|]+?) \| (.+) \|$", text, re.MULTILINE))
    assert set(rows) == set(POINTS)
    for name, files in rows.items():
        assert SPAN.findall(files), name
    missing = [path for path in SPAN.findall(text) if not (root / path).exists()]
    assert missing == []
