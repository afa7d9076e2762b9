"""Measured kernel times, read from the installed package that publishes them.

How the package's collectors rotate operands decides what is still in the cache:

- GEMM: six copies of the weights, rotated (TensorRT-LLM since 1.3: as many as fill the cache, at
  most five), all inside one CUDA graph; activations are reused, except that SGLang has a copy of
  them per copy of the weights.
- vLLM's 16-bit weights are not initialized, SGLang's and TensorRT-LLM's are random: random
  operands draw more power and run slower under the power limit.
- attention: the same keys and values every time.
- experts: both grouped GEMMs of gated experts, the activation and the permutation of tokens, with
  tokens spread evenly over the experts or by a power law; `operations` counts the experts that
  each of them touches, which differs from uniform routing.
- passes: casts of 16-bit activations to 8 bits with a given scale.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from assay.array_types import Flags, Floats
from assay.errors import unknown_name
from assay.validate.measured_package import (
    HELD_OUT,
    hash_fraction,
    package_folder,
    read_parquet,
    version_key,
)

Column = Floats
Mask = Flags

FRAMEWORKS = ("vllm", "sglang", "trtllm")
"""Engines; the first one's kernels are the default of an accelerator."""


@dataclass(frozen=True)
class Source:
    """File of an operation's rows in the package, and the filter on its columns."""

    family: str
    file: str
    shape: tuple[str, ...]
    held_out_by: tuple[str, ...]
    only: Mapping[str, tuple[str, ...]]


_HEADS = ("num_heads", "num_key_value_heads", "head_dim", "window_size")
_EXPERTS = ("hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size", "moe_ep_size")
_BF16 = {"attn_dtype": ("bfloat16",), "kv_cache_dtype": ("bfloat16",)}
_ROUTING = {"distribution": ("balanced", "power_law_1.01"), "moe_ep_size": ("1",)}
SOURCES = {
    "gemm": Source(
        "gemm", "gemm_perf", ("m", "n", "k"), ("n", "k"), {"gemm_dtype": ("bfloat16",)}
    ),
    "gemm8": Source("gemm", "gemm_perf", ("m", "n", "k"), ("n", "k"), {"gemm_dtype": ("fp8",)}),
    "prefill": Source(
        "attention", "context_attention_perf", ("batch_size", "isl", *_HEADS), _HEADS, _BF16
    ),
    "decode": Source(
        "attention", "generation_attention_perf", ("batch_size", "step", *_HEADS), _HEADS, _BF16
    ),
    "experts": Source(
        "moe", "moe_perf", ("num_tokens", *_EXPERTS, "balanced"), _EXPERTS,
        {"moe_dtype": ("bfloat16",), **_ROUTING},
    ),
    "experts8": Source(
        "moe", "moe_perf", ("num_tokens", *_EXPERTS, "balanced"), _EXPERTS,
        {"moe_dtype": ("fp8_block",), **_ROUTING},
    ),
    "passes": Source("quantize", "scale_matrix_perf", ("m", "k"), ("k",), {"quant_dtype": ("fp8",)}),
}  # fmt: skip
OPERATIONS = tuple(SOURCES)

_LEAST_WIDTH = 128

# Hash prefixes of the first fits; other operations use their family's name.
_DRAWN_AS = {"gemm": "kernels-1", "gemm8": "kernels-1", "prefill": "attention-1"}
_DRAWN_AS["decode"] = _DRAWN_AS["prefill"]


@dataclass(frozen=True)
class Table:
    """Measurements of one operation: shape columns, times, and the framework of each row."""

    operation: str
    system: str
    columns: dict[str, Column]
    seconds: Column
    framework: NDArray[np.str_]

    def __len__(self) -> int:
        return len(self.seconds)

    def where(self, mask: Mask) -> Table:
        """The rows that a mask picks."""
        columns = {name: column[mask] for name, column in self.columns.items()}
        return Table(self.operation, self.system, columns, self.seconds[mask], self.framework[mask])

    @property
    def groups(self) -> NDArray[np.str_]:
        """Group of each row for the split: all rows of one weight (n, k), or of one head set."""
        names = SOURCES[self.operation].held_out_by
        parts = zip(*(self.columns[name].astype(int).tolist() for name in names), strict=True)
        drawn_as = _DRAWN_AS.get(self.operation, f"{SOURCES[self.operation].family}-1")
        if drawn_as == "kernels-1":
            return np.array([f"assay-kernels-1:{n}:{k}" for n, k in parts])
        return np.array([f"assay-{drawn_as}:{part}" for part in parts])

    @property
    def held_out(self) -> Mask:
        """Rows that no fit may use."""
        names, index = np.unique(self.groups, return_inverse=True)
        return np.array([hash_fraction(name) < HELD_OUT for name in names])[index]


