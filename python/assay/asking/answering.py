"""`assay ask`: a question is understood and answered, or refused with the command that comes nearest."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from assay.answers import Answer
from assay.asking import variables
from assay.asking.adapting import adapted, with_sized_gpus
from assay.asking.choosing import asks_for_best, chosen_kinds, superlatives
from assay.asking.commands import SERVING, Command, Resolve
from assay.asking.comparing import alternatives, as_asked, best_accelerator, compare, what_if
from assay.asking.intents.intent import Intent
from assay.asking.intents.table import INTENTS, has_cue, understood_words
from assay.asking.names import near, near_words, swapped, title
from assay.asking.nearest import filled, keeps
from assay.asking.outcome import Outcome
from assay.asking.reading import COMMON, FILLER, Mention, Reading, read
from assay.asking.recognizing import is_change, recognized, workload_of
from assay.asking.rents import with_price_per_gpu
from assay.asking.several import joined, parts_of
from assay.asking.text import LONGEST, MASKS
from assay.asking.units import in_asked_unit
from assay.asking.unused import unused
from assay.catalog import constants, entries
from assay.errors import AssayError, InputError

_COMPOUND: Final = re.compile(r"(?<![a-z0-9.])[a-z0-9.]+(?:[-_/][a-z0-9]+(?:\.\d+)?)+")
_PER_GPU: Final = (
    "throughput", "ttft", "tpot", "latency", "capacity", "duration", "training-throughput", "mfu",
)  # fmt: skip
"""Intents whose figures compare only on the same number of GPUs."""
_OF_A_RUN: Final = (
    "duration", "train-cost", "energy", "emissions", "water", "gpu-hours", "train-electricity",
)  # fmt: skip
"""Intents of a run whose ratio hardly depends on its tokens."""
_COMPARED_TOKENS: Final = 1e12
_CURRENCY: Final = re.compile(
    r"\b(?:euros?|eur|pounds?|gbp|yen|jpy|yuan|cny|rmb|rupees?|inr|francs?|chf)\b"
)
_SEVERAL: Final = re.compile(r"\band (?:how (?:much|many|long|fast)|what|which)\b")

_LISTED: Final = re.compile(
    r"\bhow (?:long|much|many|fast)\b[^,;]{0,16}, ?how (?:long|much|many|fast)\b"
)


@dataclass(frozen=True)
class AskAnswer(Answer):
    """What was understood of a question, and its answer.

    `outcome` is None where the question is refused; `nearest` then is the command that comes nearest
    with every name and number of the question, or nothing.
    """

    reading: Reading
    intent: str
    outcome: Outcome | None
    unknown: Sequence[str] = ()
    nearest: str = ""

    def headline(self) -> str:
        """The answer in words, as the command prints it first."""
        return "" if self.outcome is None else self.outcome.text

    def to_json(self) -> dict[str, Any]:
        """The understanding, and the answer with its commands, as JSON data."""
        outcome = self.outcome
        return {
            "question": self.reading.question,
            "intent": self.intent,
            "candidates": [] if outcome is None else [self._candidate(outcome)],
            "entries": [_entry(mention) for mention in self.reading.mentions],
            "presets": []
            if outcome is None
            else list(filter(None, [outcome.result.command.preset])),
            "not_understood": list(self.unknown),
            "commands": [self.nearest][: bool(self.nearest)] if outcome is None else outcome.lines,
            "assumed": [] if outcome is None else list(outcome.assumed),
            "answer": self._answer(),
        }

    def _candidate(self, outcome: Outcome) -> dict[str, Any]:
        """The variable of the answer, with the words that ask for it."""
        result = outcome.result
        words = [word for word in self.reading.words() if word not in FILLER]
        return {
            "name": result.target, "meaning": result.meaning, "unit": result.unit, "score": 1.0,
            "words": words,
        }  # fmt: skip

    def _answer(self) -> dict[str, Any]:
        outcome = self.outcome
        if outcome is None:
            return {
                "target": None, "preset": "", "with": [], "assign": [], "command": self.nearest,
                "value": None, "unit": None, "lo": None, "hi": None, "text": None,
                "verdict": None, "choice": None, "ratio": None, "rows": [], "missing": [],
                "violated": [], "problem": self.problem and self.problem.message,
            }  # fmt: skip
        result, command = outcome.result, outcome.result.command
        (value, unit), (lo, hi) = outcome.number, outcome.ends
        return {
            "target": result.target,
            "preset": command.preset,
            "with": list(command.includes),
            "assign": list(command.assign),
            "command": outcome.lines[0],
            "value": value,
            "unit": unit,
            "lo": lo,
            "hi": hi,
            "text": outcome.text,
            "verdict": outcome.verdict or None,
            "choice": outcome.choice or None,
            "ratio": outcome.ratio,
            "rows": [list(row) for row in outcome.rows],
            "missing": list(result.missing),
            "violated": [] if outcome.verdict else outcome.broken,
            "problem": None,
        }


def _entry(mention: Mention) -> dict[str, Any]:
    """A name or number that was read; names by their titles, numbers by the words that say them."""
    named = isinstance(mention.value, str) and mention.slot in MASKS
    shown = title(mention.slot, mention.value) if named else mention.words
    return {
        "entry": f"{mention.slot} {mention.value}",
        "title": shown,
        "words": mention.words.split(),
    }


def ask(question: str) -> AskAnswer:
    """Answer a question in words, or refuse it with the words that were not understood.

    Every name, number and word of the question is used, or there is no answer but the command that
    comes nearest. The commands that were run give the same figures.

    >>> ask("Does Llama 405B fit on 8 H100?").outcome.verdict
    'no'
    """
    if (length := len(" ".join(question.split()))) > LONGEST:
        raise InputError(
            f"a question of at most {LONGEST} characters, got {length:,}", "ask for less at once"
        )
    reading = read(question)
    if not reading.text.strip(" ?.!"):
        raise InputError(
            "the question is empty", 'such as: assay ask "does Llama 3.1 70B fit on one H200?"'
        )
    reading, intent, workload = recognized(reading)
    sized = with_sized_gpus(reading, intent)
    if sized is not reading:
        reading, intent, workload = recognized(sized)
    if intent is None:
        return _variable(reading)
    if _SEVERAL.search(reading.rest) or _LISTED.search(reading.rest):
        return _several(reading, intent, workload)
    if intent.answer is None:
        reason, _, command = intent.nearest.partition(": ")
        return _refused(
            reading, intent, [], InputError(reason, filled(command, reading, workload)), workload
        )
    if (money := _CURRENCY.search(reading.rest)) is not None:
        dollars = InputError(f'"{money[0]}": prices are in US dollars', "say it in dollars")
        return _refused(reading, intent, [], dollars, workload)
    reading = adapted(reading, intent)
    if intent.name in ("break-even", "payback", "buy-or-rent"):
        # Owning and renting are the two sides of it, not alternatives to ask for one by one.
        reading = reading.with_values({"finance": None})
    try:
        if 0 in (*reading.values("gpus"), *reading.values("nodes")):
            raise InputError("no GPUs at all: expected at least one", "say how many")
        reading = with_price_per_gpu(reading)
    except AssayError as error:
        return _refused(reading, intent, [], error, workload)
    slots = alternatives(reading)[0]
    changes = is_change(reading) and intent.name != "physical-change"
    if intent.name == "equivalent" and slots == {"accelerator"}:
        # Both belong to one answer.
        slots = frozenset()
    left = unused(reading, intent, slots, changes)
    if left:
        named = {part.words for part in reading.mentions}
        if not (changes or slots or named & set(left)):
            answered = _variable(reading)
            if answered.outcome is not None:
                return answered
        return _refused(reading, intent, left, None, workload)
    try:
        outcome = in_asked_unit(_outcome(reading, intent, bool(slots), changes), reading)
    except AssayError as error:
        return _refused(reading, intent, [], error, workload)
    outcome = replace(outcome, assumed=tuple(dict.fromkeys((*reading.said, *outcome.assumed))))
    notes = (*outcome.notes, *(_borrowed(outcome) if "model" in intent.slots else ()))
    return AskAnswer(reading, intent.name, outcome, notes=tuple(dict.fromkeys(notes)))


def _several(reading: Reading, intent: Intent, workload: str) -> AskAnswer:
    """Two questions about the same thing, where each is understood and all is used; else a refusal."""
    refusal = InputError("this is more than one question", "ask them one by one")
    parts = parts_of(reading)
    if parts is None:
        return _refused(reading, intent, [], refusal, workload)
    outcomes: list[Outcome] = []
    names: list[str] = []
    used: set[str] = set()
    for part in parts:
        part, own, _ = recognized(part, workload)
        if own is None or own.answer is None or alternatives(part)[0] or is_change(part):
            return _refused(reading, intent, [], refusal, workload)
        try:
            part = with_price_per_gpu(adapted(part, own))
            kept = tuple(mention for mention in part.mentions if mention.slot in own.slots)
            part = replace(part, mentions=kept)
            if left := unused(part, own, frozenset(), False):
                return _refused(reading, intent, left, None, workload)
            outcomes.append(in_asked_unit(own.answer(part), part))
        except AssayError as error:
            return _refused(reading, intent, [], error, workload)
        names.append(own.name)
        used |= own.slots
    left = [mention.words for mention in reading.mentions if mention.slot not in used]
    if left or names[0] == names[1]:
        return _refused(reading, intent, left, None if left else refusal, workload)
    outcome = joined(names, *outcomes)
    outcome = replace(outcome, assumed=tuple(dict.fromkeys((*reading.said, *outcome.assumed))))
    return AskAnswer(
        reading, " and ".join(names), outcome, notes=tuple(dict.fromkeys(outcome.notes))
    )


def _borrowed(outcome: Outcome) -> Iterator[str]:
    """That kernel constants of an accelerator are another's, each on a line of its own."""
    for command in outcome.commands or (outcome.result.command,):
        unused_layers = _unused_layers(command)
        for path in command.includes:
            group, _, name = path.partition("/")
            if group == "accelerators":
                system = entries.read(group, name).facts.get("calibration")
                notes = constants.find(str(system), accelerator=name).notes if system else ()
                yield from (note for note in notes if not note.startswith(unused_layers))


