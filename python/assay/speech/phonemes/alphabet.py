"""The phonemes of misaki's word lists: stress marks, classes of sounds, and spellings from ARPAbet."""

from __future__ import annotations

from typing import Final

PRIMARY: Final = "ˈ"
SECONDARY: Final = "ˌ"
VOWELS: Final = frozenset("AIOQWYaiuæɑɐɒɔəɛɜɪʊʌᵻ")
CONSONANTS: Final = frozenset("bdfhjklmnpstvwzðŋɡɹɾʃʒʤʧθ")
PAUSES: Final = frozenset(";:,.!?—…")
"""Marks of a pause; quotes and brackets are none."""
TAPPED_AFTER: Final = frozenset("AIOWYiuæɑəɛɪɹʊʌ")
"""Sounds after which an American t before a vowel is a tap."""

ARPABET: Final = {
    "AA": "ɑ",
    "AE": "æ",
    "AH": "ʌ",
    "AO": "ɔ",
    "AW": "W",
    "AY": "I",
    "B": "b",
    "CH": "ʧ",
    "D": "d",
    "DH": "ð",
    "EH": "ɛ",
    "ER": "ɜɹ",
    "EY": "A",
    "F": "f",
    "G": "ɡ",
    "HH": "h",
    "IH": "ɪ",
    "IY": "i",
    "JH": "ʤ",
    "K": "k",
    "L": "l",
    "M": "m",
    "N": "n",
    "NG": "ŋ",
    "OW": "O",
    "OY": "Y",
    "P": "p",
    "R": "ɹ",
    "S": "s",
    "SH": "ʃ",
    "T": "t",
    "TH": "θ",
    "UH": "ʊ",
    "UW": "u",
    "V": "v",
    "W": "w",
    "Y": "j",
    "Z": "z",
    "ZH": "ʒ",
}
_UNSTRESSED: Final = {"AH": "ə", "ER": "əɹ"}
_MARKS: Final = {"0": "", "1": PRIMARY, "2": SECONDARY}


def from_arpabet(sound: str) -> str:
    """A sound of ARPAbet, whose vowels end in a digit for the stress."""
    name, stress = (sound[:-1], sound[-1]) if sound[-1].isdecimal() else (sound, "")
    if stress == "0" and name in _UNSTRESSED:
        return _UNSTRESSED[name]
    return _MARKS.get(stress, "") + ARPABET[name]


def is_vowel_first(phonemes: str) -> bool | None:
    """Whether the first sound is a vowel; None where there is a pause, or nothing."""
    for letter in phonemes:
        if letter in PAUSES:
            return None
        if letter in VOWELS:
            return True
        if letter in CONSONANTS:
            return False
    return None
