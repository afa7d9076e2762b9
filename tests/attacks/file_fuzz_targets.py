"""Fuzz targets for what is no model: traces, recordings, YAML, TOML and JSON files, runs, answers of servers."""

from __future__ import annotations

import asyncio
import io
import json
import shutil
import tarfile
import wave
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

import decode_traces
import numpy as np
from mutations import damaged_bytes, damaged_json

from assay.errors import CheckFailedError
from assay.http_client import ServerError
from assay.improve.engines import adapter
from assay.improve.levers import loading as levers
from assay.load.connection import Connection, ProtocolError
from assay.load.workloads.reading import read_requests
from assay.observe.importers.storing import import_trace
from assay.observe.trace import Trace
from assay.openai_api.answers import event_finish, event_text, served_model, token_counts
from assay.report.verify import verify
from assay.scenario.document import read_document
from assay.speech.sound_files import read_sound
from assay.validate.cases import read_cases

ROOT: Final = Path(__file__).parents[2]
WHOLE: Final = 1 << 30
"""Damage anywhere, not mostly at the start."""


class Target(NamedTuple):
    """Valid inputs by name, how one is damaged, and what uses it."""

    seeds: Mapping[str, Any]
    damage: Callable[[Any, Random], Any]
    use: Callable[[str, Any], None]
    """Takes the name of the seed and its damaged copy."""


REFUSALS: Final = (ServerError, ProtocolError, ConnectionError)
"""Typed refusals of answers, besides `AssayError`."""


def anywhere(data: bytes, chance: Random) -> bytes:
    """Bytes damaged at any place."""
    return damaged_bytes(data, chance, WHOLE)


@contextmanager
def file_targets(folder: Path) -> Iterator[dict[str, Target]]:
    """All of them, with their files in a folder."""
    folder.mkdir(parents=True)
    with ExitStack() as stack:
        runner = stack.enter_context(asyncio.Runner())
        yield {
            "trace": _trace(folder / "trace"),
            "stored trace": _stored_trace(folder / "stored"),
            "recording": Target(_recordings(), anywhere, lambda _, data: _hear(data)),
            "levers": _file(
                folder / "levers", _yaml("levers/library/tensorrt_llm.yaml"), levers.read
            ),
            "server adapter": _file(
                folder / "adapter", _yaml("engines/adapters/tensorrt-llm.yaml"), adapter.load
            ),
            "scenario": _file(folder / "scenario", _scenario(), read_document),
            "cases": _file(folder / "cases", _cases(), read_cases),
            "requests": _file(folder / "requests", _requests(), read_requests),
            "run": _run(folder / "run"),
            "answer": Target(ANSWERS, anywhere, lambda _, data: runner.run(_answer(data))),
            "event": Target(EVENTS, damaged_json, _event),
        }


def _file(folder: Path, seed: tuple[str, bytes], read: Callable[[Path], Any]) -> Target:
    """A file of text, damaged as bytes."""
    folder.mkdir()
    name, data = seed

    def use(_: str, damaged: bytes) -> None:
        (folder / name).write_bytes(damaged)
        read(folder / name)

    return Target({name: data}, anywhere, use)


def _yaml(path: str) -> tuple[str, bytes]:
    place = ROOT / "python" / "assay" / "improve" / path
    return place.name, place.read_bytes()


def _scenario() -> tuple[str, bytes]:
    place = ROOT / "python" / "assay" / "scenario" / "presets" / "llama3_8b_h200_serving.toml"
    return place.name, place.read_bytes()


def _cases() -> tuple[str, bytes]:
    case = {
        "id": "mine-7b-8gpus",
        "kind": "training",
        "tier": "A",
        "inputs": {"gpu": "H100-SXM-80GB", "n_gpus": 8, "model": "Llama-2-7B", "seq_len": 4096},
        "observed": {"step_time_s": 5.1},
        "source": {"title": "own run, 2024"},
    }
    return "cases.json", json.dumps([case, {**case, "id": "other"}]).encode()


def _requests() -> tuple[str, bytes]:
    rows = [{"timestamp": n * 100, "input_length": 10 + n, "output_length": 5} for n in range(20)]
    return "requests.jsonl", "".join(json.dumps(row) + "\n" for row in rows).encode()


