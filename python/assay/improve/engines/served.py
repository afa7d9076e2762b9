"""What a server that runs says and takes: settings, model, tokens, GPU, CPU time and memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from assay.http_client import ServerError
from assay.improve.engines import placement
from assay.improve.engines.adapter import Adapter
from assay.improve.engines.process import cpu_seconds, process_environment, resident_bytes
from assay.improve.engines.protocol import RESIDENT
from assay.improve.engines.read_back import ReadBack, read_back
from assay.improve.engines.supervised import SupervisedServer
from assay.load.workloads.workload import PlannedRequest
from assay.openai_api.address import ServerAddress
from assay.openai_api.answers import MODELS, NO_SUCH_PATH, REFUSED_FIELD, ServedModel, served_model
from assay.openai_api.exchange import exchange_json

RENDERED: Final = ("tools", "chat_template_kwargs")
"""Fields of a chat that its template reads."""


@dataclass(slots=True)
class Served:
    """A server, asked once for what does not change while its process lives."""

    address: ServerAddress
    adapter: Adapter
    server: SupervisedServer
    _stated: ReadBack | None = field(default=None, init=False)
    _stated_of: tuple[int | None, int | None] = field(default=(None, None), init=False)
    _model: ServedModel | None = field(default=None, init=False)

    def forget(self) -> None:
        """Ask again: another process serves now."""
        self._stated, self._model = None, None

    def stated(self) -> ReadBack:
        """The value of every knob, and where it is stated."""
        if self._stated is None or self._stated_of != self._identity():
            record = self.server.record
            argv = () if record is None else record.argv
            environment: Mapping[str, str] | None = None
            if record is not None and record.pid is not None:
                environment = process_environment(record.pid)
            self._stated = read_back(
                self.adapter, self.address, argv, environment or {}, self.server.log
            )
            self._stated_of = self._identity()
        return self._stated

    def model(self) -> ServedModel:
        """What it serves."""
        if self._model is None:
            self._model = served_model(
                self.address.url, exchange_json(self.address, MODELS, timeout_s=60.0)
            )
        return self._model

    def asked(self, request: PlannedRequest) -> str:
        """The name that a request asks for: its own, such as an adapter's, where the server lists it."""
        own = request.fields.get("model")
        return own if own in self.model().listed else self.model().name

    def tokens(self, text: str, **fields: Any) -> tuple[int, ...]:
        """The tokens of a text, of a server that tokenizes."""
        body = {"model": self.model().name, self.adapter.tokenize: text, **fields}
        data = exchange_json(self.address, "/tokenize", body)
        tokens = data.get("tokens") if isinstance(data, Mapping) else None
        if not isinstance(tokens, list) or not all(isinstance(token, int) for token in tokens):
            raise ServerError(f"/tokenize: expected a list of tokens, got {str(data)[:100]}")
        return tuple(tokens)

    def rendered(self, request: PlannedRequest) -> tuple[int, ...] | None:
        """The tokens of a conversation as the chat template renders it; None of a server that tells none."""
        fields = request.fields
        # A choice of tools and an effort change what is rendered, and /tokenize takes neither.
        is_plain = fields.get("tool_choice", "auto") == "auto" and "reasoning_effort" not in fields
        if self.adapter.tokenize != "prompt" or not is_plain:
            return None
        body = {"model": self.model().name, "messages": list(request.messages)}
        given = {name: fields[name] for name in RENDERED if name in fields}
        try:
            data = exchange_json(self.address, "/tokenize", body | given)
        except ServerError as error:
            if error.status in (*REFUSED_FIELD, *NO_SUCH_PATH):
                return None
            raise
        tokens = data.get("tokens") if isinstance(data, Mapping) else None
        return tuple(tokens) if isinstance(tokens, list) else None

    def continued(self, text: str) -> tuple[int, ...]:
        """The tokens of a text that stands behind others."""
        return self.tokens(text, add_special_tokens=False)

    def gpu(self) -> int | None:
        """The GPU that it holds open; None for one of a CPU."""
        record = self.server.record
        return None if record is None or record.pid is None else placement.gpu_of(record.pid)

    def cpu_seconds(self) -> float:
        """CPU time of its processes."""
        record = self.server.record
        return 0.0 if record is None or record.pid is None else cpu_seconds(record.pid)

    def resident(self) -> dict[str, int]:
        """Memory of its processes, as a detail of a window; empty where they are not known."""
        record = self.server.record
        if record is None or record.pid is None:
            return {}
        return {RESIDENT: resident_bytes(record.pid)}

    def _identity(self) -> tuple[int | None, int | None]:
        record = self.server.record
        return (None, None) if record is None else (record.pid, record.start_ticks)
