"""Questions about a place, an accelerator or a model by itself."""

from __future__ import annotations

from typing import Final

from assay.asking import facts
from assay.asking.intents.intent import COST, RESOLVE, TRAIN, Intent, intent

INTENTS: Final[tuple[Intent, ...]] = (
    intent(
        name="break-even",
        cue=(
            r"break[ -]?even",
            r"at (?:which|what) utili[sz]ation",
            r"worth (?:buying|owning)",
            r"pays? off",
            r"pay back",
        ),
        answer=facts.break_even,
        slots="accelerator gpus rent provider finance place electricity_price pue gpu_price site",
        nearest="assay solve --unknown econ.utilisation "
        "--equal 'econ.gpu.owned_rate=2 USD/(h*GPU)' --preset llama3_8b_h200_serving",
        words="break even utilization utilisation point buying owning worth beat beats",
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
            r"electricity\b.*\b(?:cheaper|expensive|dearer)\b",
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
        words="grid country power electricity intensity carbon",
    ),
    intent(
        name="bandwidth",
        cue=(r"bandwidth",),
        answer=facts.bandwidth,
        slots="accelerator",
        nearest=RESOLVE.format("gpu.memory.bandwidth"),
        needs="accelerator",
        lacks="model",
        words="hbm memory peak higher",
        more_is_better=True,
    ),
    intent(
        name="capacity-of-memory",
        cue=(r"\bmemory\b", r"\bvram\b", r"\bhbm\b"),
        answer=facts.memory_capacity,
        slots="accelerator",
        nearest=RESOLVE.format("gpu.memory.capacity"),
        needs="accelerator",
        lacks="model concurrency context prompt",
        words="vram hbm gb capacity",
        more_is_better=True,
    ),
    intent(
        name="board-power",
        cue=(r"\btdp\b", r"power limit", r"board power"),
        answer=facts.power_limit,
        slots="accelerator",
        nearest=RESOLVE.format("gpu.power.limit"),
        needs="accelerator",
        lacks="model",
        words="power limit board watts maximum max",
    ),
    intent(
        name="peak",
        cue=(r"\b[tp]?flops?\b", r"[tp]flop/s"),
        answer=facts.peak,
        slots="accelerator",
        nearest=RESOLVE.format("gpu.peak_flops"),
        needs="accelerator",
        lacks="model",
        words="peak dense s 16-bit compute",
        more_is_better=True,
    ),
    intent(
        name="layers",
        cue=(r"\blayers?\b",),
        answer=facts.layers,
        slots="model",
        nearest=RESOLVE.format("architecture.layers"),
        needs="model",
        lacks="accelerator",
    ),
    intent(
        name="gpu-hour",
        cue=(r"(?:cost|price).*\bhour", r"\bhour.*(?:cost|price)", r"hourly"),
        answer=facts.owned_hour,
        slots="accelerator finance place electricity_price load per_gpu",
        nearest=TRAIN.format("econ.gpu.owned_rate"),
        needs="accelerator finance=buy",
        lacks="model tokens provider rent factor",
        words="hourly hour hours cost costs price",
    ),
    intent(
        name="buyable",
        cue=(r"how many",),
        answer=facts.buyable,
        slots="accelerator finance budget",
        nearest=RESOLVE.format("econ.gpu.price"),
        needs="accelerator budget finance=buy",
        lacks="model tokens provider offer rent rate",
    ),
    intent(
        name="gpu-price",
        cue=COST,
        answer=facts.gpu_price,
        slots="accelerator finance gpus per_gpu",
        nearest=RESOLVE.format("econ.gpu.price"),
        needs="accelerator finance=buy",
        lacks="model tokens provider offer load rent factor concurrency days per_time place nodes",
        words="list new outright",
    ),
    intent(
        name="gpu-price",
        cue=(
            r"^(?!.*\b(?:hour|hourly|month|day|year|token|cloud|provider|cheapest|cheaper)s?\b)"
            r".*\b(?:costs?|prices?|how much)\b",
        ),
        answer=facts.gpu_price,
        slots="accelerator gpus per_gpu",
        nearest=RESOLVE.format("econ.gpu.price"),
        needs="accelerator",
        lacks=(
            "model tokens provider offer finance load rent factor concurrency nodes days per_time place "
            "electricity_price pue"
        ),
        words="list new price prices cost costs",
    ),
)
