"""Questions about the shape of a model: layers, heads, widths, experts, the context it takes."""

from __future__ import annotations

from typing import Final

from assay.asking import adapters, facts
from assay.asking.intents.intent import RESOLVE, TRAIN, Intent, intent

_SHAPES: Final = (
    ("kv-heads", r"\b(?:kv|key[ -]value) ?-?heads?\b", "architecture.kv_heads", "kv key value"),
    ("heads", r"(?<!kv )\bheads\b|attention heads", "architecture.heads", "attention query"),
    ("head-size", r"\bhead[ _-]?(?:size|dim(?:ension)?)\b", "architecture.head_size", "head dim dimension"),
    ("layers", r"\blayers?\b", "architecture.layers", "transformer decoder"),
    (
        "hidden",
        r"hidden[ _-]?(?:size|dim(?:ension)?|width)|\bd_?model\b|embedding (?:size|dim(?:ension)?)"
        r"|model (?:dimension|width)",
        "architecture.hidden",
        "hidden dim dimension width embedding d",
    ),
    ("ffn", r"\b(?:ffn|mlp|feed[ -]?forward|intermediate)[ _-](?:size|dim(?:ension)?|width)", "architecture.ffn",
     "ffn mlp feed forward intermediate dim dimension width"),
    ("vocabulary", r"\bvocab(?:ulary)?\b", "architecture.vocabulary", "words entries tokenizer"),
    ("active-experts", r"(?:active|activated) experts|experts (?:per|for each|each|a) token|experts are active",
     "architecture.experts_per_token", "active activated experts expert"),
    ("experts", r"\bexperts?\b", "architecture.experts", "routed"),
)  # fmt: skip
"""Names, the words that ask for them, the variables, and further words."""

INTENTS: Final[tuple[Intent, ...]] = (
    intent(
        name="adapter",
        cue=(
            r"\b(?:parameters?|params?|weights|size|big|large|memory|bytes?|disk|vram)\b",
            r"\bhow (?:many|much)\b",
        ),
        answer=adapters.adapter,
        slots="model adapter_rank tuning format",
        nearest=TRAIN.format("parallelism.adapter_parameters"),
        needs="model tuning=lora adapter_rank",
        lacks="accelerator gpus nodes days tokens epochs rate concurrency context prompt place",
        words=(
            "parameters parameter params weights trainable trained size big large memory bytes disk vram adapter "
            "adapters rank add adds extra does many much gb mb"
        ),
    ),
    *(
        intent(
            name=name,
            cue=(cue,),
            answer=facts.of_model(variable),
            slots="model",
            nearest=RESOLVE.format(variable),
            needs="model",
            lacks="accelerator gpus concurrency tokens context prompt format",
            words=f"{words} config configuration architecture big large",
            more_is_better=True,
        )
        for name, cue, variable, words in _SHAPES
    ),
    intent(
        name="model-context",
        cue=(
            r"context (?:length|window|size)",
            r"(?:max(?:imum)?|longest|largest|what) context",
            r"how (?:long|much|large) (?:a |is the )?context",
            r"\bcontext of\b",
        ),
        answer=facts.model_context,
        slots="model",
        nearest=RESOLVE.format("architecture.context"),
        needs="model",
        lacks="accelerator gpus concurrency tokens memory context prompt format kv_format",
        words="context length window maximum max longest largest long large support supports handle handles tokens",
        more_is_better=True,
    ),
)  # fmt: skip
