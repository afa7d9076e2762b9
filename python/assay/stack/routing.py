"""Routing and feeding: what experts drop, what losses balance them, and whether storage and hosts keep up.

A router sends each token to a few experts. Experts that take no more than their share and a margin drop tokens when
they are asked for more; a loss keeps the shares even and another keeps logits small. Samples must arrive as fast as
they are trained on, and states that do not fit a GPU cross the host's bus.
"""

from __future__ import annotations

import math

from assay.model import ANY_SIGN, POSITIVE, Scope, Variable, by_definition, cited, erf, exp, maximum, number
from assay.stack import optimizer, parallelism, works
from assay.stack.architecture import cache, parameters, shapes
from assay.stack.training import run as training_run
from assay.stack.training.job import gpus, tokens_per_step
from assay.stack.training.step import compute_time, exposed_communication_time, step_time

scope = Scope("routing", "Experts, losses of routers, storage and hosts")

_CAPACITY = cited(works.SWITCH_TRANSFORMERS, "sec. 2.2, expert capacity")
_BALANCE = cited(works.SWITCH_TRANSFORMERS, "sec. 2.2, eq. 4 to 6, load balancing loss")
_Z_LOSS = cited(
    "Zoph et al. 2022, ST-MoE: Designing Stable and Transferable Sparse Expert Models", "eq. 5, router z-loss"
)
_NORMAL = cited("NIST/SEMATECH 2012, e-Handbook of Statistical Methods", "sec. 1.3.6.6.1, normal distribution")
_BINOMIAL = cited("Feller 1968, An Introduction to Probability Theory, volume 1, 3rd edition", "sec. VI.2, binomial")
_LATENT = cited(works.DEEPSEEK_V2, "sec. 2.1.4, comparison of KV caches")
_OFFLOAD = cited(
    "Ren et al. 2021, ZeRO-Offload: Democratizing Billion-Scale Model Training", "sec. 4, offload strategy"
)
_INPUT = cited(works.LLAMA_3, "sec. 3.3.1, storage")


def _choice(heading: str, bounds: tuple[float | str | None, float | str | None] = POSITIVE) -> Variable:
    return scope.declare(heading, bounds=bounds, reference=_CAPACITY, boundary="scenario")


