"""Answers of several questions at once: alternatives side by side, and a change beside its base."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from assay.asking.affording import within_limits
from assay.asking.alone import FEWEST_OF_EACH, NO_ANSWER, is_alone, is_by_article, no_comparison
from assay.asking.case import GPUS_OF_A_NODE
from assay.asking.cases import (
    ASSUMED_REQUESTS,
    accelerator_of,
    common_provider,
    gpus_of,
    serving_case,
)
from assay.asking.choosing import comparatives, wants_worst
from assay.asking.commands import Command
from assay.asking.layouts import requests_held
from assay.asking.outcome import Outcome
from assay.asking.reading import Reading
from assay.asking.splitting import ONE_INSTANCE
from assay.asking.spreading import spread
from assay.asking.text import MASKS
from assay.errors import AssayError, InputError
from assay.plurals import count

Answer = Callable[[Reading], Outcome]

COMPARED: Final = (
    "provider",
    "accelerator",
    "model",
    "format",
    "finance",
    "place",
    "engine",
    "offer",
    "gpus",
    "tensor",
    "site",
)
"""Slots whose values are alternatives where a question has several."""
_TRIED: Final = ("l4", "l40s", "a100_sxm", "h100_sxm", "h200_sxm", "b200_sxm")
"""Accelerators that "the cheapest GPU" is looked for among: one provider rents out all of them."""
_PROVIDER: Final = "aws"
_DRIVERS: Final[tuple[tuple[str, str, str], ...]] = (
    ("electricity_price", r"electricity|(?:power|energy) (?:price|cost|bill|tariff)s?|kwh", "econ.electricity.price"),
    ("rent", r"\brents?\b|rental|hourly (?:price|rate)|cloud price", "econ.rent.price"),
    ("gpu_price", r"(?:gpu|card|hardware)s?\s*(?:prices?|costs?|get|become|were|are)|capex", "econ.gpu.price"),
    ("load", r"utili[sz]ation|\bload\b", "econ.serving.load"),
    ("pue", r"\bpue\b", "thermal.dc.pue"),
    ("prompt", r"\bprompts?\b(?: length)?", "serving.prompt"),
    ("output", r"\b(?:output|answer) length\b", "serving.output"),
    ("concurrency", r"\bbatch(?: size)?\b|\bconcurrency\b|\b(?:number of )?users\b", "serving.concurrency"),
)  # fmt: skip
"""What a change may be of: the slot, the words for it, and the variable that has its base."""
_DRIVER_WORDS: Final = {slot: re.compile(words) for slot, words, _ in _DRIVERS}
_LONE: Final = re.compile(r"\ban? " + MASKS["accelerator"])
"""A GPU without a number, beside others with one."""
_EACH: Final = re.compile(r"\beach\b")
_LABELS: Final = {
    "tensor": "tensor {}", "concurrency": "batch {}", "context": "context {}", "prompt": "prompt {}",
    "output": "output {}",
}  # fmt: skip
_DEAREST_HOUR: Final = 100.0
"""Dollars below which a price beside a GPU is of an hour."""
_STATED: Final = 5
"""Of those, the ones that a question states a new value of: the others are what it is about."""
_PRICED: Final = re.compile(r"cheaper|expensive|dearer|\bprices?\b|\bcosts?\b")
_RENTED: Final = re.compile(r"^rent(?:al|s)?\b")
_OPPOSED: Final = re.compile(r"\bvs\b|\bversus\b|\bor\b|\binstead\b|\bcompared?\b|\bthan\b")
_IS_IT: Final = re.compile(
    r"^\W*(?:is|are|will|would|does|do)\b(?!.*\bor\b).*?\b(?P<word>(?:more|less) [a-z]+"
    r"|(?:fast|slow|cheap|quick|dear|clean|green|dirti|bigg|larg|small)er|better|worse|costlier)\b"
)
"""A question whether one alternative is so, not which of them."""
_OUTWORDED: Final = re.compile(r"^(?:higher|lower) ")
"""What a word of the question says better."""
_SAME: Final = 1.005
"""A ratio below which figures of three digits do not differ."""
_GAP: Final = re.compile(
    r"the catalog has no|needs (?:\d+ )?more inputs?|unknown (?:catalog )?entry"
)
_TRAINED_ON: Final = (64, 512, 4096)
"""Numbers of GPUs that training runs are compared on, the first that holds all of them."""
_UNITS: Final = {"electricity_price": 3.6e6, "rent": 3600.0}
"""Base units in the slot's unit: a kWh in joules, an hour in seconds."""


