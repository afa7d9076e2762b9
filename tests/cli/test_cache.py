"""`assay cache`: sizes by kind, and removal of what can be made again."""

import ast
import re
from pathlib import Path

import pytest

from assay.cli.cache import KINDS, NAMED

from .conftest import Cli


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ASSAY_SCRATCH", str(tmp_path))
    for name, size in (
        ("cache/tapes/a.tape", 1500),
        ("cache/tapes/b.tape", 500),
        ("cache/cubins/k.cubin", 7),
        ("models/small/model.gguf", 3_000_000),
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(bytes(size))
    return tmp_path


def files(folder: Path) -> set[str]:
    return {str(one.relative_to(folder)) for one in folder.rglob("*") if one.is_file()}


def test_list(cli: Cli, scratch: Path) -> None:
    outcome = cli("cache")
    assert outcome.code == 0
    lines = outcome.out.splitlines()
    assert lines[0] == f"{scratch}: 3.0 MB"
    assert any(re.match(r"tapes +2 +2.0 kB  ", line) for line in lines)
    data = cli("cache", "list", "--json").data
    assert data["bytes"] == 3_002_007
    kinds = {row["kind"]: (row["files"], row["bytes"]) for row in data["kinds"]}
    assert kinds["tapes"] == (2, 2000)
    assert kinds["models"] == (1, 3_000_000)
    assert kinds["registry"] == (0, 0)


def test_clear_keeps_models_unless_named(cli: Cli, scratch: Path) -> None:
    dry = cli("cache", "clear", "--dry-run")
    assert dry.out == "would remove tapes: 2 files, 2.0 kB\nwould remove cubins: 1 file, 7 B\n"
    assert len(files(scratch)) == 4
    assert cli("cache", "clear").out == dry.out.replace("would remove", "removed")
    assert files(scratch) == {"models/small/model.gguf"}
    assert cli("cache", "clear").out == "nothing to remove\n"
    outcome = cli("cache", "clear", "models", "--json")
    assert outcome.data["removed"][0]["bytes"] == 3_000_000
    assert files(scratch) == set()


def test_what_was_recorded_is_removed_only_by_name(cli: Cli, scratch: Path) -> None:
    kept = {"traces/one/header.json", "telemetry/day.parquet", "runs/r1/run.json"}
    for name in kept:
        (scratch / name).parent.mkdir(parents=True, exist_ok=True)
        (scratch / name).write_bytes(b"x")
    cli("cache", "clear")
    assert files(scratch) == kept | {"models/small/model.gguf"}
    assert cli("cache", "clear", "traces").out == "removed traces: 1 file, 1 B\n"
    assert files(scratch) == kept - {"traces/one/header.json"} | {"models/small/model.gguf"}


def test_clear_by_kind(cli: Cli, scratch: Path) -> None:
    assert cli("cache", "clear", "cubins").code == 0
    assert "cache/cubins/k.cubin" not in files(scratch)
    assert len(files(scratch)) == 3


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("empty",), 'unknown action "empty"'),
        (("clear", "tape"), 'unknown kind "tape"'),
        (("clear", ".."), 'unknown kind ".."'),
        (("list", "tapes"), "assay cache list takes neither kinds nor --dry-run"),
    ],
)
def test_refusals(cli: Cli, scratch: Path, words: tuple[str, ...], error: str) -> None:
    outcome = cli("cache", *words)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith(f"error: {error}")
    assert len(files(scratch)) == 4


def test_every_cache_of_the_package_is_listed(root: Path) -> None:
    found = set()
    for path in (root / "python" / "assay").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("cache", "paths.cache"):
                found |= {one.value for one in node.args if isinstance(one, ast.Constant)}
    assert found == set(KINDS) - set(NAMED)