def _trace(folder: Path) -> Target:
    """A trace of PyTorch's profiler: its structure damaged, and its bytes."""
    folder.mkdir()
    decode_traces.replayed(steps=2).save(folder / "seed.json")
    text = (folder / "seed.json").read_bytes()
    document = json.loads(text)
    document["traceEvents"] = document["traceEvents"][:60]
    numbers = count()

    def damage(seed: Any, chance: Random) -> bytes:
        if chance.random() < 0.5:
            return json.dumps(damaged_json(seed, chance)).encode()
        return anywhere(json.dumps(seed).encode(), chance)

    def use(_: str, data: Any) -> None:
        path, out = folder / "trace.json", folder / f"out-{next(numbers)}"
        path.write_bytes(data if isinstance(data, bytes) else json.dumps(data).encode())
        try:
            import_trace([str(path)], out=out)
        finally:
            shutil.rmtree(out, ignore_errors=True)

    return Target({"kineto": document}, damage, use)


def _stored_trace(folder: Path) -> Target:
    """A stored trace from somebody else: any of its three files."""
    folder.mkdir()
    decode_traces.replayed(steps=2).save(folder / "seed.json")
    import_trace([str(folder / "seed.json")], out=folder / "whole")
    seeds = {path.name: path.read_bytes() for path in sorted((folder / "whole").iterdir())}

    def use(name: str, data: bytes) -> None:
        place = folder / "damaged"
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(folder / "whole", place)
        (place / name).write_bytes(data)
        Trace.open(place)

    return Target(seeds, anywhere, use)


def _recordings() -> dict[str, bytes]:
    """A recording of a tenth of a second, as WAV of two widths."""
    values = (1000 * np.sin(np.arange(1600) / 8)).astype("<i2")
    made = {}
    for name, width, data in (("16 bits", 2, values), ("8 bits", 1, (values >> 8).astype("u1"))):
        stream = io.BytesIO()
        with wave.open(stream, "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(width)
            file.setframerate(16_000)
            file.writeframes(data.tobytes())
        made[name] = stream.getvalue()
    return made


def _hear(data: bytes) -> None:
    read_sound(data, 16_000)


def _run(folder: Path) -> Target:
    """The folder of a run that somebody sent, with its report: any of its files."""
    folder.mkdir()
    with tarfile.open(ROOT / "docs" / "examples" / "h200-own-engine" / "run.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    [whole] = folder.iterdir()
    hashed = json.loads((whole / "report.json").read_text("utf-8"))["provenance"]["files"]
    seeds = {name: (whole / name).read_bytes() for name in sorted(hashed)}

    def use(name: str, data: bytes) -> None:
        place = folder / "damaged"
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(whole, place)
        (place / name).write_bytes(data)
        failures = verify(place).failures
        if data != seeds[name] and not failures:
            raise AssertionError(f"{name} was changed, and the report is believed")
        if failures:
            raise CheckFailedError(failures[0].name, "not verified")

    return Target(seeds, anywhere, use)


BODY: Final = b'data: {"choices": [{"text": "a"}]}\n\ndata: [DONE]\n\n'
ANSWERS: Final = {
    "chunked": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n"
    % (len(BODY), BODY),
    "length": b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(BODY), BODY),
}
"""Answers of a server, as bytes."""


class _Transport(asyncio.Transport):
    def write(self, data: Any) -> None:
        pass

    def abort(self) -> None:
        pass

    def close(self) -> None:
        pass


async def _answer(data: bytes) -> None:
    """Bytes of a server, in pieces, as the load client takes them."""
    connection = Connection()
    connection.connection_made(_Transport())
    asked = asyncio.ensure_future(connection.exchange(b"GET / HTTP/1.1\r\n\r\n"))
    await asyncio.sleep(0)
    for start in range(0, len(data), 7):
        # Nothing comes over a connection that was given up.
        if connection.is_usable:
            connection.data_received(data[start : start + 7])
        await asyncio.sleep(0)
    connection.connection_lost(None)
    await asked


EVENTS: Final[dict[str, Any]] = {
    "completion": {"choices": [{"index": 0, "text": "a", "finish_reason": "stop"}], "usage": None},
    "chat": {
        "choices": [{"index": 0, "delta": {"content": "a", "reasoning_content": "b"}}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 4},
    },
    "models": {"object": "list", "data": [{"id": "m", "max_model_len": 8192, "root": "m"}]},
}
"""What a server says, as JSON."""


def _event(name: str, event: Any) -> None:
    if name == "models":
        served_model("http://127.0.0.1:1", event)
    elif isinstance(event, Mapping):
        event_text(event)
        event_finish(event)
        token_counts(event.get("usage"))
