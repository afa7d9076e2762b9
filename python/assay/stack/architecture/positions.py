"""Heads and positions: how hidden size, heads and rotary angles hang together."""

from __future__ import annotations

import math

from assay.model import POSITIVE, cited, log, number
from assay.stack import works
from assay.stack.architecture import shapes as s

_HEADS = cited("Vaswani et al. 2017, Attention Is All You Need", "sec. 3.2.2, multi-head attention")
_ROTARY = cited("Su et al. 2021, RoFormer: Enhanced Transformer with Rotary Position Embedding", "sec. 3.2.2, eq. 15")
_GROUPS = cited(works.GQA, "sec. 2.2, grouped-query attention")

s.scope.equation(
    s.head_size, s.hidden / s.heads, name="head_size_of_hidden", meaning="heads share the hidden size", reference=_HEADS
)
group = s.scope.declare(
    "heads.group, g_q: query heads that share a key and value head",
    equals=s.heads / s.kv_heads,
    bounds=POSITIVE,
    reference=_GROUPS,
    target=True,
)
base = s.scope.declare(
    "rotary.base, b_R: base of the rotary angles; unless given, 10,000", equals=10000, bounds=POSITIVE,
    reference=_ROTARY,
)  # fmt: skip
longest = s.scope.declare(
    "rotary.longest, l_R: tokens in which the slowest pair of a head turns once",
    equals=2 * math.pi * base ** (1 - 2 / s.head_size),
    reference=_ROTARY,
    target=True,
)
turning = s.scope.declare(
    "rotary.turning, s_R [1 as %]: share of a head's pairs that turn at least once in a sequence",
    equals=log(s.sequence / number("1 token") / (2 * math.pi)) / log(base),
    bounds=(None, 1),
    reference=_ROTARY,
    target=True,
)
