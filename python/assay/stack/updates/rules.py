"""Rules: what one step of an optimizer does to one weight, from its gradient and its moments.

Gradients are noisy, so rules average them: momentum is a mean that forgets exponentially, the second moment is that of
squares, by whose root Adam divides so that every weight moves by about the learning rate. Both start at zero
and are corrected for it. Weight decay pulls to zero beside the gradient. What the rules do in the long run under a
steady gradient is the fixed point of their recurrences.
"""

from __future__ import annotations

import math

from assay.model import ANY_SIGN, POSITIVE, Scope, Variable, cited, log, minimum, sqrt, where
from assay.stack.architecture import shapes

scope = Scope("updates", "Rules, schedules and states of optimizers")

ADAM = "Kingma and Ba 2015, Adam: A Method for Stochastic Optimization"
_FIRST = cited(ADAM, "algorithm 1, biased first moment estimate")
_SECOND = cited(ADAM, "algorithm 1, biased second raw moment estimate")
_CORRECTED = cited(ADAM, "sec. 3, initialization bias correction")
_DECOUPLED = cited("Loshchilov and Hutter 2019, Decoupled Weight Decay Regularization", "algorithm 2")
_MOMENTUM = cited(
    "Sutskever, Martens, Dahl and Hinton 2013, On the importance of initialization and momentum in deep learning",
    "eq. 1 to 4, classical and Nesterov momentum",
)
_RMSPROP = cited("Tieleman and Hinton 2012, Neural Networks for Machine Learning, Coursera", "lecture 6.5, rmsprop")
_LION = cited("Chen et al. 2023, Symbolic Discovery of Optimization Algorithms", "algorithm 2, Lion")
_LAMB = cited("You et al. 2020, Large Batch Optimization for Deep Learning: Training BERT in 76 minutes", "algorithm 2")
_CLIP = cited(
    "Pascanu, Mikolov and Bengio 2013, On the difficulty of training recurrent neural networks", "algorithm 1"
)
_QK_CLIP = cited("Moonshot AI 2025, Kimi K2: Open Agentic Intelligence", "sec. 2.1, MuonClip")
_ATTENTION = cited("Vaswani et al. 2017, Attention Is All You Need", "sec. 3.2.1, scaled dot-product attention")
_AVERAGE = cited("Polyak and Juditsky 1992, Acceleration of Stochastic Approximation by Averaging", "averaged iterates")


def _state(heading: str) -> Variable:
    return scope.declare(heading, bounds=ANY_SIGN, reference=_FIRST, boundary="scenario")


gradient = _state("gradient, g: gradient of a weight, before it is clipped")
weight = _state("weight, w: a weight before the step")
previous_first = _state("previous.first, m_0: first moment before the step")
previous_second = scope.declare(
    "previous.second, v_0: second moment before the step", reference=_SECOND, boundary="scenario"
)
step = scope.declare(
    "step, t: steps so far, this one among them", bounds=(1, None), reference=_FIRST, boundary="scenario"
)
rate = scope.declare("rate, eta: learning rate of the step", reference=_FIRST, boundary="scenario")


def _decay(name: str, symbol: str, text: str, value: float) -> Variable:
    return scope.declare(
        f"{name}, {symbol}: share of {text} that a step keeps; unless given, {value}",
        equals=value,
        bounds=(0, 0.999999),
        reference=_FIRST,
    )