def _unused_layers(command: Command) -> tuple[str, ...]:
    """How notes begin of layers that a figure of serving does not use: one GPU has no collectives."""
    if not isinstance(command, Resolve) or command.preset != SERVING:
        return ()
    given = dict(text.split("=", 1) for text in command.assign)
    several = any(given.get(f"serving.{name}", "1") != "1" for name in ("tensor", "pipeline"))
    return ("training: ",) if several else ("training: ", "collectives: ", "interconnect: ")


def _outcome(reading: Reading, intent: Intent, compares: bool, changes: bool) -> Outcome:
    answer = intent.answer
    assert answer is not None
    if changes and compares:
        raise InputError("a change and a comparison at once", "ask them one by one")
    if changes:
        return what_if(reading, answer)
    of_run = intent.workload == "training" and intent.name in _OF_A_RUN
    if compares and of_run and not reading.slots & {"tokens", "days"}:
        reading = reading.with_values({"tokens": _COMPARED_TOKENS})
        outcome = _outcome(reading, intent, compares, changes)
        return replace(outcome, assumed=("1T tokens for each", *outcome.assumed))
    if compares:
        outcome = compare(
            reading,
            answer,
            more_is_better=intent.more_is_better,
            same_gpus=intent.name in _PER_GPU,
            trains=intent.workload == "training" or intent.name == "mfu",
        )
        return as_asked(reading, outcome)
    if asks_for_best(reading, intent):
        return best_accelerator(
            reading, answer, more_is_better=intent.more_is_better, of_cost=intent.name == "cost"
        )
    return answer(reading)


