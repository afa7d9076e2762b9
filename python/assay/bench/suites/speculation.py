"""Speculative decoding by method and text, beside the same engine without it."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from assay.bench.harness.case import Case, Check, PreparedCase, Settings, Subject, Suite
from assay.bench.harness.clocks import SelfTimedClock
from assay.bench.rivals.decoder import AssayDecoder, Tokens

if TYPE_CHECKING:
    from assay.engine import Engine

MODEL: Final = "smollm2"
TOKENS: Final = 128
QUICK_TOKENS: Final = 16
LOGIT_TOLERANCE: Final = 0.25
"""Allowed gap to the best logit: a step of several rows rounds differently from one of one row."""

TEXTS: Final[Mapping[str, str]] = {
    "open text": "Gravity is the force that",
    "copied text": (
        "def area(width, height):\n    return width * height\n\n"
        "def perimeter(width, height):\n    return 2 * (width + height)\n\n"
        "The same code with the names w and h instead of width and height:\n\n"
        "def area(w, h):\n"
    ),
}
"""What is continued: prose that repeats little, and code that repeats its prompt."""

METHODS: Final[Mapping[str, Mapping[str, Any]]] = {
    "ngram": {"speculation_depth": 4, "draft_policy": "always"},
    "lookahead": {"speculation_depth": 4, "draft_policy": "always"},
    "layer_skip": {"speculation_depth": 3, "draft_policy": "always"},
    "draft_model": {
        "speculation_depth": 4,
        "draft_weight_format": "q4_1",
        "draft_policy": "always",
    },
}
"""The settings of each method."""

_SELF_TIMED: Final = SelfTimedClock()


class Engines:
    """Engines over one model's weights, each loaded when its first case is prepared."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._loaded: dict[tuple[tuple[str, Any], ...], Engine] = {}

    def get(self, **options: Any) -> Engine:
        """The engine with these knobs, without prefix caching."""
        from assay.engine import Engine

        key = tuple(sorted(options.items()))
        if key not in self._loaded:
            files = self._files
            device = self._settings.device
            self._loaded[key] = Engine.load(files, device, prefix_caching=False, **options)
        return self._loaded[key]

    @functools.cached_property
    def _files(self) -> Any:
        from assay.engine.loading import open_model

        return open_model(self._settings.model or MODEL)


def cases(settings: Settings) -> list[Case]:
    """Every method on every text; a draft model also beside weights of full precision."""
    engines = Engines(settings)
    count = QUICK_TOKENS if settings.quick else TOKENS
    gathered = []
    for text in TEXTS:
        for method, options in METHODS.items():
            # A draft in a smaller format pays where the model's own format is larger.
            base = {"weight_format": "bf16"} if method == "draft_model" else {}
            chosen = {**options, "speculation_method": method}
            facts = {"model": settings.model or MODEL, "tokens": count, **base, **chosen}
            name = f"{method}, {text}, {count} tokens"
            prepare = functools.partial(_prepare, engines, base, chosen, TEXTS[text], count)
            gathered.append(Case(name, "tok/s", prepare, facts))
    return gathered


def _prepare(
    engines: Engines, base: Mapping[str, Any], options: Mapping[str, Any], text: str, count: int
) -> PreparedCase:
    plain, speculating = engines.get(**base), engines.get(**base, **options)
    prompt = plain.files.tokenizer.encode(text)

    def subject(name: str, engine: Engine) -> Subject:
        decoder = AssayDecoder(engine)
        return Subject(name, lambda _: decoder.decode(prompt, count)[0], _SELF_TIMED)

    def error(_: int) -> float:
        return _logit_gap(plain, prompt, AssayDecoder(speculating).decode(prompt, count)[1])

    before = speculating.statistics()
    tokens = AssayDecoder(speculating).decode(prompt, count)[1]
    after = speculating.statistics()
    drafted = after["drafted_tokens"] - before["drafted_tokens"]
    accepted = after["accepted_tokens"] - before["accepted_tokens"]
    steps = after["steps"] - before["steps"]
    same = tokens == AssayDecoder(plain).decode(prompt, count)[1]
    note = (
        f"{accepted} of {drafted} draft tokens accepted, {count} tokens in {steps} steps; "
        f"{'the same tokens' if same else 'a near-tie was rounded to other tokens'}"
    )
    return PreparedCase(
        subject("assay", speculating),
        Check("one pass over prompt and output, in logits", error, LOGIT_TOLERANCE),
        rivals=[subject("without speculation", plain)],
        note=note,
        degradations=lambda: speculating.describe()["degradations"],
    )


def _logit_gap(engine: Engine, prompt: Tokens, tokens: Tokens) -> float:
    """Largest gap between the best logit and that of the sampled token, in one forward pass."""
    logits = engine.logits([*prompt, *tokens])[len(prompt) - 1 : -1]
    return float(np.max(logits.max(axis=1) - logits[np.arange(len(tokens)), list(tokens)]))


SUITE: Final = Suite("speculation", cases, has_model=True)
