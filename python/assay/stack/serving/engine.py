"""Constants of the serving software, fitted on measured serving figures per engine."""

from __future__ import annotations

from assay.model import Variable, by_definition, cited, exp, fitted, log, number, where
from assay.stack import architecture
from assay.stack.serving.deployment import expert_bytes, scope, weight_bytes

_FITTED = fitted("docs/design/serving-model.md", "measured serving figures")
_SETTING = by_definition("a setting of the engine")
_PAGED = cited(
    "Kwon et al. 2023, Efficient Memory Management for Large Language Model Serving with "
    "PagedAttention",
    "sec. 4",
)
_GROUPED = cited(
    "Ainslie et al. 2023, GQA: Training Generalized Multi-Query Transformer Models from "
    "Multi-Head Checkpoints"
)
_CLIENT = by_definition("a property of the client that sends the requests")


def _fitted(name: str, symbol: str, unit: str, display: str, meaning: str) -> Variable:
    return scope.variable(
        name, symbol, unit, meaning, display=display, reference=_FITTED, boundary="needs-source"
    )


step_error = _fitted(
    "model_error.step", "e_s", "1", "1", "model error: measured over predicted time of a step"
)
prompt_error = _fitted(
    "model_error.prompt", "e_p", "1", "1", "model error: measured over predicted prefill time"
)
first_token_error = _fitted(
    "model_error.first_token",
    "e_1",
    "1",
    "1",
    "model error: measured over predicted TTFT, of how requests arrive and wait",
)
transfer_error = _fitted(
    "model_error.transfer",
    "e_t",
    "1",
    "1",
    "further model error on accelerators that no fit has seen",
)
experts_error = _fitted(
    "model_error.experts", "e_x", "1", "1", "further model error of models with experts"
)
narrow_error = _fitted(
    "model_error.narrow", "e_n", "1", "1", "further model error of weights of less than 8 bits"
)
unstated_error = _fitted(
    "model_error.unstated", "e_u", "1", "1", "further model error of one input that is assumed"
)
unstated_inputs = scope.variable(
    "model_error.unstated_inputs", "n_u", "1",
    "inputs that a description leaves open and a default stands for",
    bounds=(0, None), reference=_FITTED, boundary="needs-source",
)  # fmt: skip
_has_experts = architecture.experts > 0
_is_narrow = where(_has_experts, expert_bytes, weight_bytes) < number("1 byte")
further_error = scope.variable(
    "model_error.further", "e_w", "1", "model error by what is served and by what is not known",
    equals=transfer_error
    * where(_has_experts, experts_error, number("1"))
    * where(_is_narrow, narrow_error, number("1"))
    * exp(log(unstated_error) * log(1 + unstated_inputs)),
    reference=by_definition("the product of independent errors"),
)  # fmt: skip
host_time = _fitted("host_time", "t_h", "s", "ms", "host time between iterations")
host_sequence_time = _fitted(
    "host_sequence_time", "tau_h", "s", "us", "host time per decoding request and iteration"
)
request_time = _fitted(
    "request_time", "t_r", "s", "ms", "request overhead outside the model, before the first token"
)
launch_time = _fitted(
    "launch_time", "t_l", "s", "us",
    "host time of a call of the model's code that launches kernels, without CUDA graphs",
)  # fmt: skip
eager = scope.variable(
    "eager", "b_g", "1",
    "1: the release launches the kernels of every iteration one by one; 0: decode in CUDA graphs",
    bounds=(0, 1), reference=_SETTING, boundary="needs-source",
)  # fmt: skip
synchronous = scope.variable(
    "synchronous", "b_y", "1",
    "1: the release sends the tokens of an iteration before it starts the next; 0: meanwhile",
    bounds=(0, 1), reference=_SETTING, boundary="needs-source",
)  # fmt: skip
kernel_gap = _fitted(
    "kernel_gap", "t_g", "s", "us",
    "time between two kernels that the host launches one by one, beyond that in a CUDA graph",
)  # fmt: skip
stream_time = _fitted(
    "stream_time", "tau_s", "s", "us",
    "host time per decoding request and iteration to send its token, where nothing overlaps it",
)  # fmt: skip
layer_kernels = _fitted("layer_kernels", "n_k", "1", "1", "small kernels of a layer")
expert_kernels = _fitted(
    "expert_kernels", "n_x", "1", "1", "further small kernels of a layer with experts"
)
reduction_wait = _fitted(
    "reduction_wait", "t_w", "s", "us", "synchronization time of GPUs before an all-reduce"
)
expert_slowdown = _fitted(
    "expert_slowdown", "z_x", "1", "1",
    "time of the engine's expert GEMMs above their roofline, over the fitted ones'",
)  # fmt: skip
prompt_expert_slowdown = _fitted(
    "prompt_expert_slowdown", "z_p", "1", "1",
    "the same in iterations with prefill: uneven routing and untuned tiles",
)  # fmt: skip
decode_slowdown = _fitted(
    "decode_slowdown", "z_d", "1", "1", "time of the engine's decode attention over the fitted one"
)
narrow_key_time = _fitted(
    "narrow_key_time", "z_k", "1", "1", "time of decode attention over 8-bit keys over 16-bit ones"
)
casting = _fitted("casting", "f_8", "1", "1", "share of 8-bit quantizations in separate kernels")
waiting_requests = _fitted(
    "waiting_requests", "n_w", "request", "request",
    "requests of a closed loop beyond those that the engine runs, which always wait",
)  # fmt: skip
queue_factor = _fitted(
    "queue_factor",
    "q",
    "1",
    "1",
    "queueing time in own prefill times when prefill fills every iteration",
)
first_iterations = scope.variable(
    "first_iterations", "n_s", "1", "iterations before a first token reaches the client",
    reference=_SETTING, boundary="needs-source",
)  # fmt: skip
burst_share = scope.variable(
    "burst_share", "phi", "1", "share of requests that arrive at once, at the start",
    bounds=(0, 1), reference=_CLIENT, boundary="needs-source",
)  # fmt: skip
step_share = scope.variable(
    "step_share", "s_a", "1", "share of a batch that arrives together after its first request",
    bounds=(0, 1), reference=_CLIENT, boundary="needs-source",
)  # fmt: skip
run_requests = scope.variable(
    "run_requests", "N_r", "request", "requests of the whole run, whose end drains the batch",
    bounds=("positive", None), reference=_CLIENT, boundary="needs-source",
)  # fmt: skip
memory_share = scope.variable(
    "memory_share", "u", "1", "share of GPU memory that the engine allocates", bounds=(0, 1),
    reference=_SETTING, boundary="needs-source",
)  # fmt: skip
reserved_memory = _fitted(
    "reserved_memory", "M_r", "byte", "GB",
    "memory per GPU for the CUDA context, communication buffers and workspaces",
)  # fmt: skip
free_share = scope.variable(
    "free_share", "u_f", "1", "share for the KV cache of the memory that is left",
    bounds=(0, 1), reference=_SETTING, boundary="needs-source",
)  # fmt: skip
counts_activations = scope.variable(
    "counts_activations", "b_a", "1",
    "1 where activations and buffers come out of the engine's share, 0 where out of the rest",
    bounds=(0, 1), reference=_SETTING, boundary="needs-source",
)  # fmt: skip
skips_window = scope.variable(
    "skips_window", "b_w", "1",
    "1: decode attention reads a sliding window only; 0: it reads the context and masks the rest",
    bounds=(0, 1), reference=_SETTING, boundary="needs-source",
)  # fmt: skip
block_tokens = scope.variable(
    "block_tokens", "n_t", "token", "tokens of a block of the paged KV cache",
    bounds=("positive", None), reference=_PAGED, boundary="needs-source",
)  # fmt: skip
reserved_output = scope.variable(
    "reserved_output", "kappa", "1", "average share of the output whose KV cache is allocated",
    bounds=(0, 1), reference=_PAGED, boundary="needs-source",
)  # fmt: skip
group_limit = scope.variable(
    "group_limit", "g_max", "1", "most query heads that share one read of a key in decode",
    bounds=(1, None), reference=_GROUPED, boundary="needs-source",
)  # fmt: skip
