"""The load client: windows of a workload against an OpenAI-compatible server.

    with LoadClient("http://localhost:8000") as client:
        measurement = client.run_window(workload, Window(requests=100))

One thread, one event loop, kept-alive connections. Requests are encoded before a window and answers
are decoded after it. No request is asked twice: one that fails is a record with its error.
"""

from __future__ import annotations

import asyncio
import gc
import json
import resource
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from assay.closing import Closing
from assay.errors import InputError
from assay.http_client import ServerError
from assay.load.answers import Sent, to_record
from assay.load.connection import Connection, Exchange, connect, request_bytes
from assay.load.pacing import Answered, Schedule, run_closed, run_open
from assay.load.window import summarize
from assay.load.workloads.measurement import Measurement, Setting
from assay.load.workloads.readers.jsonl import CHAT_FIELDS
from assay.load.workloads.workload import PlannedRequest, Window, Workload
from assay.openai_api.address import ServerAddress, shown
from assay.openai_api.answers import (
    CHAT,
    COMPLETIONS,
    MODELS,
    NO_SUCH_PATH,
    REFUSED_FIELD,
    ServedModel,
    completion_body,
    served_model,
)

Interface = Literal["auto", "completions", "chat"]

_PATHS: Final = {"completions": COMPLETIONS, "chat": CHAT}
_MOST_FILES: Final = 65_000
"""Connections that an open loop without a limit may need."""
_STALE_S: Final = 1.0
"""Servers drop connections that are idle for a few seconds: older ones are not used again."""
_MOST_KEPT: Final = 256 << 20
"""Bytes of answers that wait for the end of a window; beyond them, answers are decoded as they end."""
_NO_END: Final = "the server takes no ignore_eos: answers may end before max_tokens"


@dataclass(frozen=True, slots=True)
class ClientOptions:
    """How the client asks."""

    interface: Interface = "auto"
    """Which interface to ask; auto takes completions, or chats where the server has no other."""
    model: str | None = None
    """The model to name; None takes the first that the server lists."""
    timeout_s: float = 600.0
    """Seconds after which a request is given up; it counts as failed."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a window is."""

    seconds: float
    sent: int
    done: int
    failed: int


