"""Answers about the memory of serving: weights, KV cache, what fits, and how many users."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from assay.asking.amounts import rounded
from assay.asking.case import Case
from assay.asking.cases import (
    CONCURRENCIES,
    accelerator_of,
    gpus_of,
    model_of,
    serving_case,
    unsaid_lengths,
    unsaid_limits,
)
from assay.asking.commands import Minimize, Result
from assay.asking.dividing_users import divided
from assay.asking.layouts import dividing_requests, fewest_for_requests, requests_held
from assay.asking.outcome import Outcome
from assay.asking.reading import Reading
from assay.asking.splitting import fewest, is_held, laid_out, memory, widest
from assay.asking.text import MASKS
from assay.catalog import entries, models, offers
from assay.errors import AssayError, InfeasibleError, InputError
from assay.model.language.units import parse_unit
from assay.plurals import count

_SINGLE: Final = (
    "l4", "rtx_4090", "rtx_5090", "l40s", "a100_sxm", "h100_sxm", "h200_sxm", "b200_sxm", "mi300x",
)  # fmt: skip
"""Accelerators that "which GPU" is looked for among."""
_LARGE: Final = ("b200_sxm", "mi300x", "h200_sxm", "h100_sxm")
"""GPUs that several of are taken where one is too small."""
_LIMITS: Final = (
    ("ttft_limit", 1.0, "serving.time_to_first_token"),
    ("tpot_limit", 0.05, "serving.time_per_output_token"),
)
"""Slots of limits, what the scenario has in seconds, and what they limit."""
_CAPACITY: Final = "gpu.memory.capacity"
_A_SINGLE: Final = re.compile(r"\b(?:an?|one|single|my) " + MASKS["accelerator"])


def weights(reading: Reading) -> Outcome:
    """Bytes of the weights of one copy of the model."""
    case = serving_case(reading, fits=False)
    result = _fact(case, "serving.weight_memory")
    split = f", on each of {case.layout[0] * case.layout[1]} GPUs" if case.layout != (1, 1) else ""
    size = result.text if split else result.text.removesuffix("/GPU")
    return Outcome(
        f"weights: {size}{split}", result, assumed=(*_model_only(case), *_in_16_bits(case))
    )


def _in_16_bits(case: Case) -> tuple[str, ...]:
    """That the embedding and the output projection keep more bits than the other weights."""
    stored, kept = case.values("serving.weight_bytes", "serving.embedding_bytes")
    if stored is None or kept is None or kept <= stored:
        return ()
    return (
        f"embedding and output projection in {8 * kept:g} bits, the other weights in {8 * stored:g}",
    )


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
    weight = own.number[0] or math.nan
    total = weight + cached
    text = f"{rounded(total)} GB: {rounded(weight)} of weights, {cached:,.3g} of KV cache"
    cache_format = () if "kv_format" in reading.slots else ("KV cache in 16 bits",)
    assumed = dict.fromkeys(
        (*own.assumed, *cache.assumed, *cache_format, "activations not counted")
    )
    commands = (own.result.command, cache.result.command)
    return replace(
        own, text=text, value=total, unit="GB", assumed=tuple(assumed), commands=commands
    )


def _fact(case: Case, target: str) -> Result:
    """A figure of the model, whatever the limits of the scenario's deployment."""
    return replace(case.resolve(target, intervals=False).run(), violated=())


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
        result = _fact(case, "serving.kv.bytes_per_token")
        return Outcome(f"{result.meaning}: {result.text}", result, assumed=_model_only(case))
    case = serving_case(reading.with_values({"concurrency": None}), fits=False)
    result = _fact(case, "serving.kv.request_memory")
    if requests is None or result.value is None:
        return Outcome(f"{result.meaning}: {result.text}", result, assumed=_model_only(case))
    whole = requests * result.value / 1e3
    text = f"{whole:,.1f} GB: {requests:,} requests of {result.text} each"
    return Outcome(text, result, assumed=_model_only(case), value=whole, unit="GB")


def cached_tokens(reading: Reading) -> Outcome:
    """Tokens that a KV cache of a size holds."""
    size = float(reading.get("cache_size"))
    outcome = kv_cache(reading.with_values({"cache_size": None}))
    each = (outcome.result.value or math.nan) * float(parse_unit(outcome.result.unit).scale)
    number = math.floor(size * 1e9 / each)
    text = f"{number:,} tokens: {size:g} GB at {outcome.result.text}"
    return replace(outcome, text=text, value=number, unit="token")


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
    case = _of_size(case, reading)
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
        if share + request <= sizes[_CAPACITY] / 1e9:
            reason = f"tight: {reason}"
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


