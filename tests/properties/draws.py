"""Scenarios that a user may ask for, drawn at random over the whole range."""

from __future__ import annotations

import math
from functools import cache
from random import Random

from property_harness import Draw, Kind, resolve_command

from assay.catalog import accelerators, entries, models


def log_uniform(random: Random, low: float, high: float) -> int:
    """A whole number between two, as likely in each decade."""
    return max(round(math.exp(random.uniform(math.log(low), math.log(max(high, low))))), 1)


@cache
def accelerator_names() -> tuple[str, ...]:
    return tuple(accelerators.names())


def an_accelerator(random: Random) -> str:
    """Any of the catalog; those without kernel constants, which have no answers, more rarely."""
    name = random.choice(accelerator_names())
    if name.startswith(_WITHOUT_KERNELS) and random.random() < 0.75:
        return an_accelerator(random)
    return name


_WITHOUT_KERNELS = ("tpu", "trainium", "gaudi", "cpu")


@cache
def model_names() -> tuple[str, ...]:
    return tuple(models.names())


def tensor_ranks(random: Random, heads: float, most: int) -> int:
    """Tensor-parallel ranks that divide the heads."""
    return random.choice([n for n in (1, 2, 4, 8, 16, 32) if n <= most and heads % n == 0])


def _serving(random: Random) -> Draw:
    model = random.choice(model_names())
    shapes = models.find(model).given
    context = models.find(model).context or 4096
    prompt = log_uniform(random, 1, min(1_000_000, context - 1))
    entries = {
        "accelerators": an_accelerator(random),
        "models": model,
        "engines": random.choice(("vllm", "sglang", "trtllm")),
    }
    values = {
        "serving.prompt": float(prompt),
        "serving.output": float(log_uniform(random, 1, min(context - prompt, 16_384))),
        "serving.concurrency": float(log_uniform(random, 1, 4096)),
        "serving.tensor": float(tensor_ranks(random, shapes["architecture.heads"], 32)),
    }
    if random.random() < 0.3:
        values["serving.pipeline"] = float(random.choice((2, 4, 8)))
    if random.random() < 0.3:
        values["serving.prompt_budget"] = float(2 ** random.randint(8, 16))
    if random.random() < 0.3:
        values["serving.batch_limit"] = float(log_uniform(random, 1, 4096))
    if random.random() < 0.2:
        values["serving.weight_bytes"] = values["serving.kv_bytes"] = 1.0
    if (mode := random.random()) < 0.15:
        values["serving.static" if mode < 0.05 else "serving.separate"] = 1.0
    return Draw(SERVING, entries, values)


SERVING = Kind(
    "serving", _serving, resolve_command, "llama3_8b_h200_serving", "serving.request_rate"
)


def _place(random: Random) -> dict[str, str]:
    return {
        "tariffs": random.choice(entries.names("tariffs")),
        "grids": random.choice(entries.names("grids")),
        "accelerators": random.choice(PRICED_ACCELERATORS),
    }


def _prices(random: Random) -> dict[str, float]:
    """Nodes, utilization and a rent, and at times an own tariff or PUE."""
    values = {
        "cluster.nodes": float(log_uniform(random, 1, 16_384)),
        "econ.utilisation": random.uniform(0.2, 1.0),
        "econ.rent.price": math.exp(random.uniform(math.log(0.1), math.log(30))) / 3600,
        "econ.rented": float(random.random() < 0.5),
    }
    if random.random() < 0.3:
        values["econ.electricity.energy_price"] = random.uniform(0.02, 0.6) / 3.6e6
    return values


def _priced_training(random: Random) -> Draw:
    gpus = 8 * log_uniform(random, 1, 1024)
    values = {
        **_prices(random),
        "training.gpus": float(gpus),
        "training.batch": float(gpus * log_uniform(random, 1, 32)),
        "training.total_tokens": float(log_uniform(random, 1e6, 1e14)),
    }
    return Draw(PRICED_TRAINING, _place(random), values)


def _priced_serving(random: Random) -> Draw:
    values = {
        **_prices(random),
        "serving.prompt": float(log_uniform(random, 1, 65_536)),
        "serving.output": float(log_uniform(random, 1, 16_384)),
        "serving.concurrency": float(log_uniform(random, 1, 1024)),
        "econ.serving.load": random.uniform(0.05, 1.0),
    }
    return Draw(PRICED_SERVING, _place(random), values)


PRICED_ACCELERATORS = ("h100_sxm", "h200_sxm", "b200_sxm", "a100_sxm", "mi300x")
"""Accelerators with a purchase price and a rent."""
PRICED_TRAINING = Kind(
    "priced training",
    _priced_training,
    resolve_command,
    "llama3_8b_8_h100_training",
    "econ.run.total_cost",
)
PRICED_SERVING = Kind(
    "priced serving",
    _priced_serving,
    resolve_command,
    "llama3_8b_h200_serving",
    "econ.cost.per_output_token",
)


