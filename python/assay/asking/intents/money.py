"""Questions about money, and about speed where nothing else is asked."""

from __future__ import annotations

from typing import Final

from assay.asking import affording, costs, facts, replicas, serving, throughput
from assay.asking.intents.intent import (
    COST,
    LATENCY,
    LOAD,
    MACHINE,
    MONEY,
    RESOLVE,
    SERVED,
    Intent,
    intent,
)

INTENTS: Final[tuple[Intent, ...]] = (
    intent(
        name="affordable-tokens",
        workload="serving",
        cue=(r"how many (?:output )?tokens", r"tokens\b.*\bfor \ue007"),
        answer=costs.affordable_tokens,
        slots=f"{SERVED} {MONEY} budget",
        nearest=RESOLVE.format("econ.cost.per_output_token"),
        needs="model budget",
        lacks="tokens days rate factor requests",
        words="output tokens buy give gives generate generated pay",
    ),
    intent(
        name="hours-bought",
        cue=(r"how many (?:(?:gpu|\ue001+)[ -]?)?hours?\b",),
        answer=facts.hours_bought,
        slots="accelerator provider finance offer budget rent",
        nearest=RESOLVE.format("econ.rent.price"),
        needs="accelerator budget",
        lacks="model tokens",
        words="gpu hours hour buy rent get",
    ),
    intent(
        name="within-cost",
        workload="serving",
        cue=(r"^(?:can|could|is|will|would)\b", r"\bpossible\b", r"\bafford\b"),
        answer=affording.within_cost,
        slots=f"{MACHINE} provider finance cost_limit rent_limit",
        nearest=RESOLVE.format("econ.serving.rate"),
        needs="model cost_limit|rent_limit",
        lacks="rate tokens requests concurrency prompt output context days per_time rent budget factor",
        words="possible afford less",
    ),
    intent(
        name="rate-cost",
        workload="serving",
        cue=COST,
        answer=replicas.rate_cost,
        slots=f"{SERVED} {MONEY} rate ttft_limit tpot_limit per_time days",
        nearest=LOAD,
        needs="rate",
        lacks="tokens per_tokens factor requests",
        words="cost costs serve handle traffic sustain hour hourly",
    ),
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
        slots="accelerator provider finance offer gpus nodes days per_time per_gpu rent gpu_hours",
        nearest=RESOLVE.format("econ.rent.price"),
        needs="accelerator",
        lacks="model tokens load factor concurrency electricity_price pue place requests rate budget gpu_price",
        words="market hourly hour hours h charge charges cloud provider clouds providers",
    ),
    intent(
        name="rent",
        cue=(r"\bat\b", *COST, r"how much"),
        answer=facts.rent,
        slots="accelerator provider finance offer rent gpu_hours",
        nearest=RESOLVE.format("econ.rent.price"),
        needs="accelerator gpu_hours",
        lacks="model tokens factor gpu_price",
        words="hours hour cost costs price",
    ),
    intent(
        name="cost-at-speed",
        workload="serving",
        cue=COST,
        answer=costs.at_speed,
        slots="model accelerator gpus nodes speed rent tokens per_tokens",
        nearest=RESOLVE.format("econ.rent.price"),
        needs="speed rent",
        lacks="rate factor concurrency days per_time",
        words="output does do costs cost price generates produces",
    ),
    intent(
        name="cost",
        workload="serving",
        cue=(
            *COST,
            r"should i",
            r"worth (?:it|the)",
            r"best (?:gpu|card|accelerator)s?\b(?!.*(?:fast|quick|speed|through|laten))",
            r"(?:what|which) (?:gpu|card|accelerator)s?\b(?!.*(?:fast|quick|speed|through|laten))",
        ),
        answer=costs.cost,
        slots=(
            f"{SERVED} {MONEY} ttft_limit tpot_limit tokens per_tokens per_time days token_rate "
            "rent_limit cost_limit"
        ),
        nearest=RESOLVE.format("econ.cost.per_output_token"),
        words=(
            "output input cached pay dollar cloud buy should effective hour hourly generate generating process "
            "way worth self "
            "configuration config"
        ),
    ),
    intent(
        name="generation-time",
        workload="serving",
        cue=(r"how long", r"time to (?:generate|produce)", r"how many (?:hours|days)"),
        answer=throughput.generation_time,
        slots=f"{SERVED} tokens",
        nearest=RESOLVE.format("serving.throughput"),
        needs="model tokens",
        lacks="rate",
        words="generate generating produce output long hours days",
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
            r"tokens? (?:per|an?|each|every|in an?|/) ?(?:minute|hour|day|week|month|year)\b",
            r"how many tokens can\b",
            r"how many (?:output|generated) tokens\b",
        ),
        answer=throughput.throughput,
        slots=f"{SERVED} per_gpu days",
        nearest=RESOLVE.format("serving.throughput"),
        lacks="rate speed",
        words=(
            "quantize quantizing quantized "
            "output second s tok higher highest best better fast user see max maximum maximal peak most "
            "sec saturated saturation minute hour day week month year generation generates generate slower happens"
        ),
        more_is_better=True,
    ),
    intent(
        name="latency",
        workload="serving",
        cue=(*LATENCY, r"how long", r"how many seconds"),
        answer=serving.end_to_end,
        slots=SERVED,
        nearest=RESOLVE.format("serving.end_to_end_time"),
        lacks="rate",
        words="request response end long latency answer whole finish chat summarize reply write seconds",
    ),
)
