"""TPOT, TTFT, throughput, and utilization of memory and peak."""

from __future__ import annotations

from assay.model import POSITIVE, by_definition, cited, log, maximum, minimum, number, where
from assay.stack import interconnect, works
from assay.stack.kernels import device
from assay.stack.serving import deployment as d, engine, loads, memory
from assay.stack.serving.deployment import ONE_REQUEST, ONE_TOKEN, scope

_ORCA = cited(works.ORCA, "sec. 3 and 4")
_CHUNKED = cited(works.SARATHI_SERVE, "sec. 3 and 4")
_LITTLE = cited(works.LITTLES_LAW)
_BOUNDS = cited(
    "Denning and Buzen 1978, The Operational Analysis of Queueing Network Models",
    "asymptotic bounds of a closed system: throughput by its bottleneck, response time by Little's law",
)
_DISTSERVE = cited(works.DIST_SERVE, "sec. 1 and 2.1")
_SPLITWISE = cited(works.SPLITWISE, "sec. 4.3")
_ROOFLINE = cited(works.ROOFLINE, "The Roofline Model")
_POISSON = cited("Kingman 1993, Poisson Processes", "sec. 1.4, the normal approximation")
_CORNISH_FISHER = cited(
    "Cornish and Fisher 1938, Moments and Cumulants in the Specification of Distributions", "quantiles by cumulants"
)
_Z99 = 2.326
_TAIL = 0.01
_LOG_2 = 0.6931
_CLIENT = by_definition("mean over the requests of a client that starts many at once")

# Of requests that start all at once, the first wait for the prompts of the last, so that on
# average half of the prompts run between a request's own tokens; later on all of them do, but for its own.
_prompts_of_others = loads.prompt_share * loads.others_share
prompts_between = (1 - engine.burst_share / 2) * _prompts_of_others
stretch = maximum(loads.mixed.time - loads.decode.time, number("0 s"))
step_error = engine.further_error * engine.step_error
step_time = scope.declare(
    "step_time, t_s [s as ms]: time per output token (TPOT)",
    equals=step_error * where(d.static | d.separate, loads.decode.time, loads.decode.time + prompts_between * stretch),
    reference=_CHUNKED,
)
# With every place taken, iterations have as many more prompts as decoding requests.
_full_share = loads.prompt_share * loads.most_decoding / loads.decoding
full_iteration_time = step_error * (loads.decode.time + _full_share * stretch)
# A request's interval between tokens is an iteration. Prompts that start in one are about Poisson: with fewer than
# log 2 of them most iterations have none; with more, the median has about log 2 fewer than the mean.
_starting = (1 - d.static) * (1 - d.separate) * loads.prompt_rate * loads.others_share * ONE_TOKEN / d.prompt
_prompt_stretch = stretch / loads.prompts
_most_prompts = loads.budget * ONE_TOKEN / d.prompt
median_interval = scope.declare(
    "median_interval, ITL_50 [s as ms]: median time between two tokens of a request (ITL)",
    equals=step_error
    * engine.interval_error
    * (loads.decode.time + _prompt_stretch * minimum(maximum(_starting - _LOG_2, 0), _most_prompts)),
    reference=_POISSON,
    target=True,
)
# Their prefill is a compound Poisson sum: the expansion of Cornish and Fisher gives its 99th percentile, in prompts of
# one length and of exponential lengths. Where few start, it is that of the longest; below one in a hundred, none.
_SKEW_99 = (_Z99**2 - 1) / 6
_equal_prompts = _starting + _Z99 * _starting**0.5 + _SKEW_99
_varied_prompts = minimum(
    _starting + _Z99 * (2 * _starting) ** 0.5 + 3 * _SKEW_99, log(maximum(_starting, _TAIL) / _TAIL) + 1.5 * _starting
)
_tail_prompts = where(
    _starting > _TAIL, (1 - d.prompt_variation) * _equal_prompts + d.prompt_variation * _varied_prompts, number("0")
)
tail_interval = scope.declare(
    "tail_interval, ITL_99 [s as ms]: time between two tokens of a request that one in a hundred exceeds",
    equals=step_error
    * engine.tail_error
    * (loads.decode.time + _prompt_stretch * minimum(_tail_prompts, _most_prompts)),
    reference=_CORNISH_FISHER,
    target=True,
)
time_per_output_token = scope.declare(
    "time_per_output_token, TPOT [s/token as ms/token]: time per output token (TPOT)",
    equals=step_time / ONE_TOKEN,
    reference=_ORCA,
    target=True,
)

