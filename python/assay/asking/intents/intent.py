"""An intent: what a question may ask for, the words that ask for it, and what answers it.

An intent has the words that ask for it, the slots whose values it uses, and the function that answers
it. The first entry that matches is taken; a name, number or word of the question that the intent does
not use is a reason for refusal. A new intent is one entry.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from assay.asking.outcome import Outcome
from assay.asking.reading import Reading

Answer = Callable[[Reading], Outcome]


@dataclass(frozen=True)
class Intent:
    """A question that is understood."""

    name: str
    cue: str
    """Words that ask for it, as an expression; `table` has it compiled."""
    answer: Answer | None
    """What answers it; None where no equation does, for the reason in `nearest`."""
    slots: frozenset[str]
    nearest: str
    """The command that comes nearest where the question is refused."""
    workload: str = ""
    needs: frozenset[str] = frozenset()
    """Slots that the question must fill; `slot=value` with this value alone, `slot|slot` one of them."""
    lacks: frozenset[str] = frozenset()
    words: frozenset[str] = frozenset()
    """Further words that it understands."""
    more_is_better: bool = False


MACHINE: Final = "model accelerator gpus nodes tensor format kv_format native engine"
LENGTHS: Final = "prompt output context concurrency"
MONEY: Final = "place site provider offer finance electricity_price rent gpu_price pue load"
SERVED: Final = f"{MACHINE} {LENGTHS}"
RUN: Final = "model accelerator gpus nodes days tokens epochs place format tuning context"
PAID_RUN: Final = f"{RUN} electricity_price pue rent gpu_price provider offer finance"

RESOLVE: Final = "assay resolve {} --preset llama3_8b_h200_serving{{entries}}"
TRAIN: Final = "assay resolve {} --preset llama3_8b_8_h100_training{{entries}}"
ESTIMATE: Final = "assay estimate {model} {accelerator} {tokens} {place}"
LOAD: Final = "assay predict-load --model {model} --gpu {accelerator} --rates {rate}"

COST: Final = (
    r"\bcosts?\b",
    r"\bprice[ds]?\b",
    r"\bpricing\b",
    r"how much\b.*\b(?:pay|spend)",
    r"cheap(?:er|est)?",
    r"expensive",
    r"\bbill\b",
    r"\bbudget\b",
    r"dollars?",
    r"\busd\b",
    r"affordable",
    r"economical",
)
LATENCY: Final = (
    r"latency",
    r"latencies",
    r"ttft",
    r"tpot",
    r"\bitl\b",
    r"e2e",
    r"end[ -]to[ -]end",
    r"response time",
    r"first token",
    r"how slow",
    r"how responsive",
)
CARBON: Final = (r"carbon", r"co2e?\b", r"emissions?", r"footprint", r"greenhouse", r"\bemits?\b")
WATER: Final = (r"\bwater\b", r"lit(?:er|re)s?")
COUNTING: Final = (
    r"how many",
    r"number of",
    r"replicas?",
    r"instances?",
    r"fleet",
    r"how big a cluster",
    r"needed",
    r"do i need",
)


def intent(
    *,
    name: str,
    cue: tuple[str, ...],
    answer: Answer | None,
    slots: str,
    nearest: str,
    workload: str = "",
    needs: str = "",
    lacks: str = "",
    words: str = "",
    more_is_better: bool = False,
) -> Intent:
    """An entry of a table; texts are split into their words."""
    return Intent(
        name, "|".join(cue), answer, frozenset(slots.split()), nearest, workload,
        frozenset(needs.split()), frozenset(lacks.split()), frozenset(words.split()),
        more_is_better,
    )  # fmt: skip