def alternatives(reading: Reading) -> tuple[frozenset[str], list[tuple[str, dict[str, Any]]]]:
    """The slots that a question gives several values of, and each alternative with its values.

    Numbers of GPUs belong to the accelerators that they stand beside: 4 H100 or 2 H200.
    """
    counts = [part.value for part in reading.mentions if part.slot == "gpus"]
    names = [part.value for part in reading.mentions if part.slot == "accelerator"]
    if len(names) > 1 and len(counts) == len(names) and len(set(counts)) > 1:
        every = [
            (f"{gpus} x {name}", {"gpus": gpus, "accelerator": name})
            for gpus, name in zip(counts, names, strict=True)
        ]
        rents = [part.value for part in reading.mentions if part.slot == "rent"]
        if len(rents) != len(names):
            return frozenset(("gpus", "accelerator")), every
        by_rent = zip(every, rents, strict=True)
        every = [
            (f"{name} at {rent:g} USD/h each", {**values, "rent": rent})
            for (name, values), rent in by_rent
        ]
        return frozenset(("gpus", "accelerator", "rent")), every
    if (paid := _rents_of(reading, names)) is not None:
        return paid
    slot = next((slot for slot in COMPARED if len(reading.values(slot)) > 1), "")
    if not slot and _OPPOSED.search(reading.rest):
        lengths = ("concurrency", "context", "prompt", "output")
        slot = next((slot for slot in lengths if len(reading.values(slot)) > 1), "")
    values = reading.values(slot)
    if not slot and len(reading.values("format")) == 1 and comparatives(reading):
        # Faster than what a format replaces.
        slot, values = "format", list(dict.fromkeys((*reading.values("format"), "bf16")))
    if len(values) < 2:
        return frozenset(), []
    label = _LABELS.get(slot, "{}")
    return frozenset((slot,)), [(label.format(value), {slot: value}) for value in values]


def _rents_of(
    reading: Reading, names: Sequence[str]
) -> tuple[frozenset[str], list[tuple[str, dict[str, Any]]]] | None:
    """Rents that stand beside the accelerators that they are of: an H100 at $2 or an H200 at $3."""
    for slot in ("rent", "budget"):
        prices = [part.value for part in reading.mentions if part.slot == slot]
        if len(names) > 1 and len(prices) == len(names) and max(prices) < _DEAREST_HOUR:
            pairs = zip(prices, names, strict=True)
            every = [
                (f"{name} at {price:g} USD/h", {"rent": price, "budget": None, "accelerator": name})
                for price, name in pairs
            ]
            return frozenset(("rent", "accelerator", slot)), every
    return None


