"""Seconds of one optimiser step, from shapes, layout and a few constants of the accelerator."""

from __future__ import annotations

import math
from dataclasses import dataclass

from prediction.accelerators import ACCELERATORS, Accelerator, Constants

TILES = ((256, 128), (128, 256), (128, 128), (128, 64), (64, 128), (64, 64))
GPUS_PER_NODE = 8
MATURING_YEARS = 1.5


@dataclass(frozen=True)
class Job:
    """A dense transformer, its batch, and how it is spread over GPUs."""

    accelerator: str
    gpus: int
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    ffn: int
    vocabulary: int
    sequence: int
    batch: int
    micro_batch: int
    gated: bool = False
    tied: bool = True
    tensor: int = 1
    pipeline: int = 1
    context: int = 1
    interleave: int = 1
    data: int = 1
    bits: int = 16
    recompute: str = "none"
    attention: str = "fused"
    fused_elementwise: bool = True
    sequence_parallel: bool = False
    sharding: str = "replicated"
    overlapped: bool = True
    gradient_bytes: int = 4
    nic: float = 25e9
    software_age: float = 3.0
    reduces_twice: bool = False

    @property
    def head_size(self) -> int:
        """Elements of one attention head."""
        return self.hidden // self.heads

    @property
    def device(self) -> Accelerator:
        """The accelerator's data sheet."""
        return ACCELERATORS[self.accelerator]


def layer_parameters(job: Job) -> float:
    """Weights of one layer: attention projections and feed-forward."""
    attention = job.hidden * job.head_size * 2 * (job.heads + job.kv_heads)
    return attention + (3 if job.gated else 2) * job.hidden * job.ffn


def parameters(job: Job) -> float:
    """Weights of the model, norms and biases left out."""
    return job.layers * layer_parameters(job) + job.vocabulary * job.hidden * (2 - job.tied)


def gemm(
    constants: Constants, device: Accelerator, m: int, n: int, k: int, bits: int, maturity: float
) -> float:
    """Seconds of an m x k by k x n product: the best tile, in waves, against memory traffic."""
    rate = maturity * device.peak[bits] * constants[f"rate{bits}"] / device.multiprocessors
    traffic = (m * k + k * n) * bits / 8 + m * n * 2
    memory = traffic / (device.bandwidth * constants["bandwidth"])
    compute = math.inf
    for rows, columns in TILES:
        waves = math.ceil(m / rows) * math.ceil(n / columns) / device.multiprocessors
        whole = math.floor(waves)
        if waves > whole:
            waves = whole + 0.5 + 0.5 * (waves - whole)
        # Small tiles reread their operands more often for each product.
        efficiency = 1 - constants["tile_edge"] * 32 * (1 / rows + 1 / columns)
        tile = 2 * rows * columns * k / (rate * efficiency) + constants["tile_start"]
        compute = min(compute, max(1.0, waves) * tile)
    if memory > 0.3 * compute:
        return math.hypot(compute, memory)
    return compute + constants["launch"]


def maturity(constants: Constants, job: Job) -> float:
    """Share of the sustained rate that libraries reached at the age of the accelerator."""
    return 1 - constants["immaturity"] * math.exp(-job.software_age / MATURING_YEARS)


@dataclass(frozen=True)
class LayerTime:
    """Seconds of one layer for one micro-batch."""

    forward: float
    backward: float
    attention_forward: float
    attention_backward: float
    tensor_communication: float


