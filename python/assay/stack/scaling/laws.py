"""Scaling laws and the life of a model: which size and how many tokens reach a loss, and what serving changes.

The loss of a model falls as a power of its weights and as a power of its tokens, towards what no model of this text
can avoid. Training costs six operations for each weight and token, so that for a given loss one size is
cheapest: about twenty tokens for each weight. A model that is then asked often should be smaller and trained longer,
because each token that it writes costs two operations for each weight.
"""

from __future__ import annotations

from assay.model import POSITIVE, Scope, by_definition, cited, number
from assay.stack import works
from assay.stack.architecture import parameters as architecture
from assay.stack.econ import deployment, run as econ_run
from assay.stack.training import run as training_run

scope = Scope("scaling", "Scaling laws and the life of a model")

_HOFFMANN = "Hoffmann et al. 2022, Training Compute-Optimal Large Language Models"
_LOSS = cited(_HOFFMANN, "sec. 3.3, approach 3: parametric loss")
_OPTIMUM = cited(_HOFFMANN, "sec. 3.3, efficient frontier")
_COMPUTE = cited(works.SCALING_LAWS, "sec. 2.1")
_INFERENCE = cited(
    "Sardana et al. 2024, Beyond Chinchilla-Optimal: Accounting for Inference in Language Model Scaling Laws",
    "sec. 2, FLOPs of training and inference at a loss",
)
_BREAK_EVEN = by_definition("cost of the run over what a token earns above its own cost")


floor = scope.declare("floor, E_inf: loss that no model of this text can avoid", reference=_LOSS, boundary="primitive")
size_coefficient = scope.declare(
    "size_coefficient, A: loss of a model of one weight, above the floor",
    bounds=POSITIVE,
    reference=_LOSS,
    boundary="primitive",
)
size_exponent = scope.declare(
    "size_exponent, alpha: exponent of weights", bounds=POSITIVE, reference=_LOSS, boundary="primitive"
)
data_coefficient = scope.declare(
    "data_coefficient, B: loss of a model of one token, above the floor",
    bounds=POSITIVE,
    reference=_LOSS,
    boundary="primitive",
)
data_exponent = scope.declare(
    "data_exponent, beta: exponent of tokens", bounds=POSITIVE, reference=_LOSS, boundary="primitive"
)
_TOKEN = number("1 token")
tokens = scope.declare(
    "tokens, n_D: training tokens as a number",
    equals=training_run.total_tokens / _TOKEN,
    bounds=POSITIVE,
    reference=_LOSS,
)
size_loss = scope.declare(
    "size_loss, L_N: loss for want of weights",
    equals=size_coefficient * architecture.parameters ** (-size_exponent),
    reference=_LOSS,
)
data_loss = scope.declare(
    "data_loss, L_D: loss for want of tokens", equals=data_coefficient * tokens ** (-data_exponent), reference=_LOSS
)
loss = scope.declare(
    "loss, L: loss of the model after its run, in nats per token",
    equals=floor + size_loss + data_loss,
    reference=_LOSS,
    target=True,
)
ratio = scope.declare(
    "tokens_per_weight, r_DN: training tokens by weight",
    equals=tokens / architecture.parameters,
    reference=by_definition("tokens over weights"),
    target=True,
)
compute = scope.declare(
    "compute, C [FLOP]: training compute, six operations by weight and token",
    equals=number("6 FLOP") * architecture.parameters * tokens,
    bounds=POSITIVE,
    reference=_COMPUTE,
    target=True,
)
# The cheapest way to spend that compute.
balance = scope.declare(
    "optimum.balance, G: weights by the share of compute, at the optimum",
    equals=(size_exponent * size_coefficient / (data_exponent * data_coefficient))
    ** (1 / (size_exponent + data_exponent)),
    bounds=POSITIVE,
    reference=_OPTIMUM,
)
_products = compute / number("6 FLOP")
optimal_size = scope.declare(
    "optimum.size, N_opt: weights of the model with the least loss for this compute",
    equals=balance * _products ** (data_exponent / (size_exponent + data_exponent)),
    bounds=POSITIVE,
    reference=_OPTIMUM,
    target=True,
)
optimal_tokens = scope.declare(
    "optimum.tokens, D_opt: tokens of the model with the least loss for this compute",
    equals=_products / optimal_size,
    bounds=POSITIVE,
    reference=_OPTIMUM,
    target=True,
)
optimal_loss = scope.declare(
    "optimum.loss, L_opt: least loss for this compute",
    equals=floor
    + size_coefficient * optimal_size ** (-size_exponent)
    + data_coefficient * optimal_tokens ** (-data_exponent),
    reference=_OPTIMUM,
    target=True,
)
gap = scope.declare(
    "optimum.gap, dL: loss above the least for the same compute",
    equals=loss - optimal_loss,
    reference=_OPTIMUM,
    bounds=(-1e-9, None),
    target=True,
)
# The cheapest way to a loss, with what the model will write.
goal = scope.declare(
    "goal.loss, L_goal: loss that a model must reach", bounds=POSITIVE, reference=_INFERENCE, boundary="scenario"
)
served = scope.declare(
    "goal.served_tokens, D_inf: tokens that the model will read and write when it serves; unless given, none",
    equals=0,
    reference=_INFERENCE,
)
goal_tokens = scope.declare(
    "goal.tokens, D_goal: training tokens that reach the loss at the least operations of training and serving",
    bounds=POSITIVE,
    reference=_INFERENCE,
)
_above = goal - floor
_weight = data_exponent / size_exponent
_following = (data_coefficient * (1 + _weight * (1 + served / (3 * goal_tokens))) / _above) ** (1 / data_exponent)
_DAMPING = 0.2
"""The bare update overshoots by up to 1 / beta where serving dominates."""
scope.iterative(
    goal_tokens,
    goal_tokens ** (1 - _DAMPING) * _following**_DAMPING,
    start=(data_coefficient * (1 + _weight) / _above) ** (1 / data_exponent),
    name="goal.stationary",
    meaning="where one more token of training saves as much of weights in training and serving as it costs",
    reference=_INFERENCE,
)
goal_size = scope.declare(
    "goal.size, N_goal: weights that reach the loss at the least operations of training and serving",
    equals=(size_coefficient / (_above - data_coefficient * goal_tokens ** (-data_exponent))) ** (1 / size_exponent),
    bounds=POSITIVE,
    reference=_INFERENCE,
    target=True,
)
goal_ratio = scope.declare(
    "goal.tokens_per_weight, r_goal: training tokens by weight at that optimum",
    equals=goal_tokens / goal_size,
    reference=_INFERENCE,
    target=True,
)
goal_compute = scope.declare(
    "goal.compute, C_goal [FLOP]: operations of training and serving at that optimum",
    equals=number("6 FLOP") * goal_size * goal_tokens + number("2 FLOP") * goal_size * served,
    reference=_INFERENCE,
    target=True,
)
# When a run has paid for itself.
revenue = scope.declare(
    "life.revenue, p_tok [USD/token]: price at which output tokens are sold", reference=_BREAK_EVEN, boundary="scenario"
)
break_even = scope.declare(
    "life.break_even, D_be [token]: output tokens after which a run has paid for itself",
    equals=econ_run.total_cost / (revenue - deployment.cost_per_output_token),
    reference=_BREAK_EVEN,
    target=True,
)
scope.inequality(
    "life.profitable",
    revenue > deployment.cost_per_output_token,
    "a token earns more than it costs",
    reference=_BREAK_EVEN,
)