def _step(random: Random) -> Draw:
    """A decode step, which `predict` and `resolve` both answer."""
    model = random.choice(model_names())
    shapes = models.find(model).given
    context = models.find(model).context or 4096
    prompt = log_uniform(random, 1, min(1_000_000, context - 64))
    chosen = {"accelerators": an_accelerator(random), "models": model}
    values = {
        "serving.prompt": float(prompt),
        "serving.output": float(2 * log_uniform(random, 1, min((context - prompt) / 2, 2048))),
        "serving.concurrency": float(log_uniform(random, 1, 1024)),
        "serving.batch_limit": 1024.0,
        "serving.tensor": float(tensor_ranks(random, shapes["architecture.heads"], 32)),
    }
    return Draw(STEP, chosen, values)


STEP = Kind("step", _step, resolve_command, "llama3_8b_h200_serving", "serving.decode.time")


def _training(random: Random) -> Draw:
    model = random.choice(model_names())
    shapes = models.find(model).given
    layers, experts = shapes["architecture.layers"], shapes.get("architecture.experts", 0.0)
    tensor = tensor_ranks(random, shapes["architecture.heads"], 8)
    pipeline = random.choice([p for p in (1, 1, 2, 3, 4, 8, 16) if p <= layers])
    replicas = log_uniform(random, 1, 131_072 / (tensor * pipeline))
    micro = random.choice((1, 2, 4))
    passes = log_uniform(random, 1, 64)
    ranks = [e for e in (1, 2, 4, 8, 16, 32, 64) if experts and not (experts % e or replicas % e)]
    values = {
        "training.gpus": float(replicas * tensor * pipeline),
        "training.batch": float(replicas * micro * passes),
        "training.total_tokens": float(log_uniform(random, 1e9, 1e14)),
        "architecture.sequence": float(
            log_uniform(random, 128, min(131_072, models.find(model).context or 2048))
        ),
        "parallelism.tensor": float(tensor),
        "parallelism.pipeline": float(pipeline),
        "parallelism.micro_batch": float(micro),
        "parallelism.zero_stage": float(random.choice((0, 1, 2, 3))),
        "parallelism.recompute": float(random.choice((0, 1, 2))),
        "parallelism.sequence_parallel": float(tensor > 1 and random.random() < 0.7),
        "cluster.nodes": 131_072.0,
    }
    if ranks:
        values["parallelism.expert"] = float(random.choice(ranks))
    if random.random() < 0.2:
        values["parallelism.adapter_rank"] = float(2 ** random.randint(2, 8))
    if random.random() < 0.2:
        values["parallelism.compact"] = 1.0
    chosen = {"accelerators": an_accelerator(random), "models": model}
    return Draw(TRAINING, chosen, values)


TRAINING = Kind(
    "training", _training, resolve_command, "llama3_8b_8_h100_training", "training.step_time"
)


def _load(random: Random) -> Draw:
    model = random.choice(model_names())
    heads, context = (
        models.find(model).given["architecture.heads"],
        models.find(model).context or 4096,
    )
    prompt = log_uniform(random, 1, min(1_000_000, context - 1))
    chosen = {"accelerators": an_accelerator(random), "models": model}
    values = {
        "rates": float(f"{10 ** random.uniform(-3, 3):.3g}"),
        "prompt": float(prompt),
        "output": float(log_uniform(random, 1, min(context - prompt, 4096))),
        "tensor": float(max(tensor_ranks(random, heads, 8) for _ in range(3))),
    }
    if random.random() < 0.2:
        values["max-running"] = float(log_uniform(random, 1, 1024))
    if random.random() < 0.3:
        values["ttft-limit"], values["tpot-limit"] = 1000.0, 50.0
    return Draw(LOAD, chosen, values)


def load_command(draw: Draw, _: str) -> str:
    """`assay predict-load` of a server; all its figures are in one answer."""
    words = ["assay", "predict-load", "--model", draw.entries["models"]]
    words += ["--gpu", draw.entries["accelerators"]]
    for name, value in draw.values.items():
        words += [f"--{name}", f"{value:.12g}"]
    return " ".join(words)


LOAD = Kind(
    "load", _load, load_command, simplest={"accelerators": "h200_sxm", "models": "llama-3.1-8b"}
)

_GRAPH = (SERVING, STEP, TRAINING, PRICED_TRAINING, PRICED_SERVING)
KINDS = {kind.name: kind for kind in (*_GRAPH, LOAD)}
_TURNS = (*_GRAPH, *_GRAPH, *_GRAPH, LOAD)
"""Kinds in turn; a load takes far longer than the others."""


def seeded(seed: str, index: int) -> Random:
    """The chance of one draw, the same whatever was drawn before."""
    return Random(f"{seed} {index}")


def draw(seed: str, index: int) -> Draw:
    """The draw of this number, of each kind in turn."""
    return _TURNS[index % len(_TURNS)].draw(seeded(seed, index))
