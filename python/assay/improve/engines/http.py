"""Any OpenAI-compatible server behind the protocol: tuned by restarts, measured over HTTP."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from assay import paths
from assay.errors import AssayError, InputError
from assay.http_client import ServerError
from assay.improve.engines import (
    adapter as adapters,
    capturing,
    detection,
    following,
    placement,
    schemas,
)
from assay.improve.engines.adapter import Adapter
from assay.improve.engines.command import CommandTemplate
from assay.improve.engines.disturbance import DisturbanceMeter
from assay.improve.engines.leaving import FoundServer
from assay.improve.engines.probing import Prober
from assay.improve.engines.process import (
    ServerRecord,
    cpu_seconds,
    process_environment,
    resident_bytes,
)
from assay.improve.engines.protocol import (
    RESIDENT,
    Engine,
    EngineDescription,
    EngineKnob,
    EngineLostError,
    Followed,
    Given,
    ProbeAnswer,
    RestartingEngine,
    TokenPair,
    TrialFailedError,
    Undo,
)
from assay.improve.engines.read_back import ReadBack, given_in, read_back, state_of
from assay.improve.engines.supervised import SupervisedServer, is_local
from assay.load.client import LoadClient
from assay.load.workloads.measurement import Measurement, Setting
from assay.load.workloads.workload import Window, Workload
from assay.openai_api.address import ServerAddress
from assay.openai_api.answers import MODELS, ServedModel, served_model
from assay.openai_api.exchange import exchange, exchange_json

FOLLOWED_AT_ONCE: Final = 4
"""Answers that a server is led along at once."""
NO_SUCH_PATH: Final = (404, 405, 501)
"""Statuses of a server that has chats alone, and no completions to be led along."""
FOLDER: Final = "{folder}"
"""In an adapter's arguments: the folder of logs and traces."""


