"""The file of data of a claim: staged, and held against the units that the claim says it has."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Final

from assay.bench.claims.claim import Claim
from assay.bench.claims.staging import stage
from assay.bench.claims.suites import workload_of
from assay.bench.harness.case import Settings
from assay.errors import InputError
from assay.workloads.contract import ArrayWorkload

_SMALL: Final = (2, 3)
"""Units of work whose data say how arrays grow with them."""


def with_file(claim: Claim, settings: Settings) -> Settings:
    """Settings with the staged file of a claim that has one."""
    if not claim.data.file:
        return settings
    path = stage(claim).path
    workload = None if claim.work is not None else workload_of(claim)
    if workload is not None:
        _check_rows(claim, workload, path)
    return dataclasses.replace(settings, data=path, data_units=claim.data.units)


def _check_rows(claim: Claim, workload: ArrayWorkload, path: Path) -> None:
    """Refuse a file without the arrays of its workload, or with other rows than its units are."""
    units = claim.data.units or 0
    where = f"{claim.path}: data"
    rows = {
        name: len(array) for name, array in workload.read(path, units).arrays.items() if array.ndim
    }
    fewer, more = (workload.generate(1, size).arrays for size in _SMALL)
    missing = [name for name in fewer if name not in rows and fewer[name].ndim]
    if missing:
        raise InputError(
            f"{where}.file: expected the arrays {', '.join(fewer)} in {claim.data.file}, got none of "
            f"{', '.join(missing)}"
        )
    for name in fewer:
        if name not in rows:
            continue
        each = len(more[name]) - len(fewer[name])
        expected = len(fewer[name]) + each * (units - _SMALL[0])
        if rows[name] != expected:
            raise InputError(
                f"{where}.units: expected the {workload.unit}s of {claim.data.file}, whose array {name} has "
                f"{rows[name]:,} rows, got {units:,}",
                f"{units:,} {workload.unit}s are {expected:,} rows",
            )
