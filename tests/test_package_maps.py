"""Files and folders that the map and the docstrings of packages name exist."""

import ast
import re
from pathlib import Path

_NAMED = re.compile(r"`([\w/]+(?:\.py|/))`")


def missing_names(package: Path, text: str) -> list[str]:
    """Names of files and folders that are nowhere below a package."""
    paths = [path.relative_to(package).as_posix() for path in package.rglob("*.*")]
    return [
        name
        for name in _NAMED.findall(text)
        if not any(f"/{path}".endswith(f"/{name}") or f"/{name}" in f"/{path}" for path in paths)
    ]


def test_a_file_that_is_not_there_is_found(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "one.py").touch()
    assert missing_names(tmp_path, "`one.py` of `parts/`, `parts/one.py`") == []
    assert missing_names(tmp_path, "`two.py` of `others/`") == ["two.py", "others/"]


def test_packages_name_files_that_exist(root: Path) -> None:
    packages = [path.parent for path in (root / "python" / "assay").glob("*/__init__.py")]
    assert len(packages) > 20
    for package in packages:
        text = ast.get_docstring(ast.parse((package / "__init__.py").read_text("utf-8"))) or ""
        assert missing_names(package, text) == [], package.name


def test_the_map_names_folders_that_exist(root: Path) -> None:
    document = (root / "ARCHITECTURE.md").read_text("utf-8")
    rows = re.findall(r"^\| (`[^|]+`) \| (.+) \|$", document, re.MULTILINE)
    assert len(rows) > 40
    for first, said in rows:
        for place in re.findall(r"`([^`]+)`", first):
            assert list(root.glob(place)), place
        [folder, *others] = re.findall(r"`([^`*]+)`", first) or [""]
        if folder.startswith("python/assay/") and not others:
            assert missing_names(root / folder, said) == [], folder


def test_the_map_is_a_page(root: Path) -> None:
    words = (root / "ARCHITECTURE.md").read_text("utf-8").split()
    assert len(words) <= 1_600, "details belong to the docstring of the package"
