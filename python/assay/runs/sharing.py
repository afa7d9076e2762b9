"""Pushes a run that has ended into the store that `ASSAY_STORE` names: a store, or the run does not begin."""

from __future__ import annotations

import os
from pathlib import Path

from assay.errors import AssayError
from assay.store.backend import StoreError
from assay.store.describing import item_of
from assay.store.layout import VARIABLE, open_store
from assay.store.pushing import push


def refuse_other_places() -> None:
    """Refuse a place that is no store before anything is measured: nobody would look for the run there."""
    if not (place := os.environ.get(VARIABLE)):
        return
    try:
        open_store(place)
    except AssayError as error:
        hint = error.hint or f"assay store init --store {place} makes one"
        raise StoreError(
            f"{VARIABLE}: {error.message}", f"{hint}; without {VARIABLE}, runs stay on this machine"
        ) from None


def push_ended(run: Path) -> list[str]:
    """Push a run, where there is a store; what to say of it. The run itself stays as it is."""
    if not (place := os.environ.get(VARIABLE)):
        return []
    try:
        pushed = push([item_of(run)], place)
    except AssayError as error:
        # The hint of an error in a push is to go on with the same command, which is not this one.
        return [_failed(error, f"assay store push {run.name} pushes it")]
    if pushed.problem is not None:
        return [_failed(pushed.problem, pushed.problem.hint or "")]
    return [
        *pushed.notes,
        *(f"pushed to store {pushed.store}: {sent.item}" for sent in pushed.items),
    ]


def _failed(error: AssayError, hint: str) -> str:
    return f"the run is not in the store of {VARIABLE}: {error.message}; {hint}"
