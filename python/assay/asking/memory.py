"""Answers about the memory of serving: weights, KV cache, what fits, and how many users."""

from __future__ import annotations

import contextlib
import math
import re
from dataclasses import replace
from typing import Final

from assay.asking.cases import (
    CONCURRENCIES,
    Case,
    accelerator_of,
    gpus_of,
    is_held,
    memory,
    model_of,
    serving_case,
    unsaid_lengths,
    unsaid_limits,
    widest,
)
from assay.asking.commands import Minimize
from assay.asking.layouts import dividing_requests, fewest_for_requests, requests_held
from assay.asking.outcome import Outcome
from assay.asking.reading import Reading
from assay.asking.text import MASKS
from assay.catalog import entries, models
from assay.errors import AssayError, InputError
from assay.plurals import count

_SINGLE: Final = (
    "l4", "rtx_4090", "rtx_5090", "l40s", "a100_sxm", "h100_sxm", "h200_sxm", "b200_sxm", "mi300x",
)  # fmt: skip
"""Accelerators that "which GPU" is looked for among."""
_LARGE: Final = ("b200_sxm", "mi300x", "h200_sxm", "h100_sxm")
"""GPUs that several of are taken where one is too small."""
_CAPACITY: Final = "gpu.memory.capacity"
_A_SINGLE: Final = re.compile(r"\b(?:an?|one|single|my) " + MASKS["accelerator"])


def weights(reading: Reading) -> Outcome:
    """Bytes of the weights of one copy of the model."""
    case = serving_case(reading, fits=False)
    result = case.resolve("serving.weight_memory", intervals=False).run()
    split = f", on each of {case.layout[0] * case.layout[1]} GPUs" if case.layout != (1, 1) else ""
    return Outcome(f"weights: {result.text}{split}", result, assumed=_model_only(case))


def whole(reading: Reading) -> Outcome:
    """Bytes of the weights, and of the KV cache of all requests where their lengths are said."""
    lengths = dict.fromkeys(("context", "prompt", "output", "concurrency"))
    own = weights(reading.with_values(lengths))
    if not reading.slots & {"context", "prompt", "output"}:
        if "concurrency" in reading.slots:
            raise InputError("requests of how many tokens?", 'say so: "... at 8k context"')
        return own
    cache = kv_cache(reading.with_values({"format": None}))
    cached, unit = cache.number
    if cached is None or own.result.value is None:
        raise InputError("no value for the memory of weights and KV cache")
    cached *= 1.0 if unit == "GB" else 1e-3
    total = own.result.value + cached
    text = f"{total:,.4g} GB: {own.result.value:,.4g} of weights, {cached:,.3g} of KV cache"
    cache_format = () if "kv_format" in reading.slots else ("KV cache in 16 bits",)
    assumed = dict.fromkeys(
        (*own.assumed, *cache.assumed, *cache_format, "activations not counted")
    )
    commands = (own.result.command, cache.result.command)
    return replace(
        own, text=text, value=total, unit="GB", assumed=tuple(assumed), commands=commands
    )


def _model_only(case: Case) -> tuple[str, ...]:
    """Assumptions without the accelerator, where memory does not depend on it."""
    return tuple(line for line in case.assumed if not line.startswith("accelerator"))


def kv_cache(reading: Reading) -> Outcome:
    """Bytes of the KV cache: of a token, of a context, or of several requests of it."""
    if "weights" in reading.words():
        raise InputError("the KV cache does not depend on the format of weights", "leave it out")
    if (name := reading.get("format")) is not None and "kv_format" not in reading.slots:
        reading = reading.with_values({"kv_format": name, "format": None})
    requests = reading.get("concurrency")
    if not reading.slots & {"context", "prompt", "output"}:
        case = serving_case(reading, fits=False)
        result = case.resolve("serving.kv.bytes_per_token", intervals=False).run()
        return Outcome(f"{result.meaning}: {result.text}", result, assumed=_model_only(case))
    case = serving_case(reading.with_values({"concurrency": None}), fits=False)
    result = case.resolve("serving.kv.request_memory", intervals=False).run()
    if requests is None or result.value is None:
        return Outcome(f"{result.meaning}: {result.text}", result, assumed=_model_only(case))
    whole = requests * result.value / 1e3
    text = f"{whole:,.1f} GB: {requests:,} requests of {result.text} each"
    return Outcome(text, result, assumed=_model_only(case), value=whole, unit="GB")