class HttpEngine(Engine):
    """A server that is told how to restart, or one that is only measured.

    `restart` is a command with {settings} in it. The server that answers at `url` is taken over, and
    left running in the end; where none answers, the command starts one, which `close` stops.
    """

    def __init__(
        self,
        url: str,
        restart: str | None = None,
        *,
        adapter: str | Path | Adapter | None = None,
        settings: Mapping[str, Setting] | None = None,
        folder: Path | None = None,
        cwd: Path | None = None,
        environment: Mapping[str, str] | None = None,
        on_start: Callable[[ServerRecord], None] | None = None,
        say: Callable[[str], None] = lambda text: None,
        hidden: Mapping[str, Setting] | None = None,
        shown: Mapping[str, Setting] | None = None,
    ) -> None:
        """Find the server, or start it with `settings`; logs go to `folder`.

        It is started in `cwd`, the folder of now if not given. `environment` is set in every server
        that is started, besides what is inherited. `hidden` are settings of every start that are no
        part of the configuration, which is `shown` instead.
        """
        self._hidden: Mapping[str, Setting] = dict(hidden or {})
        self._shown: Mapping[str, Setting] = dict(shown or {})
        self.environment: Mapping[str, str] = dict(environment or {})
        self._cwd = cwd
        self.address: Final = ServerAddress(url, "--engine")
        self._template = None if restart is None else CommandTemplate.parse(restart)
        self.adapter: Final = self._adapter(adapter)
        self.folder: Final = folder or paths.scratch() / "servers" / str(
            self.address.place.port or 0
        )
        self.server: Final = SupervisedServer(
            self.address, self.adapter, on_start=on_start, say=say
        )
        self._in_template = (
            {}
            if self._template is None
            else given_in(self.adapter, self._template.words, self._template.environment)
        )
        self._chosen: dict[str, Setting] = self.adapter.check(settings or {})
        self._found: FoundServer | None = None
        """None where the server was started here."""
        self._replaced = False
        """Whether others served in its place: it is started again where it was found."""
        self._say = say
        self._asked: set[int] = set()
        self._stated: ReadBack | None = None
        self._stated_of: tuple[int | None, int | None] = (None, None)
        self._model: ServedModel | None = None
        self._notes: list[str] = []
        self._prober = Prober(self.address, self.adapter.probe)
        self._load: LoadClient | None = None
        self._open(bool(settings))
        self._meter = DisturbanceMeter(self.gpu(), engine_cpu_s=self._cpu_seconds)

    @property
    def on_start(self) -> Callable[[ServerRecord], None] | None:
        """Called with the record of every server that is started, before it is waited for."""
        return self.server.on_start

    @on_start.setter
    def on_start(self, call: Callable[[ServerRecord], None] | None) -> None:
        self.server.on_start = call

    def describe(self) -> EngineDescription:
        """What answers, on what, and what was not confirmed."""
        model = self._served()
        gpu = self.gpu()
        where = "cpu" if gpu is None else f"cuda:{gpu}"
        notes = [*self._notes, *self._prober.notes]
        local = is_local(self.address)
        if not local:
            notes.append(f"{self.address.host} is another machine: its hardware is not known")
        if self._template is None:
            notes.append("no restart command: nothing can be changed; --restart 'CMD {settings}'")
        stated = self._read()
        if unconfirmed := stated.unconfirmed:
            notes.append(
                f"not stated by the server, taken from its command line: {', '.join(unconfirmed)}"
            )
        notes += [f"{name}: {why}" for name, why in self.adapter.skipped.items()]
        release = state_of(self.adapter.release, self.adapter, self.address, self.server.log)
        return EngineDescription(
            engine=self.adapter.name,
            release=release or "unknown",
            model=Path(model.name).name,
            device=where,
            hardware=placement.hardware(gpu) if local else {},
            capabilities=self._capabilities(gpu),
            context_limit=model.context_limit,
            synthetic=state_of(self.adapter.synthetic, self.adapter, self.address, None) == "True",
            details={
                "url": self.address.url,
                "adapter": self.adapter.source,
                "weights": model.root,
                "start_seconds": self.server.start_seconds,
                "read_back": dict(stated.sources),
            },
            degradations=tuple(dict.fromkeys([*notes, *stated.problems])),
        )

    def knobs(self) -> Mapping[str, EngineKnob]:
        """The adapter's knobs; none where the server cannot be restarted."""
        if self._template is None:
            return {}
        return {name: knob.to_knob() for name, knob in self.adapter.knobs.items()}

    def settings(self) -> Mapping[str, Setting]:
        """The value of every knob, from the best place that states it."""
        return {**self._read().settings, **self._shown}

    @property
    def can_restart(self) -> bool:
        """Whether it was told how."""
        return self._template is not None

    @property
    def chosen(self) -> Mapping[str, Setting]:
        """Settings that its command gives."""
        return self._chosen

    def gpu(self) -> int | None:
        """The GPU that the server holds open; None for one of a CPU."""
        record = self.server.record
        return None if record is None or record.pid is None else placement.gpu_of(record.pid)

    def sibling(
        self,
        port: int,
        settings: Mapping[str, Setting],
        hidden: Mapping[str, Setting],
        more: Sequence[str] = (),
    ) -> HttpEngine:
        """Another server of this kind on another port, with arguments besides its settings.

        Raises `EngineLostError` where it does not start.
        """
        if self._template is None:
            raise InputError("expected a restart command, got none", "--restart 'CMD {settings}'")
        template = self._template.at_port(self.address.place.effective_port, port, more)
        now = self.settings()
        return HttpEngine(
            f"{self.address.place.scheme}://{self.address.host}:{port}",
            template.text,
            adapter=self.adapter,
            settings=settings,
            folder=self.folder / f"beside-{port}",
            environment=self.environment,
            on_start=self.on_start,
            hidden=hidden,
            shown={name: now[name] for name in hidden},
        )

    def restart(self, chosen: Mapping[str, Setting]) -> None:
        """Start the server again with exactly these settings."""
        self._restart(chosen)

    def settle_for(self, chosen: Mapping[str, Setting]) -> None:
        """Have these settings from the next start on: others served in its place meanwhile."""
        self._chosen = {**self._chosen, **chosen}
        if self._found is not None:
            self._found.touched |= set(chosen)
        self._replaced = True

    def configure(self, changes: Mapping[str, Setting]) -> Undo:
        """Restart with changes; where that fails, with the settings from before."""
        if self._template is None:
            raise InputError(
                f"{self.address.url}: expected a restart command to change settings, got none",
                "--restart 'CMD {settings}'",
            )
        checked = self.adapter.check(changes)
        if self._found is not None:
            self._found.touched |= set(checked)
        before = self._chosen
        after = {**self._pinned(), **checked}
        if not checked:
            return lambda: None
        try:
            self._restart(after)
        except EngineLostError as error:
            raise self._returned(before, error) from None
        return lambda: self._restart(before)

    def measure(self, workload: Workload, window: Window) -> Measurement:
        """Run a window over HTTP, on an empty prefix cache."""
        workload = self._on_empty_prefix_cache(workload, window)
        if self._load is None:
            self._load = LoadClient(self.address.url)
        self.server.check("before the window")
        self._meter.begin()
        with self.server.watched("in the window"):
            measured = self._load.run_window(workload, window, disturbances=self._meter.end)
        details = {**measured.details, **self._meter.shares, **self._resident()}
        return replace(measured, settings=self.settings(), details=details)

    def probe(self, prompts: Sequence[str], max_tokens: int) -> list[ProbeAnswer]:
        """Greedy answers, one after another."""
        model = self._served().name
        with self.server.watched("in the probes"):
            try:
                return [self._prober.ask(model, prompt, max_tokens) for prompt in prompts]
            except ServerError:
                # A server that ended is the news, not the answer that did not come.
                self.server.check("in the probes")
                raise

    def follow(self, answers: Sequence[Given], tie: float) -> list[Followed | None]:
        """Lead the server along texts: greedy continuations, or a scored text where it samples."""
        model = self._served().name
        with self.server.watched("behind an answer"), ThreadPoolExecutor(FOLLOWED_AT_ONCE) as pool:
            try:
                return list(
                    pool.map(
                        lambda given: following.along(self._prober, model, given, tie), answers
                    )
                )
            except ServerError as error:
                self.server.check("behind an answer")
                if error.status not in NO_SUCH_PATH:
                    raise
                self._note(f"answers that differ cannot be judged: {error.message}")
                return [None for _ in answers]

    def restarting(self) -> RestartingEngine:
        """This engine."""
        return self

    def answers(self, workload: Workload, count: int) -> list[TokenPair]:
        """Tokens of the first prompts of a workload and of what the model answers.

        None where the server does not say which tokens a text has, which is noted.
        """
        if not self.adapter.tokenize:
            self._note(f"{self.adapter.name} has no path that tokenizes: drafts are not replayed")
            return []
        answers = []
        for request in workload.requests[:count]:
            (answer,) = self.probe([request.prompt], request.max_tokens)
            answers.append((self._tokens(request.prompt), self._tokens("".join(answer.texts))))
        return answers

    def _tokens(self, text: str) -> tuple[int, ...]:
        body = {"model": self._served().name, self.adapter.tokenize: text}
        data = exchange_json(self.address, "/tokenize", body)
        tokens = data.get("tokens") if isinstance(data, Mapping) else None
        if not isinstance(tokens, list) or not all(isinstance(token, int) for token in tokens):
            raise ServerError(f"/tokenize: expected a list of tokens, got {str(data)[:100]}")
        return tuple(tokens)

    def capture(self, workload: Workload, window: Window, folder: Path) -> Path | None:
        """A trace of a window, by the server's own profiler where it has one."""
        if not self.adapter.profile:
            self._note(f"{self.adapter.name} has no profiler of its own: no trace")
            return None
        traced = workload
        if self.adapter.profile == "kineto":
            traced = capturing.shortened(workload, capturing.TRACED_TOKENS)
        try:
            return capturing.capture(
                self.address,
                self.adapter.profile,
                self.folder / "traces",
                folder,
                lambda: self.measure(traced, window),
            )
        except (ServerError, InputError) as error:
            self._note(f"no trace: {error.message}")
            return None

    def launch_command(
        self, settings: Mapping[str, Setting], *, like: HttpEngine | None = None
    ) -> str:
        """The command that starts this server with these settings, without a run's instrumentation.

        `like` is a sibling that runs them: values that follow from others are not given.
        """
        template, arguments, variables = self._command(settings, instrumented=False, like=like)
        return template.line(arguments, variables)

    def record_for(
        self, settings: Mapping[str, Setting], *, like: HttpEngine | None = None
    ) -> ServerRecord:
        """A server with these settings that is not started yet, for a journal: nothing of a run in it.

        With the settings that the server was found with, it is the command that it was found with.
        """
        record = self._record(settings, instrumented=False, like=like)
        found = self._found
        is_like = found is not None and found.is_like(settings, self._read().settings)
        return found.again(record) if found is not None and is_like else record

    def _record(
        self, settings: Mapping[str, Setting], *, instrumented: bool, like: HttpEngine | None = None
    ) -> ServerRecord:
        template, arguments, variables = self._command(
            settings, instrumented=instrumented, like=like
        )
        return ServerRecord(
            argv=tuple(template.arguments(arguments)),
            environment={**(self.environment if instrumented else {}), **variables},
            cwd=os.getcwd() if self._cwd is None else str(self._cwd),
            health_url=self.address.url + self.adapter.health,
            start_timeout_s=self.adapter.start_timeout_s,
            # A log for each start: those of earlier ones are kept.
            log=str(self.folder / f"server-{self.server.started:03d}.log"),
        )

    def close(self) -> None:
        """Stop the server if this object brought it up; one that was found is left without a trace.

        It runs with the settings of now, and where those are the ones that it was found with, by the
        command and the variables that it was found with.
        """
        if self._load is not None:
            self._load.close()
            self._load = None
        if not self.server.was_found:
            self.server.stop()
        elif self.server.started or self._replaced:
            self._leave()

    def _leave(self) -> None:
        """Start the server once more, without what the run needed of it."""
        now = self._read().settings
        settings = {**now, **self._chosen} if self.adapter.pins else self._chosen
        wanted = self._record(settings, instrumented=False)
        if self._found is not None and self._found.is_like(settings, now):
            wanted = self._found.exactly(wanted)
        running = self.server.record
        if running is not None and (running.argv, running.environment) == (
            wanted.argv,
            wanted.environment,
        ):
            if self.server.is_running():
                return
        elif self._replaced and self.server.is_healthy():
            # A recovery has started it from the journal.
            return
        # The journal of the run is complete: this start is no part of it.
        self.server.on_start = None
        self._say("restarting the server without the run's instrumentation")
        self._forget()
        self.server.stop()
        try:
            self.server.start(wanted)
        except EngineLostError:
            # Better a server that still has the instrumentation than none.
            self.server.start(self._record(settings, instrumented=True))
            raise

    def _adapter(self, given: str | Path | Adapter | None) -> Adapter:
        words = () if self._template is None else self._template.words
        if isinstance(given, Adapter):
            return given
        name = given or detection.of_command(words) or detection.of_server(self.address)
        if name is None and self._template is not None:
            raise InputError(
                "--restart: expected a server whose settings are known, got another command",
                f"--adapter FILE names its knobs; known are {', '.join(adapters.names())}",
            )
        return schemas.complete(adapters.load(name or "openai"), words[0] if words else None)

    def _open(self, has_settings: bool) -> None:
        if self.server.find():
            if self._template is not None:
                self._found = FoundServer.of(self.server.record, self._read().settings)
            if has_settings:
                self._restart(self._chosen)
            elif self._template is not None and self.server.record is None:
                raise InputError(
                    f"{self.address.url}: expected a server of this machine and user to restart, "
                    "got one whose process cannot be found",
                    "run Assay beside the server, or stop it: the restart command starts it again",
                )
            return
        if self._template is None:
            raise InputError(
                f"{self.address.url}{self.adapter.health}: expected a server, got no answer",
                "start it, or say how to: --restart 'CMD {settings}'",
            )
        self._restart(self._chosen)

    def _restart(self, chosen: Mapping[str, Setting]) -> None:
        """Stop what runs and start the server with exactly these settings."""
        self._forget()
        record = self._record(chosen, instrumented=True)
        self.server.stop()
        self.server.start(record)
        self._chosen = dict(chosen)

    def _returned(self, before: Mapping[str, Setting], error: EngineLostError) -> AssayError:
        """Bring the former settings back; the error to raise after that."""
        try:
            self._restart(before)
        except EngineLostError as second:
            second.add_note(f"after: {error.message}")
            return EngineLostError(
                f"{error.message}; nor does it start with the former settings: {second.message}",
                second.hint,
                failure=error.failure,
            )
        failed = TrialFailedError(error.message, error.hint, failure=error.failure)
        for note in getattr(error, "__notes__", ()):
            failed.add_note(note)
        return failed

    def _pinned(self) -> dict[str, Setting]:
        """What runs now, so that a change of one knob does not move another."""
        return self._explicit(self._read().settings if self.adapter.pins else self._chosen)

    def _explicit(self, settings: Mapping[str, Setting]) -> dict[str, Setting]:
        """Settings that differ from what the command gives by itself."""
        explicit: dict[str, Setting] = {}
        followed = {} if self.adapter.pins or not settings else self.settings()
        for name, value in settings.items():
            knob = self.adapter.knob(name)
            if name in followed and name not in self._chosen and value == followed[name]:
                continue
            if value is not None and value != self._in_template.get(name, knob.default):
                explicit[name] = value
        return explicit

    def _read(self) -> ReadBack:
        # Values do not change while a process lives: endpoints and log are read once for each.
        if self._stated is None or self._stated_of != self._identity():
            record = self.server.record
            argv = () if record is None else record.argv
            environment: Mapping[str, str] = {}
            if record is not None and record.pid is not None:
                environment = process_environment(record.pid)
            self._stated = read_back(self.adapter, self.address, argv, environment, self.server.log)
            self._stated_of = self._identity()
        return self._stated

    def _identity(self) -> tuple[int | None, int | None]:
        record = self.server.record
        return (None, None) if record is None else (record.pid, record.start_ticks)

    def _forget(self) -> None:
        self._stated, self._model = None, None
        self._asked.clear()

    def _served(self) -> ServedModel:
        if self._model is None:
            self._model = served_model(
                self.address.url, exchange_json(self.address, MODELS, timeout_s=60.0)
            )
        return self._model

    def _cpu_seconds(self) -> float:
        record = self.server.record
        return 0.0 if record is None or record.pid is None else cpu_seconds(record.pid)

    def _resident(self) -> dict[str, int]:
        record = self.server.record
        if record is None or record.pid is None:
            return {}
        return {RESIDENT: resident_bytes(record.pid)}

    def _capabilities(self, gpu: int | None) -> frozenset[str]:
        capabilities = {*self.adapter.capabilities, "restart", "logprobs"}
        capabilities |= {"cpu", "cpu-threads"} if gpu is None else {"cuda"}
        if (os.cpu_count() or 1) > 1:
            capabilities.add("multi-core")
        if self.adapter.profile:
            capabilities.add("capture")
        return frozenset(capabilities)

    def _on_empty_prefix_cache(self, workload: Workload, window: Window) -> Workload:
        """The workload, sure not to find what an earlier window of the same requests left behind."""
        if self.adapter.reset:
            try:
                exchange(self.address, self.adapter.reset, method="POST", timeout_s=60.0)
                return workload
            except ServerError as error:
                self._note(f"the prefix cache was not emptied: {error.message}")
        if "prefix-cache" not in self.adapter.capabilities:
            return workload
        if self.adapter.uncached and not any(
            request.prefix_tokens for request in workload.requests
        ):
            # Nothing is shared inside a window either: the cache would only hold earlier windows.
            return _with_fields(workload, self.adapter.uncached)
        asked = _numbers(workload, window)
        if asked & self._asked:
            if self._template is None:
                self._note("requests repeat, and the server may find them in its prefix cache")
            else:
                self._restart(self._chosen)
        self._asked |= asked
        return workload

    def _note(self, text: str) -> None:
        if text not in self._notes:
            self._notes.append(text)

    def _command(
        self, settings: Mapping[str, Setting], *, instrumented: bool, like: HttpEngine | None = None
    ) -> tuple[CommandTemplate, list[str], dict[str, str]]:
        """The restart command, with the arguments and variables that settings become."""
        if self._template is None:
            raise InputError("expected a restart command, got none", "--restart 'CMD {settings}'")
        chosen = (like or self)._explicit(self.adapter.check(settings))
        folder = str(self.folder)
        if instrumented:
            chosen = {**chosen, **self._hidden}
        variables = {
            name: value.replace(FOLDER, folder)
            for name, value in self.adapter.variables(chosen, instrumented=instrumented).items()
        }
        words = self.adapter.arguments(chosen, instrumented=instrumented)
        arguments = [word.replace(FOLDER, folder) for word in words]
        return self._template, arguments, {**self._template.environment, **variables}


def _numbers(workload: Workload, window: Window) -> set[int]:
    """Which requests of a workload a window may ask for; all where only its time is limited."""
    count = len(workload.requests)
    if window.requests is None or window.requests >= count:
        return set(range(count))
    return {(window.offset + at) % count for at in range(window.requests)}


def _with_fields(workload: Workload, fields: Mapping[str, Any]) -> Workload:
    requests = (
        replace(request, sampling={**request.sampling, **fields}) for request in workload.requests
    )
    return replace(workload, requests=tuple(requests))
