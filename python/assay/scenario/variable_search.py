"""Variables that words of a question are about, ranked by a log-linear model of a few features.

Words are weighted by inverse document frequency over the names and meanings of all variables: rare
words say more. The kind of quantity that a question asks for ("how much power", "how long") is
compared with the variable's unit. The weights of the features are fitted by assay.validate.fitting.ask to
half of the questions in tests/data/questions.json; the other half is held out.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

from assay.model.language.unit_table import BASE_UNITS
from assay.model.language.units import Unit, parse_unit
from assay.model.registry import Registry
from assay.scenario.named_scenario import Preset

MOST_CANDIDATES: Final = 5
_PART: Final = re.compile(r"[a-z]+|[0-9]+")
_NO_CONTENT: Final = frozenset(
    ("of", "a", "the", "per", "and", "in", "on", "at", "to", "by", "with")
)
"""Words of meanings that no question is about."""

SYNONYMS: Final[Mapping[str, str]] = {
    "ttft": "time first token", "tpot": "time per output token", "itl": "time per output token",
    "inference": "serving", "serve": "serving", "serves": "serving", "decoding": "decode",
    "generating": "output", "generated": "output", "train": "training", "trained": "training",
    "pretraining": "training", "pretrain": "training", "dollars": "cost", "usd": "cost",
    "expensive": "cost", "cheap": "cost", "costs": "cost", "bill": "cost", "expense": "cost",
    "co2": "emissions", "carbon": "carbon emissions", "watts": "power", "draw": "power",
    "draws": "power", "consumption": "power", "joules": "energy", "speed": "throughput",
    "fast": "throughput", "hot": "temperature", "warm": "temperature", "frequency": "clock",
    "busy": "utilization", "usage": "utilization usage", "failures": "interruptions",
    "failure": "interruptions", "crashes": "interruptions", "nvlink": "link", "vram": "memory",
    "datacenter": "site", "facility": "site", "hourly": "hour", "daily": "day", "long": "time",
    "latency": "latency time", "duration": "time", "prefill": "prefill prompt", "prompt": "prefill",
    "flop": "flops", "size": "size capacity",
}  # fmt: skip
"""Words of the field for words that variables are described in."""

_KINDS: Final[Mapping[str, tuple[str, ...]]] = {
    "cost": ("USD",), "price": ("USD",), "rent": ("USD",), "power": ("W",), "energy": ("J",),
    "time": ("s", "s/token"), "throughput": ("token/s", "request/s"), "temperature": ("K",),
    "bandwidth": ("B/s",), "capacity": ("B", "token"), "memory": ("B", "B/s", "1"),
    "size": ("B",), "utilization": ("1",), "share": ("1",), "clock": ("1/s",), "flops": ("FLOP/s", "1"),
    "emissions": ("kg", "kg/J"), "water": ("m^3", "m^3/J", "kg"), "overhead": ("1", "s"),
}  # fmt: skip
"""Units of the quantities that words ask for; counted things in a denominator do not matter."""
_COUNTED: Final = frozenset(map(BASE_UNITS.index, ("token", "request", "GPU", "node")))
_SECOND: Final = BASE_UNITS.index("s")
_DOLLAR: Final = BASE_UNITS.index("USD")


class Features(NamedTuple):
    """What is compared between a question and a variable."""

    coverage: float
    """Weight of the question's words that the variable explains, over that of all of them."""
    precision: float
    """Weight of the variable's words that the question says, over that of all of them."""
    name: float
    """The same share of the words of its name."""
    kind: float
    """1 where its unit is of the kind asked for, -1 where it is not, 0 where none is asked for."""
    target: float
    """1 for what scenarios or the stack declare as targets."""
    training: float
    """1 for what is about training where the question is not."""
    device: float
    """1 for properties of an accelerator where the question names one and no model."""
    depth: float
    """Parts of its name beyond two: details of details are seldom asked for."""


WEIGHTS: Final = Features(
    coverage=8.74,
    precision=5.96,
    name=5.18,
    kind=1.49,
    target=1.1,
    training=-1.83,
    device=3.2,
    depth=-0.28,
)
"""Log-odds by feature; assay.validate.fitting.ask prints them."""


@dataclass(frozen=True, slots=True)
class VariableMatch:
    """A variable with its probability among all, and the words of the question that it explains."""

    name: str
    probability: float
    words: tuple[str, ...]


