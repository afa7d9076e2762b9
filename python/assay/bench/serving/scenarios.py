"""What servers are asked: prompts and answers of fixed lengths, turns of chats, JSON, adapters, a batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from assay.errors import unknown_name
from assay.load.workloads import arrivals
from assay.load.workloads.builtin import workload
from assay.load.workloads.texts import CountTokens, Writer
from assay.load.workloads.workload import PlannedRequest, ServiceLevel, Workload

SLO: Final = ServiceLevel(ttft_ms=1000.0, tpot_ms=50.0)
"""The service level that goodput is counted under."""
TURNS: Final = 4
PREFIX: Final = 1000
TURN: Final = 150
"""Tokens of the prefix that all chats share, and of a turn, which the next ones repeat."""
ADAPTERS: Final = tuple(f"adapter-{number}" for number in range(8))
"""Names of the LoRA adapters that requests choose from."""
SCHEMA: Final = {
    "type": "array",
    "minItems": 100,
    "items": {
        "type": "object",
        "properties": {
            "customer": {"type": "string", "maxLength": 24},
            "quantity": {"type": "integer", "minimum": 1, "maximum": 999},
            "status": {"enum": ["open", "paid", "sent", "returned"]},
        },
        "required": ["customer", "quantity", "status"],
        "additionalProperties": False,
    },
}
"""Orders: text, numbers and a choice, as most extraction of records asks for."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A workload and how many requests of it make a window."""

    name: str
    prompt: int
    """Tokens of a prompt, about."""
    output: int
    make: Callable[[int, int, CountTokens], Workload]
    """The workload of so many requests from a seed."""
    at_rates: bool = True
    """Whether it is also measured below and above saturation."""
    requests: int = 500
    new_prompt: int | None = None
    """Tokens of a prompt that no earlier one has, where they share some."""
    uses_adapters: bool = False
    """Whether the server has `ADAPTERS` beside the model: it is started anew for them."""

    def planned(
        self, requests: int, seed: int, count: CountTokens, *, rate: float | None, at_once: int
    ) -> Workload:
        """The workload at a rate, or with so many requests under way at once."""
        made = replace(self.make(requests, seed, count), concurrency=min(at_once, requests))
        return arrivals.with_rate(made, rate, 1.0, None, None, seed)


def fixed_lengths(prompt: int, output: int) -> Callable[[int, int, CountTokens], Workload]:
    """Makes workloads of prompts and answers of so many tokens."""

    def make(requests: int, seed: int, count: CountTokens) -> Workload:
        return workload(
            "decode",
            requests=requests,
            concurrency=requests,
            input_tokens=prompt,
            output_tokens=output,
            seed=seed,
            slo=SLO,
            count=count,
        )

    return make


def _turns(requests: int, seed: int, count: CountTokens) -> Workload:
    """Chats of four turns behind one prefix: a turn's prompt is all before it and a new question."""
    prefix = Writer(f"prefix {seed}", count).text(PREFIX)
    planned = []
    for number in range(requests):
        chat, turn = divmod(number, TURNS)
        writer = Writer(f"chat {seed} {chat}", count)
        said = " ".join(writer.text(TURN) for _ in range(turn + 1))
        planned.append(
            PlannedRequest(number, f"{prefix} {said}", 128, prefix_tokens=PREFIX + TURN * turn)
        )
    # Turns of one chat are not under way together.
    ordered = sorted(planned, key=lambda request: (request.number % TURNS, request.number))
    return Workload(
        "turns",
        f"chats of {TURNS} turns of {TURN} tokens behind a prefix of {PREFIX:,}",
        tuple(ordered),
        slo=SLO,
        concurrency=requests,
    )


def _records(requests: int, seed: int, count: CountTokens) -> Workload:
    """Answers that must be records under a schema, more of them than fit: all are equally long."""
    made = fixed_lengths(200, 128)(requests, seed, count)
    schema = {"type": "json_schema", "json_schema": {"name": "orders", "schema": SCHEMA}}
    return _with_fields(made, lambda _: {"response_format": schema})


def _adapted(requests: int, seed: int, count: CountTokens) -> Workload:
    """Every request by another of the adapters, in turn."""
    made = fixed_lengths(200, 128)(requests, seed, count)
    return _with_fields(made, lambda number: {"model": ADAPTERS[number % len(ADAPTERS)]})


def _with_fields(made: Workload, fields: Callable[[int], dict[str, Any]]) -> Workload:
    chosen = (replace(request, fields=fields(request.number)) for request in made.requests)
    return replace(made, requests=tuple(chosen))


SCENARIOS: Final[dict[str, Scenario]] = {
    scenario.name: scenario
    for scenario in (
        Scenario("1024/128", 1024, 128, fixed_lengths(1024, 128)),
        Scenario("4900/128", 4900, 128, fixed_lengths(4900, 128)),
        Scenario("200/500", 200, 500, fixed_lengths(200, 500)),
        Scenario("turns", PREFIX + 5 * TURN // 2, 128, _turns, new_prompt=TURN),
        Scenario("batch", 200, 200, fixed_lengths(200, 200), at_rates=False, requests=1000),
        Scenario("json", 200, 128, _records),
        Scenario("adapters", 200, 128, _adapted, uses_adapters=True),
    )
}
"""Every scenario by name."""


def scenarios(names: tuple[str, ...]) -> list[Scenario]:
    """The scenarios of these names, or all of them."""
    for name in names:
        if name not in SCENARIOS:
            raise unknown_name("case of the suite serving", name, SCENARIOS)
    return [SCENARIOS[name] for name in names or SCENARIOS]