def fit(reading: Reading) -> Outcome:
    """Whether a model fits on the GPUs, in any layout of them."""
    gpus = gpus_of(reading) or 1
    if "prompt" in reading.slots and "output" not in reading.slots:
        # A prompt alone is the whole context that has to fit.
        reading = reading.with_values({"prompt": None, "context": reading.get("prompt")})
    case = serving_case(
        reading.with_values({"gpus": None, "nodes": None, "concurrency": None}), fits=False
    )
    if (tensor := reading.get("tensor")) is not None and gpus_of(reading) is None:
        gpus = int(tensor)
    size = reading.get("memory")
    if size is not None:
        if "accelerator" in reading.slots:
            raise InputError(f"an accelerator and {size:g} GB of memory", "say one of them")
        case = case.given(gpu__memory__capacity=f"{size:g} GB/GPU")
        case = replace(case, assumed=tuple(t for t in case.assumed if "accelerator" not in t))
    if "tensor" not in reading.slots:
        case = widest(case, gpus)
    case = dividing_requests(case)
    each = case.layout[0] * case.layout[1]
    result = case.resolve("serving.kv.max_concurrency", "--constraints", intervals=False).run()
    broken = dict(result.violated)
    sizes = memory(case)
    heads = round(sizes["architecture.heads"])
    splits = heads % case.layout[0] == 0
    held = is_held(sizes) and splits and "serving.fits_memory" not in broken
    machine = f"{gpus} x {accelerator_of(reading) if size is None else f'{size:g} GB'}"
    share = sizes["serving.weight_memory"] / 1e9
    if not held:
        request = sizes["serving.one_request_memory"] / 1e9
        reason = (
            f"its weights take {share:.4g} GB of each GPU, a request of {_tokens_of(case):,.0f} "
            f"tokens {request:.3g} GB, in {sizes[_CAPACITY] / 1e9:.4g} GB of which the engine keeps some"
        )
        if not splits:
            reason = f"{heads} query heads cannot be split over {count(case.layout[0], 'GPU')}"
        return Outcome(f"no: {model_of(reading)} does not fit on {machine}; {reason}", result,
                       assumed=case.assumed, verdict="no")  # fmt: skip
    replicas = gpus // each
    requests = requests_held(case) * replicas
    asked = reading.get("concurrency", 1)
    if requests < asked:
        text = (
            f"no: {model_of(reading)} fits on {machine}, but its KV cache holds {count(requests, 'request')} "
            f"of {_tokens_of(case):,.0f} tokens, not {asked:,}"
        )
        return Outcome(text, result, assumed=case.assumed, verdict="no")
    text = (
        f"yes: {model_of(reading)} fits on {machine}{_layout_text(case.layout, gpus)}; weights take "
        f"{share:.4g} GB of each, and the KV cache holds {count(requests, 'request')} of {_tokens_of(case):,.0f} tokens"
    )
    return Outcome(text, result, assumed=case.assumed, verdict="yes")


def _layout_text(layout: tuple[int, int], gpus: int) -> str:
    """The layout by its words, where not every GPU is a tensor rank of one instance."""
    tensor, pipeline = layout
    if layout == (gpus, 1):
        return ""
    ranks = f"{count(tensor, 'tensor rank')} x {count(pipeline, 'pipeline stage')}"
    instances, rest = divmod(gpus, tensor * pipeline)
    if (instances, rest) == (1, 0):
        return f", as {ranks}"
    idle = f", {count(rest, 'GPU')} idle" if rest else ""
    if layout == (1, 1):
        return f": {count(instances, 'replica')} of one GPU{idle}"
    return f": {count(instances, 'instance')} of {ranks}{idle}"


def _tokens_of(case: Case) -> float:
    prompt, output = case.values("serving.prompt", "serving.output")
    return (prompt or 0) + (output or 0)


def fewest_gpus(reading: Reading) -> Outcome:
    """The fewest GPUs that hold a model."""
    requests = reading.get("concurrency")
    reading = reading.with_values({"gpus": None, "nodes": None, "concurrency": None})
    case, held = serving_case(reading, lone=True), 0
    if requests is not None:
        case, held = fewest_for_requests(case, requests, reading)
    result = case.resolve("serving.kv.max_concurrency", "--constraints", intervals=False).run()
    each = case.layout[0] * case.layout[1]
    machine = accelerator_of(reading)
    if requests is None:
        text = (
            f"{each} x {machine}: the fewest of 1, 2, 4, 8, 16, 32 and 64 that hold "
            f"{model_of(reading)} and a request"
        )
        return Outcome(text, result, assumed=case.assumed, value=each, unit="GPU")
    instances = math.ceil(requests / held)
    gpus = instances * each
    text = (
        f"{gpus:,} x {machine}: {count(instances, 'instance')} of {each}, whose KV cache holds "
        f"{held:,} requests of {_tokens_of(case):,.0f} tokens each"
    )
    assumed = (*unsaid_lengths(reading), "by memory, without a limit of latency", *case.assumed)
    return Outcome(text, result, assumed=assumed, value=gpus, unit="GPU")


