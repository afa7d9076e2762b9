"""Scenarios that a user may ask for, drawn over the whole range; `strata.py` takes entries in turn."""

from __future__ import annotations

from random import Random

from property_harness import Draw, Kind, resolve_command
from strata import Chance, accelerators_with_kernels, chance

from assay.catalog import entries, models

MOST_GPUS = 131_072
LONGEST = 1_000_000


ENDS = 0.02
"""Share of draws at each end of a range, where the most breaks."""


def log_uniform(random: Random, low: float, high: float) -> int:
    """A whole number between two, as likely in each decade, at times one of the two."""
    return max(round(log_real(random, low, max(high, low))), 1)


def log_real(random: Random, low: float, high: float) -> float:
    """A number between two, as likely in each decade, at times one of the two."""
    share = min(max(random.uniform(-ENDS, 1 + ENDS), 0.0), 1.0)
    return float(low * (high / low) ** share)


def tensor_ranks(random: Random, model: str, most: int) -> int:
    """Tensor-parallel ranks that divide the heads."""
    heads = models.find(model).given["architecture.heads"]
    return random.choice([n for n in (1, 2, 4, 8, 16, 32) if n <= most and heads % n == 0])


def context_of(model: str) -> int:
    """The longest context of a model, or what those of its time had."""
    return models.find(model).context or 2048