_prompt_error = engine.further_error * engine.prompt_error
bursts = memory.batch / ONE_REQUEST * d.prompt / ONE_TOKEN / loads.burst_tokens
burst_time = scope.declare(
    "burst_time, t_b [s as ms]: prefill time of a whole batch",
    equals=_prompt_error * bursts * loads.burst.time,
    reference=_ORCA,
)
own_time = scope.declare(
    "own_prompt_time, t_o [s as ms]: time of the prefill iterations of a request",
    equals=_prompt_error * loads.chunks * loads.mixed.time,
    reference=_CHUNKED,
)
# Outputs of one length that started together end together, and their successors start together:
# part of a batch stays synchronized, whatever its size.
group = 1 + engine.step_share * (memory.batch / ONE_REQUEST - 1)
steady_time = scope.declare(
    "steady_prompt_time, t_y [s as ms]: prefill time of requests after the first batch",
    equals=own_time * (1 + engine.queue_factor * _prompts_of_others)
    + _prompt_error * loads.chunks * stretch / loads.prompts * maximum(group - loads.prompts, 0) / 2
    + where(memory.batch > ONE_REQUEST, step_time / 2, number("0 s")),
    reference=_CHUNKED,
)
mean_burst_time = (burst_time + loads.burst.time) / 2
prompt_time = scope.declare(
    "prompt_time, t_p [s as ms]: time from arrival to the end of prefill",
    equals=where(
        d.static,
        burst_time,
        (1 - engine.burst_share) * steady_time + engine.burst_share * maximum(mean_burst_time, steady_time),
    ),
    reference=_CLIENT,
)
transfer_time = scope.declare(
    "transfer_time, t_x [s as ms]: KV-cache transfer time to the decode GPUs",
    equals=d.separate * d.prompt * memory.token_memory / (interconnect.nic_rate * d.attention_ranks * d.pipeline),
    reference=_SPLITWISE,
)
answer_time = scope.declare(
    "answer_time, t_a [s]: time that a request holds its place in the batch",
    equals=where(
        d.separate,
        # Prefill runs on other GPUs; a request holds its place while its keys and values arrive.
        transfer_time + maximum(d.output / ONE_TOKEN - 1, 1) * step_time,
        where(d.static, burst_time, own_time) + maximum(d.output / ONE_TOKEN - 1, 0) * step_time,
    ),
    reference=_LITTLE,
)
unqueued_first_token_time = scope.declare(
    "unqueued_first_token_time, t_1 [s as ms]: mean TTFT of requests that the engine keeps up with",
    equals=engine.first_token_error
    * (engine.request_time + prompt_time + transfer_time + engine.first_iterations * step_time),
    reference=_DISTSERVE,
)
tokens_time = maximum(d.output / ONE_TOKEN - 1, 0) * step_time
# Iterations end as many requests as start; a batch ends as many as it has places.
capacity = scope.declare(
    "capacity, lambda_max [request/s]: most requests per second that this batch completes, by places and by tokens",
    equals=where(
        d.static | d.separate,
        memory.batch / answer_time,
        minimum(
            memory.batch / answer_time,
            loads.most_decoding * d.pipeline * ONE_REQUEST * ONE_TOKEN / (d.output * full_iteration_time),
        ),
    ),
    reference=_BOUNDS,
)
waiting_time = scope.declare(
    "waiting_time, t_w [s as ms]: queueing time of requests beyond the capacity",
    equals=maximum(d.concurrency / capacity - tokens_time - unqueued_first_token_time, number("0 s")),
    reference=_BOUNDS,
)
time_to_first_token = scope.declare(
    "time_to_first_token, TTFT [s as ms]: mean time to first token (TTFT)",
    equals=unqueued_first_token_time + waiting_time,
    reference=_DISTSERVE,
    target=True,
)

