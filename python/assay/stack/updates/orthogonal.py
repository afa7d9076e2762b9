"""Orthogonal updates: Muon makes all singular values of an update about one, by products alone.

Newton-Schulz iterations apply an odd polynomial to a matrix, and so to its singular values. The cubic one converges to
one; the quintic of Muon rises faster and ends in a band around it, which is enough. Each iteration takes three
products of matrices, which is little beside the products of a step, because a step has many more tokens than a matrix
has rows.
"""

from __future__ import annotations

from assay.model import ANY_SIGN, POSITIVE, cited, number
from assay.stack import optimizer
from assay.stack.architecture import shapes
from assay.stack.updates.rules import clipped, previous_first, rate, scope, weight

_MUON = "Jordan et al. 2024, Muon: An optimizer for hidden layers in neural networks"
_QUINTIC = cited(_MUON, "Newton-Schulz iteration with coefficients 3.4445, -4.7750, 2.0315")
_RUNTIME = cited(_MUON, "runtime analysis")
_CUBIC = cited(
    "Bjorck and Bowie 1971, An Iterative Algorithm for Computing the Best Estimate of an Orthogonal Matrix, SIAM "
    "Journal on Numerical Analysis 8(2)",
    "iteration of first order",
)
_MOONLIGHT = cited("Liu et al. 2025, Muon is Scalable for LLM Training", "sec. 2.2, consistent update RMS")

momentum = scope.declare(
    "muon.momentum, mu_M: share of the momentum that a step keeps; unless given, 0.95", equals=0.95, bounds=(0, 1),
    reference=_QUINTIC,
)  # fmt: skip
accumulated = scope.declare(
    "muon.accumulated, B_t: momentum of a weight after the step",
    equals=momentum * previous_first + clipped,
    bounds=ANY_SIGN,
    reference=_QUINTIC,
    target=True,
)
singular = scope.declare(
    "muon.singular, s_0: a singular value of the momentum, over the root of the sum of all squares",
    bounds=(0, 1),
    reference=_QUINTIC,
    boundary="scenario",
)
A, B, C = 3.4445, -4.7750, 2.0315
"""The polynomial of Muon: chosen for its slope at zero."""
value = singular
for iteration in range(1, 6):
    value = scope.declare(
        f"muon.iteration_{iteration}.singular, s_{iteration}: that singular value after iteration {iteration}",
        equals=A * value + B * value**3 + C * value**5,
        bounds=ANY_SIGN,
        reference=_QUINTIC,
        target=iteration == 5,
    )
orthogonal = value
gain = scope.declare(
    "muon.gain, k_M: factor of small singular values after all iterations",
    equals=A ** (optimizer.orthogonalization_steps),
    reference=_QUINTIC,
    target=True,
)
cubic = scope.declare(
    "muon.cubic, s_inf: singular value that the iteration of third order ends at", reference=_CUBIC, target=True
)
scope.iterative(
    cubic,
    cubic * (3 - cubic**2) / 2,
    start=singular,
    name="muon.newton_schulz",
    meaning="Newton's method for the inverse root of the square",
    reference=_CUBIC,
)
rows = scope.declare(
    "muon.rows, m_r: rows of a matrix of weights, its smaller side; unless given, the hidden size",
    equals=shapes.hidden,
    bounds=POSITIVE,
    reference=_RUNTIME,
)
columns = scope.declare(
    "muon.columns, n_r: columns of that matrix; unless given, as many", equals=rows, bounds=POSITIVE,
    reference=_RUNTIME,
)  # fmt: skip
flops = scope.declare(
    "muon.flops, F_NS [FLOP]: operations of the iterations of a matrix: by the transpose, squared, and by it again",
    equals=number("2 FLOP") * optimizer.orthogonalization_steps * (2 * rows**2 * columns + rows**3),
    reference=_RUNTIME,
    target=True,
)
scale = scope.declare(
    "muon.scale, k_RMS: factor of an orthogonal update that moves weights as far as one of Adam: 0.2 by the root "
    "of the larger side",
    equals=0.2 * columns**0.5,
    reference=_MOONLIGHT,
    target=True,
)
entry = scope.declare(
    "muon.entry, o_ij: entry of an orthogonal update, root of the mean of squares",
    equals=1 / columns**0.5,
    reference=_MOONLIGHT,
)
moved = scope.declare(
    "muon.weight, w_O: a weight after a step of Muon of a typical entry",
    equals=weight - rate * scale * entry * orthogonal,
    bounds=ANY_SIGN,
    reference=_MOONLIGHT,
    target=True,
)
