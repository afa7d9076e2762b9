"""What a question says: the names and numbers in it, by slot, and the words around them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final

from assay.asking.names import Name, bare_sizes, named
from assay.asking.numbers import WORDS_OF_A_TOKEN
from assay.asking.quantities import PATTERNS
from assay.asking.text import MASKS, masked, normalized, word_set, words

FILLER: Final = word_set(
    """a an the of on in at for to by with from is are was were be been being does do did it its
    this that these those my our we i you your they them what which how and or as
    can could would should will shall may might if me show tell so give please under using use
    used one ones per during while there has have had having get gets got take takes took need
    needs needed require requires required see sees into than then each every any some all much
    many more most only just about around approximately roughly currently today now want wants
    like know let say such between across over through up out off yes whether also still
    really actually exactly hello hi hey thanks thank suppose assume assuming am us ok okay i'm set go goes going put
    make makes possible possibly enough versus vs against compared compare comparison until
    gives given rig rigs flat onto next beside alongside
    difference instead rather same both either single produce produces reach reaches achieve achieves
    deliver delivers expect hosting option options too app application service product company team startup"""
)
"""Words that carry no meaning here. A negation has one, and nothing understands it."""
NO_FIGURE: Final = word_set("when where who")
"""Words that ask for something that is no figure."""
COMMON: Final = word_set(
    """gpu gpus card cards accelerator accelerators model models llm llms system machine machines
    setup deployment run running runs inference serve serving served serves server deploy
    deployed host hosting use using workload job jobs work whole size length total number amount
    value figure average mean typical expected estimated estimate predicted time usd dollars
    dollar token tokens data center centers datacenter datacenters site vllm engine x - decode
    decoding generation generate nvidia cluster"""
)
"""Words of the field that say little by themselves."""
EXPLAINING: Final = word_set(
    """sets drives drive driven dominates dominate determines determine explain why breakdown made
    consists composed behind sources source"""
)
"""Words that ask where a figure comes from: the command then is `assay explain`."""


_ARTICLE: Final = re.compile(r"\b(?:an?|a single) (?:single |nvidia |amd )?$")
_POINTED: Final = re.compile(r"(?<![\d.])\d{1,3}\.\d{3}(?![\d.km])")
_THOUSAND: Final = 1000


@dataclass(frozen=True, slots=True)
class Mention:
    """A name or number of a question: its slot, what it means, and the words that say it."""

    slot: str
    value: Any
    words: str
    is_short: bool = False


@dataclass(frozen=True)
class Reading:
    """A question with its mentions, and its text with them masked."""

    question: str
    text: str
    mentions: tuple[Mention, ...]
    rest: str
    """The text with a mask where a name or a number was read."""
    points_only: bool = False
    """Whether figures are wanted without intervals, as where many are compared."""
    said: tuple[str, ...] = ()
    """What words were taken to mean, where they could mean something else."""

    def values(self, slot: str) -> list[Any]:
        """The values of a slot in their order, each once."""
        return list(dict.fromkeys(part.value for part in self.mentions if part.slot == slot))

    def get(self, slot: str, default: Any = None) -> Any:
        """The first value of a slot."""
        return next(iter(self.values(slot)), default)

    @property
    def slots(self) -> frozenset[str]:
        """The slots that the question fills."""
        return frozenset(part.slot for part in self.mentions)

    def with_values(self, values: Mapping[str, Any]) -> Reading:
        """The reading with other values of some slots; None empties one."""
        kept = [part for part in self.mentions if part.slot not in values]
        added = [
            Mention(slot, value, str(value)) for slot, value in values.items() if value is not None
        ]
        return replace(self, mentions=(*kept, *added))

    @property
    def explains(self) -> bool:
        """Whether the question asks where a figure comes from."""
        return any(word in EXPLAINING for word in self.words())

    def words(self) -> list[str]:
        """The words that are neither names nor numbers."""
        return words(self.rest)


def read(question: str) -> Reading:
    """Read the names and numbers of a question.

    >>> reading = read("TTFT of Llama 3.1 8B on 4 H100 with a 32k prompt")
    >>> reading.get("model"), reading.get("accelerator"), reading.get("gpus"), reading.get("prompt")
    ('llama-3.1-8b', 'h100_sxm', 4, 32768)
    """
    text = normalized(question)
    rest = text
    mentions: list[tuple[float, Mention]] = []

    def take(
        start: int, end: int, slot: str, value: Any, mask: str, is_short: bool = False
    ) -> None:
        nonlocal rest
        mentions.append((start, Mention(slot, value, text[start:end].strip(" ,?"), is_short)))
        rest = masked(rest, start, end, mask)

    def take_names(names: list[tuple[int, int, Name]]) -> None:
        for start, end, name in names:
            take(start, end, name.slot, name.entry, name.slot, name.is_short)

    take_names(named(text))
    for pattern in PATTERNS:
        if any(part.slot == pattern.without for _, part in mentions):
            continue
        if not pattern.among.search(text):
            continue
        at = 0
        while match := pattern.expression.search(rest, at):
            at = match.end()
            if not any(letter in MASKS.values() for letter in match[0]):
                take(*match.span(), pattern.slot, pattern.convert(match), "number")
            elif pattern.slot in ("gpu_price", "rent"):
                take(*_around_names(match), pattern.slot, pattern.convert(match), "number")
    take_names(bare_sizes(rest))
    mentions += _articled(text, mentions)
    mentions.sort(key=lambda pair: pair[0])
    parts = tuple(mention for _, mention in mentions)
    if any(part.value == "lora" for part in parts):
        # To fine-tune with LoRA is one method, not two.
        parts = tuple(
            p for p in parts if p.slot != "tuning" or p.value == "lora" or "full" in p.words
        )
    return Reading(question.strip(), text, parts, rest, said=tuple(_taken_as(parts)))


def _articled(text: str, mentions: list[tuple[float, Mention]]) -> list[tuple[float, Mention]]:
    """A count of one of each accelerator with an article, beside others with a count: "an H100 or two L40S"."""
    places = sorted((start, part.slot) for start, part in mentions)
    names = [start for start, slot in places if slot == "accelerator"]
    if len(names) < 2 or not any(slot == "gpus" for _, slot in places):
        return []
    before = {start: slot for (_, slot), (start, _) in pairwise(places)}
    lone = [start for start in names if before.get(start) != "gpus"]
    if len(lone) == len(names):
        # A count of each of them: "an H200 or an H100, 4 GPUs each".
        return []
    if not all(_ARTICLE.search(text[: int(start)]) for start in lone):
        return []
    return [(start - 0.5, Mention("gpus", 1, "one")) for start in lone]


def _taken_as(mentions: tuple[Mention, ...]) -> Iterator[str]:
    """What is said of numbers and formats that are written in more than one way."""
    for part in mentions:
        if part.slot == "format" and "q" in part.value and part.words != part.value:
            yield f'"{part.words}" is {part.value}'
        elif part.slot in ("prompt", "output") and "word" in part.words:
            yield f'"{part.words}" are {part.value:,} tokens: {WORDS_OF_A_TOKEN:g} English words a token'
        elif part.slot == "concurrency" and re.search(
            r"employ|develop|engin|student|agent", part.words
        ):
            yield f'"{part.words}" all at once'
        elif part.slot in ("rent", "electricity_price") and not re.search(
            r"\$|usd|dollar|buck|cent|ct\b|\dc\b", part.words
        ):
            yield f'"{part.words}" is in USD'
        elif (
            isinstance(part.value, int | float)
            and part.value >= _THOUSAND
            and (match := _POINTED.search(part.words))
        ):
            yield f'"{match[0]}" is {part.value:,.0f}'


def _around_names(match: Any) -> tuple[int, int]:
    """The part of a match that is no name: names in it are mentions of their own."""
    start, end = match.span()
    letters = [letter in MASKS.values() for letter in match[0]]
    first, last = letters.index(True), len(letters) - letters[::-1].index(True)
    return (start, start + first) if first >= len(letters) - last else (start + last, end)
