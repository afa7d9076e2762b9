"""Measured serving rows of the installed package of tables, as cases."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable
from pathlib import Path

from assay.validate.cases import Case
from assay.validate.measured_package import PACKAGE, URL, VERSION, package_folder

_PLACEMENTS = ("", "prefill_", "decode_")
_SOURCE = {"title": f"{PACKAGE} {VERSION}, silicon_sample.csv", "url": URL}


def rows_file() -> Path:
    """The file of measured serving rows in the installed package."""
    return package_folder().parent / "silicon_sample.csv"


def read_rows(path: Path, systems: Iterable[str] = ()) -> list[Case]:
    """Rows as cases, of some systems or of all."""
    selected = set(systems)
    with path.open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if not selected or row["system"] in selected]
    return [_case(row) for row in rows]


def _case(row: dict[str, str]) -> Case:
    inputs = {
        "system": row["system"], "model": row["model_path"], "backend": row["backend"],
        "backend_version": row["backend_version"], "precision": row["precision"],
        "isl": int(row["isl"]), "osl": int(row["osl"]), "mode": row["mode"],
        "gemm_quant": row["gemm_quant_mode"], "moe_quant": row["moe_quant_mode"],
        "pp": row["pp_size"], "concurrency": _concurrency(row), "client": _client(row),
    }  # fmt: skip
    for prefix in _PLACEMENTS:
        for name in ("tp_size", "attention_dp_size", "moe_tp_size", "moe_ep_size", "num_workers"):
            inputs[prefix + name] = row.get(prefix + name, "")
    observed = {"ttft_ms": float(row["silicon_ttft_ms"]), "tpot_ms": float(row["silicon_tpot_ms"])}
    return Case(f"aic-silicon-{row['id']}", "inference", inputs, observed, dict(_SOURCE), "", "A")


def _client(row: dict[str, str]) -> str:
    """The load generator of a row: InferenceX, or the package's own closed loop."""
    from_package = "auto-gap-analysis" in row["silicon_data_source"]
    return "closed loop" if from_package else "InferenceX"


def _concurrency(row: dict[str, str]) -> str:
    stated = re.search(r"silicon_concurrency=(\d+)", row["silicon_data_source"])
    stated = stated or re.search(r"_c(\d+)_", row["id"])
    if stated:
        return stated.group(1)
    if row["batch_size"]:
        return row["batch_size"]
    batch, workers = row["decode_batch_size"] or "16", row["decode_num_workers"] or "1"
    return str(float(batch) * float(workers))
