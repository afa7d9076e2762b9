"""Questions about energy, emissions and water of tokens."""

from __future__ import annotations

from typing import Final

from assay.asking import footprint, training
from assay.asking.intents.intent import CARBON, RESOLVE, SERVED, TRAIN, WATER, Intent, intent

INTENTS: Final[tuple[Intent, ...]] = (
    intent(
        name="efficiency",
        workload="serving",
        cue=(
            r"tokens? (?:per|/|a) ?(?:watt|joule|kwh|wh)",
            r"per watt",
            r"efficien(?:t|cy)",
            r"perf(?:ormance)?/watt",
        ),
        answer=footprint.efficiency,
        slots=f"{SERVED} site place",
        nearest=RESOLVE.format("econ.energy.per_output_token"),
        words="watt joule energy efficient efficiency power kwh second",
    ),
    intent(
        name="emissions",
        workload="serving",
        cue=CARBON,
        answer=footprint.emissions,
        slots=f"{SERVED} place site load pue tokens per_tokens requests",
        nearest=RESOLVE.format("carbon.per_output_token"),
        words="output emit emits grams footprint query request prompt answer response question message call chat",
    ),
    intent(
        name="water",
        workload="serving",
        cue=WATER,
        answer=footprint.water,
        slots=f"{SERVED} place site load tokens per_tokens requests",
        nearest=RESOLVE.format("carbon.water.per_output_token"),
        words=(
            "output use uses usage consumption liters litres consume query request prompt answer response "
            "question message call chat"
        ),
    ),
    intent(
        name="energy",
        workload="serving",
        cue=(
            r"\benergy\b",
            r"joules?\b",
            r"\bk?wh\b",
            r"(?:how much|amount of) (?:electricity|power)\b.*\b(?:to|for|per)\b",
        ),
        answer=footprint.energy,
        slots=f"{SERVED} place site load pue tokens per_tokens requests",
        nearest=RESOLVE.format("econ.energy.per_output_token"),
        lacks="factor electricity_price",
        words=(
            "output use uses consumption consume consumed usage kwh wh electricity power query request "
            "prompt answer response question message call chat"
        ),
    ),
    intent(
        name="node-power",
        cue=(r"\bpower\b", r"\bheat\b", r"\bbtu\b", r"\bk?watts?\b", r"\bkw\b"),
        answer=training.power,
        slots="node nodes",
        nearest=TRAIN.format("cluster.node.power"),
        needs="node",
        words="draw draws consume consumption kw watts use uses heat output dissipate dissipates",
    ),
    intent(
        name="gpus-power",
        cue=(r"\bpower\b", r"\bheat\b", r"\bbtu\b", r"\b(?:[km]|kilo|mega)?watts?\b", r"\b[km]w\b"),
        answer=training.power,
        slots="accelerator gpus nodes pue",
        nearest=TRAIN.format("gpu.power"),
        needs="accelerator gpus",
        lacks="model factor electricity_price",
        words="draw draws drawn consume consumption kw mw watts megawatts kilowatts use uses heat output dissipate",
    ),
    intent(
        name="power",
        workload="serving",
        cue=(r"\bpower\b", r"\bk?watts?\b", r"\bkw\b"),
        answer=footprint.power,
        slots=f"{SERVED} site place load",
        nearest=RESOLVE.format("econ.serving.dc_power"),
        needs="model",
        lacks="factor electricity_price",
        words="draw draws consume consumption kw watts use uses deployment",
    ),
)
