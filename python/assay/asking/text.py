"""The text of a question: normalized, and masked where a name or a number was read."""

from __future__ import annotations

import re
from typing import Final

LONGEST: Final = 400
"""Characters of a question that are read."""

_REPLACED: Final = (
    ("\u2019", "'"), ("\u00d7", "x"), ("\u2013", "-"), ("\u2014", " - "), ("\u2264", "<="),
    ("\u20ac", " euro "), ("\u00a3", " pound "), ("centre", "center"), ("utilisation", "utilization"),
    ("what's", "what is"), ("how's", "how is"), ("who's", "who is"), ("that's", "that is"),
    ("it's", "it is"), ("i'm", "i am"), ("i'd", "i would"), ("@", " at "),
    ("~", " about "), ("\u2248", " about "), ("&", " and "), ("\u00b2", "2"), ("\u00b0", " "),
)  # fmt: skip
_SPOKEN: Final = re.compile(r"\b(what|how|that|where|who)s(?= )")
"""Of "whats" and its like the apostrophe is left out."""
_BRITISH: Final = re.compile(r"(?<=optimi)s(?=er|ation)|(?<=quanti)s(?=ed?|ation)")
_WHILE: Final = re.compile(
    r"\bwhen (?=(?:it |i |we )?(?:is |am |are )?(?:serv|train|run|us(?:e|ing)|generat|decod|pre))"
)
_WHO: Final = re.compile(r"\bwho (?=(?:has|have|rents?|offers?|sells?|charges?|is) )")
_OF_EIGHT: Final = re.compile(
    r"\b(nodes?|servers?|machines?|boxe?s?) (?:of|with) (?:8|eight) (?:x )?([a-z]{1,3}\d{1,4}[a-z]{0,2}?)s?\b"
)
"""Nodes of eight, which is what nodes are."""
_HOURS_OF: Final = re.compile(
    r"(?<![a-z\d.])(\d{1,12}(?:\.\d{1,3})? ?(?:k|m|million|thousand)?) ([a-z]{1,3}\d{2,4}[a-z]{0,2})[ -]hours?\b"
)
"""Hours of a GPU by its name: GPU-hours."""
_TENS: Final = {
    "twenty": 20, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "seventy": 70, "eighty": 80,
    "ninety": 90,
}  # fmt: skip
_ONES: Final = {
    "a": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8,
    "nine": 9, "ten": 10,
}  # fmt: skip
_HUNDREDS: Final = re.compile(
    rf"\b(?:(?P<ones>{'|'.join(_ONES)}) (?P<size>hundred|thousand)|(?P<tens>{'|'.join(_TENS)}))\b"
    rf"|\b(?P<sum>{'|'.join(list(_ONES)[1:])})(?= (?:dollars?|bucks|usd|cents?)\b)"
)
"""Numbers in words that are no count by themselves."""
_REWRITTEN: Final = (
    # A question that goes on from another one is a question.
    (r"^(?:(?:ok|okay|so|and|then|also|now|well|but)\b[, ]*)+", ""),
    # Models as their repositories spell them.
    (
        r"\b(?:meta-llama|deepseek-ai|qwen|mistralai|google|openai|microsoft|moonshotai|nvidia|zai-org)/(?=[a-z])",
        "",
    ),
    (r"(?<=[a-z][ _-])(\d)_(\d)(?=[ _-]\d)", r"\1.\2"),
    (r"\b(mi[sx]tral[ -][\dx]{1,3}b)(-instruct)?[ -]v0\.[1-3]\b", r"\1\2"),
    (r"\b(?:no|not) more than(?= \d)", "at most"),
    # A price by the hour that is said once for both.
    (
        r"(\$ ?\d{1,3}(?:\.\d{1,3})?) (?=(?:or|vs|versus) .{3,40}?\$ ?\d{1,3}(?:\.\d{1,3})? ?((?:an|per) hour|/ ?h))",
        r"\1 \2 ",
    ),
    # Words beside a GPU that say nothing of it.
    (r"(?<=\d )(x )?(?:gaming|consumer|used|geforce|identical|spare) (?=[a-z]{0,4} ?\d)", r"\1"),
    # What is said once for both alternatives.
    (
        r"(?<![\d.$])\b(\d{1,6}) (instead of|over|vs|versus|or) (\d{1,6}) (?:x )?([a-z]{1,5}[ _-]?\d{1,4}[a-z]{0,4})\b",
        r"\1 \4 \2 \3 \4",
    ),
    (
        r"\b(tp|tensor[ -]parallel(?:ism)?) ?=?(\d{1,2}) (or|vs|versus) (\d{1,2})\b",
        r"\1 \2 \3 \1 \4",
    ),
    (
        r"\b(?:(?:i |we )?(?:doubl|increas|rais|chang|mov|halv|reduc|lower|shrink|grow|drop|cut)(?:e|ing)? "
        r"|go(?:ing)? )?(?:the )?(batch(?: size)?|context|concurrency|prompt|output)"
        r"(?: length)?(?: goes| grows| rises| falls| drops| changes)? from (\d{1,6}k?) to (\d{1,6}k?)"
        r"(?: tokens)?\b",
        r"\1 \2 vs \1 \3",
    ),
    # What a price becomes is its value; by how much it changed says nothing more.
    (r"\b(?:doubles?|doubled|triples?|tripled|halves|halved) to (?=\$? ?\d)", "rises to "),
    (r"\bgood enough\b", "enough"),
    # Collectives as NCCL and its users spell them.
    (r"\ball[ _-]?reduc(?:e[sd]?|ing)(?:_perf)?\b", "all-reduce"),
    (r"\ball[ _-]?gather(?:s|ed|ing)?(?:_perf)?\b", "all-gather"),
    (r"\breduce[ _-]?scatter(?:s|ed|ing)?(?:_perf)?\b", "reduce-scatter"),
    (r"\b(?:all[ _-]?(?:to|2)[ _-]?alls?|a2a)(?:_perf)?\b", "all-to-all"),
    # Units in words.
    (r"\bwatt[ -]?hours?\b", "wh"),
    (r"\b(?:kilowatt|kw)[ -]hours?\b", "kwh"),
    (r"\b(?:megawatt|mw)[ -]hours?\b", "mwh"),
    (r"\b(?:gigawatt|gw)[ -]hours?\b", "gwh"),
    (r"\b(?:an?|one) (mega|kilo|giga)watt\b(?![ -]?hour)", r"1 \1watt"),
    (r"(?<=\d)( ?)megawatts?\b", r"\1mw"),
    (r"(?<=\d)( ?)kilowatts?\b", r"\1kw"),
    (r"(?<=\d)( ?)gigawatts?\b", r"\1gw"),
    (r"\bterabytes? (?:per|a|/) ?sec(?:ond)?s?\b", "tb/s"),
    (r"\bgigabytes? (?:per|a|/) ?sec(?:ond)?s?\b", "gb/s"),
    (r"\bgigabits? (?:per|a|/) ?sec(?:ond)?s?\b", "gbit/s"),
    (r"\bbtus?(?: ?(?:/|per) ?h(?:ou)?r?)?\b|\bbritish thermal units?(?: per hour)?\b", "btu"),
    (r"\bfor all (?:of them|two|three|four|eight|sixteen|\d{1,6})(?: of them)?\b", "in total"),
    # Money in words.
    (r"\bhalf a (million|billion|trillion)\b(?! (?:training |output |input )?tokens)", r"0.5 \1"),
    (r"\b(?:a|one) (million|billion|thousand) (?:dollars|usd|bucks)\b", r"$1 \1"),
    (r"\b(\d{1,6}(?:\.\d{1,3})?) (million|billion|thousand|k) (?:dollars|usd|bucks)\b", r"$\1 \2"),
    (r"\b(?:an?|1) (?:dollar|buck) (?:and )?(\d\d)\b(?: cents)?", r"$1.\1"),
    (r"\b(\d{1,3}) (?:dollars|bucks) (?:and )?(\d\d)\b(?: cents)?", r"$\1.\2"),
    (r"\ba (?:dollar|buck)(?= (?:an? |per |/|each))", "$1"),
    # So many users with requests of their own.
    (
        r"\b(\d{1,9}(?:k|m)?) (?:(?:daily|monthly|weekly) )?(?:active )?(users|customers|employees|people)"
        r"(?: who| that)?(?: each)? (?:send|sending|making|make|doing|do|with) "
        r"(\d{1,6} (?:requests?|queries|prompts|messages|calls) (?:per|a|an|each|every) (?:second|minute|hour|day))"
        r"(?: each)?",
        r"\1 \2, \3 each",
    ),
    (r"(?<=\d )messages(?= (?:per|a|an|each|every) (?:second|minute|hour|day))", "requests"),
    # Servers run all of the time, unless a load is said.
    (r"\b24/7\b", "all of the time"),
    # Speed by money or by power is that of tokens.
    (
        r"\b(?:(?:output |serving )?throughput|(?:tok|toks|tokens?)(?:/| per )s(?:ec|econd)?|tps|speed"
        r"|perf(?:ormance)?)"
        r"(?: (?:per|for each|for every|by the|a) |/)(dollar|usd|buck|watt|w|joule)s?\b",
        r"tokens per \1",
    ),
    (r"\btokens per w\b", "tokens per watt"),
    # Operations of no said format are those on integers of 8 bits.
    (r"^(?!.*\b(?:int|fp|bf|float)-?\d)(.*?)\b(?:tera)?(tops)\b", r"\1int8 \2"),
    # To buy some or to rent them.
    (
        r"\b(buy|own|purchase)(?:ing)? ((?:\S+ ){1,4}?)or (?:to )?(rent|lease)(?:ing)?(?: them| it| those)?\b",
        r"\1 or \3 \2",
    ),
    # Whether it does not fit is whether it fits: the answer says which.
    (r"^(does|do|will|would)nt\b", r"\1"),
    (r"^((?:does|do|will|would)\b.{1,80}?) not (?=fit\b)", r"\1 "),
)
_REWRITES: Final = tuple((re.compile(old), new) for old, new in _REWRITTEN)
_VALUE: Final = re.compile(
    r"\bprice[ /-](?:to[ -])?performance\b|\bperf(?:ormance)? per (?:dollar|buck)\b|\bbang for (?:the|your|my) buck\b"
)
_BITS: Final = re.compile(r"(?<=\d)( ?[kKMGT])b(?:/s|ps)\b")
"""Bits in seconds, by the lower case of their letter."""
_WITH: Final = re.compile(r"(?<![a-z0-9])w/(o\b)?")
_PARAMETERS: Final = re.compile(
    r"(?<![\d.])(\d{1,6}(?:\.\d{1,6})?) ?-?(?:billion|bn|b)[ -]?(?:parameters?|params?)\b"
)
_THOUSANDS: Final = re.compile(r"(?<=\d),(?=\d{3}\b)")
_POINTED: Final = re.compile(r"(?<![\d.,$])\d{1,3}(?:\.\d{3}){2,4}(?![\d.])")
"""Thousands with points, as in 1.000.000: at least two, for one may be a decimal point."""
_SPACED: Final = re.compile(r"(?<![\w.,$-])\d{1,3}(?:(?: 000)+|(?: \d{3}){2,4})(?![\d.,]| \d)")
"""Thousands with spaces, as in 1 000 000: zeros, or at least two groups."""
_CONTINENTAL: Final = re.compile(r"(?<![\d.,])(\d{1,3}(?:\.\d{3})+),(\d{1,2})(?![\d,])")
"""Thousands with points and a decimal comma, as in 1.000,5."""
_COMMA: Final = re.compile(
    r"(?<![\d.,])(\d{1,4}),(\d{1,2})(?=\s?(?:\$|usd|dollars?|cents?|ct\b|%|(?:tn?|bn?|trillion|billion|million)\b"
    r"|[tg]b\b|[kmg]?wh?\b|/|(?:m?s|h|sec(?:ond)?s?|hours?|days?|weeks?|months?|years?)\b))"
    r"|(?<=\bpue )(\d),(\d{1,2})\b"
)
"""A decimal comma: before a unit, for a list of numbers has one unit at its end."""
_PRICED: Final = re.compile(r"(?<=\$)(\d{1,4}),(\d{1,2})(?!\d)")
_RACK: Final = re.compile(
    r"\brack (?:of|with) (?:72 )?(?:x )?(gb[23]00)s?\b|\b(?:72 )?(?:x )?(gb[23]00)s? racks?\b"
    r"|(?<!gb[23]00 )(?<!gb[23]00-)\bnvl72\b"
)
"""A rack of 72: the node is sold by the rack."""
_TIMES: Final = re.compile(r"(?<![a-z\d.])(\d+)\s*[x*]\s*(?=[a-z]|\d{4}\b)")
_POSSESSIVE: Final = re.compile(r"'s?\b|'")
_TOKEN: Final = re.compile(r"[a-z0-9]+(?:\.[0-9]+[a-z0-9]*)*")
_WORD: Final = re.compile(r"(?<!\$)\$*[a-z0-9%]+(?:[.,$]+[a-z0-9%]+)*|\$")
MASKS: Final = {
    slot: chr(0xE000 + place)
    for place, slot in enumerate(
        ("model", "accelerator", "place", "node", "engine", "provider", "site", "number")
    )
}
"""The character that stands where a name of a slot was read, so that patterns may speak of it."""