def _of_size(case: Case, reading: Reading) -> Case:
    """The case on GPUs of the memory that the question says, instead of those of the scenario.

    Cards are sold by their GiB, which their makers write as GB: 24 GB of an RTX 4090 are 24 GiB.
    """
    size = reading.get("memory")
    if size is None:
        return case
    if "accelerator" in reading.slots:
        raise InputError(f"an accelerator and {size:g} GB of memory", "say one of them")
    kept = tuple(line for line in case.assumed if not line.startswith("accelerator"))
    said = f"GPUs of {size:g} GB have {size:g} GiB"
    return replace(case.given(gpu__memory__capacity=f"{size:g} GiB/GPU"), assumed=(*kept, said))


def size_fit(reading: Reading) -> Outcome:
    """Whether weights of a size fit on the GPUs, of whose memory an engine takes a share."""
    size, gpus = float(reading.get("memory")), gpus_of(reading) or 1
    case = serving_case(
        reading.with_values({"memory": None, "gpus": None, "nodes": None}), fits=False
    )
    result = _fact(case, _CAPACITY)
    share = case.value("serving.memory_share") or 1.0
    room = share * gpus * (result.value or math.nan)
    verdict = "yes" if size < room else "no"
    machine = f"{gpus:,} x {accelerator_of(reading)}"
    text = (
        f"{verdict}: {size:g} GB of weights, and {rounded(room)} GB that an engine takes of {machine}: "
        f"{abs(room - size):,.3g} GB {'are left for KV cache and activations' if size < room else 'too few'}"
    )
    return Outcome(text, result, assumed=(f"{share:.0%} of the memory", "the size is of the weights"),
                   verdict=verdict)  # fmt: skip


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
    case, held = serving_case(reading, fits="memory" not in reading.slots, lone=True), 0
    machine, size = accelerator_of(reading), reading.get("memory")
    if size is not None:
        case, machine = _of_size(case, reading), f"{size:g} GB"
        case = laid_out(case, fewest(case, lone=True))
    if requests is not None:
        case, held = fewest_for_requests(case, requests, reading)
    result = _fact(case, "serving.kv.max_concurrency")
    each = case.layout[0] * case.layout[1]
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
    unlimited = "by memory, without a limit of latency"
    of_users = None if size is not None else divided(reading.with_values({"concurrency": requests}))
    if of_users is not None and (in_time := of_users.replicas * of_users.gpus) > gpus:
        unlimited = f"{unlimited}: {in_time:,} where {of_users.limits}"
    assumed = (*unsaid_lengths(reading), unlimited, *case.assumed)
    return Outcome(text, result, assumed=assumed, value=gpus, unit="GPU")


def users(reading: Reading) -> Outcome:
    """Requests at once: those that the service level allows, or those that the KV cache holds.

    Where the question says how many there are: whether they are served.
    """
    limited = reading.slots & {"tpot_limit", "ttft_limit"}
    if limited and "memory" in reading.slots:
        raise InputError("limits of latency on GPUs of a size", "name the GPU")
    if "concurrency" in reading.slots:
        return _in_time(reading) if limited else fit(reading)
    if limited:
        case = serving_case(reading)
        command = Minimize(
            "serving.batch", (f"serving.concurrency={CONCURRENCIES} request",), case.preset,
            case.includes, case.assign, case.variant, case.offer, maximize=True,
        )  # fmt: skip
        try:
            result = command.run()
        except InfeasibleError as error:
            return _nobody_in_time(reading, case, error)
        text = (
            f"{result.value:,.0f} users at once within the limits, of those tried: {CONCURRENCIES}"
        )
        assumed = (*unsaid_limits(reading), *unsaid_lengths(reading), *case.assumed)
        return Outcome(text, result, assumed=assumed)
    case = dividing_requests(_on_given_or_fewest(reading))
    result = case.resolve("serving.kv.max_concurrency", intervals=False).run()
    if "serving.fits_memory" in dict(result.violated):
        return fit(reading)
    held, result = requests_held(case), replace(result, violated=())
    text = f"the KV cache holds {held:,} requests of {_tokens_of(case):,.0f} tokens at once"
    assumed = (*unsaid_lengths(reading), "by memory, without a limit of latency", *case.assumed)
    return Outcome(text, result, assumed=assumed, value=held, unit="request")