def _serving(chance: Chance) -> Draw:
    random, model = chance.random, chance.model()
    context = context_of(model)
    prompt = log_uniform(random, 1, min(LONGEST, context - 1))
    chosen = {
        "accelerators": chance.accelerator(),
        "models": model,
        "engines": random.choice(("vllm", "sglang", "trtllm")),
    }
    values = {
        "serving.prompt": float(prompt),
        "serving.output": float(log_uniform(random, 1, min(context - prompt, 16_384))),
        "serving.concurrency": float(log_uniform(random, 1, 4096)),
        "serving.tensor": float(tensor_ranks(random, model, 32)),
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
    return Draw(SERVING, chosen, values)


SERVING = Kind(
    "serving", _serving, resolve_command, "llama3_8b_h200_serving", "serving.request_rate"
)


def _place(chance: Chance) -> dict[str, str]:
    return {
        "tariffs": chance.entry("tariffs", entries.names("tariffs")),
        "grids": chance.entry("grids", entries.names("grids")),
        "accelerators": chance.entry("accelerators", accelerators_with_kernels()),
    }


def _prices(random: Random) -> dict[str, float]:
    """Nodes, utilization and a rent, and at times an own tariff or PUE."""
    values = {
        "cluster.nodes": float(log_uniform(random, 1, 16_384)),
        "econ.utilisation": random.uniform(0.2, 1.0),
        "econ.rent.price": log_real(random, 0.1, 30) / 3600,
        "econ.rented": float(random.random() < 0.5),
    }
    if random.random() < 0.3:
        values["econ.electricity.energy_price"] = random.uniform(0.02, 0.6) / 3.6e6
    return values


def _priced(draw: Draw, random: Random) -> Draw:
    """A draw with the prices that the catalog lacks for its accelerator, and a user has to know."""
    own = {
        "econ.gpu.price": float(log_uniform(random, 500, 50_000)),
        "econ.server.price": float(log_uniform(random, 5_000, 200_000)),
        "econ.rent.includes_power": float(random.random() < 0.8),
    }
    return draw.changed({name: value for name, value in own.items() if not draw.has(name)})


def _priced_training(chance: Chance) -> Draw:
    random = chance.random
    gpus = 8 * log_uniform(random, 1, 1024)
    values = {
        **_prices(random),
        "training.gpus": float(gpus),
        "training.batch": float(gpus * log_uniform(random, 1, 32)),
        "training.total_tokens": float(log_uniform(random, 1e6, 1e14)),
    }
    return _priced(Draw(PRICED_TRAINING, _place(chance), values), random)


def _priced_serving(chance: Chance) -> Draw:
    random = chance.random
    values = {
        **_prices(random),
        "serving.prompt": float(log_uniform(random, 1, 65_536)),
        "serving.output": float(log_uniform(random, 1, 16_384)),
        "serving.concurrency": float(log_uniform(random, 1, 1024)),
        "econ.serving.load": random.uniform(0.05, 1.0),
    }
    return _priced(Draw(PRICED_SERVING, _place(chance), values), random)


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


def _step(chance: Chance) -> Draw:
    """A decode step, which `predict` and `resolve` both answer."""
    random, model = chance.random, chance.model()
    context = context_of(model)
    prompt = log_uniform(random, 1, min(LONGEST, context - 64))
    values = {
        "serving.prompt": float(prompt),
        "serving.output": float(2 * log_uniform(random, 1, min((context - prompt) / 2, 2048))),
        "serving.concurrency": float(log_uniform(random, 1, 1024)),
        "serving.batch_limit": 1024.0,
        "serving.tensor": float(tensor_ranks(random, model, 32)),
    }
    return Draw(STEP, {"accelerators": chance.accelerator(), "models": model}, values)


STEP = Kind("step", _step, resolve_command, "llama3_8b_h200_serving", "serving.decode.time")


def _training(chance: Chance) -> Draw:
    random, model = chance.random, chance.model()
    shapes = models.find(model).given
    layers, experts = shapes["architecture.layers"], shapes.get("architecture.experts", 0.0)
    tensor = tensor_ranks(random, model, 8)
    pipeline = random.choice([p for p in (1, 1, 2, 3, 4, 8, 16) if p <= layers])
    replicas = log_uniform(random, 1, MOST_GPUS / (tensor * pipeline))
    micro = random.choice((1, 2, 4))
    passes = log_uniform(random, 1, 64)
    ranks = [e for e in (1, 2, 4, 8, 16, 32, 64) if experts and not (experts % e or replicas % e)]
    values = {
        "training.gpus": float(replicas * tensor * pipeline),
        "training.batch": float(replicas * micro * passes),
        "training.total_tokens": float(log_uniform(random, 1e9, 1e14)),
        "architecture.sequence": float(log_uniform(random, 128, min(131_072, context_of(model)))),
        "parallelism.tensor": float(tensor),
        "parallelism.pipeline": float(pipeline),
        "parallelism.micro_batch": float(micro),
        "parallelism.zero_stage": float(random.choice((0, 1, 2, 3))),
        "parallelism.recompute": float(random.choice((0, 1, 2))),
        "parallelism.sequence_parallel": float(tensor > 1 and random.random() < 0.7),
        "cluster.nodes": float(MOST_GPUS),
    }
    if ranks:
        values["parallelism.expert"] = float(random.choice(ranks))
    if random.random() < 0.2:
        values["parallelism.adapter_rank"] = float(2 ** random.randint(2, 8))
    if random.random() < 0.2:
        values["parallelism.compact"] = 1.0
    return Draw(TRAINING, {"accelerators": chance.accelerator(), "models": model}, values)


TRAINING = Kind(
    "training", _training, resolve_command, "llama3_8b_8_h100_training", "training.step_time"
)


def _load(chance: Chance) -> Draw:
    random, model = chance.random, chance.model()
    context = context_of(model)
    prompt = log_uniform(random, 1, min(LONGEST, context - 1))
    values = {
        "rates": float(f"{log_real(random, 1e-3, 1e3):.3g}"),
        "prompt": float(prompt),
        "output": float(log_uniform(random, 1, min(context - prompt, 4096))),
        "tensor": float(max(tensor_ranks(random, model, 8) for _ in range(3))),
    }
    if random.random() < 0.2:
        values["max-running"] = float(log_uniform(random, 1, 1024))
    if random.random() < 0.3:
        values["ttft-limit"], values["tpot-limit"] = 1000.0, 50.0
    return Draw(LOAD, {"accelerators": chance.accelerator(), "models": model}, values)


def load_command(draw: Draw, _: str) -> str:
    """`assay predict-load` of a server; all its figures are in one answer."""
    words = ["assay", "predict-load", "--model", draw.entries["models"]]
    words += ["--gpu", draw.entries["accelerators"]]
    for name, value in draw.values.items():
        words += [f"--{name}", f"{value:.12g}"]
    return " ".join(words)


_SIMPLEST = {"accelerators": "h200_sxm", "models": "llama-3.1-8b"}
LOAD = Kind("load", _load, load_command, simplest=_SIMPLEST)


def _estimate(chance: Chance) -> Draw:
    random = chance.random
    chosen = {
        "models": chance.model(),
        "accelerators": chance.accelerator(),
        "tariffs": chance.entry("tariffs", ("us_texas", "germany", "japan", "us_iowa", "france")),
    }
    tokens = float(f"{log_real(random, 1e9, 1e13):.2g}")
    if random.random() < 0.3:
        return Draw(ESTIMATE, chosen, {"tokens": tokens, "serving": 1.0})
    return Draw(
        ESTIMATE, chosen, {"tokens": tokens, "gpus": float(log_uniform(random, 1, MOST_GPUS))}
    )


def estimate_command(draw: Draw, _: str) -> str:
    """`assay estimate` of a workload; all its figures are in one answer."""
    values = draw.values
    words = ["assay", "estimate", draw.entries["models"], draw.entries["accelerators"]]
    words += [f"{values['tokens']:.12g}", draw.entries["tariffs"]]
    words += ["--serving"] if values.get("serving") else ["--gpus", f"{values['gpus']:.0f}"]
    return " ".join(words)


ESTIMATE = Kind(
    "estimate", _estimate, estimate_command, simplest={**_SIMPLEST, "tariffs": "us_texas"}
)

_GRAPH = (SERVING, STEP, TRAINING, PRICED_TRAINING, PRICED_SERVING)
KINDS = {kind.name: kind for kind in (*_GRAPH, LOAD, ESTIMATE)}
_ROUND = (*_GRAPH, *_GRAPH, *_GRAPH, LOAD)
_TURNS = (*_ROUND, ESTIMATE, *_ROUND, *_ROUND, *_ROUND)
"""Kinds in turn; a load takes longer than the others, and an estimate a hundred times as long."""
_EARLIER = [
    [kind.name for kind in _TURNS[:place]].count(_TURNS[place].name) for place in range(len(_TURNS))
]


def of_kind(kind: str, seed: str, turn: int) -> Draw:
    """The draw of this number among those of a kind, the same whatever was drawn before."""
    return KINDS[kind].draw(chance(kind, seed, turn))


def turn_of(index: int) -> tuple[str, int]:
    """The kind of a draw, each in turn, and its number among draws of that kind."""
    rounds, place = divmod(index, len(_TURNS))
    kind = _TURNS[place].name
    each = sum(other.name == kind for other in _TURNS)
    return kind, rounds * each + _EARLIER[place]
