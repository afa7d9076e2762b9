"""Measured kernel times, read from the installed package that publishes them.

The package's collectors state how each figure was taken; what matters for a model is how much
was touched between two uses of the same data, since that decides what is still in the cache:

- products: six copies of the weights one after the other (TensorRT-LLM since 1.3: as many as
  fill the cache, five at most), all inside one CUDA graph; the activations are the same ones
  each time, but SGLang has a copy of them per copy of the weights.
- vLLM's 16-bit weights are not initialised, SGLang's and TensorRT-LLM's are random: random
  operands draw more power and run slower where power is the limit.
- attention: the same keys and values again and again.
"""

from __future__ import annotations

import csv
import hashlib
import importlib
import importlib.metadata
import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.errors import InputError

PACKAGE = "aiconfigurator-core"
VERSION = "0.12.0"
HELD_OUT = 0.3
"""Share of shapes that no fit sees."""

Column = NDArray[np.float64]

FRAMEWORKS = ("vllm", "sglang", "trtllm")
OPERATIONS = ("gemm", "prefill", "decode")
_FILES = {
    "gemm": ("gemm", "gemm_perf.parquet"),
    "prefill": ("attention", "context_attention_perf.parquet"),
    "decode": ("attention", "generation_attention_perf.parquet"),
}
_SHAPE_COLUMNS = {
    "gemm": ("m", "n", "k"),
    "prefill": ("batch_size", "isl", "num_heads", "num_key_value_heads", "head_dim", "window_size"),
    "decode": ("batch_size", "step", "num_heads", "num_key_value_heads", "head_dim", "window_size"),
}
_HELD_OUT_BY = {
    "gemm": ("n", "k"),
    "prefill": ("num_heads", "num_key_value_heads", "head_dim", "window_size"),
    "decode": ("num_heads", "num_key_value_heads", "head_dim", "window_size"),
}


@dataclass(frozen=True)
class Table:
    """Measurements of one operation: shapes by column, times, and which framework took them."""

    operation: str
    system: str
    columns: dict[str, Column]
    seconds: Column
    framework: NDArray[np.str_]

    def __len__(self) -> int:
        return len(self.seconds)

    def where(self, mask: NDArray[np.bool_]) -> Table:
        """The rows that a mask picks."""
        columns = {name: column[mask] for name, column in self.columns.items()}
        return Table(self.operation, self.system, columns, self.seconds[mask], self.framework[mask])

    @property
    def groups(self) -> NDArray[np.str_]:
        """What is held out together: all rows of one weight, or of one set of heads."""
        names = _HELD_OUT_BY[self.operation]
        parts = zip(*(self.columns[name].astype(int).tolist() for name in names), strict=True)
        if self.operation == "gemm":
            return np.array([f"assay-kernels-1:{n}:{k}" for n, k in parts])
        return np.array([f"assay-attention-1:{part}" for part in parts])

    @property
    def held_out(self) -> NDArray[np.bool_]:
        """Which rows no fit may see."""
        names, index = np.unique(self.groups, return_inverse=True)
        return np.array([_draw(name) < HELD_OUT for name in names])[index]


def _draw(group: str) -> float:
    """A number in [0, 1) that depends on nothing but the name of the group."""
    return int(hashlib.sha256(group.encode()).hexdigest()[:8], 16) / 2.0**32


def package_folder() -> Path:
    """Where the installed package keeps its measurements; refuses another version's."""
    hint = "pip install 'assay[validate]'"
    found = importlib.util.find_spec(PACKAGE.replace("-", "_"))
    if found is None or found.origin is None:
        raise InputError(f"the package {PACKAGE}, which holds the measurements, is missing", hint)
    installed = importlib.metadata.version(PACKAGE)
    if installed != VERSION:
        raise InputError(f"{PACKAGE} {installed} is installed, expected {VERSION}", hint)
    return Path(found.origin).parent / "systems" / "data"


