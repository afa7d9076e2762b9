"""The workloads that are known by name: chat, rag, sessions, edit, batch, decode and vllm-decode.

Lengths at scale 1 fit a small model on a few CPU cores: a window of some requests takes seconds.
`GPU_SCALE` makes them as long as recorded chats and retrieval prompts are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Final

from assay.errors import InputError, unknown_name
from assay.load.workloads import arrivals
from assay.load.workloads.counting import how_counted
from assay.load.workloads.lengths import Fixed, Lengths, LogNormal, Uniform, parse_lengths
from assay.load.workloads.reading import MAX_PROMPT_TOKENS, MAX_REQUESTS
from assay.load.workloads.texts import MAX_TOKENS, CountTokens, Writer
from assay.load.workloads.workload import Objective, PlannedRequest, ServiceLevel, Workload

GPU_SCALE: Final = 4.0
"""Lengths for a GPU: chats of about 190 tokens in and out at the median, prompts of retrieval of
about 1,200 tokens."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A request before it has a text."""

    number: int
    tokens: int
    output: int
    seed: int
    count: CountTokens | None


@dataclass(frozen=True, slots=True)
class BuiltIn:
    """A workload by name: what its requests look like."""

    name: str
    description: str
    input: Lengths
    output: Lengths
    write: Callable[[BuiltIn, Planned], tuple[str, int]]
    """The prompt of a request, and how many of its tokens others share."""
    objective: Objective
    requests: int
    concurrency: int | None
    """None: as many as there are requests, all at once."""
    prefix_tokens: int = 0
    """Tokens at the beginning of a prompt that other requests have too; of `sessions`, those that
    each turn adds to what was said before."""
    turns: int = 1
    """Turns of a session; the prompt of each but the first has what was said before."""
    scales: bool = True
    """Whether `scale` changes its lengths; those of vllm-decode are its definition."""
    temperature: float = 0.0
    """Of sampling, with a seed of its own for each request; 0 is greedy."""
    note: str = ""


PREFIXES: Final = 2
"""How many different shared prefixes `rag` has: two knowledge bases behind one server."""


def _plain(kind: BuiltIn, planned: Planned) -> tuple[str, int]:
    return _writer(kind, planned, f"{planned.number}").text(planned.tokens), 0


def _with_prefix(kind: BuiltIn, planned: Planned) -> tuple[str, int]:
    """Passages that many requests share, then passages of this request's own."""
    shared = min(kind.prefix_tokens, planned.tokens - 1)
    if shared < 1:
        return _plain(kind, planned)
    prefix = _writer(kind, planned, f"prefix {planned.number % PREFIXES}").text(shared)
    own = _writer(kind, planned, f"{planned.number}").text(planned.tokens - shared)
    return f"{prefix} {own}", shared


SESSIONS: Final = 8
"""Sessions whose turns take turns: between two of one session, all others are asked for theirs."""


def _place(number: int, turns: int) -> tuple[int, int]:
    """Session and turn of a request.

    >>> [_place(number, 4) for number in (0, 7, 8, 31, 32)]
    [(0, 0), (7, 0), (0, 1), (7, 3), (8, 0)]
    """
    round_of, within = divmod(number, SESSIONS * turns)
    turn, session = divmod(within, SESSIONS)
    return round_of * SESSIONS + session, turn


def _said_before(kind: BuiltIn, number: int) -> int:
    """Tokens of the turns before a request."""
    return kind.prefix_tokens * _place(number, kind.turns)[1]


def _as_turn(kind: BuiltIn, planned: Planned) -> tuple[str, int]:
    """What was said before in the session, questions and answers, and then the question of this turn.

    The answers are written ahead: both sides of an experiment are asked the same, whatever they answer.
    """
    session, turn = _place(planned.number, kind.turns)
    before = [
        _writer(kind, planned, f"session {session} turn {earlier}").text(kind.prefix_tokens)
        for earlier in range(turn if kind.prefix_tokens else 0)
    ]
    own = _writer(kind, planned, f"{planned.number}").text(planned.tokens)
    return " ".join((*before, own)), _said_before(kind, planned.number)


