"""What `assay run` tunes: the engine and the workload that its options name."""

import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

from assay.cli import sampling
from assay.cli.output import show_note
from assay.cli.run_progress import RunProgress
from assay.errors import InputError, unknown_name

if TYPE_CHECKING:
    from assay.engine import Engine as AssayEngine
    from assay.improve.engines.protocol import Engine
    from assay.load.workloads.workload import Workload

STARTS = ("plain", "defaults")
WORKLOAD: Final = "chat"
"""The workload where none is named."""
SHORT_BUDGET_S: Final = 300.0
SHORT_SCALE: Final = 0.5
"""Of the lengths of built-in workloads on a CPU, in a budget of up to five minutes."""


class Asked(NamedTuple):
    """The options that name engine and workload."""

    engine: str
    model: str | None
    workload: str | None
    slo: str | None
    metric: str | None
    concurrency: int | None
    rate: float | None
    input_tokens: int | None
    output_tokens: int | None
    start: str | None
    restart: str | None
    adapter: str | None
    device: str | None
    knobs: Sequence[str] | None
    seed: int
    budget_s: float


class Subject(NamedTuple):
    """An engine of the protocol, what it is asked to do, and where its model's shapes are."""

    engine: "Engine"
    workload: "Workload"
    model: str | None


@contextmanager
def opened(
    asked: Asked, progress: RunProgress, planned: "Workload | None" = None
) -> Iterator[Subject]:
    """Open engine and workload; what was started here is closed at the end.

    `planned` is the workload of a run that is resumed.
    """
    _check(asked)
    if planned is None:
        # Whatever is wrong with the workload is said before a model is downloaded or a server started.
        _workload(asked, None, gpu=False)
    if asked.engine == "assay":
        with _own(asked, progress, planned) as subject:
            yield subject
        return
    from assay.improve.engines.opening import open_engine

    engine = open_engine(
        asked.engine,
        model=asked.model,
        restart=asked.restart,
        adapter=asked.adapter,
        settings=sampling.knobs(asked.knobs or ()),
        say=progress.say,
    )
    try:
        gpu = "cuda" in engine.describe().capabilities
        yield Subject(engine, planned or _workload(asked, None, gpu=gpu), asked.model)
    finally:
        engine.close()


def _check(asked: Asked) -> None:
    if asked.start is not None and asked.start not in STARTS:
        raise unknown_name("start", asked.start, STARTS)
    is_server = "://" in asked.engine
    if not is_server and asked.restart is not None:
        raise InputError(
            f"--restart: expected it with --engine URL, got --engine {asked.engine}",
            "an engine of this process changes its settings while it runs",
        )
    if asked.engine != "assay" and asked.start == "plain":
        raise InputError(
            f"--from plain: expected --engine assay, got {asked.engine}",
            "--knob NAME=VALUE sets what another engine starts from",
        )


@contextmanager
def _own(asked: Asked, progress: RunProgress, planned: "Workload | None") -> Iterator[Subject]:
    """Assay's own engine in this process."""
    from assay.engine import Engine
    from assay.improve.engines.own import OwnEngine
    from assay.improve.loop.embedded import PLAIN, embedded_model

    given = sampling.knobs(asked.knobs or ())
    source = asked.model
    is_embedded = source is None
    if source is None:
        progress.say("looking for SmolLM2-135M")
        source, note = embedded_model(progress.say)
        if note:
            show_note(note)
    start = asked.start or ("plain" if is_embedded and not given else "defaults")
    settings = {**(PLAIN if start == "plain" else {}), **given}
    device = sampling.chosen_device(asked.device)
    with Engine.load(source, device, **settings) as engine:
        sampling.show_notes(engine)
        progress.result(_introduction(engine, source, start, settings))
        gpu = engine.device.capabilities.is_gpu
        load = planned or _workload(asked, engine, gpu=gpu)
        yield Subject(OwnEngine(engine, source=source), load, source)


def _introduction(
    engine: "AssayEngine", source: str, start: str, settings: "dict[str, int | str | bool]"
) -> str:
    shown = ", ".join(f"{name} {value}" for name, value in settings.items())
    how = "the engine's defaults" + (f" with {shown}" if shown else "")
    if start == "plain":
        how = f"a plain configuration ({shown}); --from defaults starts from the engine's own"
    return f"{source} on Assay's engine, {engine.device.name}, from {how}"


def _workload(asked: Asked, engine: "AssayEngine | None", *, gpu: bool) -> "Workload":
    """The workload by name or file; lengths are counted by the model's tokenizer where it is here."""
    from assay.load.workloads import builtin
    from assay.load.workloads.spec import parse_objective, parse_slo, parse_workload

    name = asked.workload or WORKLOAD
    options: dict[str, object] = {
        "concurrency": asked.concurrency,
        "rate": asked.rate,
        "seed": asked.seed,
        "slo": None if asked.slo is None else parse_slo("--slo", asked.slo),
        "objective": None if asked.metric is None else parse_objective("--metric", asked.metric),
    }
    if name in builtin.BUILT_IN:
        options |= {
            "input_tokens": asked.input_tokens,
            "output_tokens": asked.output_tokens,
            "scale": builtin.GPU_SCALE if gpu else _cpu_scale(asked.budget_s),
        }
        if engine is not None:
            tokenizer = engine.files.tokenizer
            options["count"] = lambda text: len(tokenizer.encode(text))
    found = parse_workload(name, **options)
    return _fitting(found, engine)


def _cpu_scale(budget_s: float) -> float:
    """Short requests for a short budget: blocks are whole requests, and a verdict needs many."""
    return SHORT_SCALE if budget_s <= SHORT_BUDGET_S else 1.0


def _fitting(workload: "Workload", engine: "AssayEngine | None") -> "Workload":
    """Without the requests that are longer than the model's context; how many is noted."""
    if engine is None:
        return workload
    tokenizer, limit = engine.files.tokenizer, engine.context_limit
    fits = [
        one
        for one in workload.requests
        if len(tokenizer.encode(one.prompt)) + 1 + one.max_tokens <= limit
    ]
    left_out = len(workload.requests) - len(fits)
    if not left_out:
        return workload
    if not fits:
        raise InputError(
            f"{workload.name}: expected requests of at most {limit:,} tokens, the model's context, "
            f"got {left_out} that are longer",
            "--input-tokens and --output-tokens make them shorter",
        )
    note = f"{left_out} requests are longer than the model's context and were left out"
    show_note(note)
    return dataclasses.replace(workload, requests=tuple(fits), notes=(*workload.notes, note))