def load(operation: str, system: str) -> Table:
    """All 16-bit rows of an operation on a system, of each framework's newest main kernel."""
    family, file_name = _FILES[operation]
    folder = package_folder() / system / family
    if not folder.is_dir():
        known = ", ".join(sorted(p.name for p in package_folder().iterdir()))
        raise InputError(f'no measurements of {operation} for "{system}"', f"systems: {known}")
    parts = []
    for framework in FRAMEWORKS:
        versions = sorted((folder / framework).glob(f"*/{file_name}"), key=_version)
        if versions:
            parts.append(_read(operation, system, framework, versions[-1]))
    if not parts:
        raise InputError(f'no measurements of {operation} for "{system}"', f"looked in: {family}")
    return concatenate(parts)


def concatenate(parts: list[Table]) -> Table:
    """Several tables of one operation and system as one."""
    columns = {
        name: np.concatenate([part.columns[name] for part in parts]) for name in parts[0].columns
    }
    return Table(
        parts[0].operation, parts[0].system, columns,
        np.concatenate([part.seconds for part in parts]),
        np.concatenate([part.framework for part in parts]),
    )  # fmt: skip


def _version(path: Path) -> list[int]:
    digits = "".join(c if c.isdigit() else " " for c in path.parent.name)
    return [int(part) for part in digits.split()]


def _read(operation: str, system: str, framework: str, path: Path) -> Table:
    try:
        parquet: Any = importlib.import_module("pyarrow.parquet")
    except ModuleNotFoundError:
        raise InputError(
            "the package pyarrow, which reads the measurements, is missing",
            "pip install 'assay[validate]'",
        ) from None
    raw: dict[str, list[Any]] = parquet.read_table(path).to_pydict()
    count = len(raw["latency"])
    raw.setdefault("window_size", [0] * count)
    if operation == "gemm":
        keep = np.array(raw["gemm_dtype"]) == "bfloat16"
    else:
        keep = (np.array(raw["attn_dtype"]) == "bfloat16") & (
            np.array(raw["kv_cache_dtype"]) == "bfloat16"
        )
    sources = np.array(raw["kernel_source"])
    names, counts = np.unique(sources[keep], return_counts=True)
    keep &= sources == names[np.argmax(counts)]
    columns = {
        name: np.array(raw[name], dtype=np.float64)[keep] for name in _SHAPE_COLUMNS[operation]
    }
    seconds = np.array(raw["latency"], dtype=np.float64)[keep] * 1e-3
    return Table(operation, system, columns, seconds, np.full(len(seconds), framework))


def read_sample(path: Path) -> list[Table]:
    """Tables from a CSV file written by `write_sample`."""
    rows: dict[tuple[str, str], list[dict[str, str]]] = {}
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            rows.setdefault((row["operation"], row["system"]), []).append(row)
    tables = []
    for (operation, system), members in rows.items():
        if operation not in OPERATIONS:
            raise InputError(f'{path.name}: unknown operation "{operation}"', "one of: gemm, ...")
        columns = {
            name: np.array([float(member[name]) for member in members])
            for name in _SHAPE_COLUMNS[operation]
        }
        seconds = np.array([float(member["seconds"]) for member in members])
        framework = np.array([member["framework"] for member in members])
        tables.append(Table(operation, system, columns, seconds, framework))
    return tables


def write_sample(path: Path, tables: list[Table]) -> None:
    """Write a few rows of several tables as one CSV file."""
    shapes = list(dict.fromkeys(name for names in _SHAPE_COLUMNS.values() for name in names))
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["operation", "system", "framework", *shapes, "seconds"])
        for table in tables:
            for index in range(len(table)):
                values = [
                    f"{table.columns[name][index]:.0f}" if name in table.columns else ""
                    for name in shapes
                ]
                writer.writerow(
                    [table.operation, table.system, table.framework[index], *values,
                     f"{table.seconds[index]:.6g}"]
                )  # fmt: skip
