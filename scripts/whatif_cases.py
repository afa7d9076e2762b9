"""The changes of knobs whose effect is predicted before it is measured, on CPU and GPU."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final


@dataclass(frozen=True)
class Setup:
    """A workload, and the engine that runs it.

    decode: `batch` sequences decode behind prompts of `prompt` tokens; the metric is seconds for a
    token of the batch. first_token: a request of `prompt` tokens, from its arrival to its token.
    closed: `requests` prompts at once, each with `output` tokens, until the last is done.
    """

    workload: str
    batch: int = 1
    prompt: int = 64
    requests: int = 0
    output: int = 0
    shared_prefix: int = 0
    mixed_prompts: tuple[int, ...] = ()
    """Lengths that the prompts of a closed load take in turn."""
    knobs: dict[str, Any] = field(default_factory=dict)
    sampling: dict[str, Any] = field(default_factory=dict)
    prefix_caching: bool = False

    def with_knobs(self, **knobs: Any) -> Setup:
        """The same with knobs changed."""
        return replace(self, knobs={**self.knobs, **knobs})

    def as_json(self) -> dict[str, Any]:
        """Fields that are not the default."""
        default = asdict(Setup(self.workload))
        return {
            name: value
            for name, value in asdict(self).items()
            if name == "workload" or value != default[name]
        }


@dataclass(frozen=True)
class Case:
    """A change, and the metric that it may move."""

    name: str
    knob: str
    metric: str
    base: Setup
    changed: Setup


def cases(name: str) -> list[Case]:
    """Every change of a set: cpu to cpu-5 (each predicted when those before were known), or h200."""
    sets = {
        "cpu": _cpu,
        "cpu-2": _cpu_second,
        "cpu-3": _cpu_third,
        "cpu-4": _cpu_fourth,
        "cpu-5": _cpu_fifth,
        "h200": _gpu,
    }
    return list(sets[name]())


CPU: Final = Setup("decode", knobs={"threads": 1})


def _decode(name: str, knob: str, base: Setup, **changes: Any) -> Case:
    return Case(name, knob, "seconds_per_token", base, replace(base, **changes))


def _step(name: str, knob: str, base: Setup, **changes: Any) -> Case:
    return Case(name, knob, "seconds_per_step", base, replace(base, **changes))


def _cpu() -> Iterator[Case]:
    """SmolLM2-135M Q4_1 with one thread, in seconds of CPU time."""
    short, long = CPU, replace(CPU, prompt=1500)
    eight = replace(CPU, batch=8)
    for batch in (2, 3, 6, 12):
        yield _decode(f"batch 1 to {batch}", "batch", short, batch=batch)
    for context in (384, 768, 1500):
        yield _decode(f"context 64 to {context}", "context", short, prompt=context)
    four = replace(CPU, batch=4)
    yield _decode("context 64 to 700 at batch 4", "context", four, prompt=700)
    yield _decode("batch 4 to 8 at context 400", "batch", replace(four, prompt=400), batch=8)
    for setup, where in ((short, ""), (eight, " at batch 8")):
        for form in ("q8_0", "bf16", "f32")[: 3 if setup is short else 2]:
            yield Case(f"weights {form} to q4_1{where}", "weight_format", "seconds_per_token",
                       setup.with_knobs(weight_format=form), setup)  # fmt: skip
    yield Case("KV cache bf16 to f32 at context 1500", "kv_format", "seconds_per_token", long,
               long.with_knobs(kv_format="f32"))  # fmt: skip
    yield Case("KV cache bf16 to f32 at context 64", "kv_format", "seconds_per_token", short,
               short.with_knobs(kv_format="f32"))  # fmt: skip
    for size in (4, 128):
        yield Case(f"KV blocks of {size} to 16 tokens at context 1500", "block_tokens",
                   "seconds_per_token", long.with_knobs(block_tokens=size), long)  # fmt: skip
    for setup, where in ((short, ""), (eight, " at batch 8")):
        yield Case(f"graphs on{where}", "graph_buckets", "seconds_per_token",
                   setup.with_knobs(graph_buckets=0), setup)  # fmt: skip
    yield Case("async scheduling on", "overlap", "seconds_per_token", short,
               short.with_knobs(overlap="on"))  # fmt: skip
    yield Case("deterministic at batch 8", "deterministic", "seconds_per_token", eight,
               eight.with_knobs(deterministic=True))  # fmt: skip
    yield _decode("temperature 0 to 1", "temperature", short, sampling={"temperature": 1.0})
    yield _decode("temperature 1 and top-p 0.9 at batch 8", "top_p", eight,
                  sampling={"temperature": 1.0, "top_p": 0.9})  # fmt: skip
    yield _decode("no log-probabilities at batch 8", "logprobs",
                  replace(eight, sampling={"logprobs": 5}), sampling={})  # fmt: skip
    yield from _cpu_prefill()
    yield from _cpu_load()


def _cpu_prefill() -> Iterator[Case]:
    prompt = replace(CPU, workload="first_token", prompt=384)
    for tokens in (96, 192, 300):
        yield Case(f"prompt of 384 to {tokens} tokens", "prompt", "ttft", prompt,
                   replace(prompt, prompt=tokens))  # fmt: skip
    yield Case("prompt of 700 to 384 tokens", "prompt", "ttft", replace(prompt, prompt=700), prompt)
    for budget in (48, 100, 200):
        yield Case(f"chunks of 512 to {budget} tokens", "token_budget", "ttft", prompt,
                   prompt.with_knobs(token_budget=budget))  # fmt: skip
    yield Case("weights bf16 to q4_1, prompt of 384", "weight_format", "ttft",
               prompt.with_knobs(weight_format="bf16"), prompt)  # fmt: skip
    long = replace(prompt, prompt=1500)
    yield Case("KV cache bf16 to f32, prompt of 1500", "kv_format", "ttft", long,
               long.with_knobs(kv_format="f32"))  # fmt: skip


def _cpu_load() -> Iterator[Case]:
    load = replace(
        CPU, workload="closed", requests=16, output=24, prompt=48,
        knobs={"threads": 1, "max_batch": 4},
    )  # fmt: skip
    one = load.with_knobs(max_batch=1)
    yield Case("max batch 1 to 4", "max_batch", "makespan", one, load)
    for most in (2, 8, 16):
        changed = load.with_knobs(max_batch=most)
        yield Case(f"max batch 4 to {most}", "max_batch", "makespan", load, changed)
    for most in (2, 12):
        changed = load.with_knobs(max_batch=most)
        yield Case(f"max batch 4 to {most}, first token", "max_batch", "mean_ttft", load, changed)
    yield Case("chunks of 512 to 24 tokens under load", "token_budget", "makespan", load,
               load.with_knobs(token_budget=24))  # fmt: skip
    mixed = replace(load, mixed_prompts=(300, 20, 20, 20), output=8)
    yield Case("fcfs to shortest first, mixed prompts", "policy", "mean_ttft", mixed,
               mixed.with_knobs(policy="shortest"))  # fmt: skip
    shared = replace(load, prompt=240, shared_prefix=224, output=8)
    yield Case("prefix caching on, shared prompt", "prefix_caching", "makespan", shared,
               replace(shared, prefix_caching=True))  # fmt: skip


def _cpu_second() -> Iterator[Case]:
    """Other changes, predicted with what the first set taught: the same engine and model."""
    short = CPU
    for batch in (4, 5, 10, 16):
        yield _decode(f"batch 1 to {batch}", "batch", short, batch=batch)
    yield _decode("batch 2 to 7", "batch", replace(short, batch=2), batch=7)
    for context in (250, 550, 1000):
        yield _decode(f"context 64 to {context}", "context", short, prompt=context)
    yield _decode("context 64 to 300 at batch 8", "context", replace(short, batch=8), prompt=300)
    yield Case("weights f32 to bf16", "weight_format", "seconds_per_token",
               short.with_knobs(weight_format="f32"), short.with_knobs(weight_format="bf16"))  # fmt: skip
    two = replace(short, batch=2)
    yield Case("weights bf16 to q8_0 at batch 2", "weight_format", "seconds_per_token",
               two.with_knobs(weight_format="bf16"), two.with_knobs(weight_format="q8_0"))  # fmt: skip
    long = replace(CPU, prompt=1200)
    for size in (8, 32):
        yield Case(f"KV blocks of {size} to 16 tokens at context 1200", "block_tokens",
                   "seconds_per_token", long.with_knobs(block_tokens=size), long)  # fmt: skip
    yield Case("KV cache f32 to bf16 at context 1200", "kv_format", "seconds_per_token",
               long.with_knobs(kv_format="f32"), long)  # fmt: skip
    yield Case("graphs on at batch 3", "graph_buckets", "seconds_per_token",
               replace(short, batch=3, knobs={"threads": 1, "graph_buckets": 0}),
               replace(short, batch=3))  # fmt: skip
    yield _decode("temperature 1 and top-p 0.9 at batch 3", "top_p", replace(short, batch=3),
                  sampling={"temperature": 1.0, "top_p": 0.9})  # fmt: skip
    prompt = replace(CPU, workload="first_token", prompt=600)
    for tokens in (150, 250, 400):
        yield Case(f"prompt of 600 to {tokens} tokens", "prompt", "ttft", prompt,
                   replace(prompt, prompt=tokens))  # fmt: skip
    for budget in (64, 160, 300):
        yield Case(f"chunks of 512 to {budget} tokens, prompt of 600", "token_budget", "ttft",
                   prompt, prompt.with_knobs(token_budget=budget))  # fmt: skip
    load = replace(CPU, workload="closed", requests=12, output=20, prompt=100,
                   knobs={"threads": 1, "max_batch": 3})  # fmt: skip
    for most, metric in ((6, "makespan"), (12, "makespan"), (2, "makespan"), (6, "mean_ttft")):
        yield Case(f"max batch 3 to {most}, {metric}", "max_batch", metric, load,
                   load.with_knobs(max_batch=most))  # fmt: skip
    yield Case("chunks of 512 to 40 tokens under load", "token_budget", "mean_ttft", load,
               load.with_knobs(token_budget=40))  # fmt: skip
    mixed = replace(load, mixed_prompts=(10, 200, 30), output=6)
    yield Case("fcfs to shortest first, three lengths", "policy", "mean_ttft", mixed,
               mixed.with_knobs(policy="shortest"))  # fmt: skip
    shared = replace(load, prompt=120, shared_prefix=96, output=10)
    yield Case("prefix caching on, 96 of 120 shared", "prefix_caching", "makespan", shared,
               replace(shared, prefix_caching=True))  # fmt: skip


def _cpu_third() -> Iterator[Case]:
    """Further changes, with intervals from the errors of the first two sets."""
    short = CPU
    two, three, four, six = (replace(CPU, batch=count) for count in (2, 3, 4, 6))
    for batch in (7, 9):
        yield _decode(f"batch 1 to {batch}", "batch", short, batch=batch)
    yield _decode("batch 3 to 6", "batch", three, batch=6)
    yield _decode("batch 2 to 4", "batch", two, batch=4)
    for context in (200, 450, 900):
        yield _decode(f"context 64 to {context}", "context", short, prompt=context)
    yield _decode("context 64 to 500 at batch 2", "context", two, prompt=500)
    yield Case("weights q8_0 to q4_1 at batch 3", "weight_format", "seconds_per_token",
               three.with_knobs(weight_format="q8_0"), three)  # fmt: skip
    yield Case("weights bf16 to q4_1 at batch 4", "weight_format", "seconds_per_token",
               four.with_knobs(weight_format="bf16"), four)  # fmt: skip
    yield Case("weights f32 to q8_0", "weight_format", "seconds_per_token",
               short.with_knobs(weight_format="f32"), short.with_knobs(weight_format="q8_0"))  # fmt: skip
    middle = replace(CPU, prompt=600)
    yield Case("KV blocks of 4 to 16 tokens at context 600", "block_tokens", "seconds_per_token",
               middle.with_knobs(block_tokens=4), middle)  # fmt: skip
    yield Case("KV cache f32 to bf16 at context 600", "kv_format", "seconds_per_token",
               middle.with_knobs(kv_format="f32"), middle)  # fmt: skip
    yield Case("graphs on at batch 2", "graph_buckets", "seconds_per_token",
               two.with_knobs(graph_buckets=0), two)  # fmt: skip
    yield _decode("temperature 1 and top-p 0.9 at batch 6", "top_p", six,
                  sampling={"temperature": 1.0, "top_p": 0.9})  # fmt: skip
    prompt = replace(CPU, workload="first_token", prompt=450)
    for tokens in (90, 225, 350):
        yield Case(f"prompt of 450 to {tokens} tokens", "prompt", "ttft", prompt,
                   replace(prompt, prompt=tokens))  # fmt: skip
    for budget in (100, 230):
        yield Case(f"chunks of 512 to {budget} tokens, prompt of 450", "token_budget", "ttft",
                   prompt, prompt.with_knobs(token_budget=budget))  # fmt: skip
    load = replace(CPU, workload="closed", requests=10, output=16, prompt=60,
                   knobs={"threads": 1, "max_batch": 2})  # fmt: skip
    for most, metric in ((4, "makespan"), (10, "makespan"), (5, "mean_ttft")):
        yield Case(f"max batch 2 to {most}, {metric}", "max_batch", metric, load,
                   load.with_knobs(max_batch=most))  # fmt: skip
    yield Case("chunks of 512 to 30 tokens under load", "token_budget", "mean_ttft", load,
               load.with_knobs(token_budget=30))  # fmt: skip
    mixed = replace(load, mixed_prompts=(150, 20), output=6)
    yield Case("fcfs to shortest first, two lengths", "policy", "mean_ttft", mixed,
               mixed.with_knobs(policy="shortest"))  # fmt: skip
    shared = replace(load, prompt=90, shared_prefix=64, output=8)
    yield Case("prefix caching on, 64 of 90 shared", "prefix_caching", "makespan", shared,
               replace(shared, prefix_caching=True))  # fmt: skip


def _cpu_fourth() -> Iterator[Case]:
    """Further changes, from a model that was refined by the outcomes of the sets before."""
    short = CPU
    two, three, five = (replace(CPU, batch=count) for count in (2, 3, 5))
    for batch in (8, 11, 14):
        yield _decode(f"batch 1 to {batch}", "batch", short, batch=batch)
    yield _decode("batch 2 to 5", "batch", two, batch=5)
    yield _decode("batch 3 to 10", "batch", three, batch=10)
    yield _decode("batch 4 to 6", "batch", replace(CPU, batch=4), batch=6)
    for context in (320, 640, 1100):
        yield _decode(f"context 64 to {context}", "context", short, prompt=context)
    yield _decode("context 400 to 800", "context", replace(CPU, prompt=400), prompt=800)
    yield _decode("context 64 to 400 at batch 3", "context", three, prompt=400)
    yield Case("weights q8_0 to q4_1 at batch 2", "weight_format", "seconds_per_token",
               two.with_knobs(weight_format="q8_0"), two)  # fmt: skip
    yield Case("weights bf16 to q4_1 at batch 2", "weight_format", "seconds_per_token",
               two.with_knobs(weight_format="bf16"), two)  # fmt: skip
    middle = replace(CPU, prompt=900)
    yield Case("KV blocks of 8 to 16 tokens at context 900", "block_tokens", "seconds_per_token",
               middle.with_knobs(block_tokens=8), middle)  # fmt: skip
    yield Case("KV cache f32 to bf16 at context 900", "kv_format", "seconds_per_token",
               middle.with_knobs(kv_format="f32"), middle)  # fmt: skip
    yield Case("graphs on at batch 5", "graph_buckets", "seconds_per_token",
               five.with_knobs(graph_buckets=0), five)  # fmt: skip
    yield _decode("temperature 1 and top-p 0.9 at batch 5", "top_p", five,
                  sampling={"temperature": 1.0, "top_p": 0.9})  # fmt: skip
    yield Case("async scheduling on at batch 5", "overlap", "seconds_per_token", five,
               five.with_knobs(overlap="on"))  # fmt: skip
    prompt = replace(CPU, workload="first_token", prompt=330)
    for tokens in (110, 220):
        yield Case(f"prompt of 330 to {tokens} tokens", "prompt", "ttft", prompt,
                   replace(prompt, prompt=tokens))  # fmt: skip
    yield Case("chunks of 512 to 170 tokens, prompt of 330", "token_budget", "ttft", prompt,
               prompt.with_knobs(token_budget=170))  # fmt: skip
    load = replace(CPU, workload="closed", requests=8, output=16, prompt=40,
                   knobs={"threads": 1, "max_batch": 2})  # fmt: skip
    for most, metric in ((4, "makespan"), (8, "makespan"), (4, "mean_ttft")):
        yield Case(f"max batch 2 to {most} of 8 requests, {metric}", "max_batch", metric, load,
                   load.with_knobs(max_batch=most))  # fmt: skip
    shared = replace(load, prompt=100, shared_prefix=80, output=8)
    yield Case("prefix caching on, 80 of 100 shared", "prefix_caching", "makespan", shared,
               replace(shared, prefix_caching=True))  # fmt: skip


def _cpu_fifth() -> Iterator[Case]:
    """Further changes, from a calibration of the machine with nothing beside it."""
    short = CPU
    two, four, six = (replace(CPU, batch=count) for count in (2, 4, 6))
    for batch in (6, 13):
        yield _decode(f"batch 1 to {batch}", "batch", short, batch=batch)
    yield _decode("batch 2 to 7", "batch", two, batch=7)
    yield _decode("batch 4 to 9", "batch", four, batch=9)
    yield _decode("batch 6 to 3", "batch", six, batch=3)
    for context in (250, 720, 1300):
        yield _decode(f"context 64 to {context}", "context", short, prompt=context)
    yield _decode("context 64 to 300 at batch 4", "context", four, prompt=300)
    yield Case("weights q8_0 to q4_1 at batch 4", "weight_format", "seconds_per_token",
               four.with_knobs(weight_format="q8_0"), four)  # fmt: skip
    yield Case("weights bf16 to q8_0 at batch 2", "weight_format", "seconds_per_token",
               two.with_knobs(weight_format="bf16"), two.with_knobs(weight_format="q8_0"))  # fmt: skip
    middle = replace(CPU, prompt=750)
    yield Case("KV blocks of 4 to 16 tokens at context 750", "block_tokens", "seconds_per_token",
               middle.with_knobs(block_tokens=4), middle)  # fmt: skip
    yield Case("KV cache f32 to bf16 at context 750", "kv_format", "seconds_per_token",
               middle.with_knobs(kv_format="f32"), middle)  # fmt: skip
    yield Case("graphs on at batch 4", "graph_buckets", "seconds_per_token",
               four.with_knobs(graph_buckets=0), four)  # fmt: skip
    yield _decode("temperature 1 and top-p 0.9 at batch 4", "top_p", four,
                  sampling={"temperature": 1.0, "top_p": 0.9})  # fmt: skip
    prompt = replace(CPU, workload="first_token", prompt=400)
    for tokens in (130, 260):
        yield Case(f"prompt of 400 to {tokens} tokens", "prompt", "ttft", prompt,
                   replace(prompt, prompt=tokens))  # fmt: skip
    yield Case("chunks of 512 to 140 tokens, prompt of 400", "token_budget", "ttft", prompt,
               prompt.with_knobs(token_budget=140))  # fmt: skip
    load = replace(CPU, workload="closed", requests=9, output=14, prompt=50,
                   knobs={"threads": 1, "max_batch": 3})  # fmt: skip
    for most, metric in ((1, "makespan"), (6, "makespan"), (9, "mean_ttft")):
        yield Case(f"max batch 3 to {most} of 9 requests, {metric}", "max_batch", metric, load,
                   load.with_knobs(max_batch=most))  # fmt: skip
    shared = replace(load, prompt=120, shared_prefix=96, output=8)
    yield Case("prefix caching on, 96 of 120 shared", "prefix_caching", "makespan", shared,
               replace(shared, prefix_caching=True))  # fmt: skip


GPU: Final = Setup("decode", prompt=128)


def _gpu() -> Iterator[Case]:
    """Llama-3-8B shape in bf16, in seconds of wall time."""
    for batch in (2, 4, 16, 48):
        yield _step(f"batch 1 to {batch}", "batch", GPU, batch=batch)
    for context in (2_000, 8_000):
        yield _decode(f"context 128 to {context}", "context", GPU, prompt=context)
    eight = replace(GPU, batch=8)
    yield _decode("context 128 to 3000 at batch 8", "context", eight, prompt=3_000)
    yield _step("batch 8 to 16 at context 1000", "batch", replace(eight, prompt=1_000), batch=16)
    for form in ("int8", "q8_0", "int4"):
        yield Case(f"weights bf16 to {form}", "weight_format", "seconds_per_token", GPU,
                   GPU.with_knobs(weight_format=form))  # fmt: skip
    long = replace(eight, prompt=4_000)
    yield Case("KV cache bf16 to f32, 8 x 4000", "kv_format", "seconds_per_token", long,
               long.with_knobs(kv_format="f32"))  # fmt: skip
    yield Case("KV blocks of 16 to 64 tokens, 8 x 4000", "block_tokens", "seconds_per_token", long,
               long.with_knobs(block_tokens=64))  # fmt: skip
    yield Case("graphs off", "graph_buckets", "seconds_per_token", GPU,
               GPU.with_knobs(graph_buckets=0))  # fmt: skip
    yield Case("async scheduling off", "overlap", "seconds_per_token", GPU,
               GPU.with_knobs(overlap="off"))  # fmt: skip
    yield _decode("temperature 1 and top-p 0.9 at batch 8", "top_p", eight,
                  sampling={"temperature": 1.0, "top_p": 0.9})  # fmt: skip
    prompt = replace(GPU, workload="first_token", prompt=3_000, knobs={"token_budget": 4096})
    for tokens in (1_500, 6_000):
        yield Case(f"prompt of 3000 to {tokens} tokens", "prompt", "ttft", prompt,
                   replace(prompt, prompt=tokens))  # fmt: skip
    for budget in (512, 1024):
        yield Case(f"chunks of 4096 to {budget} tokens", "token_budget", "ttft", prompt,
                   prompt.with_knobs(token_budget=budget))  # fmt: skip
    load = replace(GPU, workload="closed", requests=32, output=24, prompt=512,
                   knobs={"max_batch": 8, "token_budget": 2048})  # fmt: skip
    for most in (4, 16):
        changed = load.with_knobs(max_batch=most)
        yield Case(f"max batch 8 to {most}", "max_batch", "makespan", load, changed)
        yield Case(f"max batch 8 to {most}, first token", "max_batch", "mean_ttft", load, changed)