def normalized(question: str) -> str:
    """The question in lower case, with plain punctuation and without thousands separators.

    >>> normalized("What's  16,384 x H100?")
    'what is 16384 x h100?'
    """
    text = " ".join(_BITS.sub(r"\1bit/s", question).lower().split())
    for old, new in _REPLACED:
        text = text.replace(old, new)
    text = "".join(letter if letter.isascii() else " " for letter in text)
    text = _BRITISH.sub("z", _SPOKEN.sub(r"\1 is", text))
    text = _WITH.sub(lambda match: "without " if match[1] else "with ", text)
    text = _CONTINENTAL.sub(lambda match: f"{match[1].replace('.', '')}.{match[2]}", text)
    text = _SPACED.sub(lambda match: match[0].replace(" ", ""), text)
    text = _COMMA.sub(lambda match: ".".join(part for part in match.groups() if part), text)
    text = _PRICED.sub(r"\1.\2", text)
    text = _POINTED.sub(lambda match: match[0].replace(".", ""), text)
    text = _RACK.sub(lambda match: f"{match[1] or match[2] or 'gb200'} nvl72", text)
    text = _TIMES.sub(r"\1 x ", _POSSESSIVE.sub("", _THOUSANDS.sub("", text)))
    text = _WHO.sub("which provider ", _WHILE.sub("while ", _OF_EIGHT.sub(r"\2 \1", text)))
    text = _VALUE.sub("cost per token", re.sub(r"(?<![a-z\d])t/s\b", "tokens/s", text))
    text = re.sub(r"(?<![\d.,])1 token\b", "one token", text)
    text = _HUNDREDS.sub(_in_digits, _HOURS_OF.sub(r"\1 gpu hours of \2", text))
    for old_words, new_words in _REWRITES:
        text = old_words.sub(new_words, text)
    return _PARAMETERS.sub(r"\1b", text)


def _in_digits(match: re.Match[str]) -> str:
    if match["tens"]:
        return str(_TENS[match["tens"]])
    if match["sum"]:
        return str(_ONES[match["sum"]])
    return str(_ONES[match["ones"]] * (100 if match["size"] == "hundred" else 1000))


def tokens(text: str) -> list[tuple[str, int, int]]:
    """The parts that names are made of, with where they start and end."""
    return [(match[0], match.start(), match.end()) for match in _TOKEN.finditer(text)]


def words(text: str) -> list[str]:
    """The words that are left of a masked text."""
    return [match[0].rstrip(".,") for match in _WORD.finditer(text)]


def word_set(text: str) -> frozenset[str]:
    """The words of a text, for tables of them."""
    return frozenset(text.split())


def masked(text: str, start: int, end: int, slot: str) -> str:
    """The text with a part replaced by the mask of a slot."""
    return text[:start] + MASKS[slot] * (end - start) + text[end:]
