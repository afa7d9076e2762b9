"""Questions about accelerators of the catalog side by side, by figures of their own."""

from __future__ import annotations

from typing import Final

from assay.asking import hardware, ratios
from assay.asking.dividing import BY
from assay.asking.figures import FIGURES, PRICE
from assay.asking.intents.intent import RESOLVE, Intent, intent

_KIND: Final = r"(?:gpus?|cards?|accelerators?|chips?|hardware)"
_MOST: Final = r"\b(?:most|highest|largest|biggest|least|lowest|smallest|best|fastest|more)\b"
_WHAT: Final = r"(?:memory|vram|hbm|bandwidth|[tp]?flops?|flop/s|[tp]ops|compute|power|tdp|watts?|l2|cache|sms|peak)"
_OTHERS: Final = (
    "model accelerator tokens rate concurrency gpus nodes node days per_time tokens factor place "
    "rent electricity_price budget context prompt output format"
)
_WORDS: Final = (
    "gpu gpus card cards accelerator accelerators chip chips hardware memory vram hbm bandwidth flops flop tflops "
    "pflops tops pops compute peak power tdp watt watts most highest largest biggest least lowest smallest best dollar "
    "buck money price expensive cheapest l2 cache gaming consumer geforce list catalog which there buy sms more "
    "use uses draw draws consume consumes"
)

_OF_ITSELF: Final = "|".join(figure.words.pattern for figure in FIGURES if figure is not PRICE)
_OTHER_FIGURES: Final = (
    r"\b(?:tokens?|tps|throughput|requests?|users?|perf\w*|electricity|energy|latency|manufactur\w*"
    r"|nvlink|links?)\b"
)
_PAID: Final = PRICE.words.pattern
_PRICE_FIRST: Final = rf"^(?!.*{_OTHER_FIGURES})(?=.*(?:{_PAID})[^,;]*?(?:{BY}))"
_NOT_PAID: Final = rf"^(?!.*{_OTHER_FIGURES})(?=.*(?:{_OF_ITSELF}))(?=.*(?:{BY}))"
_BY_WORDS: Final = (
    "gb gib gigabyte gigabytes tb s flop tflop pflop top sm multiprocessor multiprocessors w watt capacity size "
    "cost costs cheaper cheapest less lower better value hour hourly h hr spent invested rental us $ the an"
)
_RATIO_LACKS: Final = (
    "model tokens rate concurrency node days per_time per_gpu factor place rent electricity_price budget context "
    "prompt output rent_limit cost_limit memory per_tokens"
)

INTENTS: Final[tuple[Intent, ...]] = (
    intent(
        name="hardware-price-by",
        cue=(_PRICE_FIRST,),
        answer=ratios.ratio,
        slots="accelerator gpus finance provider offer format",
        nearest=RESOLVE.format("econ.gpu.price"),
        needs="accelerator",
        lacks=_RATIO_LACKS,
        words=f"{_WORDS} {_BY_WORDS}",
    ),
    intent(
        name="hardware-ratio",
        cue=(_NOT_PAID,),
        answer=ratios.ratio,
        slots="accelerator gpus finance provider offer format",
        nearest=RESOLVE.format("gpu.peak_flops"),
        needs="accelerator",
        lacks=_RATIO_LACKS,
        words=f"{_WORDS} {_BY_WORDS}",
        more_is_better=True,
    ),
    intent(
        name="hardware-best",
        cue=(
            rf"\b(?:which|what)\b[^,;]{{0,30}}\b{_KIND}\b[^,;]{{0,20}}{_MOST}[^,;]{{0,16}}\b{_WHAT}\b",
            rf"{_KIND} (?:has|have|with|of) (?:the )?{_MOST}[^,;]{{0,16}}\b{_WHAT}\b",
            rf"{_MOST}[^,;]{{0,16}}\b{_WHAT}\b[^,;]{{0,24}}\b(?:of (?:any|all)|{_KIND})",
            rf"\b(?:most expensive|least expensive)\b[^,;]{{0,20}}\b{_KIND}\b",
            rf"\b(?:which|what) {_KIND} is (?:the )?(?:most|least) expensive\b",
            rf"\b(?:which|what) (?:\w+ )?{_KIND}\b(?!.*{_OTHER_FIGURES})(?=.*(?:{_OF_ITSELF}|{_PAID})).*(?:{BY})",
            rf"\b(?:best|cheapest) {_KIND}\b(?!.*{_OTHER_FIGURES}).*(?:{BY})",
        ),
        answer=hardware.best,
        slots="finance",
        nearest="assay catalog list accelerators",
        lacks=f"{_OTHERS} memory rent_limit provider offer",
        words=f"{_WORDS} {_BY_WORDS}",
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
            r"(?:\b(?:at least|minimum|or more|more than)|>=?|\ue007)",
            rf"\b{_KIND}\b (?:with|of) (?:at least|a minimum|more than|>=?|\ue007)",
        ),
        answer=hardware.listed,
        slots="memory bound",
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
        slots="accelerator format",
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
