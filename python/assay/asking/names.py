"""Names in a question: entries of the catalog by every spelling, and near-misses of them."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final

from assay.asking.text import tokens
from assay.catalog import engines, entries
from assay.catalog.entries import normalize_name

_FOLDER: Final = files("assay.catalog").joinpath("data")
_NEAR: Final = 0.74
"""Likeness of spellings, by difflib, from which one is suggested: one letter of four differs."""
_NEAR_WORD: Final = 0.85
"""That of words, from which one is suggested: one letter of seven is missing."""
_SHORTEST_WORD: Final = 3
_GROUPS: Final = (("model", "models"), ("accelerator", "accelerators"), ("node", "nodes"))
_LONGEST_NAME: Final = 7
"""Parts of the longest name."""
_MODEL: Final = re.compile(
    r"(?P<family>[a-z]+(?:-[a-z]+)*?)-?(?P<version>\d+(?:\.\d+)?)?-(?P<size>(?:\d+x)?[\d.]+[bm])(?:-a\d+b)?"
)
_SIZE: Final = re.compile(r"(?:\d+x)?\d+(?:\.\d+)?[bm]")
_SUFFIXES: Final = ("instruct", "chat", "base", "it", "hf", "pt")
"""Endings of checkpoints that share the shapes of their base."""
_FAMILIES: Final = ("llama", "qwen", "gemma", "mistral", "gpt-oss", "olmo", "pythia", "opt")
"""Families that a bare size is read as, the first that has it."""
_NO_NAME_STARTS: Final = frozenset(("a", "an", "the", "on", "in", "of", "at", "for", "to", "is"))
_PLACES: Final = {
    "uk": "united_kingdom", "greatbritain": "united_kingdom", "britain": "united_kingdom",
    "usa": "us_average", "unitedstates": "us_average", "eu": "european_union", "korea": "south_korea",
    "europe": "european_union",
}  # fmt: skip
_SITES: Final = {
    "hotclimate": "hot_dry_evaporative", "hotdryclimate": "hot_dry_evaporative",
    "desert": "hot_dry_evaporative", "hotplace": "hot_dry_evaporative",
    "hotregion": "hot_dry_evaporative", "hotdesert": "hot_dry_evaporative",
    "coldclimate": "nordic_dry", "nordicclimate": "nordic_dry", "nordics": "nordic_dry",
    "temperateclimate": "temperate_evaporative", "averagedatacenter": "average",
    "averagesite": "average",
}  # fmt: skip
_ENGINES: Final = {"tensorrtllm": "trtllm", "tensorrt": "trtllm", "trt": "trtllm"}
_PROVIDERS: Final = {
    "amazon": "aws", "lambdalabs": "lambda", "lambdacloud": "lambda", "facebook": "meta",
    "gcp": "google", "googlecloud": "google", "azure": "microsoft",
}  # fmt: skip
_ONLY_MODELS: Final = {
    "mixtral": "mixtral-8x7b", "deepseek": "deepseek-v3", "gptoss": "gpt-oss-120b", "kimi": "kimi-k2",
    "glm": "glm-5", "minimax": "minimax-m2.5", "mistral": "mistral-7b", "tinyllama": "tinyllama-1.1b",
    "mistrallarge": "mistral-large-2407",
}  # fmt: skip
"""Models that a family is known by."""
_ONLY_ACCELERATORS: Final = {
    "mi300": "mi300x",
    "mi250": "mi250x",
    "trainium": "trainium2",
    "gaudi": "gaudi3",
}
_FLEETS: Final = ("google", "meta", "microsoft", "aws", "lambda")


@dataclass(frozen=True, slots=True)
class Name:
    """What a spelling stands for: an entry of a slot, and whether the spelling leaves some of it open."""

    slot: str
    entry: str
    is_short: bool = False


@cache
def spellings() -> dict[str, Name]:
    """Names by spelling; the first keeps it, so whole names come before short ones."""
    known: dict[str, Name] = {}
    for spelling, name in (*_whole_names(), *_short_models()):
        known.setdefault(normalize_name(spelling), name)
    for text in [text for text in known if (text.isdigit() and len(text) != 4) or len(text) < 2]:
        # A bare number is a quantity; "4090" is a name nevertheless.
        del known[text]
    for node in entries.names("nodes"):
        # A rack is a node of its own, although its GPUs are sold by its name.
        if node.endswith("_nvl72"):
            known[normalize_name(node)] = Name("node", node)
    for table, slot in ((_ONLY_MODELS, "model"), (_ONLY_ACCELERATORS, "accelerator")):
        for text, entry in table.items():
            known[text] = Name(slot, entry, True)
    # Who says "Llama 70B" today means the newest model of that size.
    newest: dict[str, Name] = {}
    for text, name in _short_models():
        if name.is_short and text.startswith("llama"):
            newest.setdefault(normalize_name(text), name)
    return {**known, **newest}


def _whole_names() -> Iterator[tuple[str, Name]]:
    for slot, group in _GROUPS:
        for name in entries.names(group):
            data = json.loads(_FOLDER.joinpath(group, f"{name}.json").read_text("utf-8"))
            for spelling in (name, str(data.get("title", name)), *data.get("aliases", ())):
                yield spelling.rpartition("/")[2], Name(slot, name)
                yield spelling.removeprefix("NVIDIA ").removeprefix("AMD "), Name(slot, name)
            if name.startswith("rtx_"):
                yield name.removeprefix("rtx_"), Name(slot, name)
    for place in dict.fromkeys((*entries.names("grids"), *entries.names("tariffs"))):
        yield place, Name("place", place)
        yield place.removeprefix("us_"), Name("place", place)
    for table, slot in (
        (_PLACES, "place"), (_SITES, "site"), (_ENGINES, "engine"), (_PROVIDERS, "provider"),
    ):  # fmt: skip
        for spelling, entry_name in table.items():
            yield spelling, Name(slot, entry_name)
    for engine in (*engines.names(), "assay"):
        yield engine, Name("engine", engine)
    for provider in (*_FLEETS, *_renting_providers()):
        yield provider, Name("provider", provider)


def _renting_providers() -> Iterator[str]:
    """Providers of the offers in the catalog."""
    for group in ("rents", "prices"):
        for name in entries.names(group):
            provider = str(entries.read(group, name).facts.get("offer", "")).partition(":")[0]
            if provider and provider != "market":
                yield provider


@cache
def _parsed() -> tuple[tuple[re.Match[str], str], ...]:
    """Models whose names have a family and a size, the newest version first."""
    parsed = [
        (match, name) for name in entries.names("models") if (match := _MODEL.fullmatch(name))
    ]
    return tuple(sorted(parsed, key=lambda pair: -float(pair[0]["version"] or 0)))


@cache
def _short_models() -> tuple[tuple[str, Name], ...]:
    """Family and size without a version, or with the first part of it: the newest has it."""
    shorts = []
    for match, name in _parsed():
        version = (match["version"] or "").partition(".")[0]
        shorts.append(
            (f"{match['family']}{match['version'] or ''}{match['size']}", Name("model", name))
        )
        shorts.append((f"{match['family']}{version}{match['size']}", Name("model", name, True)))
        shorts.append((f"{match['family']}{match['size']}", Name("model", name, True)))
    return tuple(shorts)


@cache
def _by_size() -> dict[str, str]:
    """The model that a bare size stands for: of a usual family, the newest; else of any."""
    known: dict[str, str] = {}
    for family in _FAMILIES:
        for match, name in _parsed():
            if match["family"] == family:
                known.setdefault(match["size"], name)
    for match, name in _parsed():
        known.setdefault(match["size"], name)
    return known


@cache
def title(slot: str, entry: str) -> str:
    """What an entry is called."""
    group = dict(_GROUPS).get(slot)
    if group is None or entry not in entries.names(group):
        return entry.replace("_", " ")
    data = json.loads(_FOLDER.joinpath(group, f"{entry}.json").read_text("utf-8"))
    return str(data.get("title", entry))


def named(text: str) -> list[tuple[int, int, Name]]:
    """The names in a text with where they stand, the longest at each place."""
    parts = tokens(text)
    result, at = [], 0
    while at < len(parts):
        match = _longest(parts[at : at + _LONGEST_NAME])
        if match is None:
            at += 1
            continue
        length, name = match
        result.append((parts[at][1], parts[at + length - 1][2], name))
        at += length
    return result


def _longest(parts: Sequence[tuple[str, int, int]]) -> tuple[int, Name] | None:
    if parts[0][0] in _NO_NAME_STARTS:
        return None
    known = spellings()
    for length in range(len(parts), 0, -1):
        spelling = "".join(part for part, _, _ in parts[:length])
        for tried in (spelling, spelling.removesuffix("s")):
            if tried in known and not _has_another_size(known[tried], parts[:length]):
                following = parts[length][0] if length < len(parts) else ""
                extra = following in _SUFFIXES and known[tried].slot == "model"
                return length + extra, known[tried]
    return None


def _has_another_size(name: Name, parts: Sequence[tuple[str, int, int]]) -> bool:
    """Whether a size among the parts is not the model's: a "Qwen 34B" is no Qwen3 4B."""
    match = _MODEL.fullmatch(name.entry) if name.slot == "model" else None
    if match is None:
        return False
    return any(_SIZE.fullmatch(part) and part != match["size"] for part, _, _ in parts)


