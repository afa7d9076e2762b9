"""Repair: check bits, spare rows and spare multiprocessors, and the share of dies that they save.

A word of 64 bits with eight check bits survives one wrong bit; an array with spare rows survives a few bad ones; a die
with more multiprocessors than are sold survives defects in as many of them. What has no spare, the rest of the
die, must be without a defect. This replaces a stated share of critical area by what a die is made of.
"""

from __future__ import annotations

import math

from assay.model import POSITIVE, Expression, by_definition, ceil, cited, exp, floor, log2, where
from assay.stack import floorplan, nuclear
from assay.stack.manufacturing import wafers
from assay.stack.sram.array import bits
from assay.stack.sram.cell import area, collection, critical_charge, failure, leakage, scope

_HAMMING = cited(
    "Hamming 1950, Error Detecting and Error Correcting Codes, Bell System Technical Journal 29(2)", "eq. 1"
)
_EXTENDED = cited(
    "Hsiao 1970, A Class of Optimal Minimum Odd-weight-column SEC-DED Codes, IBM Journal of Research and Development "
    "14(4)",
    "check bits of single error correction with double error detection",
)
_DOUBLE = cited(
    "Feller 1968, An Introduction to Probability Theory, volume 1, 3rd edition", "sec. VI.2, binomial distribution"
)
_SPARES = cited(
    "Stapper 1992, A New Statistical Approach for Fault-Tolerant VLSI Systems, FTCS-22",
    "yield with redundancy: sums over repairable faults",
)  # fmt: skip
_STAPPER = cited(
    "Stapper, Armstrong and Saji 1983, Integrated Circuit Yield Statistics",
    "negative binomial yield of the part without spares",
)
_UPSETS = cited(
    "Hazucha and Svensson 2000, Impact of CMOS Technology Scaling on the Atmospheric Neutron Soft Error Rate, IEEE "
    "Transactions on Nuclear Science 47(6)",
    "error rate by sensitive area and critical charge",
)

# Check bits.
word = scope.declare(
    "word.bits, n_w: data bits of a word; unless given, 64", equals=64, bounds=POSITIVE, reference=_HAMMING
)
check_bits = scope.declare("word.hamming_bits, n_h: check bits that name any wrong bit, or none", reference=_HAMMING)
scope.iterative(
    check_bits,
    ceil(log2(word + check_bits + 1)),
    start=1,
    name="word.hamming",
    meaning="as many codes as there are bits to name, check bits among them",
    reference=_HAMMING,
)
code_bits = scope.declare(
    "word.code_bits, n_k: check bits of a word, with the one that tells two wrong bits from one",
    equals=check_bits + 1,
    reference=_EXTENDED,
    target=True,
)
code_share = scope.declare(
    "word.code_share, s_k [1 as %]: check bits over data bits",
    equals=code_bits / word,
    reference=_EXTENDED,
    target=True,
)
_length = word + code_bits
double = scope.declare(
    "word.double, p_2: probability that two bits of a word are wrong, where few are", reference=_DOUBLE, target=True
)
scope.approximation(
    double,
    _length * (_length - 1) / 2 * failure**2,
    name="word.pairs",
    valid=_length * failure < 0.1,
    meaning="pairs of bits by the square of a bit's probability",
    reference=_DOUBLE,
)
# Spare rows.
bad_cells = scope.declare(
    "array.bad_cells, l_a: cells of an array that fail, on average", equals=bits * failure, reference=_SPARES
)
spares = scope.declare(
    "array.spares, k_r: spare rows of an array, up to 4; unless given, 2", equals=2, bounds=(0, 4), reference=_SPARES
)


def _poisson_up_to(count: Expression, mean: Expression, most: int) -> Expression:
    """Probability of no more events than `count`, itself no more than `most`."""
    whole: Expression = exp(-mean)
    for k in range(1, most + 1):
        whole = whole + where(count >= k, exp(-mean) * mean**k / math.factorial(k), 0)
    return whole


