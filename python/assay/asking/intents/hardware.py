"""Questions about accelerators of the catalog side by side, by figures of their own."""

from __future__ import annotations

from typing import Final

from assay.asking import hardware
from assay.asking.intents.intent import RESOLVE, Intent, intent

_KIND: Final = r"(?:gpus?|cards?|accelerators?|chips?|hardware)"
_MOST: Final = r"\b(?:most|highest|largest|biggest|least|lowest|smallest|best|fastest|more)\b"
_WHAT: Final = (
    r"(?:memory|vram|hbm|bandwidth|[tp]?flops?|flop/s|compute|power|tdp|watts?|l2|cache|sms|peak)"
)
_OTHERS: Final = (
    "model accelerator tokens rate concurrency gpus nodes node days per_time tokens factor place "
    "rent electricity_price budget context prompt output format"
)
_WORDS: Final = (
    "gpu gpus card cards accelerator accelerators chip chips hardware memory vram hbm bandwidth flops flop tflops "
    "pflops compute peak power tdp watt watts most highest largest biggest least lowest smallest best dollar "
    "buck money price expensive cheapest l2 cache gaming consumer geforce list catalog which there buy sms more "
    "use uses draw draws consume consumes"
)

INTENTS: Final[tuple[Intent, ...]] = (
    intent(
        name="hardware-best",
        cue=(
            rf"\b(?:which|what)\b[^,;]{{0,30}}\b{_KIND}\b[^,;]{{0,20}}{_MOST}[^,;]{{0,16}}\b{_WHAT}\b",
            rf"{_KIND} (?:has|have|with|of) (?:the )?{_MOST}[^,;]{{0,16}}\b{_WHAT}\b",
            rf"{_MOST}[^,;]{{0,16}}\b{_WHAT}\b[^,;]{{0,24}}\b(?:of (?:any|all)|{_KIND})",
            rf"\b(?:most expensive|least expensive)\b[^,;]{{0,20}}\b{_KIND}\b",
            rf"\b(?:which|what) {_KIND} is (?:the )?(?:most|least) expensive\b",
            rf"\b(?:which|what) {_KIND}\b[^,;]{{0,30}}\b{_WHAT} per (?:dollar|watt|w)\b",
        ),
        answer=hardware.best,
        slots="finance",
        nearest="assay catalog list accelerators",
        lacks=f"{_OTHERS} memory rent_limit provider offer",
        words=_WORDS,
        more_is_better=True,
    ),
    intent(
        name="hardware-list",
        cue=(rf"\b(?:which|what|list|all)\b[^,;]{{0,24}}\b{_KIND}\b", rf"^{_KIND}\b"),
        answer=hardware.listed,
        slots="memory rent_limit finance",
        nearest="assay catalog list accelerators",
        needs="rent_limit",
        lacks=_OTHERS,
        words=f"{_WORDS} rent rents rented cost costs hour least minimum",
    ),
    intent(
        name="hardware-list",
        cue=(
            rf"\b(?:which|what|list|all)\b[^,;]{{0,24}}\b{_KIND}\b[^;]{{0,24}}"
            r"\b(?:at least|minimum|or more|more than|>=?)",
            rf"\b{_KIND}\b (?:with|of) (?:at least|a minimum|more than|>=?)",
        ),
        answer=hardware.listed,
        slots="memory",
        nearest="assay catalog list accelerators",
        needs="memory",
        lacks=_OTHERS,
        words=f"{_WORDS} least minimum or more than",
    ),
    intent(
        name="offers",
        cue=(
            r"\b(?:which|what) (?:clouds?|providers?|offers?)",
            r"\brent(?:s|al|ed|ing)?\b",
            r"\b(?:cheapest|price|cost)\b",
            r"\bcan i (?:get|find)\b",
            r"\bavailable\b",
            r"\ue007",
        ),
        answer=hardware.offers_within,
        slots="accelerator rent_limit offer provider finance",
        nearest=RESOLVE.format("econ.rent.price"),
        needs="accelerator rent_limit",
        lacks="model tokens rate concurrency days per_time factor budget gpus nodes",
        words="provider providers cloud clouds offer offers rent rents rental cheapest find available hour",
    ),
    intent(
        name="ridge",
        cue=(r"\bridge point\b", r"\b(?:machine balance|arithmetic intensity|flops? per byte|roofline)\b"),
        answer=hardware.ridge,
        slots="accelerator",
        nearest=RESOLVE.format("gpu.peak_flops"),
        needs="accelerator",
        lacks="model gpus nodes",
        words="ridge point machine balance arithmetic intensity flop flops byte roofline",
        more_is_better=True,
    ),
    intent(
        name="equivalent",
        cue=(
            r"how many \ue001+[^,;]{0,20}\b(?:equals?|match(?:es)?|replaces?|make up|amount to|as much)\b",
        ),
        answer=hardware.equivalent,
        slots="accelerator gpus",
        nearest=RESOLVE.format("gpu.memory.bandwidth"),
        needs="accelerator",
        lacks="model tokens rate concurrency",
        words="equal equals match matches replace replaces memory bandwidth vram hbm compute flops peak power amount",
        more_is_better=True,
    ),
)  # fmt: skip
