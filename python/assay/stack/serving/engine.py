"""Constants of the serving software, fitted on measured serving figures per engine."""

from __future__ import annotations

from assay.model import POSITIVE, Variable, by_definition, cited, exp, fitted, log, number, where
from assay.stack import works
from assay.stack.architecture import shapes
from assay.stack.serving.deployment import expert_bytes, scope, weight_bytes

_FITTED = fitted("docs/design/serving-model.md", "measured serving figures")
_SETTING = by_definition("a setting of the engine")
_PAGED = cited(works.PAGED_ATTENTION, "sec. 4")
_GROUPED = cited(works.GQA)
_CLIENT = by_definition("a property of the client that sends the requests")


def _fitted(heading: str) -> Variable:
    return scope.declare(heading, reference=_FITTED, boundary="needs-source")


step_error = _fitted("model_error.step, e_s: model error: measured over predicted time of a step")
prompt_error = _fitted("model_error.prompt, e_p: model error: measured over predicted prefill time")
first_token_error = _fitted(
    "model_error.first_token, e_1: model error: measured over predicted TTFT, of how requests arrive and wait"
)


def _error_of(name: str, symbol: str, what: str) -> Variable:
    return scope.declare(
        f"model_error.{name}, {symbol}: model error: measured over predicted {what}. Unless given, 1",
        bounds=POSITIVE,
        equals=number("1"),
        reference=by_definition("a prediction is what is measured, unless an error is given"),
    )


