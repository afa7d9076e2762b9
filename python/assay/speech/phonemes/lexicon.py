"""Words and their phonemes: misaki's lists, endings, weak forms and heteronyms."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from assay.errors import InputError
from assay.speech.phonemes.alphabet import PRIMARY, SECONDARY, TAPPED_AFTER

Entry = str | dict[str, str | None]
"""Phonemes, or phonemes by part of speech."""


@dataclass(frozen=True, slots=True)
class Context:
    """What stands around a word."""

    before: str = ""
    """The word before, in lower case; empty at a pause."""
    after: str = ""
    vowel_follows: bool | None = None
    """Whether the next sound is a vowel; None before a pause."""


_VERB_AFTER: Final = frozenset(
    {
        *("to", "will", "would", "can", "could", "shall", "should", "may", "might", "must", "do"),
        *("does", "did", "don't", "doesn't", "didn't", "won't", "can't", "cannot", "couldn't"),
        *("wouldn't", "shouldn't", "let's", "i", "you", "we", "they", "who", "please", "i'll"),
        *("you'll", "we'll", "they'll", "he'll", "she'll", "it'll", "always", "never", "not"),
    }
)
_PAST_AFTER: Final = frozenset({"he", "she", "it"})
_PARTICIPLE_AFTER: Final = frozenset(
    {"have", "has", "had", "having", "i've", "we've", "you've", "they've", "he's", "she's", "been"}
)
_ADJECTIVE_AFTER: Final = frozenset(
    {"is", "are", "was", "were", "be", "being", "very", "so", "too"}
)
_NOUN_AFTER: Final = frozenset(
    {
        *("the", "a", "an", "this", "that", "these", "those", "my", "your", "his", "her", "its"),
        *("our", "their", "no", "some", "any", "every", "each", "of", "for", "with", "by", "from"),
    }
)
_VERB_BEFORE: Final = frozenset({"in", "on", "at", "with", "here", "there", "it", "them", "him"})
_DOUBLED: Final = re.compile(r"([bcdgklmnprstvxz])\1ing$|cking$")


class Lexicon:
    """The lists of one accent."""

    def __init__(self, folder: Path, *, british: bool = False) -> None:
        """Name the lists; they are read on first use."""
        self._folder = folder
        self.british = british

    @cached_property
    def _gold(self) -> dict[str, Entry]:
        return self._read("gold")

    @cached_property
    def _silver(self) -> dict[str, Entry]:
        return self._read("silver")

    def _read(self, quality: str) -> dict[str, Entry]:
        path = self._folder / f"{'gb' if self.british else 'us'}_{quality}.json"
        try:
            entries: dict[str, Entry] = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise InputError(
                f"{path}: expected a list of words, got: {error}",
                "fetch it with: assay pull kokoro",
            ) from None
        return entries

    def phonemes(self, word: str, context: Context) -> str | None:
        """The phonemes of a word; None where neither a list nor a rule knows it."""
        weak = self._weak_form(word, context)
        if weak is not None:
            return weak
        for form in dict.fromkeys((word, word.lower(), word.capitalize())):
            listed = self._listed(form, context) or self._with_ending(form, context)
            if listed is not None:
                return listed
        if word.endswith("'"):
            return self.phonemes(word[:-1], context)
        if len(word) > 1 and word.isupper():
            return self.letters(word)
        if len(word) > 2 and word.endswith("s") and (stem := word[:-1].rstrip("'")).isupper():
            letters = self.letters(stem)
            return None if letters is None else self._plural(letters)
        return None

    def letters(self, word: str) -> str | None:
        """The names of a word's letters, the last one stressed."""
        names = [self._gold.get(letter.upper()) for letter in word if letter.isalpha()]
        said = [name for name in names if isinstance(name, str)]
        if not said or len(said) != len(names):
            return None
        weaker = [name.replace(PRIMARY, SECONDARY) for name in said]
        return "".join([*weaker[:-1], said[-1]])

    def _listed(self, word: str, context: Context) -> str | None:
        entry = self._gold.get(word)
        if entry is None:
            entry = self._silver.get(word)
        if isinstance(entry, dict):
            return _chosen(entry, context)
        return entry

    def _weak_form(self, word: str, context: Context) -> str | None:
        """Words whose sound depends on what follows."""
        follows = context.vowel_follows
        match word:
            case "a" if follows is not None:
                return "ɐ"
            case "A" if follows is not None and not context.before and len(context.after) > 1:
                # Elsewhere it is the letter: "5 A M", "plan A is", "A B C".
                return "ɐ"
            case "US":
                return self.letters(word)
            case "an" | "An":
                return "ɐn"
            case "the" | "The":
                return "ði" if follows else "ðə"
            case "to" | "To" if follows is not None:
                return "tʊ" if follows else "tə"
            case "in" | "In" if follows is None:
                return f"{PRIMARY}ɪn"
            case "I":
                return f"{SECONDARY}I"
            case "am" if follows is not None:
                return "ɐm"
            case "used" | "Used" if context.after == "to":
                entry = self._gold.get("used")
                return entry.get("VBD") if isinstance(entry, dict) else None
        return None

    def _with_ending(self, word: str, context: Context) -> str | None:
        """A word of no list that is a listed one with an ending."""
        for ending, join, stems in (
            ("s", self._plural, _stems_of_s(word)),
            ("d", self._past, _stems_of_ed(word)),
            ("ing", self._participle, _stems_of_ing(word)),
        ):
            if not word.endswith(ending):
                continue
            for stem in stems:
                phonemes = self._listed(stem, context) if len(stem) > 1 else None
                if phonemes:
                    return join(phonemes)
        return None

    def _plural(self, stem: str) -> str:
        if stem[-1] in "ptkfθ":
            return f"{stem}s"
        if stem[-1] in "szʃʒʧʤ":
            return f"{stem}{self._weak_i()}z"
        return f"{stem}z"

    def _past(self, stem: str) -> str:
        if stem[-1] in "pkfθʃsʧ":
            return f"{stem}t"
        if stem[-1] == "t" and not self.british and stem[-2:-1] in TAPPED_AFTER:
            return f"{stem[:-1]}ɾᵻd"
        if stem[-1] in "td":
            return f"{stem}{self._weak_i()}d"
        return f"{stem}d"

    def _participle(self, stem: str) -> str:
        if stem[-1] == "t" and not self.british and stem[-2:-1] in TAPPED_AFTER:
            return f"{stem[:-1]}ɾɪŋ"
        return f"{stem}ɪŋ"

    def _weak_i(self) -> str:
        return "ɪ" if self.british else "ᵻ"


