"""How a server is started with given settings: the restart command, its arguments and variables."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from assay.errors import InputError
from assay.improve.engines.adapter import Adapter
from assay.improve.engines.command import CommandTemplate
from assay.improve.engines.process import ServerRecord
from assay.improve.engines.read_back import given_in
from assay.load.workloads.measurement import Setting
from assay.openai_api.address import ServerAddress

FOLDER: Final = "{folder}"
"""In an adapter's arguments: the folder of logs and traces."""
HINT: Final = "--restart 'CMD {settings}'"


@dataclass(frozen=True, slots=True)
class RestartCommand:
    """The command of one server, and what every start of it has."""

    template: CommandTemplate | None
    """None for a server that is only measured."""
    adapter: Adapter
    folder: Path
    """Of logs and traces."""
    health_url: str
    cwd: Path | None = None
    """Where it is started; the folder of now if None."""
    hidden: Mapping[str, Setting] = field(default_factory=dict)
    """Settings of every start of a run that are no part of the configuration."""
    given: Mapping[str, Setting] = field(init=False)
    """What the command sets by itself."""

    def __post_init__(self) -> None:
        """Read what the command sets."""
        template = self.template
        words = () if template is None else template.words
        variables = {} if template is None else template.environment
        given = {} if template is None else given_in(self.adapter, words, variables)
        object.__setattr__(self, "given", given)

    def required(self) -> CommandTemplate:
        """The template; refused where none was given."""
        if self.template is None:
            raise InputError("expected a restart command, got none", HINT)
        return self.template

    def missing_of(self, found: ServerRecord) -> dict[str, Setting]:
        """What the command of a server sets that this one does not, or sets otherwise."""
        set_there = given_in(self.adapter, found.argv, found.environment)
        return {name: value for name, value in set_there.items() if self.given.get(name) != value}

    def check_port(self, address: ServerAddress) -> None:
        """Refuse a command whose server would listen elsewhere: it would be waited for in vain."""
        port, given = address.place.effective_port, self.required().port()
        if given not in (None, port):
            raise InputError(
                f"restart command: expected port {port} as in {address.url}, got --port {given}",
                "nothing answers there yet, and this command would start a server elsewhere",
            )

    def line(self, chosen: Mapping[str, Setting]) -> str:
        """The command for people, without a run's instrumentation."""
        arguments, variables = self._parts(chosen, instrumented=False)
        return self.required().line(arguments, variables)

    def record(
        self,
        chosen: Mapping[str, Setting],
        number: int,
        environment: Mapping[str, str],
        *,
        instrumented: bool,
    ) -> ServerRecord:
        """A server with these settings that is not started yet; `number` is that of its log.

        `environment` is set besides the variables of its settings and of its command.
        """
        arguments, variables = self._parts(chosen, instrumented=instrumented)
        return ServerRecord(
            argv=tuple(self.required().arguments(arguments)),
            environment={**environment, **variables},
            cwd=os.getcwd() if self.cwd is None else str(self.cwd),
            health_url=self.health_url,
            start_timeout_s=self.adapter.start_timeout_s,
            # A log for each start: those of earlier ones are kept.
            log=str(self.folder / f"server-{number:03d}.log"),
        )

    def _parts(
        self, chosen: Mapping[str, Setting], *, instrumented: bool
    ) -> tuple[list[str], dict[str, str]]:
        """The arguments and variables that settings become."""
        template, folder = self.required(), str(self.folder)
        if instrumented:
            chosen = {**chosen, **self.hidden}
        variables = {
            name: value.replace(FOLDER, folder)
            for name, value in self.adapter.variables(chosen, instrumented=instrumented).items()
        }
        words = self.adapter.arguments(chosen, instrumented=instrumented)
        arguments = [word.replace(FOLDER, folder) for word in words]
        return arguments, {**template.environment, **variables}