def _variable(reading: Reading) -> AskAnswer:
    """The variable that the question names, where it explains every word; else a refusal."""
    matches = variables.likeliest(reading)
    unknown = variables.words_of(reading)[0]
    nearest = "assay list"
    if matches:
        best = matches[0]
        unknown = variables.unexplained(reading, best)
        unknown += [*chosen_kinds(reading, None), *superlatives(reading, None)]
        unknown += variables.not_divided(reading, best)
        unknown += [part.words for part in reading.mentions if part.slot not in variables.SLOTS]
        unknown += [
            part.words
            for part in reading.mentions
            if part.value not in reading.values(part.slot)[:1] and part.slot in variables.SLOTS
        ]
        nearest = _nearest_intent(reading) if "model" in reading.slots else ""
        nearest = nearest if nearest and keeps(nearest, reading) else ""
        left = set(unknown)
        explained = [word for word in variables.words_of(reading)[0] if word not in left]
        if not nearest and not reading.mentions and len(explained) > len(left):
            # One word of several is no sign that the question is about this variable.
            nearest = f"assay show {best.name}"
        if not unknown and best.probability >= variables.LEAST_PROBABILITY:
            outcome = None
            try:
                outcome = variables.answer(reading, best)
            except AssayError as error:
                return AskAnswer(
                    reading,
                    "variable",
                    None,
                    (),
                    nearest,
                    problem=InputError(error.message, f"nearest: {nearest}" if nearest else None),
                )
            if outcome is not None:
                return AskAnswer(reading, "variable", outcome)
        if not unknown:
            problem = variables.in_doubt(matches)
            return AskAnswer(reading, "variable", None, (), "", problem=problem)
    problem = _not_understood(reading, unknown, nearest)
    return AskAnswer(reading, "", None, unknown, nearest, problem=problem)


