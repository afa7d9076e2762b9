"""The engine that somebody names: vllm, a URL, or an object of a program."""

from __future__ import annotations

import shlex
import shutil
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from assay.errors import InputError
from assay.improve.engines.http import HttpEngine
from assay.improve.engines.protocol import Engine
from assay.load.workloads.measurement import Setting

if TYPE_CHECKING:
    from assay.engine import Engine as AssayEngine


WEIGHTS: Final = (".safetensors", ".bin", ".pt", ".gguf")
"""Files of weights; a folder without any is served with random ones."""


def open_vllm(
    model: str | None,
    *,
    settings: Mapping[str, Setting] | None = None,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
    say: Callable[[str], None] = lambda text: None,
    program: str = "vllm",
) -> HttpEngine:
    """`vllm serve MODEL` on a free port of the loopback address.

    A folder with a configuration and no weights is served with dummy weights, for its times.
    """
    if model is None:
        raise InputError("engine vllm: expected a model, got none", "--model NAME or FOLDER")
    if shutil.which(program) is None:
        raise InputError(
            f"engine vllm: expected the program {program}, got none",
            "pip install vllm; or --engine URL --restart 'vllm serve MODEL {settings}'",
        )
    port = _free_port()
    words = [program, "serve", model, "--host", "127.0.0.1", "--port", str(port)]
    if has_no_weights(model):
        words += ["--load-format", "dummy"]
    return HttpEngine(
        f"http://127.0.0.1:{port}",
        f"{shlex.join(words)} {{settings}}",
        adapter="vllm",
        settings=settings,
        folder=folder,
        environment=environment,
        say=say,
    )


def has_no_weights(model: str) -> bool:
    """Whether a model is a folder with a configuration alone."""
    path = Path(model)
    if not (path / "config.json").is_file():
        return False
    return not any(file.suffix in WEIGHTS for file in path.iterdir())


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


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

        return HttpEngine(name, restart, adapter=adapter, settings=settings, say=say)
    if restart is not None:
        raise InputError(
            f"--restart: expected a server's URL as engine, got {name}",
            "--engine http://127.0.0.1:8000 --restart 'CMD {settings}'",
        )
    if name == "vllm":
        from assay.improve.engines.vllm import open_vllm

        return open_vllm(model, settings=settings, say=say)
    raise InputError(
        f'engine "{name}": expected assay, vllm or a URL, got another name',
        "a URL starts with http:// or https://",
    )


def _is_vllm(engine: object) -> bool:
    return any(kind.__module__.split(".")[0] == "vllm" for kind in type(engine).__mro__)
