"""The installed package that publishes measured kernels, collectives and serving rows."""

from __future__ import annotations

import hashlib
import importlib
import importlib.metadata
import importlib.util
from pathlib import Path
from typing import Any

from assay.errors import InputError
from assay.validate.cases import Case

PACKAGE = "aiconfigurator-core"
VERSION = "0.12.0"
HELD_OUT = 0.3
"""Share of groups of rows that no fit sees."""

URL = "https://github.com/ai-dynamo/aiconfigurator"

_HINT = "pip install 'assay[validate]'"


def package_folder() -> Path:
    """The data folder of the installed package; raises if it is missing or another version."""
    spec = importlib.util.find_spec(PACKAGE.replace("-", "_"))
    if spec is None or spec.origin is None:
        raise InputError(f"the package {PACKAGE}, which holds the measurements, is missing", _HINT)
    installed = importlib.metadata.version(PACKAGE)
    if installed != VERSION:
        raise InputError(f"{PACKAGE} {installed} is installed, expected {VERSION}", _HINT)
    return Path(spec.origin).parent / "systems" / "data"


def is_package_row(case: Case) -> bool:
    """Whether a case is a row of the package, which the fits of kernels and links may have seen."""
    return case.source.get("url") == URL


def read_parquet(path: Path) -> dict[str, list[Any]]:
    """The columns of a table of the package."""
    try:
        parquet: Any = importlib.import_module("pyarrow.parquet")
    except ModuleNotFoundError:
        raise InputError(
            "the package pyarrow, which reads the measurements, is missing", _HINT
        ) from None
    columns: dict[str, list[Any]] = parquet.read_table(path).to_pydict()
    return columns


def version_key(path: Path) -> list[int]:
    """The version that the folder of a table is named after, as numbers to sort by."""
    digits = "".join(c if c.isdigit() else " " for c in path.parent.name)
    return [int(part) for part in digits.split()]


def hash_fraction(group: str) -> float:
    """A number in [0, 1) from the hash of a group's name."""
    return int(hashlib.sha256(group.encode()).hexdigest()[:8], 16) / 2.0**32