class LoadClient(Closing):
    """A server under load; connections are kept between windows."""

    def __init__(self, url: str, options: ClientOptions | None = None) -> None:
        self.address = ServerAddress(url, "URL")
        self.options = options or ClientOptions()
        self.notes: list[str] = []
        """What the server does not take; filled by the first window."""
        self._headers = self.address.headers()
        if any(not value.isprintable() for value in self._headers.values()):
            raise InputError("ASSAY_API_KEY: expected printable characters, got others")
        self._runner = asyncio.Runner()
        self._idle: list[Connection] = []
        self._model: ServedModel | None = None
        self._path = COMPLETIONS
        self._takes_chats: bool | None = None
        """Whether conversations are sent as chats; None until a workload has one."""
        self._ignores_end = True
        self._is_prepared = False
        self._reopened = 0

    def close(self) -> None:
        """Close every connection."""
        if self._idle:
            self._runner.run(self._drop(0.0))
        self._runner.close()

    def model(self) -> ServedModel:
        """The model that is asked: the first that the server lists."""
        return self._runner.run(self._served())

    def prepare(self) -> None:
        """Find out which interface and which fields the server takes, with at most three probes.

        Raises `ServerError` where it does not answer.
        """
        if not self._is_prepared:
            self._runner.run(self._prepare())

    def run_window(
        self,
        workload: Workload,
        window: Window,
        settings: Mapping[str, Setting] | None = None,
        progress: Callable[[Progress], None] | None = None,
        disturbances: Callable[[], tuple[str, ...]] | None = None,
    ) -> Measurement:
        """Measure one window; `settings` are the engine's, read back from it.

        `disturbances` is asked when the window is over.
        """
        check_window(workload, window)
        self.prepare()
        self._prepare_chats(workload)
        schedule = Schedule(workload, window)
        encoded = {
            number: self._encode(workload.requests[number]) for number in schedule.distinct()
        }
        return self._runner.run(
            self._window(workload, schedule, encoded, dict(settings or {}), progress, disturbances)
        )

    async def _window(
        self,
        workload: Workload,
        schedule: Schedule,
        encoded: Mapping[int, bytes],
        settings: Mapping[str, Setting],
        progress: Callable[[Progress], None] | None,
        disturbances: Callable[[], tuple[str, ...]] | None,
    ) -> Measurement:
        await self._drop(_STALE_S)
        _allow_connections(schedule)
        for number in schedule.warmup():
            sent = to_record(await self._ask(number, encoded[number], time.monotonic(), None), 0.0)
            if sent.error is not None:
                self.notes.append(f"a warm-up request failed: {sent.error}")
        if schedule.is_closed:
            await self._open(schedule.most_at_once())
        started_at, start_s, cpu_s = time.time(), time.monotonic(), time.thread_time()
        counts, kept_bytes = [0, 0, 0], 0
        self._reopened = 0

        async def ask(number: int, scheduled_s: float | None) -> Answered:
            nonlocal kept_bytes
            counts[0] += 1
            request = encoded[number % len(workload.requests)]
            sent = await self._ask(number, request, start_s, scheduled_s)
            counts[1] += 1
            counts[2] += sent.exchange is None or sent.exchange.status != 200
            if sent.exchange is not None:
                kept_bytes += sent.exchange.nbytes
            return sent if kept_bytes < _MOST_KEPT else to_record(sent, start_s)

        reporting = asyncio.create_task(_report(counts, start_s, progress)) if progress else None
        # A collection stops the client for milliseconds; little garbage has cycles here.
        was_enabled = gc.isenabled()
        gc.disable()
        try:
            run = run_closed if schedule.is_closed else run_open
            answers = await run(schedule, ask, start_s)
        finally:
            if was_enabled:
                gc.enable()
            if reporting is not None:
                reporting.cancel()
        cpu_s = time.thread_time() - cpu_s
        disturbed = disturbances() if disturbances else ()
        records = [
            to_record(answer, start_s) if isinstance(answer, Sent) else answer for answer in answers
        ]
        records.sort(key=lambda record: record.number)
        seconds = max((record.end_s for record in records), default=time.monotonic() - start_s)
        return summarize(
            workload,
            records,
            seconds,
            started_at=started_at,
            settings=settings,
            client_cpu_share=cpu_s / seconds if seconds > 0 else None,
            disturbances=disturbed,
            details={
                "url": self.address.url,
                "model": self._model.name if self._model else None,
                "interface": ", ".join(
                    sorted({self._path_of(request) for request in workload.requests})
                ),
                "reopened_connections": self._reopened,
                "notes": (*self.notes, *_repeated(workload, len(records))),
            },
        )

    async def _ask(
        self, number: int, request: bytes, start_s: float, scheduled_s: float | None
    ) -> Sent:
        """Send one request; its answer or its error."""
        exchange, error = None, None
        sent_s = time.monotonic()
        try:
            async with asyncio.timeout(self.options.timeout_s):
                connection, exchange = await self._exchange(request)
            if connection.is_usable:
                self._idle.append(connection)
        except TimeoutError:
            error = f"timeout after {self.options.timeout_s:g} s"
        except Exception as broken:
            error = f"{type(broken).__name__}: {broken}"
        ended_s = time.monotonic()
        return Sent(number, sent_s - start_s, ended_s - start_s, scheduled_s, exchange, error)

    async def _exchange(self, request: bytes) -> tuple[Connection, Exchange]:
        """The answer to a request, and the connection that it came over.

        A server may close a kept connection at the moment that a request is sent over it. Where no
        byte came back, it did not see the request, which goes over a new connection (RFC 9112,
        section 9.3.1): llama.cpp's server closes some although it says that it keeps them.
        """
        connection = await self._connection()
        try:
            return connection, await connection.exchange(request)
        except ConnectionError:
            if not (connection.answers and connection.is_silent):
                raise
        self._reopened += 1
        connection = await connect(self.address)
        return connection, await connection.exchange(request)

    async def _connection(self) -> Connection:
        while self._idle:
            if (connection := self._idle.pop()).is_usable:
                return connection
        return await connect(self.address)

    async def _open(self, number: int) -> None:
        """Open connections before the window; where the server refuses, the window's requests fail."""
        missing = number - len(self._idle)
        made = await asyncio.gather(
            *(connect(self.address) for _ in range(missing)), return_exceptions=True
        )
        self._idle += [connection for connection in made if isinstance(connection, Connection)]

    async def _drop(self, idle_s: float) -> None:
        """Close connections that were idle for so long."""
        now_s = time.monotonic()
        kept = []
        for connection in self._idle:
            if connection.is_usable and now_s - connection.idle_since_s < idle_s:
                kept.append(connection)
            else:
                connection.close()
        self._idle = kept
        # Transports close in the next round of the loop.
        await asyncio.sleep(0)

    async def _prepare(self) -> None:
        model = await self._served()
        path = _PATHS.get(self.options.interface, COMPLETIONS)
        answer = await self._probe(path, model.name)
        if self.options.interface == "auto" and answer.status in NO_SUCH_PATH:
            path = CHAT
            answer = await self._probe(path, model.name)
        if answer.status in REFUSED_FIELD:
            # Some servers refuse a field that they do not know.
            self._ignores_end = False
            answer = await self._probe(path, model.name)
            if answer.status == 200:
                self.notes.append(_NO_END)
        if answer.status != 200:
            raise self.address.refused(path, answer.status, answer.body)
        self._path, self._is_prepared = path, True

    async def _probe(self, path: str, model: str) -> Exchange:
        body = completion_body(path, model, "hello", 1, ignores_end=self._ignores_end)
        return await self._whole("POST", path, body)

    def _prepare_chats(self, workload: Workload) -> None:
        """Find out whether conversations can be sent as chats, by one probe where there are any."""
        if self._takes_chats is not None or not any(
            request.messages for request in workload.requests
        ):
            return
        if self._path == CHAT or self.options.interface == "completions":
            self._takes_chats = self._path == CHAT
            why = "as --interface completions asks"
        else:
            answer = self._runner.run(self._probe(CHAT, self.model().name))
            self._takes_chats = answer.status == 200
            said = shown(answer.body.decode("utf-8", "replace"))
            why = f"the server answers {CHAT} with HTTP {answer.status}: {said}"
        if not self._takes_chats:
            self.notes.append(f"conversations are sent as one text with the roles named: {why}")

    async def _served(self) -> ServedModel:
        if self._model is None and self.options.model is not None:
            self._model = ServedModel(self.options.model, self.options.model, None)
        if self._model is None:
            answer = await self._whole("GET", MODELS)
            if answer.status != 200:
                raise self.address.refused(MODELS, answer.status, answer.body)
            try:
                data = json.loads(answer.body)
            except (ValueError, RecursionError) as error:
                raise self.address.failed(MODELS, error) from None
            self._model = served_model(self.address.url, data)
        return self._model

    async def _whole(self, method: str, path: str, body: Any = None) -> Exchange:
        """One exchange outside of any window, on a connection of its own."""
        data = b"" if body is None else json.dumps(body).encode()
        try:
            async with asyncio.timeout(self.options.timeout_s):
                connection = await connect(self.address)
                try:
                    return await connection.exchange(
                        request_bytes(self.address, method, path, self._headers, data)
                    )
                finally:
                    connection.close()
        except ServerError:
            raise
        except Exception as error:
            raise self.address.failed(path, error) from None

    def _encode(self, request: PlannedRequest) -> bytes:
        assert self._model is not None
        path = self._path_of(request)
        is_chat = path == CHAT
        body = completion_body(
            path,
            self._model.name,
            request.prompt,
            request.max_tokens,
            ignores_end=self._ignores_end,
            sampling=request.sampling,
            messages=request.messages,
        )
        body |= self._fields(request, is_chat=is_chat)
        data = json.dumps(body).encode()
        return request_bytes(self.address, "POST", path, self._headers, data)

    def _path_of(self, request: PlannedRequest) -> str:
        return CHAT if request.messages and self._takes_chats else self._path

    def _fields(self, request: PlannedRequest, *, is_chat: bool) -> dict[str, Any]:
        """The request's own fields, without those that this server, or its interface, would refuse."""
        assert self._model is not None
        fields = dict(request.fields)
        if not self._ignores_end:
            fields.pop("ignore_eos", None)
        if not is_chat:
            fields = {name: value for name, value in fields.items() if name not in CHAT_FIELDS}
        asked = fields.get("model")
        if asked is not None and asked not in self._model.listed:
            # Recorded at another server: this one would refuse the name.
            del fields["model"]
            note = f"requests for models that the server does not list ask for {self._model.name}"
            if note not in self.notes:
                self.notes.append(note)
        return fields


