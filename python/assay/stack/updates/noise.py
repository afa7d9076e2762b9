"""The noise of gradients: how many tokens in a step are worth their compute.

A gradient of a batch is the true one and noise that falls with the root of its size. Below the noise scale, twice the
batch nearly halves the steps; above it, a larger batch only costs tokens. The least of each and what lies between
follow from one number.
"""

from __future__ import annotations

from assay.model import ANY_SIGN, POSITIVE, by_definition, cited, sqrt
from assay.stack.training import run as training_run
from assay.stack.training.job import tokens_per_step
from assay.stack.updates.rules import clipped, scope

_NOISE = cited(
    "McCandlish, Kaplan, Amodei et al. 2018, An Empirical Model of Large-Batch Training", "sec. 2.2, eq. 2.8"
)
_TRADE = cited(
    "McCandlish, Kaplan, Amodei et al. 2018, An Empirical Model of Large-Batch Training", "sec. 2.3, eq. 2.11"
)
_DRAWN = cited("NIST/SEMATECH 2012, e-Handbook of Statistical Methods", "sec. 1.3.6.6.1, normal distribution")

variance = scope.declare(
    "noise.variance, tr_S [token]: sum of the variances of a token's gradient, over the square of the true gradient: "
    "the noise scale",
    bounds=POSITIVE,
    reference=_NOISE,
    boundary="primitive",
)
relative_noise = scope.declare(
    "noise.relative, s_B: noise of a batch's gradient over the true one",
    equals=sqrt(variance / tokens_per_step),
    reference=_NOISE,
    target=True,
)
drawn = scope.declare(
    "noise.gradient, g_B: gradient of a weight in one batch", bounds=ANY_SIGN, reference=_DRAWN, target=True
)
scope.stochastic(
    drawn,
    "normal",
    clipped,
    sqrt(clipped**2) * relative_noise,
    name="noise.distribution",
    meaning="drawn anew for each batch, where every weight has its share of the noise",
    reference=_DRAWN,
)
progress = scope.declare(
    "noise.progress, k_B [1 as %]: progress of a step over that of one without noise",
    equals=1 / (1 + variance / tokens_per_step),
    bounds=(0, 1),
    reference=_NOISE,
    target=True,
)
least_tokens = scope.declare(
    "noise.least_tokens, E_min [token]: tokens that the run would need in the smallest batches", bounds=POSITIVE,
    reference=_TRADE, boundary="scenario",
)  # fmt: skip
least_steps = scope.declare(
    "noise.least_steps, S_min: steps that the run would need in the largest batches",
    equals=least_tokens / variance,
    reference=_TRADE,
    target=True,
)
needed_tokens = scope.declare(
    "noise.tokens, E_B [token]: tokens that the run needs in batches of this size",
    equals=least_tokens * (1 + tokens_per_step / variance),
    bounds=POSITIVE,
    reference=_TRADE,
    target=True,
)
needed_steps = scope.declare(
    "noise.steps, S_B: steps that the run needs in batches of this size",
    equals=least_steps * (1 + variance / tokens_per_step),
    reference=_TRADE,
    target=True,
)
scope.equation(
    training_run.total_tokens,
    needed_tokens,
    name="total_tokens",
    meaning="more tokens where batches are larger than the noise asks for",
    reference=_TRADE,
)
wasted = scope.declare(
    "noise.wasted, s_E [1 as %]: share of the tokens that smaller batches would save",
    equals=1 - least_tokens / needed_tokens,
    bounds=(0, 1),
    reference=by_definition("tokens above the least, over tokens"),
    target=True,
)