def compare(
    reading: Reading, answer: Answer, *, more_is_better: bool, same_gpus: bool, trains: bool = False
) -> Outcome:
    """The same question for each alternative, and the best of them, or the worst if that is asked for.

    `same_gpus` gives all the most GPUs that one of them needs, where the question does not say; to
    runs (`trains`) a number that holds each of them.
    """
    more_first = more_is_better != wants_worst(reading, more_is_better)
    slots, every = alternatives(reading)
    several = "gpus" in reading.slots - slots and reading.get("gpus") != 1
    unsaid = _LONE.search(reading.rest) and not _EACH.search(reading.rest)
    if several and "accelerator" in slots and unsaid:
        raise InputError(
            f"{reading.get('gpus'):,} GPUs of which of them?", 'say so: "4 H100 or one H200"'
        )
    shared: dict[str, Any] = {}
    assumed = []
    rented = reading.get("finance") == "rent" and not reading.slots & {"provider", "rent", "offer"}
    if "accelerator" in slots and rented:
        # Prices of one comparison are those of one provider.
        provider = common_provider(reading.values("accelerator"))
        shared["provider"] = provider
        assumed += [f"rented at {provider}, on demand"] if provider else []
    if "offer" in slots and "provider" not in slots | reading.slots:
        # So are terms of renting: spot at one and on demand at another are unlike.
        terms = set(reading.values("offer"))
        provider = common_provider([accelerator_of(reading, "serving")], terms)
        shared["provider"] = provider
        assumed += [f"rented at {provider}"] if provider else []
    if slots & {"provider", "offer"}:
        shared["finance"] = None
    if same_gpus and not trains and not (slots | reading.slots) & {"concurrency", "rate"}:
        requests = _held_by_all(reading, slots, every)
        if requests is not None:
            reading = reading.with_values({"concurrency": requests})
            assumed.append(f"{count(requests, 'request')} at once")
    said = (slots | reading.slots) & {"gpus", "nodes", "tensor", "days"}
    if same_gpus and trains and not said:
        return _on_as_many(
            reading, [(name, {**shared, **values}) for name, values in every], answer, more_first
        )
    if same_gpus and not said:
        layouts = [serving_case(reading.with_values(values)).layout for _, values in every]
        if len(set(layouts)) > 1:
            shared["gpus"] = max(tensor * pipeline for tensor, pipeline in layouts)
            assumed.append(f"{shared['gpus']} GPUs for each")
    gpus = gpus_of(reading)
    if (
        same_gpus
        and gpus is not None
        and 1 < gpus <= GPUS_OF_A_NODE
        and not slots & {"accelerator", "gpus"}
    ):
        replicas = {spread(reading.with_values(values)).replicas for _, values in every}
        if len(replicas) > 1 and "tensor" not in slots:
            # In one layout: replicas would have other numbers of requests.
            shared["tensor"] = gpus
            assumed.append(f"{ONE_INSTANCE}{gpus} tensor ranks")
    outcome = _each(
        reading, [(name, {**shared, **values}) for name, values in every], answer, more_first
    )
    if is_alone(outcome):
        if "accelerator" not in slots or "gpus" in slots or not is_by_article(reading):
            raise no_comparison(outcome)
        outcome = compare(
            reading.with_values({"gpus": None}), answer, more_is_better=more_is_better,
            same_gpus=same_gpus, trains=trains,
        )  # fmt: skip
        assumed = [FEWEST_OF_EACH]
    return replace(outcome, assumed=(*assumed, *outcome.assumed))


def _held_by_all(
    reading: Reading, slots: frozenset[str], every: Sequence[tuple[str, Mapping[str, Any]]]
) -> int | None:
    """Requests at once that every alternative holds, where those of the scenario are too many for one.

    Of lengths one is asked about, and a lone request has no others beside it. None: as the scenario has.
    """
    if slots <= {"context", "prompt", "output"}:
        return 1
    several = reading.get("gpus", 1) != 1 and slots != {"format"}
    if "gpus" in slots or several or "nodes" in reading.slots:
        return None
    if not (slots | reading.slots) & {"gpus", "tensor"}:
        return None
    cases = [serving_case(reading.with_values(values)) for _, values in every]
    held = min(requests_held(case) for case in cases)
    return held if 1 <= held < ASSUMED_REQUESTS else None


def as_asked(reading: Reading, outcome: Outcome) -> Outcome:
    """The answer to "is A slower than B" begins with yes or no, and says the word again."""
    match, subject = _IS_IT.search(reading.rest), alternatives(reading)[1][0][0]
    if match is None or not outcome.choice or not outcome.ratio:
        return outcome
    differ = outcome.ratio >= _SAME
    verdict = "yes" if outcome.choice == subject and differ else "no"
    word = f"{outcome.choice} is {match['word']}, " if differ else ""
    behind = _OUTWORDED.sub("", outcome.text.removeprefix(f"{outcome.choice}, "))
    text = f"{verdict}: {word}{behind}"
    return replace(outcome, text=text, verdict=verdict)