power_error = _error_of("power", "e_g", "power of the boards")
energy_error = _error_of("energy", "e_j", "energy of the boards per output token")
interval_error = _error_of("interval", "e_50", "median of ITL, beside that of a step")
tail_error = _error_of("tail", "e_99", "99th percentile of ITL, beside that of a step")
memory_error = _error_of("memory", "e_m", "memory of weights and of activations")
transfer_error = _fitted("model_error.transfer, e_t: further model error on accelerators that no fit has seen")
experts_error = _fitted("model_error.experts, e_x: further model error of models with experts")
narrow_error = _fitted("model_error.narrow, e_n: further model error of weights of less than 8 bits")
unstated_error = _fitted("model_error.unstated, e_u: further model error of one input that is assumed")
unstated_inputs = scope.declare(
    "model_error.unstated_inputs, n_u: inputs that a description leaves open and a default stands for",
    bounds=(0, None),
    reference=_FITTED,
    boundary="needs-source",
)
_has_experts = shapes.experts > 0
_is_narrow = where(_has_experts, expert_bytes, weight_bytes) < number("1 byte")
further_error = scope.declare(
    "model_error.further, e_w: model error by what is served and by what is not known",
    equals=transfer_error
    * where(_has_experts, experts_error, number("1"))
    * where(_is_narrow, narrow_error, number("1"))
    * exp(log(unstated_error) * log(1 + unstated_inputs)),
    reference=by_definition("the product of independent errors"),
)
host_time = _fitted("host_time, t_h [s as ms]: host time between iterations")
host_sequence_time = _fitted("host_sequence_time, tau_h [s as us]: host time per decoding request and iteration")
request_time = _fitted("request_time, t_r [s as ms]: request overhead outside the model, before the first token")
launch_time = _fitted(
    "launch_time, t_l [s as us]: host time of a call of the model's code that launches kernels, without CUDA graphs"
)
eager = scope.flag(
    "eager, b_g: 1: the release launches the kernels of every iteration one by one; 0: decode in CUDA graphs",
    reference=_SETTING,
    boundary="needs-source",
)
synchronous = scope.flag(
    "synchronous, b_y: 1: the release sends the tokens of an iteration before it starts the next; 0: meanwhile",
    reference=_SETTING,
    boundary="needs-source",
)
kernel_gap = _fitted(
    "kernel_gap, t_g [s as us]: time between two kernels that the host launches one by one, beyond that in a CUDA graph"
)
stream_time = _fitted(
    "stream_time, tau_s [s as us]: host time per decoding request and iteration to send its token, where "
    "nothing overlaps it"
)
# Sampling by top-p or top-k orders all logits of a token; greedy sampling and temperature alone need no order.
sort_time = scope.declare(
    "sort_time, tau_v [s as ns]: time per logit to order it for top-p or top-k sampling. Unless given, 0: tokens are "
    "sampled without",
    bounds=(0, None),
    equals=number("0 s"),
    reference=cited("vLLM source code, v1/sample/ops/topk_topp_sampler.py", "apply_top_k_top_p: a sort of all logits"),
)
# Counts of every token of the vocabulary, for prompts and outputs, and what they subtract from logits.
penalty_time = scope.declare(
    "penalty_time, tau_p [s as ns]: time per logit to count tokens that were said before and to penalize them. Unless "
    "given, 0: tokens are sampled without",
    bounds=(0, None),
    equals=number("0 s"),
    reference=cited("vLLM source code, model_executor/layers/utils.py", "apply_penalties: counts of the vocabulary"),
)
# Penalties of tokens that were said before need all of them: engines copy their lists to the device in every iteration.
history_time = scope.declare(
    "history_time, tau_o [s as ns]: host time per iteration and token that a running request has put out, to copy it "
    "for penalties of repetition. Unless given, 0: tokens are sampled without",
    bounds=(0, None),
    equals=number("0 s"),
    reference=cited("vLLM source code, v1/sample/ops/penalties.py", "output tokens as a padded tensor, every step"),
)
layer_kernels = _fitted("layer_kernels, n_k: small kernels of a layer")
expert_kernels = _fitted("expert_kernels, n_x: further small kernels of a layer with experts")
reduction_wait = _fitted("reduction_wait, t_w [s as us]: synchronization time of GPUs before an all-reduce")
expert_slowdown = _fitted(
    "expert_slowdown, z_x: time of the engine's expert GEMMs above their roofline, over the fitted ones'"
)
prompt_expert_slowdown = _fitted(
    "prompt_expert_slowdown, z_p: the same in iterations with prefill: uneven routing and untuned tiles"
)
decode_slowdown = _fitted("decode_slowdown, z_d: time of the engine's decode attention over the fitted one")
narrow_key_time = _fitted("narrow_key_time, z_k: time of decode attention over 8-bit keys over 16-bit ones")
casting = _fitted("casting, f_8: share of 8-bit quantizations in separate kernels")
queue_factor = _fitted("queue_factor, q: queueing time in own prefill times when prefill fills every iteration")
first_iterations = scope.declare(
    "first_iterations, n_s: iterations before a first token reaches the client",
    reference=_SETTING,
    boundary="needs-source",
)
burst_share = scope.declare(
    "burst_share, phi: share of requests that arrive at once, at the start",
    bounds=(0, 1),
    reference=_CLIENT,
    boundary="needs-source",
)
step_share = scope.declare(
    "step_share, s_a: share of a batch that arrives together after its first request",
    bounds=(0, 1),
    reference=_CLIENT,
    boundary="needs-source",
)
run_requests = scope.declare(
    "run_requests, N_r [request]: requests of the whole run, whose end drains the batch",
    bounds=("positive", None),
    reference=_CLIENT,
    boundary="needs-source",
)
memory_share = scope.declare(
    "memory_share, u: share of GPU memory that the engine allocates",
    bounds=(0, 1),
    reference=_SETTING,
    boundary="needs-source",
)
logit_bytes = _fitted(
    "logit_bytes, B_v [byte]: bytes of a logit in all copies of it at the peak of sampling: in 16 and 32 bits, "
    "ordered with its place, as a probability"
)
reserved_memory = _fitted(
    "reserved_memory, M_r [byte as GB]: memory per GPU for the CUDA context, communication buffers and workspaces"
)
free_share = scope.declare(
    "free_share, u_f: share for the KV cache of the memory that is left",
    bounds=(0, 1),
    reference=_SETTING,
    boundary="needs-source",
)
counts_activations = scope.flag(
    "counts_activations, b_a: 1 where activations and buffers come out of the engine's share, 0 where out of the rest",
    reference=_SETTING,
    boundary="needs-source",
)
skips_window = scope.flag(
    "skips_window, b_w: 1: decode attention reads a sliding window only; 0: it reads the context and masks the rest",
    reference=_SETTING,
    boundary="needs-source",
)
block_tokens = scope.declare(
    "block_tokens, n_t [token]: tokens of a block of the paged KV cache",
    bounds=("positive", None),
    reference=_PAGED,
    boundary="needs-source",
)
reserved_output = scope.declare(
    "reserved_output, kappa: average share of the output whose KV cache is allocated",
    bounds=(0, 1),
    reference=_PAGED,
    boundary="needs-source",
)
group_limit = scope.declare(
    "group_limit, g_max: most query heads that share one read of a key in decode",
    bounds=(1, None),
    reference=_GROUPED,
    boundary="needs-source",
)