end_to_end_time = scope.declare(
    "end_to_end_time, t_e [s]: mean end-to-end latency of a request",
    equals=time_to_first_token + tokens_time,
    reference=_DISTSERVE,
    target=True,
)
request_rate = scope.declare(
    "request_rate, lambda [request/s]: completed requests per second while all concurrent requests are there",
    equals=d.concurrency / end_to_end_time,
    reference=_LITTLE,
    target=True,
)
# After its last prompt a run decodes on with fewer and fewer requests, for one answer's time.
drain_time = scope.declare(
    "drain_time, t_d [s]: time from the last prompt of a run to its end",
    equals=d.output / ONE_TOKEN * engine.further_error * engine.step_error * loads.decode.time,
    reference=_ORCA,
)
throughput = scope.declare(
    "throughput, X [token/s]: output tokens per second of the deployment, over the whole run",
    equals=request_rate
    * d.output
    / ONE_REQUEST
    * engine.run_requests
    / (engine.run_requests + request_rate * drain_time),
    reference=_LITTLE,
    target=True,
)
prompt_throughput = scope.declare(
    "prompt_throughput, X_p [token/s]: input tokens per second of an instance that runs prefill only",
    equals=d.pipeline * ONE_TOKEN * loads.burst_tokens / loads.burst.time,
    reference=_DISTSERVE,
    target=True,
)
prefill_instances = scope.declare(
    "prefill_instances, n_p: prefill instances that keep up with one decode instance, a share where it feeds several",
    equals=d.separate * request_rate * d.prompt / ONE_REQUEST / prompt_throughput,
    reference=_DISTSERVE,
    target=True,
)
gpus = scope.declare(
    "gpus, n_GPU [GPU]: GPUs of one deployment, with its share of prefill instances",
    equals=d.instance_gpus * (1 + prefill_instances),
    bounds=POSITIVE,
    reference=_DISTSERVE,
)
throughput_per_gpu = scope.declare(
    "throughput_per_gpu, X_g [token/(s*GPU)]: output tokens per second of each GPU",
    equals=throughput / gpus,
    reference=_LITTLE,
    target=True,
)
request_gpu_time = scope.declare(
    "request_gpu_time, t_g [s*GPU/request]: GPU time of a request, prefill and decode",
    equals=gpus / request_rate,
    reference=_LITTLE,
    target=True,
)

step_size = loads.decode.size + loads.prompt_share * (loads.mixed.size - loads.decode.size)
memory_use = scope.declare(
    "memory_use, u_m [1 as %]: memory-bandwidth utilization of serving",
    equals=step_size / (step_time * device.memory_bandwidth),
    reference=_ROOFLINE,
    target=True,
)
step_flops = loads.decode.flops + loads.prompt_share * (loads.mixed.flops - loads.decode.flops)
peak_use = scope.declare(
    "peak_use, u_c [1 as %]: FLOPs utilization of serving at its formats",
    equals=step_flops / (step_time * device.peak_flops * device.rate_multiple(d.compute_bits)),
    reference=_ROOFLINE,
    target=True,
)
prompt_peak_use = scope.declare(
    "prompt_peak_use, u_p [1 as %]: FLOPs utilization of prefill",
    equals=loads.burst.flops / (loads.burst.time * device.peak_flops * device.rate_multiple(d.compute_bits)),
    reference=_ROOFLINE,
    target=True,
)
decode_memory_use = scope.declare(
    "decode_memory_use, u_d [1 as %]: memory-bandwidth utilization of decode",
    equals=loads.decode.size / (loads.decode.time * device.memory_bandwidth),
    reference=_ROOFLINE,
    target=True,
)
prompt_memory_use = scope.declare(
    "prompt_memory_use, u_b [1 as %]: memory-bandwidth utilization of prefill",
    equals=loads.burst.size / (loads.burst.time * device.memory_bandwidth),
    reference=_ROOFLINE,
    target=True,
)