def _on_as_many(
    reading: Reading,
    every: Sequence[tuple[str, Mapping[str, Any]]],
    answer: Answer,
    more_first: bool,
) -> Outcome:
    """Runs side by side on the same number of GPUs: each on its own fewest, all last as long."""
    for gpus in _TRAINED_ON:
        shared = [(name, {**values, "gpus": gpus}) for name, values in every]
        try:
            outcome = _each(reading, shared, answer, more_first)
        except InputError:
            if gpus == _TRAINED_ON[-1]:
                raise
            continue
        if gpus == _TRAINED_ON[-1] or not any(
            text.startswith(NO_ANSWER) for _, text in outcome.rows
        ):
            break
    return replace(outcome, assumed=(f"{gpus:,} GPUs for each", *outcome.assumed))


def best_accelerator(
    reading: Reading, answer: Answer, *, more_is_better: bool, of_cost: bool
) -> Outcome:
    """The best of some accelerators: by cost owned or rented at one provider, else on as many GPUs."""
    every = [(name, {"accelerator": name}) for name in _TRIED]
    more: dict[str, Any] = {}
    of = "owned GPUs"
    if not of_cost:
        layouts = [serving_case(reading.with_values(values)).layout for _, values in every]
        more = {"gpus": max(tensor * pipeline for tensor, pipeline in layouts)}
        of = f"{more['gpus']} GPUs of each"
    elif reading.get("finance") != "buy":
        limited = reading.slots & {"rent_limit", "cost_limit"}
        # Who looks for a limit looks at who asks for the least.
        provider = str(common_provider(_TRIED)) if limited else _PROVIDER
        provider = str(reading.get("provider", provider))
        more = {"provider": provider, "finance": None}
        of = f"GPUs that {provider} rents out, at its prices on demand"
    limits = {"rent_limit": reading.get("rent_limit"), "cost_limit": reading.get("cost_limit")}
    excluded: list[tuple[str, str]] = []
    if any(limits.values()):
        if "provider" not in more:
            raise InputError("a limit of rents, and owned GPUs", "leave the limit out")
        reading = reading.with_values(dict.fromkeys(limits))
        within, excluded, said = within_limits(reading, every, more["provider"], limits)
        every, of = within, f"{of}, {said}"
    outcome = _each(
        reading, [(name, {**values, **more}) for name, values in every], answer, more_is_better
    )
    names = ", ".join(name for name, _ in every)
    rows = [*outcome.rows, *excluded]
    return replace(outcome, assumed=(f"{of}: {names}", *outcome.assumed), rows=rows)


def _each(
    reading: Reading,
    every: Sequence[tuple[str, Mapping[str, Any]]],
    answer: Answer,
    more_is_better: bool,
) -> Outcome:
    outcomes, reasons = {}, {}
    for name, values in every:
        try:
            outcomes[name] = answer(replace(reading.with_values(values), points_only=True))
        except AssayError as error:
            if _GAP.search(error.message):
                # What the catalog does not know is not worse than what it knows.
                raise InputError(f"{name}: {error.message}", error.hint) from None
            reasons[name] = error.message
    return _best(outcomes, reasons, more_is_better)


