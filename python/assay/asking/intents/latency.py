"""Questions about what limits serving, and its latency."""

from __future__ import annotations

from typing import Final

from assay.asking import costs, rates, serving
from assay.asking.intents.intent import LATENCY, LOAD, MONEY, RESOLVE, SERVED, Intent, intent

INTENTS: Final[tuple[Intent, ...]] = (
    intent(
        name="limit",
        workload="serving",
        cue=(
            r"\blimit(?:s|ed|ing)?\b",
            r"bottleneck",
            r"\bwhy\b.*\bslow",
            r"bound by",
            r"what bounds",
            r"\bmemory[ -]bound",
            r"compute[ -]bound",
            r"what slows",
            r"held back",
            r"holds? .* back",
        ),
        answer=serving.limit,
        slots=SERVED,
        nearest="assay predict --model {model} --gpu {accelerator}",
        lacks="rate ttft_limit tpot_limit",
        words="prefill bound decode step batch main factor performance speed throughput memory compute why slow",
    ),
    intent(
        name="load",
        cue=(*LATENCY, r"how long", r"wait"),
        answer=serving.load,
        slots=(
            "model accelerator gpus tensor format kv_format engine native prompt output rate "
            "percentile prefix_hits ttft_limit tpot_limit"
        ),
        nearest=LOAD,
        needs="rate",
        words=(
            "latency latencies ttft tpot itl e2e end response first p99 arrive arrival "
            "arrives poisson traffic long wait request requests users see"
        ),
    ),
    intent(
        name="capacity",
        workload="serving",
        cue=(
            r"\brate\b",
            r"requests? (?:per|a|/) ?(?:second|s|sec|minute|hour)\b",
            r"requests? \ue007",
            r"\brps\b",
            r"\bqps\b",
            r"req/s",
            r"saturat\w+(?!.*throughput)",
            r"goodput",
            r"sustain(?:ed|s)?",
            r"max(?:imum)? (?:load|traffic)",
        ),
        answer=rates.capacity,
        slots=f"{SERVED} ttft_limit tpot_limit per_time",
        nearest=RESOLVE.format("serving.request_rate"),
        lacks="rate concurrency",
        words=(
            "request requests second s req sustain sustained handle maximum max highest "
            "many traffic peak minute hour break breaks exceed exceeds violate violates"
        ),
        more_is_better=True,
    ),
    intent(
        name="ttft",
        workload="serving",
        cue=(
            r"\bttft\b",
            r"time[ -]to[ -]first[ -]token",
            r"first[ -]token",
            r"prefill time",
            r"(?:time|long|takes?) to prefill",
            r"how long .* (?:prefill|prompt)",
            r"(?:how long|time)\b.*\b(?:process|ingest|digest)\b",
        ),
        answer=serving.ttft,
        slots=f"{SERVED} prefix_hits",
        nearest=RESOLVE.format("serving.time_to_first_token"),
        lacks="rate",
        words=(
            "first latency seconds prefill long prompt processing process ingest digest prefix caching "
            "effect median document text article file book paper"
        ),
    ),
    intent(
        name="tpot",
        workload="serving",
        cue=(
            r"\btpot\b",
            r"(?:tok|toks|tokens?)/s(?:ec)?/user",
            r"tokens? per second per user",
            r"\bitl\b",
            r"time[ -]per[ -](?:output[ -])?token",
            r"inter[ -]token",
            r"ms (?:per|/) ?token",
            r"latency (?:per|of (?:an?|one|each|every)(?: single)?) (?:output )?token",
            r"\btoken latency",
            r"decode latency",
            r"milliseconds per",
        ),
        answer=serving.tpot,
        slots=SERVED,
        nearest=RESOLVE.format("serving.time_per_output_token"),
        lacks="rate",
        words="output latency ms inter between milliseconds s user tok toks second each",
    ),
    intent(
        name="request-cost",
        cue=(
            r"(?:cost|price)s?\b.*\b(?:request|query|call|answer|conversation|message)\b",
            r"\b(?:request|query|call)\b.*\b(?:cost|price)",
        ),
        answer=costs.request_cost,
        slots=f"{SERVED} {MONEY} requests",
        nearest=RESOLVE.format("econ.cost.per_request"),
        lacks="rate factor",
        words="request query call answer message conversation price costs cost average single",
    ),
)
