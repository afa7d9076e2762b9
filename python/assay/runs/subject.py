"""What a run tunes: the engine and the workload that its options name."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from assay.engine.core.notes import default_device, model_notes
from assay.errors import InputError, unknown_name
from assay.improve.engines.opening import open_engine
from assay.improve.engines.protocol import Engine
from assay.improve.loop.progress import Progress
from assay.interruption import interrupted_by_sigterm
from assay.load.workloads import builtin
from assay.load.workloads.counting import count_of
from assay.load.workloads.spec import parse_objective, parse_slo, parse_workload
from assay.load.workloads.texts import CountTokens
from assay.load.workloads.workload import Workload
from assay.runs.exclusive import tuned_alone
from assay.runs.maximizing import MAXIMIZED, maximizing_rate
from assay.runs.speech import WORKLOADS, open_speech
from assay.runs.subject_options import SubjectOptions
from assay.workloads.registry import WORKLOADS as ARRAY_WORKLOADS

if TYPE_CHECKING:
    from assay.engine import Engine as AssayEngine

STARTS: Final = ("plain", "defaults")
WORKLOAD: Final = "chat"
"""The workload where none is named."""
GPU_REQUESTS: Final = 512
"""Different requests of built-in workloads on a GPU, which answers dozens in a second."""
ROUNDS: Final = 4
"""Different requests over those under way at once, at least."""
OWN_REQUESTS: Final = 32
"""What every built-in workload has by itself."""
SHORT_BUDGET_S: Final = 300.0
SHORT_SCALE: Final = 0.5
"""Of the lengths of built-in workloads on a CPU, in a budget of up to five minutes."""


class Subject(NamedTuple):
    """An engine of the protocol, what it is asked to do, and where its model's shapes are."""

    engine: Engine
    workload: Workload
    model: str | None
    prepared_s: float = 0.0
    """What of the budget went by here: data, models and ceilings of a workload that is no language
    model's, and the pilots of `--maximize`. A server or a language model counts from when it serves."""


@contextmanager
def opened(
    asked: SubjectOptions, progress: Progress, planned: Workload | None = None
) -> Iterator[Subject]:
    """Open engine and workload; what was started here is closed at the end, by SIGTERM too.

    `planned` is the workload of a run that is resumed.
    """
    _check(asked)
    if asked.workload in (*WORKLOADS, *ARRAY_WORKLOADS) and asked.engine != "assay":
        raise InputError(
            f"workload {asked.workload}: expected no --engine, got {asked.engine!s:.80}",
            "it runs in this process, on --device",
        )
    if asked.workload in (*WORKLOADS, *ARRAY_WORKLOADS):
        with interrupted_by_sigterm():
            begun = time.monotonic()
            engine, workload = _special(asked, planned, progress)
            try:
                yield Subject(engine, workload, None, time.monotonic() - begun)
            finally:
                engine.close()
        return
    if planned is None:
        # Whatever is wrong with the workload is said before a model is downloaded or a server started.
        _workload(asked, None, progress, gpu=False)
    if asked.engine == "assay":
        with _own(asked, progress, planned) as subject:
            yield subject
        return
    is_changed = asked.restart is not None and str(asked.engine).startswith("http")
    alone = tuned_alone(asked.engine) if is_changed else nullcontext()
    with alone, interrupted_by_sigterm():
        engine = open_engine(
            asked.engine,
            model=asked.model,
            restart=asked.restart,
            adapter=asked.adapter,
            settings=asked.settings(),
            say=progress.say,
        )
        try:
            yield _subject(asked, engine, progress, planned)
        finally:
            if isinstance(asked.engine, str):
                engine.close()


def _special(
    asked: SubjectOptions, planned: Workload | None, progress: Progress
) -> tuple[Engine, Workload]:
    """The engine of a workload that is no language model's."""
    if asked.workload in ARRAY_WORKLOADS:
        from assay.runs.arrays import open_arrays

        return open_arrays(asked, planned, progress.say)
    progress.say(f"opening the models of {asked.workload}")
    return open_speech(asked, planned, progress.say)


def _subject(
    asked: SubjectOptions, engine: Engine, progress: Progress, planned: Workload | None
) -> Subject:
    """An engine that is open, with its workload."""
    own, model = engine.in_process(), asked.model
    if own is not None:
        from assay.improve.engines.own import source_of

        gpu, model = own.device.capabilities.is_gpu, model or source_of(own)
    else:
        gpu = "cuda" in engine.describe().capabilities
    if planned is not None:
        return Subject(engine, planned, model)
    if own is not None:
        count: CountTokens | None = _by_tokenizer(own)
    else:
        # Of requests that are given, every word is known.
        count = None if isinstance(asked.workload, Workload) else count_of(engine.measure)
    load = _workload(asked, own, progress, gpu=gpu, count=count)
    if asked.maximize is None:
        return Subject(engine, load, model)
    begun = time.monotonic()
    load = maximizing_rate(engine, load, asked.budget_s, asked.seed, progress.say)
    return Subject(engine, load, model, time.monotonic() - begun)