first_decay = _decay("first_decay", "b_1", "the first moment", 0.9)
second_decay = _decay("second_decay", "b_2", "the second moment", 0.95)
floor = scope.declare(
    "floor, eps: number added to the root of the second moment; unless given, 1e-8", equals=1e-8, reference=_SECOND
)
decay = scope.declare(
    "decay, lambda: weight decay by learning rate; unless given, 0.1", equals=0.1, reference=_DECOUPLED
)
# Clipping.
norm = scope.declare("clip.norm, n_g: norm of all gradients", bounds=POSITIVE, reference=_CLIP, boundary="scenario")
most_norm = scope.declare(
    "clip.limit, n_max: norm to which gradients are clipped; unless given, 1", equals=1, bounds=POSITIVE,
    reference=_CLIP,
)  # fmt: skip
clip = scope.declare(
    "clip.factor, k_c: factor by which gradients are clipped",
    equals=minimum(1, most_norm / norm),
    bounds=(0, 1),
    reference=_CLIP,
    target=True,
)
clipped = scope.declare(
    "clipped, g_c: gradient of a weight after clipping", equals=clip * gradient, bounds=ANY_SIGN, reference=_CLIP
)
# AdamW.
first = scope.declare(
    "adam.first, m: first moment after the step",
    equals=first_decay * previous_first + (1 - first_decay) * clipped,
    bounds=ANY_SIGN,
    reference=_FIRST,
    target=True,
)
second = scope.declare(
    "adam.second, v: second moment after the step",
    equals=second_decay * previous_second + (1 - second_decay) * clipped**2,
    reference=_SECOND,
    target=True,
)
corrected_first = scope.declare(
    "adam.first_corrected, m_h: first moment, corrected for its start at zero",
    equals=first / (1 - first_decay**step),
    bounds=ANY_SIGN,
    reference=_CORRECTED,
)
corrected_second = scope.declare(
    "adam.second_corrected, v_h: second moment, corrected for its start at zero",
    equals=second / (1 - second_decay**step),
    reference=_CORRECTED,
)
direction = scope.declare(
    "adam.direction, u: step of a weight over the learning rate, without weight decay",
    equals=corrected_first / (sqrt(corrected_second) + floor),
    bounds=ANY_SIGN,
    reference=cited(ADAM, "algorithm 1, update of parameters"),
    target=True,
)
adam_weight = scope.declare(
    "adam.weight, w_A: the weight after a step of AdamW",
    equals=weight - rate * (direction + decay * weight),
    bounds=ANY_SIGN,
    reference=_DECOUPLED,
    target=True,
)
# Momentum, and what it comes to under a steady gradient.
momentum = _decay("momentum", "mu", "the velocity", 0.9)
velocity = scope.declare(
    "momentum.velocity, z: velocity after a step",
    equals=momentum * previous_first + clipped,
    bounds=ANY_SIGN,
    reference=_MOMENTUM,
    target=True,
)
momentum_weight = scope.declare(
    "momentum.weight, w_M: the weight after a step with momentum",
    equals=weight - rate * velocity,
    bounds=ANY_SIGN,
    reference=_MOMENTUM,
    target=True,
)
nesterov_weight = scope.declare(
    "nesterov.weight, w_N: the weight after a step that looks ahead by one",
    equals=weight - rate * (clipped + momentum * velocity),
    bounds=ANY_SIGN,
    reference=_MOMENTUM,
    target=True,
)
steady_velocity = scope.declare(
    "momentum.steady, z_inf: velocity after many steps of this gradient", bounds=ANY_SIGN, reference=_MOMENTUM,
    target=True,
)  # fmt: skip
scope.iterative(
    steady_velocity,
    momentum * steady_velocity + clipped,
    start=clipped,
    name="momentum.recurrence",
    meaning="a share of the velocity is kept and the gradient added",
    reference=_MOMENTUM,
)
effective_rate = scope.declare(
    "momentum.effective_rate, eta_e: learning rate that steps without momentum would need",
    equals=rate / (1 - momentum),
    reference=_MOMENTUM,
    target=True,
)
memory = scope.declare(
    "momentum.half_life, t_h: steps in which the velocity forgets half",
    equals=math.log(2) / -log(momentum),
    bounds=POSITIVE,
    reference=_MOMENTUM,
    target=True,
)
# Others.
rms_weight = scope.declare(
    "rmsprop.weight, w_R: the weight after a step by the root of the second moment alone",
    equals=weight - rate * clipped / (sqrt(second) + floor),
    bounds=ANY_SIGN,
    reference=_RMSPROP,
    target=True,
)
lion_decay = scope.declare(
    "lion.momentum_decay, b_L: share of Lion's momentum that a step keeps; unless given, 0.99",
    equals=0.99,
    bounds=(0, 1),
    reference=_LION,
)
_lion = first_decay * previous_first + (1 - first_decay) * clipped
lion_direction = scope.declare(
    "lion.direction, u_L: sign of the mean of momentum and gradient",
    equals=where(_lion > 0, 1, where(_lion < 0, -1, 0)),
    bounds=(-1, 1),
    reference=_LION,
)
lion_weight = scope.declare(
    "lion.weight, w_L: the weight after a step of Lion",
    equals=weight - rate * (lion_direction + decay * weight),
    bounds=ANY_SIGN,
    reference=_LION,
    target=True,
)
lion_momentum = scope.declare(
    "lion.momentum, m_L: Lion's momentum after the step",
    equals=lion_decay * previous_first + (1 - lion_decay) * clipped,
    bounds=ANY_SIGN,
    reference=_LION,
    target=True,
)
weight_norm = scope.declare(
    "lamb.weight_norm, n_w: norm of a layer's weights", bounds=POSITIVE, reference=_LAMB, boundary="scenario"
)
update_norm = scope.declare(
    "lamb.update_norm, n_u: norm of a layer's step of Adam, with its weight decay", bounds=POSITIVE, reference=_LAMB,
    boundary="scenario",
)  # fmt: skip
trust = scope.declare(
    "lamb.trust, k_L: factor of a layer's step: its weights over its step", equals=weight_norm / update_norm,
    reference=_LAMB, target=True,
)  # fmt: skip
lamb_weight = scope.declare(
    "lamb.weight, w_B: the weight after a step of LAMB",
    equals=weight - rate * trust * (direction + decay * weight),
    bounds=ANY_SIGN,
    reference=_LAMB,
    target=True,
)
logit_scale = scope.declare(
    "qk_clip.scale, k_d: factor of the products of queries and keys",
    equals=1 / sqrt(shapes.head_size),
    reference=_ATTENTION,
    target=True,
)
query_norm = scope.declare("qk_clip.query_norm, n_q: largest norm of a query", reference=_QK_CLIP, boundary="scenario")
key_norm = scope.declare("qk_clip.key_norm, n_k: largest norm of a key", reference=_QK_CLIP, boundary="scenario")
logit = scope.declare(
    "qk_clip.logit, S_max: largest attention logit of a head in a step, at most",
    equals=logit_scale * query_norm * key_norm,
    bounds=POSITIVE,
    reference=_QK_CLIP,
    target=True,
)
logit_limit = scope.declare(
    "qk_clip.limit, tau_S: largest logit that is allowed; unless given, 100", equals=100, bounds=POSITIVE,
    reference=_QK_CLIP,
)  # fmt: skip
qk_clip = scope.declare(
    "qk_clip.factor, k_qk: factor of a head's query and key weights, each by its root",
    equals=minimum(1, logit_limit / logit),
    bounds=(0, 1),
    reference=_QK_CLIP,
    target=True,
)
average_decay = _decay("average.decay", "d_E", "the mean of weights", 0.999)
previous_average = _state("average.previous, w_0: mean of weights before the step")
average = scope.declare(
    "average.weight, w_E: mean of weights after the step",
    equals=average_decay * previous_average + (1 - average_decay) * adam_weight,
    bounds=ANY_SIGN,
    reference=_AVERAGE,
    target=True,
)
horizon = scope.declare(
    "average.horizon, t_E: steps that the mean of weights reaches back, on average",
    equals=1 / (1 - average_decay),
    reference=_AVERAGE,
    target=True,
)
decay_time = scope.declare(
    "decay.time, t_w: steps in which weight decay alone would divide a weight by e",
    equals=1 / (rate * decay),
    bounds=POSITIVE,
    reference=cited(
        "Wang and Aitchison 2024, How to set AdamW's weight decay as you scale model and dataset size",
        "time scale of an exponential moving average",
    ),
    target=True,
)
