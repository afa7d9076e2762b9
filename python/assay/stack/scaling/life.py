"""The life of a model: text that is read again, what progress does to a run, and what a served token costs in all."""

from __future__ import annotations

import math

from assay.model import POSITIVE, by_definition, cited, exp, number, sqrt
from assay.stack import serving
from assay.stack.econ import deployment, run as econ_run
from assay.stack.scaling.laws import compute, data_loss, loss, optimal_size, scope, size_loss, tokens

_REPEATED = cited(
    "Muennighoff et al. 2023, Scaling Data-Constrained Language Models", "sec. 3.1, effective data, eq. 5"
)
_BITS = cited(
    "Gao et al. 2020, The Pile: An 800GB Dataset of Diverse Text for Language Modeling", "sec. 3.1, bits per byte"
)
_PROGRESS = cited("Ho et al. 2024, Algorithmic progress in language models", "compute halves about every 8 months")
_LIFE = by_definition("costs of the run and of serving over tokens served")
_REFRESH = cited("Taha 2017, Operations Research: An Introduction, 10th edition", "economic order quantity")
_SHARES = by_definition("parts of the loss above what cannot be avoided")

# Text that is read again.
unique = scope.declare(
    "repeated.unique, U: tokens of text that differ", bounds=POSITIVE, reference=_REPEATED, boundary="scenario"
)
worth = scope.declare(
    "repeated.worth, R_s: readings after the first at which 1 - 1/e of what they can teach is learned; unless given, "
    "15.4",
    equals=15.387756,
    bounds=POSITIVE,
    reference=_REPEATED,
)
readings = scope.declare(
    "repeated.readings, R_D: readings of the text after the first",
    equals=tokens / unique - 1,
    bounds=(-1e-9, None),
    reference=_REPEATED,
)
effective = scope.declare(
    "repeated.effective, D_e: new tokens that would teach as much",
    equals=unique * (1 + worth * (1 - exp(-readings / worth))),
    bounds=POSITIVE,
    reference=_REPEATED,
    target=True,
)
wasted = scope.declare(
    "repeated.wasted, s_R [1 as %]: share of a run's tokens that teach nothing",
    equals=1 - effective / tokens,
    bounds=(-1e-9, 1),
    reference=by_definition("tokens less effective ones, over tokens"),
    target=True,
)
# Loss in other words.
perplexity = scope.declare(
    "perplexity, PPL: tokens that the model hesitates between, on average", equals=exp(loss), reference=_BITS,
    target=True,
)  # fmt: skip
token_bytes = scope.declare(
    "token_bytes, b_t: bytes of text of a token", bounds=POSITIVE, reference=_BITS, boundary="scenario"
)
bits_per_byte = scope.declare(
    "bits_per_byte, BPB: loss in bits by byte of text",
    equals=loss / math.log(2) / token_bytes,
    reference=_BITS,
    target=True,
)
size_part = scope.declare(
    "size_part, s_N [1 as %]: share of the avoidable loss that is for want of weights",
    equals=size_loss / (size_loss + data_loss),
    bounds=(0, 1),
    reference=_SHARES,
    target=True,
)
oversize = scope.declare(
    "optimum.size_ratio, k_N: weights of the model over those with the least loss for its compute",
    equals=(compute / (6 * number("1 FLOP") * tokens)) / optimal_size,
    reference=_SHARES,
    target=True,
)
# Progress.
doubling = scope.declare(
    "progress.doubling, t_2 [s as year]: time in which the compute for a loss halves; unless given, 8 months",
    equals=number("21038400 s"),
    bounds=POSITIVE,
    reference=_PROGRESS,
)
later = scope.declare(
    "progress.later, t_l [s as year]: time by which a run is put off", reference=_PROGRESS, boundary="scenario"
)
saved = scope.declare(
    "progress.compute, C_l [FLOP]: compute that reaches the same loss then",
    equals=compute * exp(-math.log(2) * later / doubling),
    reference=_PROGRESS,
    target=True,
)
cost_later = scope.declare(
    "progress.cost, C_c [USD]: cost of the run that reaches the same loss then, on the same machines",
    equals=econ_run.total_cost * exp(-math.log(2) * later / doubling),
    reference=_PROGRESS,
    target=True,
)
# A life.
lifetime = scope.declare(
    "life.time, t_m [s as year]: time for which a model serves", bounds=POSITIVE, reference=_LIFE, boundary="scenario"
)
served = scope.declare(
    "life.tokens, D_l [token]: output tokens of that time",
    equals=serving.latency.throughput * deployment.serving_load * lifetime,
    bounds=POSITIVE,
    reference=_LIFE,
    target=True,
)
training_part = scope.declare(
    "life.training_cost, c_t [USD/token]: cost of the run by output token of its life",
    equals=econ_run.total_cost / served,
    reference=_LIFE,
    target=True,
)
full_cost = scope.declare(
    "life.token_cost, c_f [USD/token]: cost of an output token with its share of the run",
    equals=deployment.cost_per_output_token + training_part,
    bounds=POSITIVE,
    reference=_LIFE,
    target=True,
)
training_share = scope.declare(
    "life.training_share, s_t [1 as %]: share of that cost which is of the run",
    equals=training_part / full_cost,
    bounds=(0, 1),
    reference=_LIFE,
    target=True,
)
decline = scope.declare(
    "life.decline, d_v [USD/s^2 as USD/(day*year)]: by how much less a model earns, by time, as others improve",
    bounds=POSITIVE,
    reference=_REFRESH,
    boundary="scenario",
)
refresh = scope.declare(
    "life.refresh, t_r [s as year]: time after which training again costs as little in all as it can",
    equals=sqrt(2 * econ_run.total_cost / decline),
    reference=_REFRESH,
    target=True,
)