def _nearest_intent(reading: Reading) -> str:
    """The command of an intent whose words the question has, whatever else it lacks."""
    workload = workload_of(reading)
    for intent in INTENTS:
        if intent.workload in ("", workload) and intent.answer and has_cue(intent, reading.rest):
            return filled(intent.nearest, reading, workload)
    return ""


def _refused(
    reading: Reading, intent: Intent, unused: Sequence[str], error: AssayError | None, workload: str
) -> AskAnswer:
    nearest = filled(intent.nearest.rpartition(": ")[2], reading, workload)
    nearest = nearest if keeps(nearest, reading) else ""
    if error is None:
        problem: AssayError = _not_understood(reading, unused, nearest)
    else:
        near_to = f"nearest: {nearest}" if nearest and nearest not in (error.hint or "") else ""
        problem = InputError(error.message, "; ".join(filter(None, (error.hint, near_to))) or None)
    return AskAnswer(reading, intent.name, None, unused, nearest, problem=problem)


def _not_understood(reading: Reading, words: Sequence[str], nearest: str) -> InputError:
    """The refusal that names the words, with names that are near to them."""
    names = {part.words for part in reading.mentions}
    known = FILLER | COMMON | understood_words()
    unknown = [word for word in words if word not in names and word not in known]
    suggestions = swapped(unknown, known)
    suggestions |= near(reading.text, [word for word in unknown if word not in suggestions])
    suggestions |= near_words([word for word in unknown if word not in suggestions], known)
    close = "; ".join(
        f'"{word}": did you mean {" or ".join(names)}?' for word, names in suggestions.items()
    )
    whole = [match[0] for match in _COMPOUND.finditer(reading.text)]
    shown = [
        next((text for text in whole if word in re.split(r"[-_/]", text)), word) for word in words
    ]
    hint = "; ".join(filter(None, (close, nearest and f"nearest: {nearest}")))
    hint = hint or "docs/guides/asking.md has what may be asked"
    if not shown and reading.mentions:
        read_words = ", ".join(f'"{part.words}"' for part in reading.mentions)
        return InputError(f"nothing is asked for, of {read_words}", hint)
    what = ", ".join(f'"{word}"' for word in dict.fromkeys(shown)) or "the question"
    return InputError(f"not understood: {what}", hint)
