"""Specifications by name: models of files, catalog and engine; hardware of catalog and calibration."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from assay.errors import InputError
from assay.planner.specs import HardwareSpec, LayerSpec, ModelSpec

if TYPE_CHECKING:
    from assay.catalog.entries import CatalogEntry
    from assay.catalog.models import CatalogModel

OWN_KERNELS: Final = ("collectives.direct_start", "collectives.direct_share")
"""Constants that are the engine's own: its other kernels do not predict better with theirs, see
docs/design/serving-model.md."""

_CALIBRATED: Final = re.compile(r"here|cpu|cuda:\d{1,4}|[0-9a-f]{16}")


def model_spec(source: str | Path) -> ModelSpec:
    """A model by a `config.json`, its folder, a GGUF file, or a name of catalog or engine.

    >>> int(model_spec("llama-3.1-8b").architecture["layers"])
    32
    """
    from assay.catalog import models

    model = models.from_source(source)
    if model is not None:
        return from_model(model, model.weight_format)
    # Importing the engine takes longer than a prediction.
    from assay.engine.loading.description import describe_model

    described = describe_model(source)
    spec = from_model(described.model, described.weight_format)
    return replace(spec, source=str(source), head_dtype=described.head_format)


def from_model(model: CatalogModel, weight_format: str = "") -> ModelSpec:
    """A model whose configuration has been read."""
    from assay.catalog import layer_kinds

    shapes, config = model.shapes, model.config
    layers = zip(
        layer_kinds.mixers(shapes, config), layer_kinds.mlps(shapes, config),
        layer_kinds.windowed(shapes, config), strict=True,
    )  # fmt: skip
    return ModelSpec(
        model.name, dict(shapes), model.source, tuple(model.notes),
        tuple(LayerSpec(*kinds) for kinds in layers), weight_format,
        layer_kinds.has_rope(shapes, config), context=model.context,
        format_source=model.checkpoint.source if model.checkpoint.is_quantized else "",
    )  # fmt: skip


def hardware_spec(source: str | Path, offer: str | None = None) -> HardwareSpec:
    """An accelerator of the catalog by any of its names, or a calibration.

    Calibrations are files of `assay calibrate`, `here`, `cpu`, `cuda:0` or a fingerprint. `offer`
    is the one at which it is rented, as `PROVIDER` or `PROVIDER:TERMS`.

    >>> hardware_spec("H200 SXM").name
    'h200_sxm'
    """
    if offer:
        return replace(hardware_spec(source), offer=offer)
    text = str(source)
    if text.endswith(".json") or _CALIBRATED.fullmatch(text):
        from assay.planner.calibrate.store import load

        return _completed(load(text))
    from assay.catalog import accelerators

    return from_accelerator(accelerators.find(text.removeprefix("accelerators/")))


@cache
def engine_collectives(accelerator: str, engine: str) -> dict[str, float]:
    """Constants of an engine's all-reduce on an accelerator, where they were measured."""
    from assay.catalog import accelerators, constants

    system = str(accelerators.find(accelerator).facts.get("calibration") or "")
    if not system or engine not in constants.engines(system):
        return {}
    own = constants.given(system, engine)
    return {name: own[name] for name in OWN_KERNELS if name in own}


@cache
def engine_experts(accelerator: str, engine: str) -> dict[str, float]:
    """What rows of other ranks' experts cost an engine on an accelerator, where it was measured."""
    from assay.catalog import accelerators, expert_formats

    entry = accelerators.find(accelerator)
    system = str(entry.facts.get("calibration") or entry.name)
    known = expert_formats.in_16_bits(entry.name, system, engine)
    return {} if known is None else known.values


def from_accelerator(entry: CatalogEntry) -> HardwareSpec:
    """An accelerator of the catalog, with the fitted constants of its kernels."""
    from assay.catalog import accelerators, constants, stand_ins
    from assay.model.language.distributions import Z90
    from assay.stack import registry

    stands_in = stand_ins.notes(entry)
    entry = stand_ins.modeled(entry)
    if not entry.facts.get("calibration"):
        raise InputError(
            f"{entry.name}: expected an accelerator with fitted kernel constants, got "
            f"{entry.facts.get('unmodeled') or 'a machine that the catalog has no constants of'}",
            "assay calibrate measures this machine; --gpu takes the file that it writes",
        )
    fitted = constants.find(str(entry.facts["calibration"]), accelerator=entry.name)
    own = engine_collectives(entry.name, "vllm")
    known = registry().variables
    stated = {
        name: math.log1p(value.uncertainty) / Z90
        for name, value in entry.values.items()
        if value.uncertainty
    }
    values: dict[str, float] = {
        **fitted.values, **own,
        **entry.given, **accelerators.low_precision_rates(entry),
        # Kernel constants hold at the clock that the tables were measured at.
        "kernels.device.clock_ratio": 1.0,
    }  # fmt: skip
    spreads: dict[str, float] = {**fitted.log_standard_errors, **stated}
    return HardwareSpec(
        entry.name,
        {name: value for name, value in values.items() if name in known},
        "catalog",
        notes=(*stands_in, *fitted.notes),
        accelerator=entry.name,
        log_spreads={name: spread for name, spread in spreads.items() if name in known},
        correlations=fitted.correlations,
    )


def _completed(measured: HardwareSpec) -> HardwareSpec:
    """What was measured, in place of the values of the catalog's accelerator."""
    if not measured.accelerator:
        return measured
    from assay.catalog import accelerators

    base = from_accelerator(accelerators.find(measured.accelerator))
    return replace(
        measured,
        given={**base.given, **measured.given},
        notes=(*base.notes, *measured.notes),
        log_spreads={n: s for n, s in base.log_spreads.items() if n not in measured.given},
        correlations=base.correlations,
    )
