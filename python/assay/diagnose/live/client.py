"""A client of an OpenAI-compatible server that counts tokens and notes when each chunk arrives."""

from __future__ import annotations

import http.client
import json
import ssl
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any, Final

from assay.openai_api.address import ServerAddress, ServerError, shown
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

_MAX_LINE: Final = 4 << 20
_MAX_BODY: Final = 16 << 20


@dataclass(frozen=True, slots=True)
class Answer:
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

    @property
    def longest_gap_s(self) -> float:
        """The longest time between two chunks."""
        pairs = zip(self.arrivals_s, self.arrivals_s[1:], strict=False)
        return max((after - before for before, after in pairs), default=0.0)


class Client:
    """One server; a connection for each request, so that several can run at once."""

    def __init__(self, url: str, *, timeout_s: float = 60.0) -> None:
        self._address = ServerAddress(url)
        self.host, self.url = self._address.host, self._address.url
        self._timeout_s = timeout_s
        self._headers = self._address.headers()
        self._path: str | None = None
        self._ignores_end = True
        self.notes: list[str] = []

    def model(self) -> ServedModel:
        """The first model that the server lists."""
        return served_model(self.url, self._get(MODELS))

    def complete(self, model: str, prompt: str, tokens: int) -> Answer:
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

    def _stream(self, path: str, body: dict[str, Any]) -> Answer:
        arrivals: list[float] = []
        usage: dict[str, Any] = {}
        sent_s = time.monotonic()
        with self._answered("POST", path, json.dumps(body)) as answer:
            for event in _events(answer):
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
        return Answer(sent_s, tuple(arrivals), prompt, made)

    def _get(self, path: str) -> Any:
        with self._answered("GET", path) as answer:
            return json.loads(answer.read(_MAX_BODY))

    @contextmanager
    def _answered(
        self, method: str, path: str, body: str | None = None
    ) -> Iterator[http.client.HTTPResponse]:
        """A successful answer, for as long as the block; every failure is a `ServerError`."""
        connection = self._connect()
        try:
            connection.request(method, self._address.base + path, body, self._headers)
            # An answer that ends its connection owns the socket: closing the connection is not enough.
            with closing(connection.getresponse()) as answer:
                if answer.status != 200:
                    raise self._address.refused(path, answer.status, answer.read(_MAX_BODY))
                yield answer
        # Deeply nested JSON ends in a RecursionError.
        except (OSError, http.client.HTTPException, ValueError, RecursionError) as error:
            raise self._address.failed(path, error) from None
        finally:
            connection.close()

    def _connect(self) -> http.client.HTTPConnection:
        if self._address.tls:
            return http.client.HTTPSConnection(
                self.host,
                self._address.port,
                timeout=self._timeout_s,
                context=ssl.create_default_context(),
            )
        return http.client.HTTPConnection(self.host, self._address.port, timeout=self._timeout_s)


def _events(answer: http.client.HTTPResponse) -> Iterator[dict[str, Any]]:
    """Server-sent events that are JSON objects, until the end or `[DONE]`."""
    while line := answer.readline(_MAX_LINE):
        if not line.startswith(b"data:"):
            continue
        data = line[5:].strip()
        if data == b"[DONE]":
            # Read on: the connection ends properly.
            answer.read(_MAX_LINE)
            return
        event = json.loads(data)
        if isinstance(event, dict):
            yield event
