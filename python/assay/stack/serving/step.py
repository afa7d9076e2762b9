"""One step as it is asked for: sequences with their context, tokens of prompts, graphs or not.

The iterations of `loads` follow from a deployment and its requests; this one is given its load, and
declares the work of each operation of a layer, which the planner lays out as a timeline.
"""

from __future__ import annotations

from assay.model import POSITIVE, by_definition, cited, maximum, minimum, number, where
from assay.stack import works
from assay.stack.architecture import shapes as model
from assay.stack.gpu import power as gpu_power
from assay.stack.kernels import device, passes
from assay.stack.serving import deployment as d, engine, iteration
from assay.stack.serving.deployment import ONE_TOKEN, scope
from assay.stack.serving.load import Load

_ASKED = by_definition("a choice of who asks for the step")
_SPECULATION = cited(
    "Leviathan, Kalman and Matias 2023, Fast Inference from Transformers via Speculative Decoding",
    "eq. 1, expected tokens of a step",
)
_CONTEXT = cited("Liu, Zaharia and Abbeel 2023, Ring Attention with Blockwise Transformers", "sec. 3")
_GRAPHS = cited(works.CUDA_GUIDE, "CUDA graphs: launch cost on the host")
_ORCA = cited(works.ORCA, "sec. 3 and 4")
_ACTIVE = cited(works.DCGM, "profiling metrics")
_CHUNKED = cited(works.SARATHI_SERVE, "sec. 4")
_LOGITS = cited("vLLM source code, v1/sample/sampler.py", "logits in 32 bits, then argmax or top-p")

sequences = scope.declare(
    "step.sequences, n_s: sequences that decode in the step, of one pipeline stage",
    reference=_ASKED,
    boundary="scenario",
)
context = scope.declare(
    "step.context, s_c [token]: tokens in the KV cache of a decoding sequence, mean",
    reference=_ASKED,
    boundary="scenario",
)
prefill_tokens = scope.declare(
    "step.prefill_tokens, n_p: tokens of prompts in the step", reference=_ASKED, boundary="scenario"
)
prompt = scope.declare(
    "step.prompt, s_p [token]: length of each prompt, of which the step has a chunk or all",
    reference=_ASKED,
    boundary="scenario",
)
draft_tokens = scope.declare(
    "step.draft_tokens, gamma: tokens of a sequence that speculation drafts; 0: none",
    reference=_SPECULATION,
    boundary="scenario",
)
acceptance = scope.declare(
    "step.acceptance, alpha: probability that a drafted token is accepted",
    bounds=(0, 1),
    reference=_SPECULATION,
    boundary="scenario",
)
context_ranks = scope.declare(
    "step.context_ranks, c: context-parallel GPUs, each with a part of the KV cache of every sequence",
    bounds=(1, None),
    reference=_CONTEXT,
    boundary="scenario",
)
eager = scope.flag(
    "step.eager, b_e: 1: the host launches every kernel; 0: it launches CUDA graphs",
    reference=_GRAPHS,
    boundary="scenario",
)
head_bytes = scope.declare(
    "step.head_bytes, B_h [byte]: bytes of a stored weight of the output projection",
    bounds=POSITIVE,
    reference=_ASKED,
    boundary="scenario",
)
unpacking_time = scope.declare(
    "step.unpacking_time, tau_u [s as ps]: time to dequantize one stored weight before its GEMM",
    reference=_ASKED,
    boundary="scenario",
)
launches = scope.declare(
    "step.launches, n_l: calls of the model's code that launch kernels in the step",
    reference=_GRAPHS,
    boundary="scenario",
)
outer_kernels = scope.declare(
    "step.outer_kernels, n_o: kernels outside layers: inputs, embedding, sampling",
    reference=_GRAPHS,
    boundary="scenario",
)

_load = Load(
    sequences,
    context / context_ranks,
    prefill_tokens,
    prompt,
    draft_tokens + 1,
    optional=True,
    context_ranks=context_ranks,
    unpacking=unpacking_time,
    head_element=head_bytes,
)
step = iteration.declare("step.", "the step", _load, itemized=True)

