"""Loading the stack's scopes, in order, through a cache of the checked registry."""

from __future__ import annotations

import importlib
from functools import cache as once
from pathlib import Path

from assay import model
from assay.model import declaration_records, store
from assay.model.registry import Registry
from assay.paths import cache

SCOPE_MODULES = (
    "assay.stack.physics",
    "assay.stack.logic",
    "assay.stack.formats",
    "assay.stack.hbm",
    "assay.stack.gpu",
    "assay.stack.transistor",
    "assay.stack.arithmetic",
    "assay.stack.manufacturing",
    "assay.stack.floorplan",
    "assay.stack.geometry",
    "assay.stack.timing",
    "assay.stack.delivery",
    "assay.stack.interconnect",
    "assay.stack.kernels.device",
    "assay.stack.kernels.gemm",
    "assay.stack.kernels.attention_prefill",
    "assay.stack.kernels.attention_decode",
    "assay.stack.kernels.passes",
    "assay.stack.kernels.experts",
    "assay.stack.multiprocessor",
    "assay.stack.dram",
    "assay.stack.wires",
    "assay.stack.collectives",
    "assay.stack.architecture",
    "assay.stack.software",
    "assay.stack.optimizer",
    "assay.stack.parallelism",
    "assay.stack.training",
    "assay.stack.serving",
    "assay.stack.cluster",
    "assay.stack.thermal",
    "assay.stack.econ",
    "assay.stack.carbon",
    "assay.stack.hours",
    "assay.stack.market",
    "assay.stack.lithography",
    "assay.stack.metal",
    "assay.stack.switching",
    "assay.stack.drawing",
    "assay.stack.regulation",
    "assay.stack.stacking",
    "assay.stack.scaling",
    "assay.stack.routing",
    "assay.stack.nuclear",
    "assay.stack.sram",
    "assay.stack.fab",
    "assay.stack.precision",
    "assay.stack.updates",
    "assay.stack.links",
)
"""Modules that each hold one `scope`; a scope refers only to itself and to earlier ones."""


@once
def registry() -> Registry:
    """The registry of the whole stack, loaded once per process.

    The checked registry is cached as a data file, keyed by the source files of the stack and
    of the equation language.
    """
    folders = [Path(__file__).parent, Path(model.__file__).parent]
    path = cache("registry") / f"{store.fingerprint_sources(folders)}.registry"
    if (cached := _read_cached(path)) is not None:
        return cached
    loaded = load_registry()
    store.write_cache(path, declaration_records.to_bytes(loaded.to_data(), loaded.key))
    return loaded


def _read_cached(path: Path) -> Registry | None:
    content = store.read_cache(path)
    if content is None:
        return None
    records, key = declaration_records.from_bytes(content)
    loaded = Registry(records)
    loaded.key = key
    return loaded


def load_registry() -> Registry:
    """Import every scope and check all of it, without any cache."""
    return Registry.from_scopes([importlib.import_module(name).scope for name in SCOPE_MODULES])