repaired = scope.declare(
    "array.repaired, Y_a [1 as %]: share of arrays whose bad cells the spare rows replace",
    equals=_poisson_up_to(spares, bad_cells, 4),
    bounds=(0, 1),
    reference=_SPARES,
    target=True,
)
# Spare multiprocessors.
cores = scope.declare(
    "cores.made, N_c: multiprocessors on a die, in whole numbers",
    equals=floor(floorplan.cores + 0.5),
    bounds=POSITIVE,
    reference=_SPARES,
)
core_spares = scope.declare(
    "cores.spare, k_c: multiprocessors on a die that need not work",
    equals=floor(floorplan.cores * floorplan.spare / (1 + floorplan.spare) + 0.5),
    reference=_SPARES,
    target=True,
)
core_area = scope.declare(
    "cores.area, a_core [m^2 as mm^2]: area of a multiprocessor and its share of the network",
    equals=(floorplan.cores_area + floorplan.network_area) / floorplan.cores,
    reference=_SPARES,
)
bad_core = scope.declare(
    "cores.bad, q_c [1 as %]: probability that a multiprocessor has a killer defect",
    equals=1 - exp(-core_area * wafers.defect_density),
    bounds=(0, 0.999),
    reference=_SPARES,
    target=True,
)
MOST_SPARES = 24
"""Spare multiprocessors up to which their number may be chosen."""


def _binomial_up_to(count: Expression, trials: Expression, chance: Expression) -> Expression:
    """Probability of no more successes than `count`."""
    term: Expression = (1 - chance) ** trials
    whole = term
    for k in range(1, MOST_SPARES + 1):
        term = term * (trials - k + 1) / k * chance / (1 - chance)
        whole = whole + where(count >= k, term, 0)
    return whole


cores_yield = scope.declare(
    "cores.yield, Y_c [1 as %]: share of dies on which enough multiprocessors work",
    equals=_binomial_up_to(core_spares, cores, bad_core),
    bounds=(0, 1.000001),
    reference=_SPARES,
    target=True,
)
rest_faults = scope.declare(
    "rest.faults, l_r: killer defects of the part of a die that has no spares",
    equals=(floorplan.die_area - floorplan.cores_area - floorplan.network_area - floorplan.cache_area)
    * wafers.defect_density,
    reference=_STAPPER,
)
rest_yield = scope.declare(
    "rest.yield, Y_r [1 as %]: share of dies on which that part works",
    equals=(1 + rest_faults / wafers.clustering) ** (-wafers.clustering),
    bounds=(0, 1),
    reference=_STAPPER,
    target=True,
)
scope.approximation(
    wafers.die_yield,
    cores_yield * rest_yield,
    name="die_yield",
    valid=core_spares <= MOST_SPARES,
    meaning="spare multiprocessors, a cache that is repaired, and a rest that must work",
    reference=_SPARES,
)
saved = scope.declare(
    "cores.saved, dY_c [1 as %]: share of dies that spare multiprocessors save",
    equals=cores_yield - (1 - bad_core) ** cores,
    bounds=(0, 1),
    reference=_SPARES,
    target=True,
)
# Leakage and upsets of a die's caches.
cache_bits = scope.declare(
    "cache.bits, n_L2: cells of a die's second-level cache, check bits among them",
    equals=floorplan.cache_bits * (1 + code_share),
    reference=_EXTENDED,
    target=True,
)
cache_leakage = scope.declare(
    "cache.leakage, P_L2 [W]: leakage of those cells",
    equals=cache_bits * leakage,
    reference=by_definition("cells by the leakage of each"),
    target=True,
)
upset_area = scope.declare(
    "upset.area, a_u [m^2]: area by cell in which a strike that leaves enough charge flips it",
    equals=area * exp(-critical_charge / collection),
    reference=_UPSETS,
    target=True,
)
strikes = scope.declare(
    "upset.strikes, s_u: share of neutrons through a cell that leave charge in it",
    bounds=(0, 1),
    reference=_UPSETS,
    boundary="primitive",
)
scope.equation(
    nuclear.cross_section,
    strikes * upset_area,
    name="cross_section",
    meaning="strikes that leave more than the critical charge",
    reference=_UPSETS,
)