def _stems_of_s(word: str) -> list[str]:
    stems = [] if word.endswith("ss") else [word[:-1]]
    if word.endswith(("'s", "es")):
        stems.append(word[:-2])
    if word.endswith("ies"):
        stems.append(f"{word[:-3]}y")
    return [stem.rstrip("'") for stem in stems]


def _stems_of_ed(word: str) -> list[str]:
    stems = [] if word.endswith("dd") else [word[:-1]]
    if word.endswith("ed") and not word.endswith("eed"):
        stems.append(word[:-2])
        if word.endswith("ied"):
            stems.append(f"{word[:-3]}y")
        if len(word) > 5 and word[-3] == word[-4]:
            stems.append(word[:-3])
    return stems


def _stems_of_ing(word: str) -> list[str]:
    stems = [word[:-3], f"{word[:-3]}e"]
    if _DOUBLED.search(word):
        stems.append(word[:-4])
    return stems


def _chosen(entry: dict[str, str | None], context: Context) -> str | None:
    """One of several pronunciations, by what stands around the word."""
    if context.vowel_follows is None and entry.get("None"):
        return entry["None"]
    before = context.before
    wanted: tuple[str, ...] = ()
    if before in _NOUN_AFTER:
        wanted = ("NOUN",)
    elif before in _VERB_AFTER:
        wanted = ("VERB",)
    elif before in _PAST_AFTER:
        wanted = ("VBD", "VERB")
    elif before in _PARTICIPLE_AFTER:
        wanted = ("VBN",)
    elif before in _ADJECTIVE_AFTER:
        wanted = ("ADJ",)
    elif context.after in _VERB_BEFORE:
        wanted = ("VERB",)
    for tag in wanted:
        if entry.get(tag):
            return entry[tag]
    return entry.get("DEFAULT")
