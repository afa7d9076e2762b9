"""Any OpenAI-compatible server behind the protocol: tuned by restarts, measured over HTTP."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Final

from assay import paths
from assay.errors import AssayError, InputError
from assay.http_client import ServerError
from assay.improve.engines import (
    adapter as adapters,
    capturing,
    detection,
    following,
    placement,
    process,
    schemas,
)
from assay.improve.engines.adapter import Adapter
from assay.improve.engines.command import CommandTemplate
from assay.improve.engines.disturbance import DisturbanceMeter
from assay.improve.engines.earlier_requests import EarlierRequests
from assay.improve.engines.leaving import FoundServer
from assay.improve.engines.probing import Prober
from assay.improve.engines.process import ServerRecord
from assay.improve.engines.protocol import (
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
from assay.improve.engines.read_back import state_of
from assay.improve.engines.restart_command import RestartCommand
from assay.improve.engines.served import Served
from assay.improve.engines.supervised import SupervisedServer, is_local
from assay.load.client import LoadClient
from assay.load.workloads.measurement import Measurement, Setting
from assay.load.workloads.workload import Window, Workload
from assay.openai_api.address import ServerAddress

FOLLOWED_AT_ONCE: Final = 4
"""Answers that a server is led along at once."""


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
        self._shown: Mapping[str, Setting] = dict(shown or {})
        self.environment: Mapping[str, str] = dict(environment or {})
        self.address: Final = ServerAddress(url, "--engine")
        template = None if restart is None else CommandTemplate.parse(restart)
        self.adapter: Final = self._adapter(adapter, template)
        self.folder: Final = folder or paths.scratch() / "servers" / str(
            self.address.place.port or 0
        )
        self.server: Final = SupervisedServer(
            self.address, self.adapter, on_start=on_start, say=say
        )
        self._command: Final = RestartCommand(
            template,
            self.adapter,
            self.folder,
            self.address.url + self.adapter.health,
            cwd,
            dict(hidden or {}),
        )
        self._chosen: dict[str, Setting] = self.adapter.check(settings or {})
        self._found: FoundServer | None = None
        """None where the server was started here."""
        self._command_works = False
        """Whether the restart command has started the server."""
        self._say = say
        self._notes: list[str] = []
        self._served: Final = Served(self.address, self.adapter, self.server)
        self._earlier: Final = EarlierRequests(self.address, self.adapter, self._note)
        self._prober = Prober(self.address, self.adapter.probe)
        self._load: LoadClient | None = None
        self._open(bool(settings))
        self._meter = DisturbanceMeter(self.gpu(), engine_cpu_s=self._served.cpu_seconds)

    @property
    def on_start(self) -> Callable[[ServerRecord], None] | None:
        """Called with the record of every server that is started, before it is waited for."""
        return self.server.on_start

    @on_start.setter
    def on_start(self, call: Callable[[ServerRecord], None] | None) -> None:
        self.server.on_start = call

    def describe(self) -> EngineDescription:
        """What answers, on what, and what was not confirmed."""
        model = self._served.model()
        gpu = self.gpu()
        where = "cpu" if gpu is None else f"cuda:{gpu}"
        notes = [*self._notes, *self._prober.notes]
        local = is_local(self.address)
        if not local:
            notes.append(f"{self.address.host} is another machine: its hardware is not known")
        if not self.can_restart:
            notes.append("no restart command: nothing can be changed; --restart 'CMD {settings}'")
        stated = self._served.stated()
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
        if not self.can_restart:
            return {}
        return {name: knob.to_knob() for name, knob in self.adapter.knobs.items()}

    def settings(self) -> Mapping[str, Setting]:
        """The value of every knob, from the best place that states it."""
        return {**self._served.stated().settings, **self._shown}

    @property
    def can_restart(self) -> bool:
        """Whether it was told how."""
        return self._command.template is not None

    @property
    def chosen(self) -> Mapping[str, Setting]:
        """Settings that its command gives."""
        return self._chosen

    def gpu(self) -> int | None:
        """The GPU that the server holds open; None for one of a CPU."""
        return self._served.gpu()

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
        template = self._command.required().at_port(self.address.place.effective_port, port, more)
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

    def configure(self, changes: Mapping[str, Setting]) -> Undo:
        """Restart with changes; where that fails, with the settings from before."""
        if not self.can_restart:
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
        restart = (lambda: self._restart(self._chosen)) if self.can_restart else None
        workload = self._earlier.forgotten(workload, window, restart)
        if self._load is None:
            self._load = LoadClient(self.address.url)
        self.server.check("before the window")
        self._meter.begin()
        with self.server.watched("in the window"):
            measured = self._load.run_window(workload, window, disturbances=self._meter.end)
        details = {**measured.details, **self._meter.shares, **self._served.resident()}
        return replace(measured, settings=self.settings(), details=details)

    def probe(self, prompts: Sequence[str], max_tokens: int) -> list[ProbeAnswer]:
        """Greedy answers, one after another."""
        model = self._served.model().name
        with self.server.watched("in the probes"):
            try:
                return [self._prober.ask(model, prompt, max_tokens) for prompt in prompts]
            except ServerError:
                # A server that ended is the news, not the answer that did not come.
                self.server.check("in the probes")
                raise

    def follow(self, answers: Sequence[Given], tie: float) -> list[Followed | None]:
        """Lead the server along texts: greedy continuations, or a scored text where it samples."""

        def along(given: Given) -> Followed | None:
            try:
                model = self._served.asked(given[0])
                return following.along(self._prober, self._served, model, given, tie)
            except ServerError as error:
                # It has chats alone, or refuses this one: too long for its context, too many at once.
                self._note(f"answers that differ cannot be judged: {error.message}")
                return None

        # The watch raises where the server ended meanwhile.
        with self.server.watched("behind an answer"), ThreadPoolExecutor(FOLLOWED_AT_ONCE) as pool:
            return list(pool.map(along, answers))

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
            answers.append(
                (self._served.tokens(request.prompt), self._served.tokens("".join(answer.texts)))
            )
        return answers

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
        self._command.required()
        return self._command.line((like or self)._explicit(self.adapter.check(settings)))

    def record_for(
        self, settings: Mapping[str, Setting], *, like: HttpEngine | None = None
    ) -> ServerRecord:
        """A server with these settings that is not started yet, for a journal: nothing of a run in it.

        With the settings that the server was found with, it is the command that it was found with.
        """
        record = self._record(settings, instrumented=False, like=like)
        found = self._found
        is_like = found is not None and found.is_like(settings, self._served.stated().settings)
        return found.again(record) if found is not None and is_like else record

    def _record(
        self, settings: Mapping[str, Setting], *, instrumented: bool, like: HttpEngine | None = None
    ) -> ServerRecord:
        self._command.required()
        chosen = (like or self)._explicit(self.adapter.check(settings))
        variables = self.environment if instrumented else {}
        return self._command.record(
            chosen, self.server.started, variables, instrumented=instrumented
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
        elif self.server.was_ended and self.can_restart:
            self._leave()

    def _leave(self) -> None:
        """Start the server once more, without what the run needed of it."""
        now = self._served.stated().settings
        settings = {**now, **self._chosen} if self.adapter.pins else self._chosen
        wanted = self._record(settings, instrumented=False)
        if self._found is not None and self._found.is_like(settings, now):
            wanted = self._found.exactly(wanted)
        running = self.server.record
        if not self.server.is_running():
            if self.server.is_healthy():
                # A recovery has started it from the journal.
                return
        elif running is not None and (running.argv, running.environment) == (
            wanted.argv,
            wanted.environment,
        ):
            return
        # The journal of the run is complete: this start is no part of it.
        self.server.on_start = None
        self._say("restarting the server without the run's instrumentation")
        self._forget()
        try:
            self.server.replace(wanted)
        except EngineLostError as error:
            if not self.server.is_running():
                self._start_anyhow(settings, error)
            raise

    def _start_anyhow(self, settings: Mapping[str, Setting], error: EngineLostError) -> None:
        """Better a server that still has the instrumentation than none, or one as it was found."""
        try:
            self.server.start(self._record(settings, instrumented=True))
        except EngineLostError as second:
            error.add_note(f"nor does it start with the instrumentation: {second.message}")
            self._start_as_found(error)

    def _adapter(
        self, given: str | Path | Adapter | None, template: CommandTemplate | None
    ) -> Adapter:
        words = () if template is None else template.words
        if isinstance(given, Adapter):
            return given
        name = given or detection.of_command(words) or detection.of_server(self.address)
        if name is None and template is not None:
            raise InputError(
                "--restart: expected a server whose settings are known, got another command",
                f"--adapter FILE names its knobs; known are {', '.join(adapters.names())}",
            )
        return schemas.complete(adapters.load(name or "openai"), words[0] if words else None)

    def _open(self, has_settings: bool) -> None:
        if self.server.find():
            if self.can_restart:
                self._found = FoundServer.of(self.server.record, self._served.stated().settings)
            if self._found is not None:
                # Every start has what it was found with, which the command need not say.
                self._chosen = self._command.missing_of(self._found.record) | self._chosen
            if self.can_restart and self.server.record is None:
                raise InputError(
                    f"{self.address.url}: expected a server of this machine and user to restart, "
                    "got one whose process cannot be found",
                    "run Assay beside the server, or stop it: the restart command starts it again",
                )
            if self.can_restart:
                # Told before anything is measured, while the server that was found still runs.
                process.check_startable(self._record(self._chosen, instrumented=True))
            if has_settings:
                self._restart(self._chosen)
            return
        if not self.can_restart:
            raise InputError(
                f"{self.address.url}{self.adapter.health}: expected a server, got no answer",
                "start it, or say how to: --restart 'CMD {settings}'",
            )
        self._command.check_port(self.address)
        process.check_startable(self._record(self._chosen, instrumented=True))
        self._restart(self._chosen)

    def _restart(self, chosen: Mapping[str, Setting]) -> None:
        """Stop what runs and start the server with exactly these settings."""
        self._forget()
        try:
            self.server.replace(self._record(chosen, instrumented=True))
        except EngineLostError as error:
            if not self._command_works and not self.server.is_running():
                self._start_as_found(error)
            raise
        self._command_works = True
        self._chosen = dict(chosen)

    def _start_as_found(self, error: EngineLostError) -> None:
        """Bring a server back whose restart command does not start it: not the command's former settings.

        Does nothing for one that was started here.
        """
        found = self._found
        if found is None:
            return
        on_start = self.server.on_start
        if on_start is not None:
            # As in `again`: its variables may be secrets, which no journal gets.
            self.server.on_start = lambda record: on_start(
                replace(record, environment={}, inherits=True)
            )
        try:
            self.server.start(found.exactly(self._record(self._chosen, instrumented=True)))
        except EngineLostError as second:
            error.add_note(f"nor does it start as it was found: {second.message}")
        else:
            error.add_note("the server runs again as it was found")
        finally:
            self.server.on_start = on_start

    def _returned(self, before: Mapping[str, Setting], error: EngineLostError) -> AssayError:
        """Bring the former settings back; the error to raise after that."""
        try:
            # It runs where the command was refused before, or where it was started as it was found.
            if not self.server.is_running():
                self._restart(before)
        except EngineLostError as second:
            if self._command_works and not self.server.is_running():
                self._start_as_found(second)
            return _with_notes_of(
                second,
                EngineLostError(
                    f"{error.message}; nor does it start with the former settings: {second.message}",
                    second.hint,
                    failure=error.failure,
                ),
            )
        return _with_notes_of(
            error, TrialFailedError(error.message, error.hint, failure=error.failure)
        )

    def _pinned(self) -> dict[str, Setting]:
        """What runs now, so that a change of one knob does not move another."""
        return self._explicit(self._served.stated().settings if self.adapter.pins else self._chosen)

    def _explicit(self, settings: Mapping[str, Setting]) -> dict[str, Setting]:
        """Settings that differ from what the command gives by itself."""
        explicit: dict[str, Setting] = {}
        followed = {} if self.adapter.pins or not settings else self.settings()
        for name, value in settings.items():
            knob = self.adapter.knob(name)
            if name in followed and name not in self._chosen and value == followed[name]:
                continue
            if value is not None and value != self._command.given.get(name, knob.default):
                explicit[name] = value
        return explicit

    def _forget(self) -> None:
        self._served.forget()
        self._earlier.forget()

    def _capabilities(self, gpu: int | None) -> frozenset[str]:
        capabilities = {*self.adapter.capabilities, "restart", "logprobs"}
        capabilities |= {"cpu", "cpu-threads"} if gpu is None else {"cuda"}
        if (os.cpu_count() or 1) > 1:
            capabilities.add("multi-core")
        if self.adapter.profile:
            capabilities.add("capture")
        return frozenset(capabilities)

    def _note(self, text: str) -> None:
        if text not in self._notes:
            self._notes.append(text)


def _with_notes_of(cause: EngineLostError, error: EngineLostError) -> EngineLostError:
    for note in getattr(cause, "__notes__", ()):
        error.add_note(note)
    return error