def layer_time(constants: Constants, job: Job, tokens: int) -> LayerTime:
    """One layer on `tokens` tokens, after tensor and context parallel splits."""
    device, size, ranks = job.device, job.head_size, job.tensor
    stream = device.bandwidth * constants["bandwidth"]
    mature = maturity(constants, job)
    products = (
        ((job.heads + 2 * job.kv_heads) * size // ranks, job.hidden),
        (job.hidden, job.heads * size // ranks),
        ((2 if job.gated else 1) * job.ffn // ranks, job.hidden),
        (job.hidden, job.ffn // ranks),
    )
    forward = backward = 0.0
    for n, k in products:
        forward += gemm(constants, device, tokens, n, k, job.bits, mature)
        backward += gemm(constants, device, tokens, k, n, job.bits, mature)
        backward += gemm(constants, device, n, k, tokens, job.bits, mature)

    rows = tokens / (ranks if job.sequence_parallel else 1)
    ungrouped = (job.heads + 2 * job.kv_heads) * size
    if job.fused_elementwise:
        # Two norms (read, write), two residual sums (two reads, one write), the activation.
        moved = rows * job.hidden * 20 + tokens * job.ffn / ranks * (6 if job.gated else 4)
        if job.attention == "unfused":
            moved += rows * job.hidden * 2 + tokens * job.hidden * 8 / ranks
        elif job.gated:
            moved += tokens * (job.heads + job.kv_heads) * size / ranks * 4
        kernels = 8
    else:
        moved = rows * job.hidden * 24 + tokens * (job.ffn + ungrouped) / ranks * 4
        kernels = 12
    moved_back = 1.75 * moved
    if job.bits == 8:
        cast = tokens * (2 * job.hidden + (job.heads * size + job.ffn) / ranks)
        moved, moved_back = moved + 4 * cast, moved_back + 6 * cast
    forward += moved / stream + kernels * constants["launch"]
    backward += moved_back / stream + 1.5 * kernels * constants["launch"]

    sequences = tokens * job.context / job.sequence
    scores = sequences * job.heads / ranks * job.sequence**2 / job.context
    if job.attention == "unfused":
        row_count = int(sequences * job.heads / ranks * job.sequence)
        product = gemm(constants, device, row_count, job.sequence, size, 16, mature)
        # Scores written and read, softmax read and written, dropout with its one-byte mask.
        attention_forward = 2 * product + 13 * scores / stream
        attention_backward = 4 * product + 17 * scores / stream
    else:
        narrow = 1.0 if job.attention == "flash1" else min(1.0, size / 128) ** 0.5
        rate = device.peak[16] * constants[f"attention_{job.attention}"] * narrow
        causal = 2 * scores * size
        attention_forward = causal / rate
        attention_backward = 2.5 * causal / (rate * constants["attention_backward"])

    communication = 0.0
    if ranks > 1:
        # Gathers carry one byte an element in fp8, reductions two.
        volume = tokens * job.hidden * (1.5 if job.bits == 8 else 2)
        link = device.link * constants["link"]
        one = 2 * (ranks - 1) * (volume / ranks / link + constants["link_latency"])
        communication = 2 * one * (1 - constants["tensor_overlap"] if job.overlapped else 1)
    return LayerTime(forward, backward, attention_forward, attention_backward, communication)


def head_time(constants: Constants, job: Job, tokens: int) -> float:
    """Embedding, output projection, softmax and loss of one micro-batch, both directions."""
    device, vocabulary, hidden = job.device, job.vocabulary // job.tensor, job.hidden
    mature = maturity(constants, job)
    shapes = ((tokens, vocabulary, hidden), (tokens, hidden, vocabulary))
    products = sum(gemm(constants, device, m, n, k, 16, mature) for m, n, k in shapes)
    products += gemm(constants, device, vocabulary, hidden, tokens, 16, mature)
    moved = (20 if job.fused_elementwise else 30) * tokens * vocabulary + 12 * tokens * hidden
    return products + moved / (device.bandwidth * constants["bandwidth"])


def step_terms(constants: Constants, job: Job) -> dict[str, float]:
    """Seconds of a step by cause; `straggling` multiplies the sum of the others."""
    device = job.device
    stream = device.bandwidth * constants["bandwidth"]
    nic = job.nic * constants["network"]
    tokens = job.micro_batch * job.sequence // job.context
    micro_batches = max(1, round(job.batch / (job.data * job.micro_batch)))
    layer = layer_time(constants, job, tokens)
    compute = layer.forward + layer.backward + layer.attention_forward + layer.attention_backward
    communication = 2 * layer.tensor_communication
    if job.recompute == "full":
        compute += layer.forward + layer.attention_forward
        communication += layer.tensor_communication
    elif job.recompute == "selective":
        compute += layer.attention_forward
    slots = job.pipeline * job.interleave
    layers = math.ceil(job.layers / slots) * job.interleave if job.pipeline > 1 else job.layers
    head = head_time(constants, job, tokens)
    if job.pipeline > 1 and job.layers % job.pipeline and (job.layers + 2) % job.pipeline == 0:
        # Embedding and head each take the place of a layer, so the ends are not longer.
        head = max(0.0, head - compute - communication)
    terms = {
        "compute": micro_batches * layers * compute,
        "tensor_communication": micro_batches * layers * communication,
        "head": micro_batches * head,
    }
    exposed = 1 - constants["overlap"] if job.overlapped else 1.0
    if job.pipeline > 1:
        stage = layers * (compute + communication)
        hop = 2 * job.interleave * tokens * job.hidden * 2 / job.tensor / nic
        terms["bubble"] = (job.pipeline - 1) / job.interleave * (stage + hop)
        terms["pipeline_communication"] = micro_batches * hop * exposed
    busy = sum(terms.values())

    shard = parameters(job) / (job.tensor * job.pipeline)
    ranks = job.data * job.context
    if ranks > 1:
        terms.update(_data_parallel(constants, job, shard, busy, micro_batches, exposed))
    if job.pipeline > 1 and job.tied:
        tied = job.vocabulary * job.hidden / job.tensor * job.gradient_bytes
        terms["tied_embedding"] = tied / nic
    # Adam in mixed precision reads and writes about 30 bytes a parameter that a GPU owns.
    owned = shard if job.sharding == "replicated" else shard / ranks
    terms["optimizer"] = (30 * owned + 6 * shard) / stream
    terms["fixed"] = constants["step_start"]
    slowest = constants["gpu_spread"] * math.sqrt(2 * math.log(job.gpus))
    terms["straggling"] = slowest * sum(terms.values())
    return terms


def _data_parallel(
    constants: Constants, job: Job, shard: float, busy: float, micro_batches: int, exposed: float
) -> dict[str, float]:
    device = job.device
    nic = job.nic * constants["network"]
    ranks = job.data * job.context
    local = max(1, min(GPUS_PER_NODE // min(GPUS_PER_NODE, job.tensor), ranks))

    def across(size: float) -> float:
        inside = size * (1 - 1 / ranks) / (device.link * constants["link"])
        if job.gpus <= GPUS_PER_NODE or ranks <= local:
            return inside
        # A ring enters a node once, so its ranks there share their adapters.
        return max(inside, size / (local * nic) * (1 - local / ranks))

    if job.sharding == "owner_broadcast":
        # Each parameter is sent by its one owner: a single adapter feeds every rank.
        volume = micro_batches * 6 * shard / (job.nic * constants["broadcast"])
        return {"data_communication": (busy**4 + volume**4) ** 0.25 - busy}
    if job.sharding in ("full", "gradients"):
        gathers = 2 if job.sharding == "full" else 1
        reduced = across(shard * job.gradient_bytes)
        volume = micro_batches * (gathers * across(2 * shard) + reduced)
        hidden = min(volume, busy * constants["overlap"])
        calls = micro_batches * job.layers * (gathers + 1)
        return {
            "data_communication": volume - hidden + hidden * constants["contention"],
            "ring_latency": calls * ranks * constants["ring_latency"],
        }
    returned = job.gradient_bytes if job.sharding == "replicated" else 2
    volume = across(shard * job.gradient_bytes) * (2 if job.reduces_twice else 1)
    return {"data_communication": (volume + across(shard * returned)) * exposed}


def step_time(constants: Constants, job: Job) -> float:
    """Seconds of one optimiser step."""
    return sum(step_terms(constants, job).values())


def memory(job: Job) -> float:
    """Bytes a GPU needs: states, activations in flight, logits."""
    shard = parameters(job) / (job.tensor * job.pipeline)
    owned = shard / (job.data * job.context)
    states = {
        "replicated": 18 * shard,
        "optimizer": 6 * shard + 12 * owned,
        "gradients": 2 * shard + 16 * owned,
        "full": 16 * owned + 8 * layer_parameters(job) / job.tensor,
        "owner_broadcast": 16 * owned,
    }[job.sharding]
    tokens = job.micro_batch * job.sequence / job.context
    layers, tensor = job.layers / job.pipeline, job.tensor
    in_flight = float(job.pipeline)
    if job.interleave > 1:
        in_flight += (job.pipeline - 1) / job.interleave
    if job.recompute == "full":
        kept = tokens * job.hidden * (2 * layers * in_flight + 34)
    else:
        width = 34 / tensor if job.sequence_parallel else 10 + 24 / tensor
        width *= 1.2 if job.gated else 1.0
        if job.attention == "unfused" and job.recompute != "selective":
            width += 5 * job.heads * job.sequence / job.hidden / tensor
        kept = tokens * job.hidden * layers * in_flight * width
    return states + kept + 10 * tokens * job.vocabulary / tensor