def _to_repeat(kind: BuiltIn, planned: Planned) -> tuple[str, int]:
    """A passage line by line, and the first line of its copy.

    A small model does not obey a bare instruction to copy; it does go on with a copy that has begun.
    What is left to copy is never shorter than the output, whatever length the prompt should have.
    """
    writer = _writer(kind, planned, f"{planned.number}")
    first = writer.sentence()
    rest = planned.tokens - 2 * writer.count(first) - _HEADINGS
    passage = writer.text(max(rest, planned.output + 1)).replace(". ", ".\n")
    return f"Text:\n{first}\n{passage}\n\nCopy of the text, line by line:\n{first}\n", 0


def _writer(kind: BuiltIn, planned: Planned, what: str) -> Writer:
    return Writer(f"{kind.name} {planned.seed} {what}", planned.count)


_HEADINGS: Final = 14
"""Tokens of the headings around the passage of `edit`."""

_GREEDY: Final = "greedy output of a small model repeats itself, which flatters speculation"

BUILT_IN: Final[dict[str, BuiltIn]] = {
    kind.name: kind
    for kind in (
        BuiltIn(
            "chat",
            "short questions and answers of mixed lengths",
            LogNormal(48, 0.6, 8, 192),
            LogNormal(48, 0.5, 8, 128),
            _plain,
            Objective("output_throughput"),
            requests=64,
            concurrency=4,
            temperature=0.7,
            note="sampled at temperature 0.7 with a seed for each request: " + _GREEDY,
        ),
        BuiltIn(
            "rag",
            f"long prompts with short answers; two thirds of a prompt is one of {PREFIXES} shared "
            "prefixes",
            Uniform(272, 336),
            Uniform(16, 32),
            _with_prefix,
            Objective("request_throughput"),
            requests=48,
            concurrency=4,
            prefix_tokens=200,
        ),
        BuiltIn(
            "sessions",
            f"sessions of 4 turns, {SESSIONS} at a time: every prompt but a session's first begins with "
            "what was said before",
            Uniform(24, 48),
            Uniform(16, 48),
            _as_turn,
            Objective("request_throughput"),
            requests=64,
            concurrency=4,
            prefix_tokens=64,
            turns=4,
            note="lengths of prompts are those of the questions; each turn adds those of a question and "
            "its answer, which is written ahead so that both sides are asked the same",
        ),
        BuiltIn(
            "edit",
            "the answer repeats a passage of the prompt, as an edit of a text or of code does",
            Uniform(112, 144),
            Uniform(48, 64),
            _to_repeat,
            Objective("output_throughput"),
            requests=48,
            concurrency=1,
            note="a prompt is as long as its output at least, which repeats it; a synthetic model does "
            "not copy, it repeats itself: drafts that it accepts say nothing about edits",
        ),
        BuiltIn(
            "batch",
            "offline: requests of mixed lengths that nobody waits for, all there from the start",
            LogNormal(64, 0.5, 16, 192),
            LogNormal(48, 0.5, 16, 128),
            _plain,
            Objective("output_throughput"),
            requests=32,
            concurrency=None,
            note=_GREEDY,
        ),
        BuiltIn(
            "decode",
            "short prompts and long answers",
            Fixed(16),
            Fixed(128),
            _plain,
            Objective("output_throughput"),
            requests=32,
            concurrency=1,
            note=_GREEDY,
        ),
        BuiltIn(
            "vllm-decode",
            "equal requests that decode together, from context 128 to 272 unless said otherwise, as "
            "in the measured grid of vLLM's decode steps",
            Fixed(128),
            Fixed(144),
            _plain,
            Objective("mean_tpot_ms", "lower"),
            requests=32,
            concurrency=8,
            scales=False,
        ),
    )
}
"""Every built-in workload by name."""

NAMES: Final = tuple(BUILT_IN)


