"""One iteration of an engine: decoding requests, each with one token, and tokens of prompts.

An iteration is declared once for every load that a latency needs; what is multiplied, attended
to, passed over and reduced are instances of the kernels' and the collectives' templates.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from assay.model import Expression, Variable, cited, maximum, minimum, number, where
from assay.stack import interconnect, works
from assay.stack.architecture import parameters, shapes
from assay.stack.collectives import node, templates
from assay.stack.kernels import device
from assay.stack.serving import attention, deployment as d, engine, exchange, feed_forward
from assay.stack.serving.deployment import ONE_TOKEN, scope
from assay.stack.serving.load import BYTES_16_BIT, NO_TIME, NO_WORK, SUM, Load, Step, Work

_MEGATRON = cited(works.MEGATRON, "sec. 3")
_FLASH = cited(works.FLASH_ATTENTION)
_ROOFLINE = cited(works.ROOFLINE, "The Roofline Model")

# Of the output projection, which is multiplied in 16 bits and may be stored in fewer.
_HEAD = minimum(d.embedding_bytes, BYTES_16_BIT)
_PASS_RATE = number("2.7e12 byte/s")
"""Bytes of passes over logits by their time: the rate that `sort_time` and `penalty_time` were estimated with."""
_DENSE_KERNELS = 7
"""Kernels of a layer besides the small ones: four GEMMs, attention, and two all-reduces or norms."""


@dataclass(frozen=True)
class Iteration:
    """Time of an iteration, and its bytes and FLOPs per GPU.

    `floor` is the sum of the rooflines of its kernels; `benchmark_time` is the time at the clock of
    the kernels' benchmarks, of which `clock_bound` grows as the power limit lowers the clock;
    `host_time` passes without kernels; `issued` counts FLOPs with the padding of tensor-core tiles.
    """

    time: Variable
    size: Variable
    flops: Variable
    floor: Variable
    benchmark_time: Variable
    clock_bound: Variable
    host_time: Variable
    issued: Variable


def declare(prefix: str, what: str, load: Load, *, itemized: bool = False) -> Iteration:
    """Declare the time of one iteration under a prefix, itemized by operation where asked."""
    step = Step(prefix, what, load, itemized=itemized)
    parts = {
        "projection": (attention.projections(step), _MEGATRON),
        "attention": (attention.attention(step), _FLASH),
        "feed_forward": (feed_forward.feed_forward(step), _MEGATRON),
        "pass": (feed_forward.small(step), SUM),
    }
    times: list[Expression] = []
    total = _logits(step).times(d.micro_batches)
    times.append(total.time)
    for name, (one, reference) in parts.items():
        work = one.times(d.micro_batches)
        meaning = f"{name.replace('_', ' ')} kernels of all layers in {what}"
        times.append(step.declare(f"{name}_time, t_k [s as ms]: {meaning}", work.time, reference))
        total = total + work
    times.append(_reductions(step, sum(times[1:], times[0])))
    if not step.load.optional:
        # Every rank orders and penalizes all logits, in passes that move bytes and compute nothing.
        logits = shapes.vocabulary * step.sampled * d.micro_batches
        sampling = (engine.sort_time + engine.penalty_time) * logits
        times.append(sampling)
        total = total + replace(NO_WORK, size=_PASS_RATE * sampling)
    # Every attention replica has a scheduler of its own, for its requests.
    host = step.declare(
        f"host_time, t_h [s as ms]: time of {what} without kernels",
        engine.host_time
        + engine.host_sequence_time * step.own_decoding * d.micro_batches
        + _one_by_one(step)
        + _waiting_for_history(step, sum(times[1:], times[0])),
        SUM,
    )
    sends: Expression = (d.pipeline - 1) * interconnect.link_latency
    if step.itemized:
        sends = step.declare(f"operation.send.time, t [s as ms]: time between pipeline stages in {what}", sends, SUM)
    benchmark_time = step.declare(
        f"benchmark_time, t_0 [s as ms]: time of {what} at the clock of the kernels' benchmarks",
        sum(times, host + sends),
        SUM,
    )
    clock_bound = step.declare(
        f"clock_bound_time, t_f [s as ms]: time of {what} that grows as the power limit lowers the clock",
        total.clock_bound,
        SUM,
    )
    floor = scope.declare(
        f"{prefix}floor_time, t_min [s as ms]: sum of the rooflines of the kernels of {what}",
        equals=total.floor,
        reference=_ROOFLINE,
        target=True,
    )
    time = step.declare(
        f"time, t [s as ms]: time of {what}",
        maximum(benchmark_time + clock_bound * (1 / device.clock_ratio - 1), floor),
        SUM,
    )
    size = step.declare(f"size, S [byte as GB]: bytes moved per GPU in {what}", total.size, _ROOFLINE)
    flops = step.declare(f"flops, F [FLOP as TFLOP]: FLOPs per GPU in {what}", total.flops, _ROOFLINE)
    issued = step.declare(
        f"issued_flops, F_i [FLOP as TFLOP]: FLOPs per GPU in {what}, with the padding of tensor-core tiles",
        flops + total.padding,
        _ROOFLINE,
    )
    return Iteration(time, size, flops, floor, benchmark_time, clock_bound, host, issued)


def _one_by_one(step: Step) -> Expression:
    """Time without kernels of releases that launch them one by one, or send tokens in between.

    A step that is asked for says itself whether it runs in CUDA graphs.
    """
    if step.load.optional:
        return NO_TIME
    kernels = shapes.layers * (engine.layer_kernels + _DENSE_KERNELS)
    kernels = kernels + parameters.expert_layers * engine.expert_kernels
    sending = engine.synchronous * engine.stream_time * step.own_decoding
    return (engine.eager * engine.kernel_gap * kernels + sending) * d.micro_batches


def _waiting_for_history(step: Step, computing: Expression) -> Expression:
    """Time in which the kernels wait for copies of all output tokens, which the host makes while they run."""
    if step.load.optional or step.load.decoding is None:
        return NO_TIME
    said = maximum((step.load.context - step.load.prompt) / ONE_TOKEN, 0)
    tokens = step.own_decoding * d.micro_batches * said
    return maximum(engine.history_time * tokens - computing, NO_TIME)


def _logits(step: Step) -> Work:
    """Logits of the sampled tokens: one per decoding request and per finished prompt."""
    work = step.gemm(
        "logits",
        "logits",
        step.sampled,
        shapes.vocabulary / d.tensor,
        shapes.hidden,
        in_16_bits=True,
        element=step.load.head_element if step.load.head_element is not None else _HEAD,
    )
    return step.item("logits", "logits", work)


def _reductions(step: Step, computing: Expression) -> Variable:
    """Sums over GPUs after attention and after the feed-forward of all layers.

    An exchange of tokens between experts hides behind what another micro-batch computes.
    """
    # With replicas, an all-gather of tokens and a reduce-scatter cost as much as an all-reduce.
    attended = _reduction(step, "attention_sum", step.own * shapes.hidden, d.attention_ranks)
    mixed = _reduction(step, "feed_forward_sum", step.tokens * shapes.hidden, d.tensor)
    sent = parameters.expert_layers * exchange.declare(step) * d.micro_batches
    exposed = where(d.micro_batches > 1, maximum(sent - computing, NO_TIME), sent)
    times = where(
        d.exchanges,
        d.micro_batches * shapes.layers * attended + exposed,
        d.micro_batches * shapes.layers * (attended + mixed),
    )
    if step.load.context_ranks is not None:
        outputs = step.own * parameters.output_size / d.attention_ranks
        merged = _reduction(step, "context_sum", outputs, step.load.context_ranks)
        times = times + d.micro_batches * parameters.attention_layers * merged
    return step.declare(
        f"reduction_time, t_r [s as ms]: all-reduces, and exposed exchange of tokens between experts, in {step.what}",
        times,
        _MEGATRON,
    )


def _reduction(step: Step, name: str, elements: Expression, ranks: Expression) -> Expression:
    local = minimum(ranks, interconnect.node_ranks)
    size = elements * BYTES_16_BIT
    inside = node.node_all_reduce(scope, f"{step.prefix}{name}.", size=size, ranks=local, direct=number("1"))
    across = templates.all_reduce(
        scope,
        f"{step.prefix}{name}.across.",
        size=size / local,
        ranks=ranks / local,
        latency=interconnect.nic_latency,
        bandwidth=interconnect.nic_rate,
    )
    waiting = where(ranks > 1, engine.reduction_wait, NO_TIME)
    time = waiting + inside + where(ranks > local, across, NO_TIME)
    if not step.itemized:
        return time
    return step.declare(f"operation.{name}.time, t [s as ms]: time of an all-reduce in {step.what}", time, SUM)
