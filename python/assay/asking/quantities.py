"""Numbers in a question: a table of patterns with the field's unit words, each for one slot.

A pattern is tried on the masked text in the order of the table, and what it matches is taken. A new
kind of number is one entry.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from assay.asking.collective_patterns import COLLECTIVES
from assay.asking.numbers import (
    AMOUNT,
    BLOCK_FORMAT,
    COUNT,
    COUNTED,
    DOWN,
    DURATION,
    EACH,
    FORMAT,
    GPU_NAME,
    IS,
    LENGTH,
    LOAD,
    NOT_A_RATE,
    NUMBER,
    PER,
    SPEED,
    SPENT,
    TOKENS,
    TPOT,
    TTFT,
    UP,
    USD,
    WITHIN,
    Convert,
    block_format,
    byte_rate,
    constant,
    days,
    dollars,
    english_words,
    factor,
    flop_rate,
    inverse,
    number,
    per_day,
    percentile,
    period,
    rate,
    samples,
    seconds,
    share,
    tokens,
    weight_format,
)
from assay.asking.price_patterns import PAID
from assay.asking.silicon_patterns import SILICON
from assay.asking.text import MASKS


@dataclass(frozen=True, slots=True)
class Pattern:
    """A slot, what its numbers look like, and what a match means."""

    slot: str
    expression: re.Pattern[str]
    convert: Convert
    without: str
    """A slot with which the same letters mean another thing."""
    among: re.Pattern[str]
    """Words without which the same letters mean another thing."""


_TABLE: Final[
    tuple[
        tuple[str, str, Convert]
        | tuple[str, str, Convert, str]
        | tuple[str, str, Convert, str, str],
        ...,
    ]
] = (
    # What no figure is asked of: a range, or a bound that is not a limit.
    (
        "range",
        r"\bbetween \$?\d+(?:\.\d+)?[kmbt]? and \$?\d+(?:\.\d+)?[kmbt]?"
        r"|(?<![\w.$-])\d+(?:\.\d+)?[kmbt]?(?: to |-)\d+(?:\.\d+)?[kmbt]?\b(?! ?(?:bit|nm)\b)",
        constant(True),
    ),
    *PAID,
    *SILICON,
    *COLLECTIVES,
    (
        "adapter_rank",
        r"\b(?:rank|r)[ -]?(?:of |is |= ?|: ?)?(?P<n>\d{1,4})\b",
        tokens,
        "",
        r"\blora\b|\badapters?\b",
    ),
    # What moves data: before sizes, which have the same units.
    (
        "bandwidth",
        r"(?<![\w.])(?P<n>\d+(?:\.\d+)?)\s*(?P<m>[kmgt])(?:i?(?P<b>b|bytes?|bits?|bps))(?:\s*(?:/|per)\s*(?:s|sec|second)\b|(?<=bps)\b)",
        byte_rate,
    ),
    # Service levels and speeds.
    ("ttft_limit", TTFT + WITHIN + NUMBER + r"\s*" + DURATION, seconds),
    (
        "ttft_limit",
        r"(?:(?:<=?|under|below|within|less than)\s*)?"
        + NUMBER
        + r"\s*"
        + DURATION
        + r"\s*(?:for |of )?(?:the )?"
        + TTFT,
        seconds,
    ),
    ("tpot_limit", TPOT + WITHIN + NUMBER + r"\s*" + DURATION, seconds),
    (
        "tpot_limit",
        r"(?:(?:<=?|under|below|within|less than)\s*)?"
        + NUMBER
        + r"\s*"
        + DURATION
        + r"\s*(?:for |of )?(?:the )?"
        + TPOT,
        seconds,
    ),
    (
        "trained_speed",
        AMOUNT
        + r"\s*"
        + SPEED
        + r"\s*(?:/|per|on each|for each|on an?|each)\s*(?:gpu\b|card\b|(?="
        + GPU_NAME
        + r"))",
        number,
    ),
    ("achieved_flops", NUMBER + r"\s*(?P<e>[tp])flops?(?:/s)?\b", flop_rate),
    ("tpot_limit", NUMBER + r"\s*" + SPEED + EACH, inverse),
    ("speed", AMOUNT + r"\s*" + SPEED, number),
    (
        "rate",
        AMOUNT
        + r"\s*(?:requests?|reqs?|queries|calls|prompts)"
        + PER
        + r"(?P<u>sec(?:ond)?|s|min(?:ute)?|hour|h|day)\b",
        rate,
    ),
    ("rate", AMOUNT + r"\s*(?:rps|qps|rq/s)\b", rate),
    ("rate", AMOUNT + r"\s*rp(?P<u>m)\b", rate),
    (
        "token_rate",
        AMOUNT
        + r"\s*(?:output |generated )?tokens?"
        + PER
        + r"(?P<u>hour|h|day|week|month|year)\b",
        per_day,
    ),
    (
        "tokens",
        AMOUNT
        + r"\s*(?:training )?(?:samples?|examples?|documents?|conversations?|rows|pairs)\s*(?:of|with|at|x)\s*"
        + r"(?P<each>\d+)\s*(?P<each_m>k)?[ -]?tokens?(?:\s*each)?",
        samples,
    ),
    ("epochs", NUMBER + r"\s*epochs?\b", tokens),
    # What a figure is wanted for each of.
    (
        "per_tokens",
        r"(?:/|\bper|for (?:each|every))\s*(?:(?P<n>\d+(?:\.\d+)?)\s*(?P<m>k|m|b)?|(?:an? |one )?"
        + r"(?P<w>thousand|million|billion|mtok|m))(?=\s*(?:(?:output|input|cached|generated) )?tokens?\b)",
        number,
    ),
    (
        "per_gpu",
        r"(?:/|\bper|for (?:each|every))\s*(?:gpu|card|accelerator|(?="
        + GPU_NAME
        + r"))\b(?![- ]*(?:hours?|hrs?|h)\b)",
        constant(True),
    ),
    (
        "tokens",
        SPENT + r"(?P<n>\d+(?:\.\d+)?)\s*(?P<m>k|thousand)?[ -]tokens?\b"
        r"(?!\s*(?:of )?(?:context|prompts?|in\b|inputs?|each))",
        number,
    ),
    # Lengths.
    (
        "prompt",
        NUMBER
        + r"\s*(?P<m>m|million)[- ]*(?:tokens?)?[- ]*(?:of )?(?:prompts?|inputs?)\b(?!\s*tokens)",
        tokens,
    ),
    (
        "context",
        NUMBER
        + r"\s*(?P<m>m|million)[- ]*(?:tokens?)?[- ]*(?:of )?(?:context|ctx)(?:[ -](?:length|window))?",
        tokens,
    ),
    (
        "tokens",
        NUMBER
        + r"\s*(?P<m>mn|m|bn|b|tn|t|million|billion|trillion)"
        + r"(?=\s*(?:output|input|cached|generated)\s*tokens\b)",
        number,
    ),
    (
        "tokens",
        r"(?<![\w.])(?P<n>\d{6,})(?=\s*(?:output|input|cached|generated)\s*tokens\b)",
        number,
    ),
    (
        "tokens",
        r"(?P<n>\d+(?:\.\d+)?(?:e\+?\d+)?)\s*(?P<m>mn|m|bn|b|tn|t|million|billion|trillion)\s*(?:training )?tokens?",
        number,
    ),
    (
        "tokens",
        r"\b(?P<n>half an?|an?|one)\s+(?P<m>million|billion|trillion)\s*"
        r"(?=(?:(?:training|output|input|cached|generated)\s+)?tokens?\b)",
        number,
    ),
    ("tokens", r"(?P<n>\d+(?:\.\d+)?)\s*(?P<m>t|trillion|tn)\b", number),
    ("tokens", r"(?P<n>\d+(?:\.\d+)?e\+?\d+|\d{7,})\s*(?:training )?tokens?", number),
    (
        "per_time",
        r"(?<!tokens )(?<!token )(?:/|\b(?:per|each|every))\s*(?P<u>day|week|month|year)\b"
        r"|\b(?P<v>dai|week|month|year|annual)ly\b|\bannual\b",
        period,
    ),
    (
        "prefix_hits",
        r"(?:prefix|cache)(?:[ -]cach\w+)?(?:[ -]hits?)?(?:[ -]rate)?" + IS + NUMBER + r"\s*%",
        share,
    ),
    (
        "prefix_hits",
        NUMBER
        + r"\s*%\s*(?:of )?(?:the )?(?:prefix|cache)(?:[ -]cach\w*)?(?:[ -]hits?)?(?:[ -]rate)?",
        share,
    ),
    (
        "prompt",
        LENGTH
        + r"(?:"
        + TOKENS
        + r")?\s*-?\s*(?:prompts?|inputs?|isl|(?:tokens? )?in(?=\s*(?:,|/|and|\d|$)))(?:\s*tokens?)?",
        tokens,
    ),
    (
        "prompt",
        r"(?:prompts?|inputs?|isl)(?:\s*tokens?)?" + IS + LENGTH + r"(?:" + TOKENS + r")?",
        tokens,
    ),
    (
        "output",
        LENGTH
        + r"(?:"
        + TOKENS
        + r")?\s*-?\s*(?:outputs?|completions?|answers?|responses?|repl(?:y|ies)|generated|osl"
        + r"|(?:tokens? )?out)\b(?:\s*tokens?)?",
        tokens,
    ),
    ("prompt", r"(?<=prefill )(?:of )?" + LENGTH + TOKENS, tokens),
    ("prompt", LENGTH + TOKENS + r"(?= (?:document|text|article|file|book|paper)s?\b)", tokens),
    ("prompt", r"(?<=summarize )" + LENGTH + TOKENS, tokens),
    ("output", r"(?<=into )" + LENGTH + TOKENS, tokens),
    ("output", r"(?<=write )" + LENGTH + TOKENS, tokens),
    (
        "output",
        LENGTH
        + r"[ -]words?(?= (?:answers?|repl(?:y|ies)|responses?|essays?|stor(?:y|ies)|output)\b)",
        english_words,
    ),
    ("output", r"(?<=write )(?:an? )?" + LENGTH + r"[ -]words?\b", english_words),
    ("output", r"(?<=generate )" + LENGTH + r"[ -]words?\b", english_words),
    (
        "prompt",
        LENGTH + r"[ -]words?(?= (?:(?:document|text|article|file|book|paper|prompt)s?|input)\b)",
        english_words,
    ),
    ("prompt", r"(?<=summarize )(?:an? )?" + LENGTH + r"[ -]words?\b", english_words),
    ("output", r"(?<=generate )" + LENGTH + TOKENS, tokens),
    ("output", r"(?<=how long for )" + LENGTH + TOKENS, tokens),
    ("output", r"(?<=generating )" + LENGTH + TOKENS, tokens),
    (
        "output",
        r"(?:outputs?|osl|answers?|responses?|replies|completions?)(?:\s*tokens?)?"
        + IS
        + LENGTH
        + r"(?:"
        + TOKENS
        + r")?",
        tokens,
    ),
    (
        "context",
        LENGTH
        + r"(?:"
        + TOKENS
        + r")?\s*-?\s*(?:of )?(?:context|ctx|sequence)(?:[ -](?:length|window|len|size))?",
        tokens,
    ),
    (
        "context",
        r"(?:context|ctx|sequence|seq)(?:[ -](?:length|window|len))?"
        + IS
        + LENGTH
        + r"(?:"
        + TOKENS
        + r")?",
        tokens,
    ),
    (
        "context",
        LENGTH + r"\s*-\s*token(?=\s*(?:conversations?|sequences?|requests?|chats?|sessions?))",
        tokens,
    ),
    ("context", r"\b(?:with|of|for)\s+(?P<n>\d+)\s*(?P<m>k)\s*tokens\b", tokens),
    ("context", r"\bat\s+(?P<n>\d+)\s*(?P<m>k)\b(?:" + TOKENS + r")?", tokens),
    ("context", r"\bat\s+(?P<n>\d{4,7})\s*tokens\b(?!\s*(?:/|per\b|an?\b))", tokens),
    (
        "context",
        r"(?<=how many )(?P<n>\d+)\s*(?P<m>k)(?=\s*(?:conversations?|sequences?|requests?|chats?|sessions?)\b)",
        tokens,
    ),
    ("context", r"(?<![\w.$])(?P<n>\d+)(?P<m>k)(?=\s*\??$)", tokens),
    # How many.
    ("tensor", r"\btp-?(?P<n>\d{1,3})\b", tokens),
    ("tensor", r"\b(?:tp|tensor[ -]parallel(?:ism)?(?: size| degree)?)" + IS + NUMBER, tokens),
    (
        "per_replica",
        r"(?<=" + MASKS["accelerator"] + r")s?\s+(?:each|per (?:replica|instance|copy))",
        constant(True),
    ),
    # "A node of 8 H100" as "an 8 x H100 node"; two H100 nodes are in the plural.
    (
        "gpus",
        r"(?<![\w.])(?P<n>[2-9]|\d{2,})\s*(?:x\s*)?(?="
        + GPU_NAME
        + r"\s*(?:node|server|machine|box)\b)",
        tokens,
    ),
    (
        "nodes",
        r"(?<![\w.])"
        + COUNT
        + r"\s*(?:x\s*)?(?="
        + GPU_NAME
        + r"s?\s*(?:nodes?|servers?|machines?|boxe?s?)\b)",
        tokens,
    ),
    (
        "gpus",
        r"(?<![\w.])"
        + COUNTED
        + r"\s*(?:x\s*)?(?:of (?:the )?)?(?:gpus?\b|-gpu\b|(?="
        + GPU_NAME
        + r"))(?!\s*(?:hours?|hrs?|price))",
        tokens,
    ),
    ("gpus", r"(?<=" + MASKS["accelerator"] + r")s?\s*x\s*(?P<n>\d+)\b", tokens),
    (
        "gpus",
        r"(?<![\w.])" + COUNTED + r"(?:\s*x\s*|\s+)(?=\d+\s?gi?b\s(?:vram )?(?:gpu|card)s?\b)",
        tokens,
    ),
    (
        "nodes",
        r"(?<![\w.])"
        + COUNTED
        + r"\s*(?:x\s*)?(?:nodes?|servers?|machines|boxes|(?="
        + MASKS["node"]
        + r"))",
        tokens,
    ),
    (
        "concurrency",
        r"(?<![\w.])(?<!per )(?:at |with )?"
        + COUNTED
        + r"\s*(?:concurrent|simultaneous|parallel|active|running)?"
        + r"\s*(?:users?|sessions?|conversations?|streams?|chats?|clients?|customers|people|employees"
        + r"|developers|engineers|students|agents)\b",
        tokens,
    ),
    (
        "concurrency",
        r"(?<![\w.])(?<!per )(?:at |with )?(?P<n>\d+)(?P<m>k)?"
        r"\s*(?:concurrent|simultaneous|parallel|active|running)\s*requests?\b" + NOT_A_RATE,
        tokens,
    ),
    (
        "concurrency",
        r"(?<![\w.])(?P<n>\d+)(?P<m>k)?\s*requests?\s*(?:at once|at a time|in parallel|in flight)",
        tokens,
    ),
    ("concurrency", r"\b(?:a single|one single|a lone|single) request\b", constant(1)),
    (
        "requests",
        r"(?<![\w.])(?:at |with )?(?P<n>\d+)\s*(?P<m>k|m|thousand|million)?\s*(?:requests?|queries)\b"
        + NOT_A_RATE,
        tokens,
    ),
    ("concurrency", r"(?:batch(?:[ -]size)?|concurrency|bs)" + IS + NUMBER, tokens),
    (
        "days",
        r"(?:in|within|for|over|under|during|after|by)?\s*(?<![\w.])"
        + COUNT
        + r"[\s-]*(?P<u>hours?|days?|weeks?|months?|years?|night)\b",
        days,
    ),
    # How well.
    ("load", LOAD + IS + NUMBER + r"\s*%", share),
    ("load", NUMBER + r"\s*%\s*(?:of )?(?:" + LOAD + r"|load|busy|used|of the time)", share),
    ("pue", r"pue" + IS + NUMBER, number),
    ("percentile", r"\bp\d\d\b|\bmedian\b|\b\d\dth percentile", percentile),
    (
        "factor",
        r"(?:doubles?|doubled|doubling|triples?|tripled|tripling|halves?|halved|halving)\b"
        r"|\btwice (?:as (?:high|much|expensive)|the)\b",
        factor,
    ),
    ("factor", r"(?:(?:" + UP + "|" + DOWN + r")\s*(?:by)?)\s*" + NUMBER + r"\s*%", factor),
    ("factor", NUMBER + r"\s*%\s*(?:cheaper|lower|less|more expensive|more|higher|dearer)", factor),
    # Formats.
    ("kv_format", FORMAT + r"\s*kv(?:[ -]?cache)?", weight_format),
    ("kv_format", r"kv(?:[ -]?cache)?\s*(?:in|of|at|as)\s*" + FORMAT, weight_format),
    (
        "native",
        r"(?:in )?(?:its|their|the)?\s*(?:checkpoint\s*)?(?:own|native|published|original)"
        r"\s*(?:format|precision|quantization)",
        constant(True),
    ),
    ("format", r"(?<![\w.])" + BLOCK_FORMAT, block_format),
    (
        "format",
        r"\b(?:not quantized|unquantized|(?:without|no) quantization|without quantizing)\b",
        constant("bf16"),
    ),
    (
        "format",
        r"(?<![\w.])" + FORMAT + r"\b(?:\s*(?:precision|quantized|quantization))?",
        weight_format,
    ),
    (
        "cache_size",
        r"(?<![\w.])(?P<n>\d+(?:\.\d+)?)\s*gi?b\s*(?:of )?(?:kv|key[ -]value)(?:[ -]?cache)?\b",
        number,
    ),
    (
        "memory",
        r"(?<![\w.])(?P<n>\d+(?:\.\d+)?)\s*gi?b\b(?:\s*(?:of )?(?:vram|memory|gpu memory|ram))?",
        number,
    ),
    # How it is paid for.
    (
        "offer",
        r"\b(?:spot|pre-?emptible|interruptible)(?: (?:instances?|prices?|market|gpus))?\b",
        constant("spot"),
    ),
    (
        "offer",
        r"\b(?:reserved|committed|reservations?)(?: (?:instances?|prices?|capacity))?\b",
        constant("reserved"),
    ),
    ("offer", r"\bon[ -]demand(?: (?:instances?|prices?))?\b", constant("on-demand")),
    (
        "finance",
        r"\b(?:buy|buying|bought|own|owned|owning|purchase|purchased|purchasing|on[ -]prem(?:ises)?)\b",
        constant("buy"),
    ),
    (
        "finance",
        r"\b(?:rent|rented|renting|rental|leas(?:e|ed|ing)|in the cloud)\b",
        constant("rent"),
    ),
    (
        "budget",
        r"(?:(?:budget of|budget is|for|with|under)\s*)?" + USD + r"(?!\s*(?:/|per|an?\b))",
        dollars,
    ),
    (
        "bound",
        r"\b(?:more|fewer|less|greater|larger) than(?=\s*(?:"
        + MASKS["number"]
        + r"|\d|one\b|an? ))",
        constant(True),
    ),
    ("tuning", r"\blora\b(?:\s*adapters?)?(?:\s*fine[ -]?tun(?:e|ed|es|ing))?", constant("lora")),
    ("tuning", r"\bfine[ -]?tun(?:e|ed|es|ing)\b[^,.]{0,60}?\bwith lora\b", constant("lora")),
    ("tuning", r"\b(?:full(?:y)? )?fine[ -]?tun(?:e|ed|es|ing)\b|\bsft\b", constant("full")),
)

PATTERNS: Final = tuple(
    Pattern(slot, re.compile(expression), convert, "".join(rest[:1]), re.compile("".join(rest[1:])))
    for slot, expression, convert, *rest in _TABLE
)
