"""A workload: a plan of requests that is the same on both sides of an experiment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

ARRIVALS: Final = ("closed", "poisson", "burst", "replay", "ramp")
"""Closed loop: `concurrency` requests under way at once. The others are open loops; in a ramp, each
pass of the requests is sent faster and faster."""

CONSTRAINTS: Final = frozenset((
    "response_format", "structured_outputs", "guided_json", "guided_regex", "guided_choice", "guided_grammar",
    "logit_bias", "presence_penalty", "frequency_penalty", "repetition_penalty",
))  # fmt: skip
"""Fields of a request under which a model does not choose freely."""
FREE_CHOICES: Final = ("auto", "none")
"""Choices of tools that leave the model free."""

Direction = Literal["higher", "lower"]


@dataclass(frozen=True, slots=True)
class Objective:
    """The figure that an experiment compares, and which way is better."""

    metric: str
    """A key of `Measurement.figures`, such as output_throughput or mean_tpot_ms."""
    better: Direction = "higher"


@dataclass(frozen=True, slots=True)
class ServiceLevel:
    """Service-level objectives (SLO) of a request, in milliseconds; None is not limited."""

    ttft_ms: float | None = None
    tpot_ms: float | None = None
    e2el_ms: float | None = None


@dataclass(frozen=True, slots=True)
class PlannedRequest:
    """One request of a workload."""

    number: int
    prompt: str
    max_tokens: int
    """Output tokens; generation ignores the end-of-sequence token where the engine can."""
    arrival_s: float = 0.0
    """Seconds after the start of the workload; 0 in a closed loop."""
    prefix_tokens: int = 0
    """About how many tokens of the prompt other requests share."""
    sampling: Mapping[str, float | int] = field(default_factory=dict)
    """Sampling parameters besides the length; empty is greedy (temperature 0)."""
    fields: Mapping[str, Any] = field(default_factory=dict)
    """Other fields of the body: what an answer must look like, the name of an adapter."""
    prompt_tokens: int = 0
    """Of the prompt, by the count that its length was chosen by; 0 where its text alone is known."""
    messages: tuple[Mapping[str, Any], ...] = ()
    """The conversation of a chat, sent as it is where the server has chats; `prompt` is then its text
    with the roles named."""


def is_greedy(request: PlannedRequest) -> bool:
    """Whether equal requests should have equal answers: fields that do not sample do not count.

    >>> is_greedy(PlannedRequest(0, "a", 8, sampling={"cache_prompt": 0}))
    True
    """
    return not request.sampling.get("temperature", 0.0)


def is_constrained(request: PlannedRequest) -> bool:
    """Whether fields say which tokens may come next: behind a part of the answer they would say others.

    >>> is_constrained(PlannedRequest(0, "a", 8, fields={"stop": ["x"], "tool_choice": "auto"}))
    False
    """
    fields = request.fields
    return (
        bool(CONSTRAINTS & fields.keys()) or fields.get("tool_choice", "auto") not in FREE_CHOICES
    )


@dataclass(frozen=True, slots=True)
class DataSetShape:
    """What a request is where it is no prompt: a data set, whose outputs have many rows.

    >>> events = DataSetShape("a data set of 20,000 events", "events", 20_000, "ns/event", 5e4, is_time=True)
    >>> events.figure(500.0)
    100.0
    """

    request: str
    """In words: a data set of 20,000 events."""
    row: str
    """What rows of the outputs are of: events, pairs of residues."""
    rows: int
    """Rows of the outputs of one request, each an answer of its own."""
    unit: str
    """Of the workload's own figure: ns/event, frames/s."""
    scale: float
    """Of that figure in one request: divided by requests a second for a time, else multiplied."""
    is_time: bool

    def figure(self, requests_per_second: float) -> float:
        """The workload's own figure at this rate of requests."""
        scale = self.scale
        return scale / requests_per_second if self.is_time else scale * requests_per_second


@dataclass(frozen=True, slots=True)
class Workload:
    """Requests and how they arrive."""

    name: str
    description: str
    requests: tuple[PlannedRequest, ...]
    """A window goes through them in order, and starts again from the first at the end."""
    arrival: str = "closed"
    """One of `ARRIVALS`."""
    concurrency: int | None = 1
    """Most requests under way at once; None is no limit (open loops)."""
    rate: float | None = None
    """Requests a second of an open loop; None in a closed one."""
    objective: Objective = Objective("output_throughput")
    slo: ServiceLevel = ServiceLevel()
    source: str = "built-in"
    """Where the requests come from: built-in, or the file."""
    notes: tuple[str, ...] = ()
    """What was assumed or left out when the workload was made."""
    data_set: DataSetShape | None = None
    """What each request is; None where requests are prompts."""


@dataclass(frozen=True, slots=True)
class Window:
    """How long to measure: until either limit; at least one is set."""

    seconds: float | None = None
    requests: int | None = None
    warmup_requests: int = 0
    """Requests before the window, which are not counted."""
    offset: int = 0
    """The first request of the window: pairs of blocks ask for the same requests."""