# Host time was fitted on whole steps, so that it contains the kernels outside of layers.
_sampled = sequences * (draft_tokens + 1) + prefill_tokens / maximum(prompt / ONE_TOKEN, 1)
outer = passes.declare(
    scope,
    "step.outer_passes.",
    size=_sampled * model.vocabulary / d.tensor * number("14 byte")
    + (sequences * (draft_tokens + 1) + prefill_tokens) * model.hidden * number("8 byte"),
    kernels=maximum(outer_kernels, 1),
    what="the passes outside of layers",
)
outer_time = scope.declare(
    "step.outer_time, t_o [s as us]: kernels outside of layers, which host time contains",
    equals=minimum(outer.time, step.host_time),
    reference=_LOGITS,
)
waiting_time = scope.declare(
    "step.host_waiting_time, t_w [s as us]: time of the step in which the device waits for the host",
    equals=step.host_time - outer_time,
    reference=_ORCA,
    target=True,
)
launch_time = scope.declare(
    "step.launch_time, t_l [s as ms]: host time of every call that launches kernels, one by one",
    equals=launches * engine.launch_time,
    reference=_GRAPHS,
)
busy_time = step.time - step.host_time
_error = engine.further_error * where(prefill_tokens > 0, engine.prompt_error, engine.step_error)
wall_time = scope.declare(
    "step.wall_time, t [s as ms]: time of the step as the engine runs it",
    equals=_error * where(eager, maximum(busy_time, launch_time) + step.host_time, step.time),
    reference=_GRAPHS,
    target=True,
)
emitted = scope.declare(
    "step.emitted_tokens, n_t: tokens that a decoding sequence gains in the step",
    equals=where(
        acceptance >= 1, draft_tokens + 1, (1 - acceptance ** (draft_tokens + 1)) / (1 - minimum(acceptance, 1 - 1e-9))
    ),
    reference=_SPECULATION,
)
# All stages work on sequences of their own, so that a step of each ends in one step's time.
tokens_per_second = scope.declare(
    "step.tokens_per_second, X [token/s]: output tokens per second of decoding sequences",
    equals=ONE_TOKEN * sequences * d.pipeline * emitted / wall_time,
    reference=_ORCA,
    target=True,
)
time_to_first_token = scope.declare(
    "step.time_to_first_token, TTFT [s as ms]: time to first token of a request that waits for nothing but its "
    "own chunks",
    equals=engine.first_token_error
    * (engine.request_time + maximum(prompt / ONE_TOKEN / maximum(prefill_tokens, 1), 1) * wall_time),
    reference=_CHUNKED,
    target=True,
)
gpus = scope.declare(
    "step.gpus, n_g [GPU]: GPUs of one instance, context-parallel ones included",
    equals=d.instance_gpus * context_ranks,
    bounds=POSITIVE,
    reference=_CONTEXT,
)
energy_per_token = scope.declare(
    "step.energy_per_token, e [J/token]: energy of the GPUs per output token",
    equals=gpu_power.power * gpus / tokens_per_second,
    reference=by_definition("power over rate"),
    target=True,
)

_asked = sequences + prefill_tokens > 0
_busy = step.benchmark_time - step.host_time
scope.approximation(
    gpu_power.work_tensor_use,
    minimum(step.issued / (_busy * device.peak_flops * device.rate_multiple(d.compute_bits)), 1),
    valid=_asked,
    name="step.tensor_use",
    meaning="tensor-core utilization of the step",
    reference=_ACTIVE,
)
scope.approximation(
    gpu_power.work_memory_use,
    minimum(step.size / (_busy * device.memory_bandwidth), 1),
    valid=_asked,
    name="step.memory_use",
    meaning="memory-bandwidth utilization of the step",
    reference=_ACTIVE,
)
scope.approximation(
    gpu_power.work_clock_share,
    minimum(step.clock_bound / _busy, 1),
    valid=_asked,
    name="step.clock_share",
    meaning="clock-bound share of the step",
    reference=by_definition("clock-bound time over busy time"),
)
scope.approximation(
    gpu_power.duty,
    minimum(busy_time / wall_time, 1),
    valid=_asked,
    name="step.duty",
    meaning="share of the step in which kernels run",
    reference=_ACTIVE,
)