def users(reading: Reading) -> Outcome:
    """Requests at once: those that the service level allows, or those that the KV cache holds.

    Where the question says how many there are: whether they are served.
    """
    limited = reading.slots & {"tpot_limit", "ttft_limit"}
    if "concurrency" in reading.slots:
        return _in_time(reading) if limited else fit(reading)
    if limited:
        case = serving_case(reading)
        command = Minimize(
            "serving.batch", (f"serving.concurrency={CONCURRENCIES} request",), case.preset,
            case.includes, case.assign, case.variant, case.offer, maximize=True,
        )  # fmt: skip
        result = command.run()
        text = (
            f"{result.value:,.0f} users at once within the limits, of those tried: {CONCURRENCIES}"
        )
        assumed = (*unsaid_limits(reading), *unsaid_lengths(reading), *case.assumed)
        return Outcome(text, result, assumed=assumed)
    case = dividing_requests(_on_given_or_fewest(reading))
    result = case.resolve("serving.kv.max_concurrency", intervals=False).run()
    if "serving.fits_memory" in dict(result.violated):
        return fit(reading)
    held = requests_held(case)
    text = f"the KV cache holds {held:,} requests of {_tokens_of(case):,.0f} tokens at once"
    assumed = (*unsaid_lengths(reading), "by memory, without a limit of latency", *case.assumed)
    return Outcome(text, result, assumed=assumed, value=held, unit="request")


def _on_given_or_fewest(reading: Reading) -> Case:
    """The case on the question's GPUs; on one, or on the fewest that hold the model."""
    if gpus_of(reading) is not None or "tensor" in reading.slots:
        return serving_case(reading)
    if _A_SINGLE.search(reading.rest):
        return serving_case(reading.with_values({"gpus": 1}))
    return serving_case(reading, lone=True)


def _in_time(reading: Reading) -> Outcome:
    """Whether so many requests at once are within their limits of latency."""
    unlimited = reading.with_values({"ttft_limit": None, "tpot_limit": None})
    fitting = fit(unlimited)
    if fitting.verdict == "no":
        return fitting
    case = serving_case(unlimited)
    verdict, texts, results = "yes", [], []
    for slot, target in (
        ("ttft_limit", "serving.time_to_first_token"),
        ("tpot_limit", "serving.time_per_output_token"),
    ):
        if slot not in reading.slots:
            continue
        result = case.resolve(target, "--constraints").run()
        results.append(result)
        limit = 1e3 * reading.get(slot)
        texts.append(f"{result.meaning}: {result.text}, {limit:,.4g} ms at most")
        if (result.value or math.inf) > limit:
            verdict = "no"
    assumed = (*unsaid_lengths(reading), *case.assumed)
    commands = tuple(result.command for result in results)
    return Outcome(f"{verdict}: {'; '.join(texts)}", results[0], commands, assumed, verdict=verdict)


def smallest(reading: Reading) -> Outcome:
    """The GPU of the least memory that holds a model by itself, of those that are usual."""
    ordered = sorted(_SINGLE, key=lambda name: entries.read("accelerators", name).given[_CAPACITY])
    outcomes = {name: fit(reading.with_values({"accelerator": name})) for name in ordered}
    fitting = [name for name in ordered if outcomes[name].verdict == "yes"]
    rows = [(name, outcome.text) for name, outcome in outcomes.items()]
    if not fitting:
        return _fewest_of_each(reading)
    first = outcomes[fitting[0]]
    commands = tuple(outcome.result.command for outcome in outcomes.values())
    return replace(first, text=f"{', '.join(fitting)}: the one of least memory first", rows=rows,
                   verdict="", choice=fitting[0], commands=commands)  # fmt: skip


def _fewest_of_each(reading: Reading) -> Outcome:
    """How many of the usual large GPUs hold a model that none holds by itself: the fewest first."""
    outcomes = {}
    for name in _LARGE:
        with contextlib.suppress(AssayError):
            outcomes[name] = fewest_gpus(reading.with_values({"accelerator": name}))
    if not outcomes:
        raise InputError(f"64 of none of {', '.join(_LARGE)} hold {model_of(reading)}")
    ordered = sorted(outcomes, key=lambda name: outcomes[name].value or math.inf)
    first = outcomes[ordered[0]]
    text = "none by itself; " + ", ".join(f"{outcomes[name].value:g} x {name}" for name in ordered)
    return replace(first, text=text, rows=[(name, outcomes[name].text) for name in ordered],
                   choice=ordered[0], commands=tuple(outcomes[name].result.command for name in ordered))  # fmt: skip


def longest_context(reading: Reading) -> Outcome:
    """Tokens that the KV cache holds: the context of a lone request, if the model takes it."""
    case = _on_given_or_fewest(reading)
    result = case.resolve("serving.kv.capacity", intervals=False).run()
    if "serving.fits_memory" in dict(result.violated):
        return fit(reading)
    context = models.find(model_of(reading)).context
    limit = f"; the model takes {context:,}" if context else ""
    text = f"the KV cache holds {result.value:,.0f} tokens{limit}"
    return Outcome(text, result, assumed=case.assumed)
