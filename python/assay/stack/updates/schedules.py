"""Schedules: the learning rate over a run, and the loss scale that follows overflows.

A run warms up while second moments are unknown, stays high, and ends low, along a cosine, an inverse root or a
straight line at the end. A loss scale that doubles after so many good steps and halves at each overflow hovers where
overflows come once in so many steps.
"""

from __future__ import annotations

import math

from assay.model import POSITIVE, cited, cos, log2, maximum, minimum, sqrt
from assay.stack import precision
from assay.stack.training import run as training_run
from assay.stack.updates.rules import rate, scope, step

_WARM_UP = cited("Goyal et al. 2017, Accurate, Large Minibatch SGD: Training ImageNet in 1 Hour", "sec. 2.2, warmup")
_COSINE = cited("Loshchilov and Hutter 2017, SGDR: Stochastic Gradient Descent with Warm Restarts", "eq. 5")
_ROOT = cited("Vaswani et al. 2017, Attention Is All You Need", "eq. 3")
_STABLE = cited("Hu et al. 2024, MiniCPM: Unveiling the Potential of Small Language Models", "sec. 4.2, WSD scheduler")
_SCALER = cited("Micikevicius et al. 2018, Mixed Precision Training", "sec. 3.2, automatic loss scaling")

peak = scope.declare("schedule.peak, eta_p: highest learning rate of a run", reference=_WARM_UP, boundary="scenario")
last = scope.declare(
    "schedule.last, eta_z: learning rate at the end, over the highest; unless given, 0.1", equals=0.1, bounds=(0, 1),
    reference=_COSINE,
)  # fmt: skip
warm_up = scope.declare(
    "schedule.warm_up, t_w: steps of the warm-up", bounds=POSITIVE, reference=_WARM_UP, boundary="scenario"
)
steps = scope.declare(
    "schedule.steps, t_n: steps of the schedule; unless given, those of the run",
    equals=training_run.steps,
    bounds=POSITIVE,
    reference=_COSINE,
)
warming = scope.declare(
    "schedule.warming, k_w: share of the highest learning rate that the warm-up has reached",
    equals=minimum(step / warm_up, 1),
    bounds=(0, 1),
    reference=_WARM_UP,
    target=True,
)
progress = scope.declare(
    "schedule.progress, x_s: share of the steps after the warm-up that are done",
    equals=minimum(maximum(step - warm_up, 0) / maximum(steps - warm_up, 1), 1),
    bounds=(0, 1),
    reference=_COSINE,
)
scope.approximation(
    rate,
    peak * warming * (last + (1 - last) * (1 + cos(math.pi * progress)) / 2),
    name="schedule.cosine",
    valid=steps > warm_up,
    meaning="half a cosine from the highest rate to the last",
    reference=_COSINE,
)
scope.approximation(
    rate,
    peak * minimum(warming, sqrt(warm_up / step)),
    name="schedule.inverse_root",
    valid=step >= 1,
    meaning="up in a straight line, down by the inverse root",
    reference=_ROOT,
)
ending = scope.declare(
    "schedule.ending, s_z: share of the steps in which the rate falls at the end; unless given, 0.1",
    equals=0.1,
    bounds=("positive", 1),
    reference=_STABLE,
)
scope.piecewise(
    rate,
    [(step < warm_up, peak * step / warm_up), (step <= (1 - ending) * steps, peak)],
    otherwise=peak * (1 - (1 - last) * minimum((step / steps - (1 - ending)) / ending, 1)),
    name="schedule.stable",
    meaning="up, level, and down at the end",
    reference=_STABLE,
)
cosine_mean = scope.declare(
    "schedule.cosine_mean, k_m: mean learning rate of a cosine with its warm-up, over the highest",
    equals=(warm_up / 2 + (steps - warm_up) * (1 + last) / 2) / steps,
    reference=_COSINE,
    target=True,
)
stable_mean = scope.declare(
    "schedule.stable_mean, k_s: mean learning rate of a level schedule with its warm-up, over the highest",
    equals=1 - warm_up / (2 * steps) - ending * (1 - last) / 2,
    reference=_STABLE,
    target=True,
)
# Loss scale.
interval = scope.declare(
    "scaler.interval, t_g: good steps after which the loss scale doubles; unless given, 2,000", equals=2000,
    bounds=POSITIVE, reference=_SCALER,
)  # fmt: skip
overflow_share = scope.declare(
    "scaler.overflow_share, s_o [1 as %]: share of steps that overflow and are left out, where the scale hovers",
    equals=1 / (interval + 1),
    reference=_SCALER,
    target=True,
)
climb = scope.declare(
    "scaler.climb, t_c: steps from a scale of one to that at which the largest gradient overflows",
    equals=interval * log2(precision.largest_scale),
    reference=_SCALER,
    target=True,
)
