"""Greedy answers with log-probabilities from /v1/completions, in each server's spelling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from assay.http_client import ServerError
from assay.improve.engines.protocol import ProbeAnswer
from assay.openai_api.address import ServerAddress
from assay.openai_api.answers import COMPLETIONS, REFUSED_FIELD
from assay.openai_api.exchange import exchange_json

ALTERNATIVES: Final = 5
"""Best tokens asked for at each position: the most that OpenAI's own interface gives."""


Prompt = str | Sequence[int]
"""A text, or its tokens."""


class Position(NamedTuple):
    """A token of a text, and those that might have stood there."""

    text: str
    logprob: float
    top: Mapping[str, float]


class Prober:
    """Asks one server; remembers what it refuses."""

    def __init__(self, address: ServerAddress, fields: Mapping[str, Any]) -> None:
        self._address = address
        self._optional = {"ignore_eos": True, **fields}
        self.notes: list[str] = []

    def ask(self, model: str, prompt: str, max_tokens: int) -> ProbeAnswer:
        """One greedy answer."""
        answer = parse(self._completion(model, prompt, max_tokens))
        if not answer.logprobs and not any("log-probabilities" in note for note in self.notes):
            self.notes.append("the server gives no log-probabilities: answers are compared as text")
        return answer

    def positions(self, model: str, prompt: Prompt, max_tokens: int) -> list[Position]:
        """A greedy answer, token by token with the alternatives; none without log-probabilities."""
        return positions(self._completion(model, prompt, max_tokens))

    def scored(self, model: str, prompt: Prompt) -> list[Position]:
        """Every token of a prompt with its log-probability; none where the server does not echo."""
        fields = {"echo": True, "logprobs": 1, "max_tokens": 1}
        return positions(self._completion(model, prompt, 1, fields))[:-1]

    def _completion(
        self, model: str, prompt: Prompt, max_tokens: int, fields: Mapping[str, Any] | None = None
    ) -> Any:
        body = {
            "model": model,
            "prompt": prompt if isinstance(prompt, str) else list(prompt),
            "max_tokens": max_tokens,
            "temperature": 0.0,
            "seed": 0,
            "logprobs": ALTERNATIVES,
            **(fields or {}),
        }
        try:
            return exchange_json(self._address, COMPLETIONS, body | self._optional, timeout_s=600.0)
        except ServerError as error:
            if error.status not in REFUSED_FIELD or not self._optional:
                raise
            data = exchange_json(self._address, COMPLETIONS, body, timeout_s=600.0)
            refused = ", ".join(self._optional)
            self.notes.append(f"the server refuses {refused}: probes may end early")
            self._optional = {}
            return data


def parse(data: Any) -> ProbeAnswer:
    """The answer of a completion: OpenAI's lists, or a record for each token as in chats."""
    choices = data.get("choices") if isinstance(data, Mapping) else None
    choice = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(choice, Mapping):
        raise ServerError(f"{COMPLETIONS}: expected a choice, got {str(data)[:100]}")
    given = choice.get("logprobs")
    text = choice.get("text")
    whole = text if isinstance(text, str) else ""
    if not isinstance(given, Mapping):
        return ProbeAnswer((), (whole,) if whole else (), (), ())
    if isinstance(given.get("content"), list):
        return _of_records(given["content"], choice)
    return _of_lists(given, choice)


def positions(data: Any) -> list[Position]:
    """Tokens as texts with their alternatives; empty where the answer has no log-probabilities."""
    choices = data.get("choices") if isinstance(data, Mapping) else None
    choice = choices[0] if isinstance(choices, list) and choices else None
    given = choice.get("logprobs") if isinstance(choice, Mapping) else None
    if not isinstance(given, Mapping):
        return []
    if isinstance(given.get("content"), list):
        return [
            Position(
                str(row.get("token", "")),
                float(row["logprob"]),
                {
                    str(top.get("token")): float(top["logprob"])
                    for top in row.get("top_logprobs") or ()
                },
            )
            for row in given["content"]
            if isinstance(row, Mapping) and row.get("logprob") is not None
        ]
    texts, logprobs = given.get("tokens") or (), given.get("token_logprobs") or ()
    tops = given.get("top_logprobs") or [None] * len(texts)
    return [
        Position(
            str(text),
            # The first token of an echo has nothing before it.
            0.0 if logprob is None else float(logprob),
            {str(token): float(value) for token, value in (top or {}).items()},
        )
        for text, logprob, top in zip(texts, logprobs, tops, strict=False)
    ]


def _of_lists(given: Mapping[str, Any], choice: Mapping[str, Any]) -> ProbeAnswer:
    texts = tuple(map(str, given.get("tokens") or ()))
    logprobs = tuple(
        float(logprob) for logprob in given.get("token_logprobs") or () if logprob is not None
    )
    tops = tuple(
        {str(token): float(value) for token, value in top.items()}
        for top in given.get("top_logprobs") or ()
        if isinstance(top, Mapping)
    )
    return ProbeAnswer(_ids(choice, texts), texts, logprobs, _margins(tops), tops)


def _of_records(records: Sequence[Any], choice: Mapping[str, Any]) -> ProbeAnswer:
    rows = [record for record in records if isinstance(record, Mapping)]
    texts = tuple(str(row.get("token", "")) for row in rows)
    tops = []
    for row in rows:
        listed = row.get("top_logprobs") or ()
        # Tokens that are no whole characters have equal texts: their ids tell them apart.
        tops.append({str(top.get("id", top.get("token"))): float(top["logprob"]) for top in listed})
    ids = tuple(row["id"] for row in rows if isinstance(row.get("id"), int))
    return ProbeAnswer(
        ids if len(ids) == len(rows) else _ids(choice, texts),
        texts,
        tuple(float(row["logprob"]) for row in rows),
        _margins(tops),
        tuple(tops),
    )


def _ids(choice: Mapping[str, Any], texts: Sequence[str]) -> tuple[int, ...]:
    """Token ids, where the server adds them to the answer."""
    given = choice.get("token_ids")
    if isinstance(given, list) and len(given) == len(texts):
        return tuple(map(int, given))
    return ()


def _margins(tops: Sequence[Mapping[str, float]]) -> tuple[float, ...]:
    margins = []
    for top in tops:
        best = sorted(top.values(), reverse=True)[:2]
        if len(best) == 2:
            margins.append(best[0] - best[1])
    return tuple(margins) if len(margins) == len(tops) else ()