# Capacity.
tokens = scope.declare(
    "tokens, T_r: tokens that a layer's router sends at once; unless given, those of a step",
    equals=tokens_per_step / number("1 token"),
    bounds=POSITIVE,
    reference=_CAPACITY,
)
mean_load = scope.declare(
    "expert.mean, l_m: tokens that an expert is asked for, on average",
    equals=tokens * shapes.experts_per_token / shapes.experts,
    bounds=POSITIVE,
    reference=_CAPACITY,
    target=True,
)
factor = _choice("expert.capacity_factor, c_f: tokens that an expert takes at most, over the mean")
capacity = scope.declare(
    "expert.capacity, l_c: tokens that an expert takes at most",
    equals=factor * mean_load,
    reference=_CAPACITY,
    target=True,
)
spread = scope.declare(
    "expert.spread, s_l: standard deviation of the tokens that an expert is asked for, where routers choose evenly",
    equals=(mean_load * (1 - shapes.experts_per_token / shapes.experts)) ** 0.5,
    bounds=POSITIVE,
    reference=_BINOMIAL,
)
asked = scope.declare("expert.asked, l_x: tokens that one expert is asked for", reference=_NORMAL, target=True)
scope.stochastic(
    asked, "normal", mean_load, spread, name="expert.distribution", meaning="binomial, by its normal limit",
    reference=_NORMAL,
)  # fmt: skip
_z = (capacity - mean_load) / spread
dropped = scope.declare(
    "expert.dropped, s_d [1 as %]: share of tokens that experts drop, where routers choose evenly",
    equals=spread / mean_load * (exp(-(_z**2) / 2) / math.sqrt(2 * math.pi) - _z * (1 - erf(_z / math.sqrt(2))) / 2),
    bounds=(-1e-9, 1),
    reference=_NORMAL,
    target=True,
)
# Losses of a router.
busy = _choice("balance.busy, n_b: experts that are sent more than the rest")
busy_share = _choice("balance.busy_share, f_b [1 as %]: share of tokens that they are sent together", (0, 1))
busy_chance = _choice("balance.busy_chance, p_b [1 as %]: probability that the router gives them together", (0, 1))
balance_loss = scope.declare(
    "balance.loss, L_b: experts by the sum of share and chance of each: 1 where all are even",
    equals=shapes.experts
    * (busy_share * busy_chance / busy + (1 - busy_share) * (1 - busy_chance) / maximum(shapes.experts - busy, 1)),
    reference=_BALANCE,
    target=True,
)
log_sum = scope.declare(
    "z_loss.log_sum, z_r: logarithm of the sum of a router's exponentials", bounds=ANY_SIGN, reference=_Z_LOSS,
    boundary="scenario",
)  # fmt: skip
balance_factor = scope.declare(
    "balance.factor, c_b: factor of the balance loss; unless given, 0.01", equals=0.01, reference=_BALANCE
)
z_factor = scope.declare(
    "z_loss.factor, c_z: factor of the router's z-loss; unless given, 0.001", equals=0.001, reference=_Z_LOSS
)
z_loss = scope.declare(
    "z_loss, L_z: loss of a router by balance and by its logits",
    equals=balance_factor * balance_loss + z_factor * log_sum**2,
    reference=_Z_LOSS,
    target=True,
)
# What latent attention saves.
full_elements = scope.declare(
    "cache.full_elements, k_f [1/token]: KV-cache elements of a token in one layer, had every head its own",
    equals=shapes.heads * (shapes.head_size + shapes.value_size) * number("1 1/token"),
    bounds=POSITIVE,
    reference=_LATENT,
)
compression = scope.declare(
    "cache.compression, k_c: those over the elements that the model keeps",
    equals=full_elements / cache.layer_elements,
    reference=_LATENT,
    target=True,
)
# Hosts.
host_bandwidth = scope.declare(
    "offload.bandwidth, B_h [byte/(s*GPU) as GB/(s*GPU)]: rate between a GPU and its host, one direction",
    bounds=POSITIVE,
    reference=_OFFLOAD,
    boundary="primitive",
)
offloaded = _choice("offload.share, s_of [1 as %]: share of the optimizer's states that lie with the host", (0, 1))
offload_bytes = scope.declare(
    "offload.bytes, S_of [byte as GB]: gradients and weights of those states that cross the bus in a step, by GPU",
    equals=offloaded * parallelism.owned_parameters * (optimizer.gradient_bytes + optimizer.weight_bytes),
    reference=_OFFLOAD,
    target=True,
)
offload_time = scope.declare(
    "offload.time, t_of [s]: time of that in a step, where nothing hides it",
    equals=offload_bytes / (host_bandwidth * number("1 GPU")),
    reference=_OFFLOAD,
    target=True,
)
offload_share = scope.declare(
    "offload.slowdown, k_of [1 as %]: that time over the step's",
    equals=offload_time / step_time,
    reference=by_definition("time over time"),
    target=True,
)
host_memory = scope.declare(
    "offload.memory, S_h [byte as GB]: states that lie with the host, by GPU",
    equals=offloaded * parallelism.owned_parameters * optimizer.state_bytes,
    reference=_OFFLOAD,
    target=True,
)
# Storage.
token_bytes = scope.declare(
    "input.token_bytes, b_t [byte/token]: bytes of a training token in storage", bounds=POSITIVE, reference=_INPUT,
    boundary="scenario",
)  # fmt: skip
input_rate = scope.declare(
    "input.rate, B_i [byte/s as MB/s]: bytes that a run reads from storage, by time",
    equals=training_run.tokens_per_second * token_bytes,
    reference=_INPUT,
    target=True,
)
store_rate = scope.declare(
    "input.store_rate, B_s [byte/s as GB/s]: bytes that storage delivers, by time", bounds=POSITIVE, reference=_INPUT,
    boundary="primitive",
)  # fmt: skip
stall = scope.declare(
    "input.stall, s_st [1 as %]: share of time in which a run waits for its samples",
    equals=maximum(1 - store_rate / input_rate, 0),
    bounds=(0, 1),
    reference=_INPUT,
    target=True,
)
input_use = scope.declare(
    "input.use, u_st [1 as %]: rate of a run's samples over what storage delivers",
    equals=input_rate / store_rate,
    reference=by_definition("rate over rate"),
    target=True,
)
input_time = scope.declare(
    "input.time, t_in [s]: time in which storage delivers the samples of a step",
    equals=tokens_per_step * token_bytes / store_rate,
    reference=_INPUT,
    target=True,
)
scope.approximation(
    step_time,
    maximum(compute_time + exposed_communication_time + offload_time, input_time),
    name="fed_step",
    valid=offloaded <= 1,
    meaning="with states that cross the host's bus, and no faster than samples arrive",
    reference=_OFFLOAD,
)
weights_by_gpu = scope.declare(
    "weights.by_gpu, N_g [1/GPU]: weights of the model by GPU of the job",
    equals=parameters.parameters / gpus,
    reference=by_definition("weights over GPUs"),
    target=True,
)
