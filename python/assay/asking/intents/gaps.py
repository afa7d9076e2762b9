"""Questions that no equation answers: refused with the reason."""

from __future__ import annotations

from typing import Final

from assay.asking.intents.intent import ESTIMATE, TRAIN, Intent, intent

INTENTS: Final[tuple[Intent, ...]] = (
    intent(
        name="rl",
        cue=(r"\brl\b", r"rlhf", r"\bgrpo\b", r"\bppo\b", r"\bdpo\b", r"reinforcement"),
        answer=None,
        slots="",
        nearest="no equation of RL, in which generation and training alternate; the training part: "
        + ESTIMATE,
    ),
    intent(
        name="qlora",
        cue=(r"\bqlora\b",),
        answer=None,
        slots="",
        nearest="no equation of QLoRA, whose frozen weights have 4 bits; LoRA of weights of 16 bits: "
        + ESTIMATE,
    ),
    intent(
        name="preemption",
        cue=(r"pre[ -]?empt(?:ion|ions|ed|s)?\b", r"evict(?:ion|ed|s)?\b"),
        answer=None,
        slots="",
        nearest="no equation of pre-emption by a provider; interruptions by failures: "
        + TRAIN.format("cluster.run.interruptions"),
    ),
    intent(
        name="link-energy",
        cue=(
            r"\bnvlink\b.*\b(?:energy|pj|picojoules?|joules?)\b",
            r"\b(?:energy|pj|picojoules?|joules?)\b.*\bnvlink\b",
        ),
        answer=None,
        slots="",
        nearest="the catalog has no energy of NVLink by bit; that of a transceiver between nodes: "
        "assay show links.bit_energy",
    ),
    intent(
        name="price-at-which",
        cue=(
            r"\b(?:at|below|above|under|from) (?:which|what) (?:\ue007+|price|cost|rate(?!.*\bsaturat)|tariff)",
            r"break[ -]?even (?:price|rent|\ue007)",
        ),
        answer=None,
        slots="",
        nearest="the price at which two are equal is solved for, not asked: assay solve --unknown "
        "econ.rent.price --equal 'econ.cost.per_output_token=2e-7 USD/token' --preset "
        "llama3_8b_h200_serving --with finance/rented",
    ),
    intent(
        name="quality",
        cue=(
            r"accuracy",
            r"accurate",
            r"quality",
            r"perplexity",
            r"smarter",
            r"intelligen\w+",
            r"benchmark score",
            r"mmlu",
        ),
        answer=None,
        slots="",
        nearest="no equation of answers' quality; perplexity of weight formats: assay perplexity --help",
    ),
)
