"""A client of an OpenAI-compatible server that counts tokens and notes when each chunk arrives."""

from __future__ import annotations

import http.client
import json
import os
import ssl
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from assay.errors import AssayError, InputError
from assay.escaping import clipped

KEY_VARIABLE: Final = "ASSAY_API_KEY"
"""The environment variable whose value is sent as bearer token, as `assay serve` expects it."""

_MAX_LINE: Final = 4 << 20
_MAX_BODY: Final = 16 << 20
_SHOWN: Final = 200


class ServerError(AssayError):
    """A server that does not answer as an OpenAI-compatible one does."""

    def __init__(self, message: str, hint: str | None = None, status: int | None = None) -> None:
        """Store the message, the hint and the HTTP status, where there was one."""
        super().__init__(message, hint)
        self.status = status


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


@dataclass(frozen=True, slots=True)
class ServedModel:
    """What `/v1/models` says of the first model."""

    name: str
    root: str
    """Where the weights come from, as far as the server says; else the name."""
    context_limit: int | None


class Client:
    """One server; a connection for each request, so that several can run at once."""

    def __init__(self, url: str, *, timeout_s: float = 60.0) -> None:
        parts = urlsplit(url)
        try:
            port = parts.port
        except ValueError:
            port = -1
        if parts.scheme not in ("http", "https") or not parts.hostname or port == -1:
            raise InputError(
                f'--url: expected http://HOST:PORT, got "{url.rpartition("@")[2]}"',
                "for example http://localhost:8000",
            )
        self._tls, self.host, self._port = parts.scheme == "https", parts.hostname, port
        # Clients of OpenAI's name the folder of the interface; metrics are beside it.
        self._base = parts.path.rstrip("/").removesuffix("/v1")
        place = f"[{self.host}]" if ":" in self.host else self.host
        self.url = f"{parts.scheme}://{place}{'' if port is None else f':{port}'}{self._base}"
        self._timeout_s = timeout_s
        self._headers = {"Content-Type": "application/json", "User-Agent": "assay"}
        if key := os.environ.get(KEY_VARIABLE):
            self._headers["Authorization"] = f"Bearer {key}"
        self._path: str | None = None
        self._ignores_end = True
        self.notes: list[str] = []

    def model(self) -> ServedModel:
        """The first model that the server lists."""
        data = self._get("/v1/models")
        listed = data.get("data") if isinstance(data, dict) else None
        first = listed[0] if isinstance(listed, list) and listed else None
        if not isinstance(first, dict) or not isinstance(first.get("id"), str):
            raise ServerError(
                f"{self.url}/v1/models: expected a list of models, got another answer"
            )
        name = first["id"]
        root = first.get("root")
        limit = first.get("max_model_len")
        meta = first.get("meta")
        if limit is None and isinstance(meta, dict):
            limit = meta.get("n_ctx") or meta.get("n_ctx_train")
        return ServedModel(
            name,
            root if isinstance(root, str) and root else name,
            limit if isinstance(limit, int) and limit > 0 else None,
        )

    def complete(self, model: str, prompt: str, tokens: int) -> Answer:
        """Stream one completion of exactly `tokens` tokens where the server can be told to."""
        if self._path is None:
            self._path = self._choose(model)
        while True:
            try:
                return self._stream(self._path, self._body(model, prompt, tokens))
            except ServerError as error:
                if not (self._ignores_end and error.status in (400, 422)):
                    raise
                # Some servers refuse a field that they do not know.
                self._ignores_end = False
                try:
                    answer = self._stream(self._path, self._body(model, prompt, tokens))
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
            self._stream("/v1/completions", self._body(model, "hello", 1, chat=False))
        except ServerError as error:
            if error.status in (404, 405, 501):
                return "/v1/chat/completions"
            if error.status in (400, 422):
                return "/v1/completions"
            raise
        return "/v1/completions"

    def _body(
        self, model: str, prompt: str, tokens: int, *, chat: bool | None = None
    ) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": model,
            "max_tokens": tokens,
            "temperature": 0.0,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if self._ignores_end:
            body["ignore_eos"] = True
        is_chat = self._path == "/v1/chat/completions" if chat is None else chat
        if is_chat:
            return body | {"messages": [{"role": "user", "content": prompt}]}
        return body | {"prompt": prompt}

    def _stream(self, path: str, body: dict[str, Any]) -> Answer:
        arrivals: list[float] = []
        usage: dict[str, Any] = {}
        sent_s = time.monotonic()
        with self._answered("POST", path, json.dumps(body)) as answer:
            for event in _events(answer):
                now_s = time.monotonic()
                if isinstance(event.get("error"), dict):
                    raise ServerError(
                        f"{self.url}{path}: {_clipped(event['error'].get('message'))}"
                    )
                if now_s - sent_s > self._timeout_s:
                    raise TimeoutError(f"the stream did not end within {self._timeout_s:g} s")
                if isinstance(event.get("usage"), dict):
                    usage = event["usage"]
                if _text(event):
                    arrivals.append(now_s)
        prompt, made = usage.get("prompt_tokens"), usage.get("completion_tokens")
        if not isinstance(prompt, int) or not isinstance(made, int) or min(prompt, made) < 1:
            raise ServerError(
                f"{self.url}{path}: expected the usage at the end of a stream, got {_clipped(usage)}",
                "tokens cannot be counted without it, and chunks are not tokens",
            )
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
            connection.request(method, self._base + path, body, self._headers)
            # An answer that ends its connection owns the socket: closing the connection is not enough.
            with closing(connection.getresponse()) as answer:
                if answer.status != 200:
                    raise self._refused(path, answer)
                yield answer
        # Deeply nested JSON ends in a RecursionError.
        except (OSError, http.client.HTTPException, ValueError, RecursionError) as error:
            raise self._failed(path, error) from None
        finally:
            connection.close()

    def _connect(self) -> http.client.HTTPConnection:
        if self._tls:
            return http.client.HTTPSConnection(
                self.host,
                self._port,
                timeout=self._timeout_s,
                context=ssl.create_default_context(),
            )
        return http.client.HTTPConnection(self.host, self._port, timeout=self._timeout_s)

    def _refused(self, path: str, answer: http.client.HTTPResponse) -> ServerError:
        said = _clipped(answer.read(_MAX_BODY).decode("utf-8", "replace"))
        hint = None
        if answer.status in (401, 403):
            hint = f"the server wants a key: set {KEY_VARIABLE}"
        return ServerError(
            f"{self.url}{path}: expected success, got {answer.status}: {said}", hint, answer.status
        )

    def _failed(self, path: str, error: Exception) -> ServerError:
        reason = _clipped(error) or type(error).__name__
        return ServerError(
            f"{self.url}{path}: expected an answer, got: {reason}",
            "is the server running, and the port right?",
        )


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


def _text(event: dict[str, Any]) -> str:
    """The text of a chunk of either interface; reasoning is generated, too."""
    found = ""
    choices = event.get("choices")
    for choice in choices if isinstance(choices, list) else ():
        if not isinstance(choice, dict):
            continue
        delta = choice.get("delta")
        parts = [choice.get("text")]
        if isinstance(delta, dict):
            parts += [delta.get(name) for name in ("content", "reasoning_content", "reasoning")]
        found += "".join(part for part in parts if isinstance(part, str))
    return found


def _clipped(said: Any) -> str:
    """What a server said, safe to print."""
    return clipped(" ".join(str(said)[: 4 * _SHOWN].split()), _SHOWN)
