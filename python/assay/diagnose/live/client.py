"""A client of an OpenAI-compatible server that counts tokens and notes when each chunk arrives."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from assay.http_client import ServerError, server_sent_events
from assay.openai_api.address import ServerAddress, shown
from assay.openai_api.answers import (
    CHAT,
    COMPLETIONS,
    MODELS,
    NO_SUCH_PATH,
    REFUSED_FIELD,
    ServedModel,
    completion_body,
    event_text,
    served_model,
    token_counts,
)
from assay.openai_api.exchange import answered, exchange_json


@dataclass(frozen=True, slots=True)
class Completion:
    """One streamed completion; times are seconds of the monotonic clock."""

    sent_s: float
    arrivals_s: tuple[float, ...]
    """When each chunk with text arrived."""
    prompt_tokens: int
    completion_tokens: int
    """As the server counts them: a chunk may hold several."""

    @property
    def ttft_s(self) -> float:
        """Time to first token."""
        return self.arrivals_s[0] - self.sent_s

    @property
    def tpot_s(self) -> float | None:
        """Time per output token after the first; None for a single token."""
        if self.completion_tokens < 2 or len(self.arrivals_s) < 2:
            return None
        return (self.arrivals_s[-1] - self.arrivals_s[0]) / (self.completion_tokens - 1)


class Client:
    """One server; a connection for each request, so that several can run at once."""

    def __init__(self, url: str, *, timeout_s: float = 60.0) -> None:
        self._address = ServerAddress(url)
        self.host, self.url = self._address.host, self._address.url
        self._timeout_s = timeout_s
        self._path: str | None = None
        self._ignores_end = True
        self.notes: list[str] = []

    def model(self) -> ServedModel:
        """The first model that the server lists."""
        return served_model(
            self.url, exchange_json(self._address, MODELS, timeout_s=self._timeout_s)
        )

    def complete(self, model: str, prompt: str, tokens: int) -> Completion:
        """Stream one completion of exactly `tokens` tokens where the server can be told to."""
        if self._path is None:
            self._path = self._choose(model)
        while True:
            try:
                return self._stream(self._path, self._body(self._path, model, prompt, tokens))
            except ServerError as error:
                if not (self._ignores_end and error.status in REFUSED_FIELD):
                    raise
                # Some servers refuse a field that they do not know.
                self._ignores_end = False
                try:
                    answer = self._stream(self._path, self._body(self._path, model, prompt, tokens))
                except ServerError:
                    # It was not the field.
                    self._ignores_end = True
                    raise error from None
                self.notes.append(
                    "the server takes no ignore_eos: probes may end before they are asked to"
                )
                return answer

    def _choose(self, model: str) -> str:
        """The path of completions; that of chats where the server has no other."""
        try:
            self._stream(COMPLETIONS, self._body(COMPLETIONS, model, "hello", 1))
        except ServerError as error:
            if error.status in NO_SUCH_PATH:
                return CHAT
            if error.status not in REFUSED_FIELD:
                raise
        return COMPLETIONS

    def _body(self, path: str, model: str, prompt: str, tokens: int) -> dict[str, Any]:
        return completion_body(path, model, prompt, tokens, ignores_end=self._ignores_end)

    def _stream(self, path: str, body: dict[str, Any]) -> Completion:
        arrivals: list[float] = []
        usage: dict[str, Any] = {}
        sent_s = time.monotonic()
        with answered(self._address, path, body, timeout_s=self._timeout_s) as answer:
            for event in server_sent_events(answer):
                now_s = time.monotonic()
                if isinstance(event.get("error"), dict):
                    raise ServerError(f"{self.url}{path}: {shown(event['error'].get('message'))}")
                if now_s - sent_s > self._timeout_s:
                    raise TimeoutError(f"the stream did not end within {self._timeout_s:g} s")
                if isinstance(event.get("usage"), dict):
                    usage = event["usage"]
                if event_text(event):
                    arrivals.append(now_s)
        counts = token_counts(usage)
        if counts is None:
            raise ServerError(
                f"{self.url}{path}: expected the usage at the end of a stream, got {shown(usage)}",
                "tokens cannot be counted without it, and chunks are not tokens",
            )
        prompt, made = counts
        if not arrivals:
            raise ServerError(f"{self.url}{path}: expected text, got none in {made} tokens")
        return Completion(sent_s, tuple(arrivals), prompt, made)
