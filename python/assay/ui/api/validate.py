"""`/validate`: predictions of published figures, and the cases behind them."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Query
from fastapi.responses import Response

import assay
from assay import paths
from assay.answers import data_of
from assay.catalog import accelerators
from assay.errors import AssayError
from assay.model import store
from assay.ui.api.reports import REFUSALS, send
from assay.ui.children import run_command
from assay.validate.cases import KINDS, Case, published_cases, read_cases
from assay.validate.run import ALL
from assay.validate.sources import source_of

router = APIRouter(tags=["validate"], responses=REFUSALS)

_DEVICE_KEYS = ("gpu", "system", "device", "accelerator", "hardware")
"""What the cases call the accelerator, in the order in which they are looked at."""
_UNREAD = ("ui", "__pycache__")
"""Folders of the package that no prediction reads."""


Suite = Annotated[
    Literal["all", "kernels", "training", "inference"],
    Query(description="Cases of one kind, or all of them."),
]


@router.get("/validate")
def validate_scores(suite: Suite = "all") -> Response:
    """Published figures with their predictions: what `assay validate --suite SUITE --json` prints.

    The first answer takes seconds to minutes; the page asks for one kind after the other, and shows
    each when it comes.
    """
    return Response(_scores(suite), media_type="application/json")


@router.get("/validate/cases")
def validate_cases() -> Response:
    """Every case as published: inputs, observed figures, source and notes."""
    return send(case_list())


def exported() -> Iterator[tuple[str, str]]:
    """The answers that the page needs in an exported site, as JSON, by request."""
    for kind in KINDS:
        yield f"validate?suite={kind}", json.dumps(json.loads(_scores(kind)), separators=(",", ":"))
    yield "validate/cases", json.dumps(case_list(), separators=(",", ":"), allow_nan=False)


def case_list() -> list[dict[str, Any]]:
    """The published cases as plain data."""
    return [
        {"case": case.id, **data_of(case, "kind inputs observed source"),
         "family": source_of(case), **data_of(case, "notes tier"),
         "accelerator": accelerator_of(case)}
        for case in _cases()
    ]  # fmt: skip


def accelerator_of(case: Case) -> str:
    """The accelerator of a case by its name in the catalog, else as the case writes it."""
    stated = next((str(case.inputs[key]) for key in _DEVICE_KEYS if case.inputs.get(key)), "")
    if not stated:
        return "not stated"
    try:
        return accelerators.find(stated).name
    except AssayError:
        return stated


@cache
def _cases() -> tuple[Case, ...]:
    return tuple(read_cases(published_cases()))


_COMPUTING: Final = {suite: threading.Lock() for suite in (ALL, *KINDS)}
"""Two requests for one answer compute it once."""


def _scores(suite: str) -> bytes:
    """What the command prints; kept on disk until the program or its data change."""
    with _COMPUTING[suite]:
        path = paths.cache("validation") / f"{_fingerprint()}-{suite}.json"
        if (kept := store.read_cache(path)) is not None:
            return kept
        printed = run_command(["validate", "--suite", suite, "--json", "--quiet"])
        store.write_cache(path, printed)
        return printed


def _fingerprint() -> str:
    """A key of everything that a prediction can depend on: code and data but those of the pages."""
    package = Path(assay.__file__).parent
    folders = [path for path in package.iterdir() if path.is_dir() and path.name not in _UNREAD]
    return store.fingerprint_contents(sorted(folders), (".py", ".json", ".csv", ".toml"))