def _allow_connections(schedule: Schedule) -> None:
    """Raise the limit of open files toward the system's own where a window may need more."""
    needed = (schedule.concurrency or _MOST_FILES) + 64
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    if soft not in (resource.RLIM_INFINITY, -1) and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def _repeated(workload: Workload, sent: int) -> tuple[str, ...]:
    if sent <= len(workload.requests):
        return ()
    return (
        f"{sent:,} requests were sent of {len(workload.requests):,} different ones: "
        "a prefix cache answers the repeated ones sooner",
    )


async def _report(counts: list[int], start_s: float, progress: Callable[[Progress], None]) -> None:
    while True:
        await asyncio.sleep(0.5)
        progress(Progress(time.monotonic() - start_s, *counts))


def check_window(workload: Workload, window: Window) -> None:
    """Raise `InputError` for a window that would never end, or has nothing to send."""
    if not workload.requests:
        raise InputError(f'workload "{workload.name}": expected requests, got none')
    if window.seconds is None and window.requests is None:
        raise InputError("window: expected seconds or requests, got neither")
    if window.seconds is not None and window.seconds <= 0:
        raise InputError(f"window: expected seconds above 0, got {window.seconds:g}")
    if window.requests is not None and window.requests < 1:
        raise InputError(f"window: expected at least 1 request, got {window.requests}")