def plain(word: str) -> str:
    """A word without the ending of a plural.

    >>> plain("tokens"), plain("busses"), plain("gas")
    ('token', 'buss', 'gas')
    """
    if len(word) > 4 and word.endswith("sses"):
        return word[:-2]
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def parts(text: str) -> list[str]:
    """The words of a text, without endings of plurals."""
    return [plain(word) for word in _PART.findall(text.lower())]


def meanings(word: str) -> list[str]:
    """What a word of a question is looked for as."""
    return [plain(part) for text in SYNONYMS.get(word, word).split() for part in parts(text)]


class VariableSearch:
    """The words of every variable of a registry, and how much each says."""

    def __init__(self, registry: Registry, presets: Sequence[Preset]) -> None:
        self._registry = registry
        self._names = {name: _content(parts(name)) for name in registry.variables}
        self._words = {
            name: self._names[name] | _content(parts(variable.meaning))
            for name, variable in registry.variables.items()
        }
        self._targets = {
            *registry.targets,
            *(target for preset in presets for _, target in preset.targets),
        }
        counts = Counter(word for words in self._words.values() for word in words)
        self._weight = {
            word: math.log(1 + len(self._words) / count) for word, count in counts.items()
        }

    def features(self, asked: Sequence[str], groups: Collection[str]) -> dict[str, Features]:
        """The features of every variable that shares a word with the question.

        `asked` are its words; `groups` those of the catalog that it names entries of.
        """
        wanted = _content([part for word in asked for part in meanings(word)])
        known = wanted & self._weight.keys()
        kinds = [unit for part in sorted(wanted) for unit in _KINDS.get(part, ())]
        names_device = "accelerators" in groups and "models" not in groups
        whole = self._sum(known) or 1.0
        by_name = {}
        for name, words in self._words.items():
            common = known & words
            if not common:
                continue
            scope = name.partition(".")[0]
            by_name[name] = Features(
                coverage=self._sum(common) / whole,
                precision=self._sum(common) / self._sum(words),
                name=self._sum(self._names[name] & known) / self._sum(self._names[name]),
                kind=self._agreement(name, kinds),
                target=float(name in self._targets),
                training=float("training" in words and "training" not in wanted),
                device=float(names_device and scope in ("gpu", "hbm")),
                depth=float(max(0, name.count(".") - 1)),
            )
        return by_name

    def find(
        self, asked: Sequence[str], groups: Collection[str], weights: Features = WEIGHTS
    ) -> list[VariableMatch]:
        """The likeliest variables, the best first."""
        features = self.features(asked, groups)
        if not features:
            return []
        scores = {
            name: sum(w * x for w, x in zip(weights, values, strict=True))
            for name, values in features.items()
        }
        top = max(scores.values())
        whole = sum(math.exp(score - top) for score in scores.values())
        best = sorted(scores, key=lambda name: (-scores[name], name))[:MOST_CANDIDATES]
        return [
            VariableMatch(name, math.exp(scores[name] - top) / whole, self._explained(name, asked))
            for name in best
        ]

    def _explained(self, name: str, asked: Sequence[str]) -> tuple[str, ...]:
        """Words of the question that a variable's words or unit say."""
        words = self._words[name]
        unit = self._registry.variables[name].unit
        return tuple(
            word
            for word in dict.fromkeys(asked)
            # A synonym has several words for one; of "hbm3e" all parts count, or it is any memory.
            if (any if word in SYNONYMS else all)(
                part in words or any(_is_of(unit, kind) for kind in _KINDS.get(part, ()))
                for part in meanings(word)
            )
        )

    def _agreement(self, name: str, kinds: Sequence[str]) -> float:
        if not kinds:
            return 0.0
        unit = self._registry.variables[name].unit
        return 1.0 if any(_is_of(unit, kind) for kind in kinds) else -1.0

    def _sum(self, words: Collection[str]) -> float:
        return math.fsum(self._weight[word] for word in words)


def _content(words: Sequence[str]) -> frozenset[str]:
    return frozenset(words) - _NO_CONTENT


@lru_cache(4096)
def _is_of(unit: Unit, kind: str) -> bool:
    """Whether a unit is of a kind: money by any time, the rest exactly, whatever is counted."""
    asked = parse_unit(kind)
    for at, (own, other) in enumerate(zip(unit.powers, asked.powers, strict=True)):
        if at in _COUNTED and own <= 0 and other <= 0:
            continue
        if at == _SECOND and asked.powers[_DOLLAR]:
            continue
        if own != other:
            return False
    return True
