"""Questions about money, and about speed where nothing else is asked."""

from __future__ import annotations

from typing import Final

from assay.asking import facts, serving
from assay.asking.intents.intent import COST, LATENCY, MONEY, RESOLVE, SERVED, Intent, intent

INTENTS: Final[tuple[Intent, ...]] = (
    intent(
        name="rent",
        cue=(
            *COST,
            r"\brent(?:s|ing|ed)?\b",
            r"how much\b.*\bhour",
            r"hourly",
            r"(?:which|what) (?:cloud|provider)",
            r"\bcharges?\b",
        ),
        answer=facts.rent,
        slots="accelerator provider finance offer gpus nodes days per_time per_gpu rent",
        nearest=RESOLVE.format("econ.rent.price"),
        needs="accelerator",
        lacks="model tokens load factor concurrency electricity_price pue place requests rate budget gpu_price",
        words="market hourly hour hours h charge charges cloud provider clouds providers",
    ),
    intent(
        name="cost",
        workload="serving",
        cue=(
            *COST,
            r"should i",
            r"best (?:gpu|card|accelerator)s?\b(?!.*(?:fast|quick|speed|through|laten))",
            r"(?:what|which) (?:gpu|card|accelerator)s?\b(?!.*(?:fast|quick|speed|through|laten))",
        ),
        answer=serving.cost,
        slots=f"{SERVED} {MONEY} ttft_limit tpot_limit tokens per_tokens per_time days",
        nearest=RESOLVE.format("econ.cost.per_output_token"),
        words=(
            "output input cached pay dollar cloud buy should effective hour hourly generate process"
        ),
    ),
    intent(
        name="throughput",
        workload="serving",
        cue=(
            r"throughput",
            r"tokens? (?:per|a|/) ?(?:second|s|sec)\b",
            r"tok(?:en)?s?/s(?:ec)?\b",
            r"\btps\b",
            r"how fast",
            r"fast(?:er|est)?\b",
            r"speed",
            r"quick(?:er|est)?",
            r"slow(?:er)?\b",
            r"performance",
            r"better",
            r"output rate",
            r"generation rate",
        ),
        answer=serving.throughput,
        slots=f"{SERVED} per_gpu",
        nearest=RESOLVE.format("serving.throughput"),
        lacks="rate speed",
        words="output second s tok higher highest best better fast user see",
        more_is_better=True,
    ),
    intent(
        name="latency",
        workload="serving",
        cue=(*LATENCY, r"how long"),
        answer=serving.end_to_end,
        slots=SERVED,
        nearest=RESOLVE.format("serving.end_to_end_time"),
        lacks="rate",
        words="request response end long latency answer whole finish",
    ),
)
