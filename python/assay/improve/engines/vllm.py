"""vLLM as a server: started by this program, tuned by serial restarts."""

from __future__ import annotations

import shlex
import shutil
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from assay.errors import InputError
from assay.improve.engines.http import HttpEngine
from assay.load.workloads.measurement import Setting

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
    port = free_port()
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


def free_port() -> int:
    """A port of the loopback address that nobody listens on now."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


def is_free(port: int) -> bool:
    """Whether nobody listens on a port of the loopback address."""
    with socket.socket() as taken:
        # As servers do: connections of an ended one do not hold the port.
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            taken.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