def _nobody_in_time(reading: Reading, case: Case, error: InfeasibleError) -> Outcome:
    """That not even one request is within the limits, and by how much."""
    unlimited = dict.fromkeys(("ttft_limit", "tpot_limit"))
    alone = serving_case(reading.with_values({**unlimited, "concurrency": 1}))
    for slot, usual, target in _LIMITS:
        limit = 1e3 * reading.get(slot, usual)
        result = alone.resolve(target, intervals=False).run()
        if (result.value or 0.0) > limit:
            text = f"none: one user alone has {result.meaning}: {result.text}, {rounded(limit)} ms at most"
            assumed = (*unsaid_limits(reading), *unsaid_lengths(reading), *case.assumed)
            return Outcome(text, replace(result, violated=()), (), assumed, value=0, unit="request")
    raise error


def _on_given_or_fewest(reading: Reading) -> Case:
    """The case on the question's GPUs; on one, or on the fewest that hold the model."""
    if "memory" in reading.slots:
        return _of_size(serving_case(reading.with_values({"memory": None}), fits=False), reading)
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
    for slot, _, target in _LIMITS:
        if slot not in reading.slots:
            continue
        result = case.resolve(target, "--constraints").run()
        results.append(result)
        limit = 1e3 * reading.get(slot)
        texts.append(f"{result.meaning}: {result.text}, {rounded(limit)} ms at most")
        if (result.value or math.inf) > limit:
            verdict = "no"
    assumed = (*unsaid_lengths(reading), *case.assumed)
    commands = tuple(result.command for result in results)
    return Outcome(f"{verdict}: {'; '.join(texts)}", results[0], commands, assumed, verdict=verdict)


def rented_below(names: Sequence[str], limit: float) -> list[str]:
    """Those whose usual offer is at most a limit."""
    usual = {name: offers.usual(name) for name in names}
    return [
        name for name, offer in usual.items() if offer is not None and offer.usd_per_hour <= limit
    ]


def smallest(reading: Reading) -> Outcome:
    """The GPU of the least memory that holds a model by itself, of those that are usual."""
    limit = reading.get("rent_limit")
    names = _SINGLE if limit is None else rented_below(_SINGLE, limit)
    if not names:
        raise InputError(f"none of {', '.join(_SINGLE)} is rented out for ${limit:g} an hour")
    reading = reading.with_values({"rent_limit": None, "finance": None})
    sizes = {name: entries.read("accelerators", name).given[_CAPACITY] / 1e9 for name in names}
    ordered = sorted(sizes, key=lambda name: sizes[name])
    case = serving_case(reading.with_values(dict.fromkeys(("context", "concurrency"))), fits=False)
    needed, share = (
        value or math.nan for value in case.values("serving.weight_memory", "serving.memory_share")
    )
    rows, fitting = [], {}
    for name in ordered:
        is_near = needed / 1e9 < share * sizes[name]
        outcome = fit(reading.with_values({"accelerator": name})) if is_near else None
        if outcome is not None and outcome.verdict == "yes":
            fitting[name] = outcome
            rows.append((name, f"yes: {outcome.text.partition('; ')[2]}"))
            continue
        size = f"{rounded(sizes[name])} GB of memory, of which the engine takes {share:.0%}"
        rows.append((name, f"no: {rounded(needed / 1e9)} GB of weights, {size}"))
    if not fitting and limit is not None:
        raise InputError(f"none of {', '.join(names)} holds {model_of(reading)} by itself")
    if not fitting:
        return _fewest_of_each(reading)
    first = next(iter(fitting.values()))
    commands = tuple(outcome.result.command for outcome in fitting.values())
    text = f"{', '.join(fitting)}: the one of least memory first"
    priced = (
        ()
        if limit is None
        else (f"at the usual offers of the catalog: at most ${limit:g} an hour",)
    )
    return replace(first, text=text, rows=rows, verdict="", choice=next(iter(fitting)),
                   commands=commands, result=replace(first.result, violated=()),
                   assumed=(*priced, *first.assumed))  # fmt: skip


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
    requests = reading.get("concurrency")
    case = _on_given_or_fewest(reading.with_values({"concurrency": None}))
    result = case.resolve("serving.kv.capacity", intervals=False).run()
    if "serving.fits_memory" in dict(result.violated):
        return fit(reading)
    result = replace(result, violated=())
    context = models.find(model_of(reading)).context
    limit = f"; the model takes {context:,}" if context else ""
    text = f"the KV cache holds {result.value:,.0f} tokens{limit}"
    if requests is None:
        return Outcome(text, result, assumed=case.assumed)
    each = math.floor((result.value or 0.0) / requests)
    text = f"{each:,} tokens for each of {count(requests, 'request')}: {text}"
    return Outcome(text, result, assumed=case.assumed, value=each, unit="token")