def bare_sizes(text: str) -> list[tuple[int, int, Name]]:
    """Sizes that stand for a model, such as "70b"."""
    by_size = _by_size()
    return [
        (start, end, Name("model", by_size[part], True))
        for part, start, end in tokens(text)
        if _SIZE.fullmatch(part) and part in by_size
    ]


def swapped(words: Sequence[str], known: Collection[str]) -> dict[str, list[str]]:
    """Words that are understood, of the letters of those that are not: "trian" is "train"."""
    letters = {"".join(sorted(word)): word for word in sorted(known)}
    return {
        word: [letters[key]]
        for word in words
        if len(word) >= _SHORTEST_WORD
        and (key := "".join(sorted(word))) in letters
        and letters[key][0] == word[0]
    }


def near_words(words: Sequence[str], known: Collection[str]) -> dict[str, list[str]]:
    """Words that are understood, near to those of a question that are not: "bandwith"."""
    close = {
        word: difflib.get_close_matches(word, sorted(known), n=1, cutoff=_NEAR_WORD)
        for word in words
        if len(word) >= _SHORTEST_WORD and word.isalpha()
    }
    return {word: matches for word, matches in close.items() if matches}


def near(text: str, words: Sequence[str]) -> dict[str, list[str]]:
    """Entries whose names are near to words of a question that nothing explains."""
    parts = [part for part, _, _ in tokens(text)]
    suggestions: dict[str, list[str]] = {}
    for word in words:
        pieces = [part for part, _, _ in tokens(word)]
        if not pieces or len(word) < 3 or not any(letter.isalpha() for letter in word):
            continue
        tried = []
        for start in (place for place, part in enumerate(parts) if part == pieces[0]):
            tried += ["".join(parts[start : start + length]) for length in (4, 3, 2, 1)]
        # Letters that are taken for digits.
        tried += [spelling.replace("o", "0").replace("l", "1") for spelling in tried[-1:]]
        for spelling in tried:
            close = difflib.get_close_matches(spelling, spellings(), n=4, cutoff=_NEAR)
            if close:
                suggestions[word] = list(dict.fromkeys(spellings()[c].entry for c in close))[:3]
                break
    return suggestions
