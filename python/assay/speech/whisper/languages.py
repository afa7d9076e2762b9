"""Languages of Whisper, in the order of their tokens (`whisper/tokenizer.py` of openai/whisper)."""

from __future__ import annotations

from typing import Final

from assay.errors import unknown_name

_TEXT: Final = """
en english zh chinese de german es spanish ru russian ko korean fr french ja japanese pt portuguese
tr turkish pl polish ca catalan nl dutch ar arabic sv swedish it italian id indonesian hi hindi
fi finnish vi vietnamese he hebrew uk ukrainian el greek ms malay cs czech ro romanian da danish
hu hungarian ta tamil no norwegian th thai ur urdu hr croatian bg bulgarian lt lithuanian la latin
mi maori ml malayalam cy welsh sk slovak te telugu fa persian lv latvian bn bengali sr serbian
az azerbaijani sl slovenian kn kannada et estonian mk macedonian br breton eu basque is icelandic
hy armenian ne nepali mn mongolian bs bosnian kk kazakh sq albanian sw swahili gl galician mr marathi
pa punjabi si sinhala km khmer sn shona yo yoruba so somali af afrikaans oc occitan ka georgian
be belarusian tg tajik sd sindhi gu gujarati am amharic yi yiddish lo lao uz uzbek fo faroese
ht haitian_creole ps pashto tk turkmen nn nynorsk mt maltese sa sanskrit lb luxembourgish my myanmar
bo tibetan tl tagalog mg malagasy as assamese tt tatar haw hawaiian ln lingala ha hausa ba bashkir
jw javanese su sundanese yue cantonese
"""
_TABLE: Final = _TEXT.split()

LANGUAGES: Final = dict(
    zip(_TABLE[::2], (name.replace("_", " ") for name in _TABLE[1::2]), strict=True)
)
"""Codes and names; the last one is of large-v3 only."""

WITHOUT_SPACES: Final = frozenset({"zh", "ja", "th", "lo", "my", "yue"})
"""Languages that do not put spaces between words."""


def language_code(given: str) -> str:
    """The code of a language, given by code or name."""
    text = given.strip().lower()
    if text in LANGUAGES:
        return text
    for code, name in LANGUAGES.items():
        if text == name:
            return code
    raise unknown_name(
        "language",
        given,
        [*LANGUAGES, *LANGUAGES.values()],
        "a code such as de, or a name such as german",
    )
