"""The engine that somebody names: vllm, a URL, or an object of a program."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.errors import InputError
from assay.improve.engines.protocol import Engine
from assay.load.workloads.measurement import Setting

if TYPE_CHECKING:
    from assay.engine import Engine as AssayEngine


def open_engine(
    engine: str | Engine | AssayEngine | Any,
    *,
    model: str | None = None,
    restart: str | None = None,
    adapter: str | Path | None = None,
    settings: Mapping[str, Setting] | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> Engine:
    """An engine behind the protocol.

    A text is `vllm` (a server that is started) or a URL. An `assay.Engine` and a vLLM `LLM` are
    driven in this process; what implements the protocol is returned as it is. `settings` are those
    that the engine starts with.
    """
    if isinstance(engine, str):
        return _named(engine, model, restart, adapter, settings, say)
    if isinstance(engine, Engine):
        return engine
    from assay.engine import Engine as OwnEngineType

    if isinstance(engine, OwnEngineType):
        from assay.improve.engines.own import OwnEngine

        own = OwnEngine(engine)
        if settings:
            own.configure(settings)
        return own
    if _is_vllm(engine):
        from assay.improve.engines.vllm_in_process import VllmInProcess

        return VllmInProcess(engine)
    raise InputError(
        f"engine: expected assay, vllm, a URL, an assay.Engine or a vLLM LLM, got "
        f"{type(engine).__name__}"
    )


def _named(
    name: str,
    model: str | None,
    restart: str | None,
    adapter: str | Path | None,
    settings: Mapping[str, Setting] | None,
    say: Callable[[str], None],
) -> Engine:
    if name.startswith(("http://", "https://")):
        from assay.improve.engines.http import HttpEngine
        from assay.improve.engines.resident import with_residents

        return with_residents(
            HttpEngine(name, restart, adapter=adapter, settings=settings, say=say)
        )
    if restart is not None:
        raise InputError(
            f"--restart: expected a server's URL as engine, got {name}",
            "--engine http://127.0.0.1:8000 --restart 'CMD {settings}'",
        )
    if name == "vllm":
        from assay.improve.engines.resident import with_residents
        from assay.improve.engines.vllm import open_vllm

        return with_residents(open_vllm(model, settings=settings, say=say))
    raise InputError(
        f'engine "{name}": expected assay, vllm or a URL, got another name',
        "a URL starts with http:// or https://",
    )


def _is_vllm(engine: object) -> bool:
    return any(kind.__module__.split(".")[0] == "vllm" for kind in type(engine).__mro__)