def _best(
    outcomes: Mapping[str, Outcome], reasons: Mapping[str, str], more_is_better: bool
) -> Outcome:
    if not outcomes:
        name, reason = next(iter(reasons.items()))
        raise InputError(f"{name}: {reason}")
    ordered = sorted(
        outcomes, key=lambda name: (outcomes[name].number[0] or 0.0) * (-1 if more_is_better else 1)
    )
    first = outcomes[ordered[0]]
    rows = [(name, outcomes[name].text) for name in ordered]
    rows += [(name, f"{NO_ANSWER}: {reason}") for name, reason in reasons.items()]
    ratio = None
    text = f"{ordered[0]}: {first.text}"
    if len(ordered) > 1:
        ends = (first.number[0] or 0.0, outcomes[ordered[1]].number[0] or 0.0)
        ratio = max(ends) / min(ends) if min(ends) > 0 else None
        by = f"{'higher' if more_is_better else 'lower'} by {ratio or 1:.3g} times"
        if ratio and ratio < _SAME:
            by = "about the same"
        text = f"{ordered[0]}, {by}: {first.text}" if ratio else text
    shared = set.intersection(*(set(outcomes[name].assumed) for name in ordered))
    assumed = dict.fromkeys(
        line if line in shared else f"{name}: {line}"
        for name in ordered
        for line in outcomes[name].assumed
    )
    verdicts = [outcomes[name].verdict for name in ordered]
    if any(verdicts):
        text = "; ".join(outcomes[name].text for name in outcomes)
    return replace(
        first, text=text, choice="" if any(verdicts) else ordered[0], ratio=ratio, rows=rows,
        commands=tuple(line for name in outcomes for line in _commands_of(outcomes[name])),
        assumed=tuple(assumed), verdict="",
    )  # fmt: skip


def _commands_of(outcome: Outcome) -> tuple[Command, ...]:
    """The commands of an alternative: a figure by another has those of both."""
    divided = outcome.value is not None and " per " in outcome.unit
    return outcome.commands if divided else (outcome.result.command,)


def driver(reading: Reading) -> tuple[str, str] | None:
    """The slot and the variable that a change of the question is about."""
    if "factor" in reading.slots:
        # A value that the question gives is no change; what changes is named, and is one thing.
        named = [
            (slot, variable)
            for slot, _, variable in _DRIVERS
            if slot not in reading.slots and _DRIVER_WORDS[slot].search(reading.rest)
        ]
        if not named and any(_RENTED.search(part.words) for part in reading.mentions):
            # The word was read as the way that GPUs are paid for.
            return "rent", "econ.rent.price"
        if not named and "accelerator" in reading.slots and _PRICED.search(reading.text):
            return "gpu_price", "econ.gpu.price"
        return named[0] if len(named) == 1 else None
    return next(
        ((slot, variable) for slot, _, variable in _DRIVERS[:_STATED] if slot in reading.slots),
        None,
    )


def is_driver(word: str) -> bool:
    """Whether a word is of what may change."""
    return any(_DRIVER_WORDS[slot].search(word) for slot in _DRIVER_WORDS)


def _before(outcome: Outcome) -> str:
    """The figure without a change: its own text where it is not that of a variable."""
    return outcome.result.text if outcome.value is None else outcome.text.partition(": ")[0]


def what_if(reading: Reading, answer: Answer) -> Outcome:
    """The figure with a change beside the figure without it."""
    found_driver = driver(reading)
    if found_driver is None:
        raise InputError("a change of what?", 'such as "if electricity doubles"')
    slot, variable = found_driver
    base: dict[str, Any] = {"factor": None, slot: None}
    if slot == "rent":
        base["finance"] = "rent"
    if slot == "load":
        # A change of the load starts from the scenario's, not from servers that are always busy.
        base["load"] = serving_case(reading.with_values(base)).value(variable)
    before = replace(reading.with_values(base), points_only=True)
    value = reading.get(slot)
    if value is None:
        now = serving_case(before).value(variable)
        if now is None:
            raise InputError(f"{variable} has no value to change")
        value = now * _UNITS.get(slot, 1.0) * float(reading.get("factor"))
    after = before.with_values({slot: value})
    started = (f"before: {base['load']:.0%} load",) if slot == "load" else ()
    old, new = answer(before), answer(after)
    numbers = (old.number[0] or 0.0, new.number[0] or 0.0)
    ratio = numbers[1] / numbers[0] if numbers[0] else None
    change = f" ({ratio - 1:+.1%})" if ratio is not None else ""
    return replace(
        new, text=f"{new.text}{change}; before: {_before(old)}", ratio=ratio,
        commands=(new.result.command, old.result.command),
        rows=[("with the change", new.text), ("without", old.text)],
        assumed=tuple(dict.fromkeys((*started, *new.assumed, *old.assumed))),
    )  # fmt: skip
