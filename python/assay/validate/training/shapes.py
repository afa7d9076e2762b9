"""Accelerator and model shapes of a training case."""

from __future__ import annotations

import math
import re
from functools import cache
from typing import Any

from assay.catalog import accelerators, models
from assay.catalog.entries import CatalogEntry
from assay.errors import AssayError
from assay.stack import registry
from assay.validate.cases import Case
from assay.validate.training.software import text_of

RATES = ("gpu.memory.bandwidth", "gpu.link.bandwidth")
_OVERRIDES = {"layers": "layers", "vocab": "vocabulary", "ffn": "ffn", "kv_heads": "kv_heads"}


class NotPredictable(Exception):
    """Why a case cannot be predicted."""


def accelerator_of(case: Case) -> CatalogEntry:
    """The catalog's entry of the accelerator that a case names."""
    inputs = case.inputs
    name = inputs.get("gpu") or inputs.get("accelerator")
    if not name and "total_train_flop" in case.observed:
        name = "H100"  # FLOPs do not depend on the accelerator
    if not name:
        raise NotPredictable("no accelerator is stated")
    try:
        return accelerators.find(str(name))
    except AssayError as error:
        raise NotPredictable(error.message) from None


@cache
def rates_of(name: str) -> dict[str, float]:
    """Memory and link bandwidth, stated in the catalog or resolved from it."""
    given, known = accelerators.find(name).given, registry()
    rates = {rate: known.value(rate, given) for rate in RATES}
    return {rate: value for rate, value in rates.items() if value is not None}


def launch_year(entry: CatalogEntry) -> float:
    """Year from which the accelerator's family could be had: the earliest of its variants."""
    family = entry.name.partition("_")[0]
    dates = [
        str(other.facts.get("available") or other.facts.get("launched", ""))
        for other in accelerators.all_accelerators()
        if other.name.partition("_")[0] == family
    ]
    years = [
        int(date[:4]) + (int(date[5:7]) - 1) / 12
        for date in dates
        if re.match(r"\d{4}-\d{2}", date)
    ]
    return min(years, default=2020.0)


def shapes_of(case: Case, notes: list[str]) -> dict[str, float]:
    """Shapes of the model by variable: as stated, or from the catalog."""
    inputs = case.inputs
    words = text_of(case)
    if not all(inputs.get(name) for name in ("hidden", "layers", "heads")):
        shapes = _named_model(case)
        notes.append(f"shapes of {shapes.name} from the catalog")
        changed = {
            f"architecture.{variable}": float(inputs[name])
            for name, variable in _OVERRIDES.items()
            if inputs.get(name)
        }
        return {**shapes.given, **changed}
    fields: dict[str, Any] = {"num_key_value_heads": inputs.get("kv_heads")}
    hidden = float(inputs["hidden"])
    width = inputs.get("ffn") or inputs.get("dense_ffn")
    gated = any(
        word in words for word in ("llama", "mistral", "mixtral", "qwen", "deepseek", "gemma")
    )
    if width is None and gated:
        # LLaMA takes two thirds of four times the width, up to the next multiple of 256.
        width = math.ceil(8 * hidden / 3 / 256) * 256
        notes.append(f"feed-forward width not stated: {width}")
    model_type = "llama" if gated else "mpt"
    if inputs.get("experts"):
        model_type = "deepseek_v3" if inputs.get("shared_experts") else "mixtral"
        fields |= {
            "n_routed_experts": inputs["experts"], "num_experts_per_tok": inputs["experts_active"],
            "moe_intermediate_size": inputs.get("moe_ffn") or width,
            "n_shared_experts": inputs.get("shared_experts"),
            "first_k_dense_replace": inputs.get("dense_layers"),
        }  # fmt: skip
        fields |= _latent(words, notes)
    vocabulary = inputs.get("vocab")
    if not vocabulary:
        vocabulary = 51200
        notes.append("vocabulary not stated: 51200")
    shapes = models.from_dimensions(
        layers=inputs["layers"], hidden=hidden, heads=inputs["heads"], vocabulary=vocabulary,
        name=case.id, model_type=model_type,
        intermediate_size=width if width is not None else 4 * hidden, **fields,
    )  # fmt: skip
    return shapes.given


def _named_model(case: Case) -> models.CatalogModel:
    """The model that a case names."""
    name = case.inputs.get("model")
    if not name:
        raise NotPredictable("neither shapes nor a model are stated")
    try:
        return models.find(str(name))
    except AssayError as error:
        raise NotPredictable(error.message) from None


def _latent(words: str, notes: list[str]) -> dict[str, Any]:
    """Dimensions of multi-head latent attention, by the model's name."""
    if "deepseek-v3" not in words and "deepseek v3" not in words:
        return {}
    notes.append("widths of compressed attention from the catalog: deepseek-v3")
    config = models.find("deepseek-v3").config
    names = ("kv_lora_rank", "q_lora_rank", "qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim")
    return {name: config[name] for name in names}
