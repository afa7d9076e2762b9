"""States: the bytes that each rule keeps for a weight, and what rounding them costs.

Adam keeps two numbers for a weight; Lion and Muon one; Adafactor keeps sums over rows and columns instead of the
second; Shampoo keeps a matrix for each side. Moments of eight bits need a scale for each block.
"""

from __future__ import annotations

from assay.model import POSITIVE, cited, number
from assay.stack import optimizer
from assay.stack.updates.orthogonal import columns, rows
from assay.stack.updates.rules import scope

_EIGHT = cited("Dettmers et al. 2022, 8-bit Optimizers via Block-wise Quantization", "sec. 2, blocks of 2,048")
_ADAFACTOR = cited("Shazeer and Stern 2018, Adafactor: Adaptive Learning Rates with Sublinear Memory Cost", "sec. 3")
_SHAMPOO = cited("Gupta, Koren and Singer 2018, Shampoo: Preconditioned Stochastic Tensor Optimization", "algorithm 1")
_GALORE = cited("Zhao et al. 2024, GaLore: Memory-Efficient LLM Training by Gradient Low-Rank Projection", "Table 1")
_TRAFFIC = cited("Kingma and Ba 2015, Adam: A Method for Stochastic Optimization", "algorithm 1, states")

block = scope.declare(
    "eight_bit.block, n_8: numbers that share a scale; unless given, 2,048", equals=2048, bounds=POSITIVE,
    reference=_EIGHT,
)  # fmt: skip
scope.equation(
    optimizer.moment_bytes,
    number("1 byte") + number("4 byte") / block,
    name="eight_bit_moments",
    meaning="a byte for each moment, and a scale of single precision for each block",
    reference=_EIGHT,
)
_SINGLE = number("4 byte")
adafactor = scope.declare(
    "adafactor.bytes, b_F [byte]: bytes of a weight's state, where the second moment is a sum over rows by one over "
    "columns",
    equals=optimizer.master_bytes + _SINGLE * (rows + columns) / (rows * columns),
    reference=_ADAFACTOR,
    target=True,
)
scope.approximation(
    optimizer.state_bytes,
    adafactor,
    name="factored_states",
    valid=rows > 1,
    meaning="sums over rows and columns for the second moment, and no first one",
    reference=_ADAFACTOR,
)
shampoo_states = scope.declare(
    "shampoo.numbers, n_Sh: numbers that both preconditioners of a matrix and their roots hold",
    equals=2 * (rows**2 + columns**2),
    reference=_SHAMPOO,
    target=True,
)
shampoo = scope.declare(
    "shampoo.bytes, b_Sh [byte]: bytes of a weight's state, with one moment of the gradient",
    equals=optimizer.master_bytes + optimizer.moment_bytes + _SINGLE * shampoo_states / (rows * columns),
    reference=_SHAMPOO,
    target=True,
)
scope.approximation(
    optimizer.state_bytes,
    shampoo,
    name="preconditioned_states",
    valid=rows > 1,
    meaning="a matrix for each side of a matrix of weights, and its root",
    reference=_SHAMPOO,
)
rank = scope.declare(
    "low_rank.rank, r_G: rank to which gradients are projected", bounds=POSITIVE, reference=_GALORE,
    boundary="scenario",
)  # fmt: skip
low_rank = scope.declare(
    "low_rank.bytes, b_G [byte]: bytes of a weight's state: moments of the projected gradient, and the projection",
    equals=optimizer.master_bytes + optimizer.moment_bytes * (rows * rank + 2 * columns * rank) / (rows * columns),
    reference=_GALORE,
    target=True,
)
scope.approximation(
    optimizer.state_bytes,
    low_rank,
    name="projected_states",
    valid=rank < rows,
    meaning="moments of a gradient of low rank",
    reference=_GALORE,
)
state_share = scope.declare(
    "state_share, s_st [1 as %]: optimizer state over all bytes of a weight in training",
    equals=optimizer.state_bytes / (optimizer.state_bytes + optimizer.weight_bytes + optimizer.gradient_bytes),
    bounds=(0, 1),
    reference=_TRAFFIC,
    target=True,
)
