"""What an estimate works on: pre-training, fine-tuning or serving, its format, batch and sequences."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from assay.catalog import models
from assay.catalog.sourced_value import SourcedValue
from assay.errors import InputError, unknown_name
from assay.model.inputs import assignable
from assay.model.resolving.resolve import make_resolver
from assay.scenario.given_values import ON_COMMAND_LINE, with_stated_forms
from assay.scenario.includes import include
from assay.scenario.named_scenario import Preset

_FLOPS: Final = "architecture.training.flops_per_token"
TOKENS_PER_STEP: Final = 2**22
"""Tokens of a step up to 10^23 FLOP, doubled for each factor of ten up to 16 million, as the Llama 3
models were trained (8B with 4 million, 405B with 16 million at the end)."""
TUNED_BATCH: Final = 128
"""Sequences of a step of fine-tuning: card of Llama-3.1-Tulu-3-8B-SFT, 128 (8B, 70B), 256 (405B)."""
TUNED_SEQUENCE: Final = 4096
"""Tokens of such a sequence: the same."""
DEFAULT_RANK: Final = 16
"""Rank of LoRA's adapters, a choice: Dettmers et al. 2023, QLoRA, found no influence of it."""
LONGEST_SEQUENCE: Final = 8192
FORMATS: Final = {"bf16": 16, "fp8": 8, "fp4": 4}
"""Formats of the layers' GEMMs in training, and their bits."""

Fitted = tuple[float, str]
"""A value that an estimate chose, and why."""


@dataclass(frozen=True, slots=True)
class Method:
    """How a model is trained, or in which format it is served."""

    name: str = "pretraining"
    """pretraining, full (fine-tuning of all weights) or lora (of adapters)."""
    rank: int = 0
    """Rank of LoRA's adapters."""
    format: str | None = None
    """Format of the GEMMs in training, of the weights in serving; the model's own if not given."""

    def verb(self, workload: str) -> str:
        """What is done, for the title of an estimate."""
        names = {"full": "full fine-tuning", "lora": f"LoRA (rank {self.rank}) fine-tuning"}
        return names.get(self.name, workload) if workload == "training" else workload

    def serving(self, scenario: Preset) -> tuple[Preset, dict[str, Fitted]]:
        """The scenario with weights of a given format."""
        if self.format is None:
            return scenario, {}
        from assay.catalog.checkpoints import Checkpoint
        from assay.catalog.weight_formats import STORED

        name = {"fp4": "nvfp4"}.get(self.format, self.format)
        if name not in STORED:
            raise unknown_name("format", self.format, sorted(STORED))
        rates = scenario.exact_inputs.values
        values = Checkpoint(name, "").serving_values(rates)
        chosen = {variable: (number, f"{name}: as asked") for variable, number in values.items()}
        return with_numbers(scenario, chosen), chosen


def training_defaults(
    scenario: Preset, tokens: float, method: Method
) -> tuple[Preset, dict[str, Fitted]]:
    """The scenario with what follows from words and model, and the reason of each value."""
    path = next(part.path for part in scenario.included if part.group == "models")
    model = models.find(path.partition("/")[2])
    recipe: Mapping[str, Any] = model.recipe if method.name == "pretraining" else {}
    if "optimizer" in recipe:
        entry = include(f"optimizers/{recipe['optimizer']}", scenario.registry)
        scenario = scenario.with_includes([entry])
    chosen: dict[str, Fitted] = {"training.total_tokens": (tokens, "as asked")}
    chosen["training.compute_bits"] = _bits(scenario, method, recipe)
    context = model.context or LONGEST_SEQUENCE
    if "sequence" in recipe:
        chosen["architecture.sequence"] = (
            float(recipe["sequence"]),
            f"as trained: {recipe['source']}",
        )
    elif method.name == "pretraining":
        reason = "the model's context, at most 8,192 tokens"
        chosen["architecture.sequence"] = (float(min(context, LONGEST_SEQUENCE)), reason)
    else:
        reason = "the model's context, at most 4,096 tokens (Tulu 3)"
        chosen["architecture.sequence"] = (float(min(context, TUNED_SEQUENCE)), reason)
    if method.name == "lora":
        chosen["parallelism.adapter_rank"] = (float(method.rank), "as asked")
    scenario = with_numbers(scenario, chosen)
    chosen["training.batch"] = _batch(scenario, tokens, method, recipe)
    _refuse_part_of_a_step(tokens, chosen)
    return with_numbers(scenario, {"training.batch": chosen["training.batch"]}), chosen


def _bits(scenario: Preset, method: Method, recipe: Mapping[str, Any]) -> Fitted:
    """Bits of the GEMMs' operands: as asked, as the model was trained, or 16."""
    if method.format is not None:
        if method.format not in FORMATS:
            raise unknown_name("format of training", method.format, sorted(FORMATS))
        return float(FORMATS[method.format]), "as asked"
    trained = str(recipe.get("format", ""))
    rates = scenario.exact_inputs.values
    if trained in FORMATS and rates.get(f"gpu.rate_{trained}", 0.0) > 1:
        return float(FORMATS[trained]), f"{trained}, as trained: {recipe['source']}"
    return 16.0, "bf16; --format takes fp8 or fp4"


def _batch(scenario: Preset, tokens: float, method: Method, recipe: Mapping[str, Any]) -> Fitted:
    """Sequences of a step."""
    if "batch" in recipe:
        return float(recipe["batch"]), f"as trained: {recipe['source']}"
    if method.name != "pretraining":
        return float(TUNED_BATCH), "128 sequences, as Tulu 3 was fine-tuned"
    sequence = int(scenario.exact_inputs.values["architecture.sequence"])
    resolver = make_resolver(scenario.registry, scenario.exact_inputs, scenario.variants)
    each = resolver.value(_FLOPS)
    flops = tokens * (scenario.resolve(_FLOPS).require_value() if each is None else each)
    doublings = min(2, max(0, math.floor(math.log10(flops)) - 23))
    size = 2**doublings * TOKENS_PER_STEP
    reason = f"about {size / 2**20:.0f} million tokens a step, by the FLOPs of the run"
    return float(max(1, size // sequence)), reason


def _refuse_part_of_a_step(tokens: float, chosen: Mapping[str, Fitted]) -> None:
    batch, sequence = chosen["training.batch"][0], chosen["architecture.sequence"][0]
    if tokens >= batch * sequence:
        return
    raise InputError(
        f"tokens: expected a run of at least one optimizer step of {batch * sequence:,.0f} tokens "
        f"({batch:,.0f} sequences of {sequence:,.0f}), got {tokens:,.15g}",
        "--method full or lora takes smaller steps; assay resolve --preset any batch: training.batch",
    )


def given_values(scenario: Preset, given: Mapping[str, str]) -> Preset:
    """The scenario with values of the caller's own, and what states computed ones."""
    values, variants = with_stated_forms(given, {}, scenario.registry)
    for name in values:
        assignable(scenario.registry, name)
    stated = {name: SourcedValue(text, ON_COMMAND_LINE, "assumed") for name, text in values.items()}
    return scenario.with_values(stated, variants) if stated else scenario


def with_numbers(scenario: Preset, values: Mapping[str, Fitted]) -> Preset:
    """The scenario with values of the estimate's own."""
    stated = {
        name: SourcedValue.from_number(
            scenario.registry.variables[name], number, f"estimate: {reason}", "assumed", 0.0
        )
        for name, (number, reason) in values.items()
    }
    return scenario.with_values(stated)