def load(operation: str, system: str) -> Table | None:
    """All rows of an operation on a system, of each framework's newest main kernel.

    None where the operation was not measured on this system.
    """
    source = SOURCES[operation]
    folder = package_folder() / system
    if not folder.is_dir():
        raise unknown_name("system", system, [p.name for p in package_folder().iterdir()])
    parts = []
    for framework in FRAMEWORKS:
        files = (folder / source.family / framework).glob(f"*/{source.file}.parquet")
        tables = [
            _read(operation, system, framework, path) for path in sorted(files, key=version_key)
        ]
        # A later version may have measured only what it changed.
        most = max(map(len, tables), default=0)
        complete = [table for table in tables if len(table) > most / 2]
        parts += complete[-1:]
    return _concatenate(parts) if parts else None


def _concatenate(parts: list[Table]) -> Table:
    columns = {
        name: np.concatenate([part.columns[name] for part in parts]) for name in parts[0].columns
    }
    return Table(
        parts[0].operation, parts[0].system, columns,
        np.concatenate([part.seconds for part in parts]),
        np.concatenate([part.framework for part in parts]),
    )  # fmt: skip


def _read(operation: str, system: str, framework: str, path: Path) -> Table:
    source = SOURCES[operation]
    raw = read_parquet(path)
    seconds = np.array(raw["latency"], dtype=np.float64) * 1e-3
    raw.setdefault("window_size", [0] * len(seconds))
    raw["balanced"] = [name == "balanced" for name in raw.get("distribution", [])]
    keep = seconds > 0
    for name, values in source.only.items():
        keep &= np.isin(np.array(raw[name]).astype(str), values)
    if "inter_size" in raw:
        keep &= is_served(raw)
    sources = np.array(raw["kernel_source"])
    names, counts = np.unique(sources[keep], return_counts=True)
    if len(names):
        keep &= sources == names[np.argmax(counts)]
    columns = {name: np.array(raw[name], dtype=np.float64)[keep] for name in source.shape}
    return Table(operation, system, columns, seconds[keep], np.full(int(keep.sum()), framework))


def is_served(raw: Mapping[str, Sequence[float]]) -> Mask:
    """Whether experts are gated, as wide as deployments cut them, and their number is known.

    Nemotron 3 (22 experts a token, or experts of 1856) has no gate, and the tables do not say so;
    Llama 4 (one expert a token) scales the inputs in kernels of its own.
    With fewer rows than experts, how many the power law touches depends on the draw.
    """
    width, chosen = np.array(raw["inter_size"]), np.array(raw["topk"])
    is_wide = width / np.array(raw["moe_tp_size"]) >= _LEAST_WIDTH
    is_known = np.array(raw["balanced"]) | (
        np.array(raw["num_tokens"]) * chosen > np.array(raw["num_experts"])
    )
    served: Mask = is_wide & is_known & (width != 1856) & ~np.isin(chosen, (1, 22))
    return served


def read_sample(path: Path) -> list[Table]:
    """Tables from a CSV file written by `write_sample`."""
    rows: dict[tuple[str, str], list[dict[str, str]]] = {}
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            rows.setdefault((row["operation"], row["system"]), []).append(row)
    tables = []
    for (operation, system), members in rows.items():
        if operation not in SOURCES:
            raise unknown_name("operation", operation, OPERATIONS)
        columns = {
            name: np.array([float(member[name]) for member in members])
            for name in SOURCES[operation].shape
        }
        seconds = np.array([float(member["seconds"]) for member in members])
        framework = np.array([member["framework"] for member in members])
        tables.append(Table(operation, system, columns, seconds, framework))
    return tables


def write_sample(path: Path, tables: list[Table]) -> None:
    """Write the rows of several tables as one CSV file."""
    shapes = list(dict.fromkeys(name for source in SOURCES.values() for name in source.shape))
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
