"""What the process of HTTP is told of its models and its limits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Protocol

from assay.engine.loading import ModelFiles, open_model
from assay.engine.loading.encoder_files import is_encoder
from assay.engine.loading.template_file import replaced_template
from assay.engine.server import reasoning, tools
from assay.engine.server.app import Limits
from assay.engine.server.logs import LogSettings
from assay.engine.server.model_host import LoadedEngine
from assay.engine.server.served_model import (
    AUTO,
    NONE,
    ModelFacts,
    ServedModel,
    model_of_files,
    served_encoder,
    served_model,
)

Described = Callable[[ModelFacts], ServedModel]


class ModelSource(Protocol):
    """Where the process of HTTP finds a model's tokenizer and templates; it is pickled."""

    def open(self) -> Described:
        """Read the files; what the engine knows comes later."""

    def of_engine(self, loaded: LoadedEngine) -> ServedModel:
        """The same from the files of an engine in this process."""


@dataclass(frozen=True)
class FileSource:
    """A model that both processes open."""

    name: str
    source: str
    tool_call_parser: str = AUTO
    reasoning_parser: str = AUTO
    chat_template: str | None = None
    """The file of a template, in place of the model's own."""

    def __post_init__(self) -> None:
        """Refuse parsers that do not exist, before a model is loaded."""
        if self.tool_call_parser not in (AUTO, NONE):
            tools.family_named(self.tool_call_parser)
        if self.reasoning_parser not in (AUTO, NONE):
            reasoning.format_named(self.reasoning_parser)

    def open(self) -> Described:
        """Open the files and build the tokenizer, while the other process loads weights."""
        files = open_model(self.source)
        if self.chat_template is not None and not is_encoder(files):
            files = replaced_template(files, self.chat_template)
        files.tokenizer.build()
        return partial(self._describe, files)

    def of_engine(self, loaded: LoadedEngine) -> ServedModel:
        """The same from the files of an engine in this process."""
        if is_encoder(loaded.engine.files):
            return served_encoder(loaded.engine, self.name)
        return served_model(
            loaded.engine,
            self.name,
            tool_call_parser=self.tool_call_parser,
            reasoning_parser=self.reasoning_parser,
            max_model_len=loaded.facts.context_limit,
        )

    def _describe(self, files: ModelFiles, facts: ModelFacts) -> ServedModel:
        return model_of_files(
            files,
            self.name,
            facts.context_limit,
            facts.vocabulary,
            tool_call_parser=self.tool_call_parser,
            reasoning_parser=self.reasoning_parser,
            by_priority=facts.by_priority,
        )


@dataclass(frozen=True)
class HttpSettings:
    """What the process of HTTP is told when it starts."""

    sources: Sequence[ModelSource]
    api_key: str | None = None
    limits: Limits = field(default_factory=Limits)
    allowed_origins: Sequence[str] = ()
    adapter_folder: Path | None = None
    sleep_mode: bool = False
    transcription_model: str | None = None
    can_profile: bool = False
    shares_device: bool = False
    drain_seconds: float = 30.0
    logs: LogSettings | None = None
