"""Runs a load in an engine and captures its steps: `assay trace capture`."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.answers import Answer, Progress, silent
from assay.observe import store
from assay.observe.capture.session import Capture

if TYPE_CHECKING:
    from assay.engine import Engine


@dataclass(frozen=True, kw_only=True)
class CapturedTrace(Answer):
    """A trace of an engine's steps, stored."""

    path: str
    model: str | None
    device: str
    batch: int
    context: int | None
    """Tokens of each synthetic prompt; None where a text was given."""
    steps: int
    bytes: int
    dropped: int
    overhead: Mapping[str, Any]
    degradations: Sequence[str]


def new_capture(out: Path | None = None) -> Capture:
    """A capture into a folder that does not exist, or one beside the other stored traces."""
    return Capture(out or store.new_path("capture"))


def capture_trace(
    engine: Engine,
    capture: Capture | None = None,
    *,
    prompt: str | None = None,
    batch: int = 1,
    context: int = 128,
    steps: int = 64,
    warmup: int = 0,
    progress: Progress = silent,
) -> CapturedTrace:
    """Run requests of a prompt, or of random tokens, and store a trace of every step."""
    from assay.engine import SamplingParams

    capture = capture or new_capture()
    source = random.Random(0)
    vocabulary = engine.model.shape.vocabulary
    prompts: list[Any] = [
        prompt if prompt is not None else [source.randrange(vocabulary) for _ in range(context)]
        for _ in range(batch)
    ]
    params = SamplingParams(max_tokens=warmup + steps + 1, temperature=0.0, ignore_eos=True)
    for text in prompts:
        engine.add_request(text, params)
    for done in range(warmup + 1 if warmup else 0):
        progress(f"warming up: step {done:,}")
        engine.step()
    with capture:
        before = engine.statistics()["steps"]
        while engine.has_work:
            progress(f"capturing: step {engine.statistics()['steps'] - before:,}")
            engine.step()
    header = capture.header
    assert header is not None
    return CapturedTrace(
        path=str(capture.path),
        model=header.model,
        device=engine.device.name,
        batch=batch,
        context=None if prompt is not None else context,
        steps=engine.statistics()["steps"] - before,
        bytes=sum(file.stat().st_size for file in capture.path.iterdir()),
        dropped=header.dropped,
        overhead=header.overhead,
        degradations=header.degradations,
    )
