"""Questions about a place, an accelerator or a model by itself."""

from __future__ import annotations

from typing import Final

from assay.asking import facts
from assay.asking.intents.intent import COST, RESOLVE, TRAIN, Intent, intent

INTENTS: Final[tuple[Intent, ...]] = (
    intent(
        name="break-even",
        cue=(r"break[ -]?even", r"worth (?:buying|owning)", r"pays? off", r"pay back"),
        answer=facts.break_even,
        slots="accelerator gpus rent provider finance place electricity_price pue gpu_price site",
        nearest="assay solve --unknown econ.utilisation "
        "--equal 'econ.gpu.owned_rate=2 USD/(h*GPU)' --preset llama3_8b_h200_serving",
        words="break even utilization utilisation point buying owning worth",
    ),
    intent(
        name="pue",
        cue=(r"\bpue\b", r"power usage effectiveness"),
        answer=facts.pue,
        slots="site provider",
        nearest=TRAIN.format("thermal.dc.pue"),
        lacks="pue factor model",
        words="climate fleet hot cold",
    ),
    intent(
        name="electricity",
        cue=(
            r"(?:electricity|power|energy)\b.*\b(?:price|tariff|cost)",
            r"price of (?:electricity|power)",
            r"\bkwh\b.*\b(?:cost|price)",
        ),
        answer=facts.electricity,
        slots="place",
        nearest=RESOLVE.format("econ.electricity.price"),
        lacks="factor electricity_price model accelerator tokens",
        words="electricity power energy price tariff cost kwh kilowatt industrial",
    ),
    intent(
        name="carbon-intensity",
        cue=(
            r"clean(?:er|est)?\b",
            r"carbon intensity",
            r"dirt(?:y|ier|iest)\b",
            r"green(?:er|est)\b",
        ),
        answer=facts.carbon_intensity,
        slots="place",
        nearest=RESOLVE.format("carbon.grid.intensity"),
        needs="place",
        lacks="model",
        words="grid country power electricity intensity",
    ),
    intent(
        name="gpu-hour",
        cue=(r"(?:cost|price).*\bhour", r"\bhour.*(?:cost|price)", r"hourly"),
        answer=facts.owned_hour,
        slots="accelerator finance place electricity_price load",
        nearest=TRAIN.format("econ.gpu.owned_rate"),
        needs="accelerator finance=buy",
        lacks="model tokens provider rent factor",
        words="hourly cost costs price",
    ),
    intent(
        name="gpu-price",
        cue=(*COST,),
        answer=facts.gpu_price,
        slots="accelerator finance",
        nearest=RESOLVE.format("econ.gpu.price"),
        needs="accelerator finance=buy",
        lacks="model tokens provider load rent factor concurrency",
        words="list new outright",
    ),
)