def _check(asked: SubjectOptions) -> None:
    if asked.start is not None and asked.start not in STARTS:
        raise unknown_name("start", asked.start, STARTS)
    if asked.maximize is not None:
        if asked.maximize not in MAXIMIZED:
            raise unknown_name("objective of --maximize", asked.maximize, MAXIMIZED)
        if asked.metric is not None or asked.concurrency is not None:
            raise InputError(
                "--maximize rate: expected neither --metric nor --concurrency, got both or one",
                "the rate is what is raised and compared",
            )
        if asked.slo is None and not isinstance(asked.workload, Workload):
            raise InputError(
                "--maximize rate: expected service levels to keep, got none",
                "add --slo ttft=1s,tpot=50ms",
            )
    named = asked.engine if isinstance(asked.engine, str) else type(asked.engine).__name__
    if "://" not in named and asked.restart is not None:
        raise InputError(
            f"--restart: expected it with --engine URL, got --engine {named}",
            "an engine of this process changes its settings while it runs",
        )
    if named != "assay" and asked.start == "plain":
        raise InputError(
            f"--from plain: expected --engine assay, got {named}",
            "--knob NAME=VALUE sets what another engine starts from",
        )


@contextmanager
def _own(asked: SubjectOptions, progress: Progress, planned: Workload | None) -> Iterator[Subject]:
    """Assay's own engine in this process."""
    from assay.engine import Engine as AssayEngine
    from assay.improve.engines.own import OwnEngine
    from assay.runs.embedded import PLAIN, embedded_model

    given = asked.settings()
    source = asked.model
    is_embedded = source is None
    if source is None:
        progress.say("looking for SmolLM2-135M")
        source, note = embedded_model(progress.say)
        if note:
            progress.note(note)
    start = asked.start or ("plain" if is_embedded and not given else "defaults")
    settings = {**(PLAIN if start == "plain" else {}), **given}
    device = asked.device
    if device is None:
        device, note = default_device()
        if note:
            progress.note(note)
    with AssayEngine.load(source, device, **settings) as engine:
        for note in model_notes(engine):
            progress.note(note)
        progress.result(_introduction(engine, source, start, settings))
        named = dataclasses.replace(asked, model=source)
        yield _subject(named, OwnEngine(engine, source=source), progress, planned)


def _introduction(engine: AssayEngine, source: str, start: str, settings: Mapping[str, Any]) -> str:
    shown = ", ".join(f"{name} {value}" for name, value in settings.items())
    how = "the engine's defaults" + (f" with {shown}" if shown else "")
    if start == "plain":
        how = f"a plain configuration ({shown}); --from defaults starts from the engine's own"
    return f"{source} on Assay's engine, {engine.device.name}, from {how}"


def _by_tokenizer(engine: AssayEngine) -> CountTokens:
    tokenizer = engine.files.tokenizer
    return lambda text: len(tokenizer.encode(text))


def _workload(
    asked: SubjectOptions,
    engine: AssayEngine | None,
    progress: Progress,
    *,
    gpu: bool,
    count: CountTokens | None = None,
) -> Workload:
    """The workload by name or file; lengths are chosen by `count` where there is one."""
    options: dict[str, object] = {
        "concurrency": asked.concurrency,
        "rate": asked.rate,
        "slo": parse_slo("--slo", asked.slo) if isinstance(asked.slo, str) else asked.slo,
        "objective": None if asked.metric is None else parse_objective("--metric", asked.metric),
    }
    if isinstance(asked.workload, Workload):
        if given := [name for name, value in options.items() if value is not None]:
            raise InputError(f"{given[0]}: expected it in the Workload that is given")
        return _fitting(asked.workload, engine, progress)
    name = WORKLOAD if asked.workload is None else str(asked.workload)
    options |= {"seed": asked.seed, "count": count}
    if name in builtin.BUILT_IN:
        options |= {
            "input_tokens": asked.input_tokens,
            "output_tokens": asked.output_tokens,
            "scale": builtin.GPU_SCALE if gpu else _cpu_scale(asked.budget_s),
            "requests": _least_requests(asked.concurrency, gpu=gpu),
        }
    return _fitting(parse_workload(name, **options), engine, progress)


def workload_for(
    asked: SubjectOptions, progress: Progress, *, gpu: bool, count: CountTokens | None = None
) -> Workload:
    """The workload of servers that are not opened here."""
    return _workload(asked, None, progress, gpu=gpu, count=count)


def _least_requests(concurrency: int | None, *, gpu: bool) -> int | None:
    """Different requests of a built-in workload; None for its own number, which suits a few at once.

    Where requests repeat within a window, a prefix cache answers them.
    """
    rounds = ROUNDS * (concurrency or 1)
    if gpu:
        return max(GPU_REQUESTS, rounds)
    return rounds if rounds > OWN_REQUESTS else None


def _cpu_scale(budget_s: float) -> float:
    """Short requests for a short budget: blocks are whole requests, and a verdict needs many."""
    return SHORT_SCALE if budget_s <= SHORT_BUDGET_S else 1.0


def _fitting(workload: Workload, engine: AssayEngine | None, progress: Progress) -> Workload:
    """Without the requests that are longer than the model's context; how many is noted."""
    if engine is None:
        return workload
    tokenizer, limit = engine.files.tokenizer, engine.context_limit
    fits = [
        request
        for request in workload.requests
        if len(tokenizer.encode(request.prompt)) + 1 + request.max_tokens <= limit
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
    progress.note(note)
    return dataclasses.replace(workload, requests=tuple(fits), notes=(*workload.notes, note))