def workload(
    name: str,
    *,
    requests: int | None = None,
    rate: float | None = None,
    concurrency: int | None = None,
    seed: int = 0,
    input_tokens: int | str | Lengths | None = None,
    output_tokens: int | str | Lengths | None = None,
    slo: ServiceLevel | None = None,
    objective: Objective | None = None,
    scale: float = 1.0,
    burstiness: float = 1.0,
    bursts: tuple[float, float] | None = None,
    count: CountTokens | None = None,
) -> Workload:
    """A built-in workload: the same requests for the same arguments.

    With a `rate` it is an open loop (`burstiness` as in `vllm bench serve`, or `bursts` of seconds
    on and off), else a closed one with `concurrency` requests under way. `scale` multiplies the
    lengths (`GPU_SCALE`); `count` is a tokenizer's count, without which prompt lengths are
    approximate.

    >>> chat = workload("chat", requests=3, concurrency=2)
    >>> [request.max_tokens for request in chat.requests]
    [48, 94, 50]
    """
    if name not in BUILT_IN:
        raise unknown_name("workload", name, NAMES)
    made = _sized(BUILT_IN[name], input_tokens, output_tokens, scale)
    number = made.requests if requests is None else requests
    if not 1 <= number <= MAX_REQUESTS:
        raise InputError(f"requests: expected from 1 to {MAX_REQUESTS:,}, got {number:,}")
    if concurrency is not None and concurrency < 1:
        raise InputError(f"concurrency: expected at least 1, got {concurrency}")
    planned = Workload(
        made.name,
        made.description,
        tuple(_requests(made, number, seed, count)),
        "closed",
        concurrency or made.concurrency or number,
        objective=objective or made.objective,
        slo=slo or ServiceLevel(),
        notes=_notes(made, count),
    )
    return arrivals.with_rate(planned, rate, burstiness, bursts, concurrency, seed)


def _sized(
    kind: BuiltIn,
    input_tokens: int | str | Lengths | None,
    output_tokens: int | str | Lengths | None,
    scale: float,
) -> BuiltIn:
    if not 0 < scale <= MAX_TOKENS:
        raise InputError(f"scale: expected above 0, got {scale:g}")
    factor = scale if kind.scales else 1.0

    def chosen(what: str, given: int | str | Lengths | None, usual: Lengths) -> Lengths:
        if given is None:
            return usual.scaled(factor)
        return parse_lengths(what, given) if isinstance(given, int | str) else given

    return replace(
        kind,
        input=chosen("input_tokens", input_tokens, kind.input),
        output=chosen("output_tokens", output_tokens, kind.output),
        prefix_tokens=round(kind.prefix_tokens * factor),
    )


def _requests(
    kind: BuiltIn, number: int, seed: int, count: CountTokens | None
) -> Iterator[PlannedRequest]:
    random = Random(f"{kind.name} lengths {seed}")
    lengths = [(kind.input.draw(random), kind.output.draw(random)) for _ in range(number)]
    total = sum(tokens for tokens, _ in lengths)
    if kind.turns > 1:
        total += sum(_said_before(kind, index) for index in range(number))
    if total > MAX_PROMPT_TOKENS:
        raise InputError(
            f"workload {kind.name}: expected at most {MAX_PROMPT_TOKENS:,} prompt tokens in all, "
            f"got {total:,}",
            "ask for fewer requests or shorter prompts",
        )
    for index, (tokens, output) in enumerate(lengths):
        prompt, shared = kind.write(kind, Planned(index, tokens, output, seed, count))
        sampling = {"temperature": kind.temperature, "seed": index} if kind.temperature else {}
        yield PlannedRequest(
            index,
            prompt,
            output,
            prefix_tokens=shared,
            sampling=sampling,
            prompt_tokens=0 if count is None else count(prompt),
        )


def _notes(kind: BuiltIn, count: CountTokens | None) -> tuple[str, ...]:
    notes = [
        f"prompts: {kind.input}, {how_counted(count)}; outputs: {kind.output}",
        "texts are generated English sentences, a different one for each request",
    ]
    return (*notes, kind.note) if kind.note else tuple(notes)
