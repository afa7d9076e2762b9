"""Assay's own engine behind the protocol: in this process, every knob live."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from assay._native import build_info, kernel_threads
from assay.engine import Engine, SamplingParams
from assay.engine.core.knobs import Knob
from assay.engine.loading.dummy_weights import SHAPES
from assay.engine.loading.opening import SYNTHETIC
from assay.engine.requests.outputs import Chunk
from assay.improve.engines.disturbance import DisturbanceMeter
from assay.improve.engines.own_requests import left_out, prompt_of, sampling_params
from assay.improve.engines.own_window import OwnWindow
from assay.improve.engines.probing import Prompt
from assay.improve.engines.process import resident_bytes
from assay.improve.engines.protocol import (
    RESIDENT,
    Engine as EngineProtocol,
    EngineDescription,
    EngineKnob,
    Followed,
    Given,
    ProbeAnswer,
    TokenPair,
    Undo,
)
from assay.load.window import summarize
from assay.load.workloads.measurement import Measurement, Setting
from assay.load.workloads.workload import PlannedRequest, Window, Workload, is_constrained
from assay.observe.capture import capture as recorded
from assay.runtime.fingerprint import machine

PROBE_ALTERNATIVES: Final = 8
"""Best tokens that a probe reports at each position."""
SCORED_ROWS: Final = 32
"""Tokens that are scored in a pass at least."""
_REBUILDS: Final = {
    "nothing": "",
    "graphs": "; a change captures the step's graphs again",
    "cache": "; a change rebuilds the KV cache",
    "weights": "; a change packs the weights again",
}


class OwnEngine(EngineProtocol):
    """An `assay.Engine` that the loop tunes while it runs.

    The prefix cache is emptied before each window: a block that repeats the requests of another
    must not find their keys and values there. Prefixes that requests of one window share are still
    found.
    """

    def __init__(self, engine: Engine, *, source: str | None = None) -> None:
        """Drive an engine, which its opener closes; `source` is what `assay serve` opens."""
        self.engine: Final = engine
        self._source = source or source_of(engine)
        self._notes: dict[str, None] = {}
        device = engine.device
        self._meter = DisturbanceMeter(device.ordinal if device.capabilities.is_gpu else None)

    def describe(self) -> EngineDescription:
        """The model, the machine and what the engine can do."""
        engine = self.engine
        facts = engine.describe()
        gap = self._meter.gap
        return EngineDescription(
            engine="assay",
            release=build_info()["version"],
            model=facts["model"],
            device=engine.device.name,
            hardware=machine(engine.device).to_data(),
            capabilities=_capabilities(engine),
            context_limit=engine.context_limit,
            synthetic=facts["synthetic"],
            details={name: facts[name] for name in _DETAILS},
            degradations=(*facts["degradations"], *([gap] if gap else []), *self._notes),
        )

    def knobs(self) -> Mapping[str, EngineKnob]:
        """The engine's own table of knobs; all are live."""
        return {knob.name: _knob(knob) for knob in self.engine.knobs()}

    def settings(self) -> Mapping[str, Setting]:
        """The engine's settings; threads are those that the kernels really use."""
        settings: dict[str, Setting] = dict(self.engine.settings.as_dict())
        used, available = kernel_threads()
        asked = settings["threads"] or available
        if self.engine.device.host_memory and used != asked:
            # The limit is the process's: another engine may have changed it.
            settings["threads"] = used
        return settings

    def configure(self, changes: Mapping[str, Setting]) -> Undo:
        """Change knobs while the engine runs."""
        return self.engine.configure(changes)

    def measure(self, workload: Workload, window: Window) -> Measurement:
        """Run a window, closed or open, on an empty prefix cache."""
        self._reserve(workload)
        self._notes |= dict.fromkeys(left_out(self.engine.files, workload.requests))
        if window.warmup_requests:
            warmup = replace(window, requests=window.warmup_requests, seconds=None)
            OwnWindow(self.engine, workload, warmup, self._prompt).run()
        self.engine.reset_prefix_cache()
        before = self.engine.statistics()
        run = OwnWindow(self.engine, workload, window, self._prompt)
        started_at = time.time()
        cpu_before = time.process_time()
        self._meter.begin()
        run.run()
        disturbances = self._meter.end()
        cpu_s = time.process_time() - cpu_before
        after = self.engine.statistics()
        counters = {
            name: after[name] - before[name]
            for name in after
            if name in before and after[name] != before[name]
        }
        return summarize(
            workload,
            run.records,
            run.seconds,
            started_at=started_at,
            settings=self.settings(),
            # The client is the engine's own process: its cost is not told apart.
            client_cpu_share=None,
            disturbances=disturbances,
            details={
                **self._meter.shares,
                RESIDENT: resident_bytes(os.getpid()),
                "cpu_cores_used": cpu_s / run.seconds if run.seconds else 0.0,
                "counters": counters,
            },
        )

    def probe(self, prompts: Sequence[str], max_tokens: int) -> list[ProbeAnswer]:
        """Greedy answers, all prompts in one batch, on an empty prefix cache."""
        self.engine.reset_prefix_cache()
        params = SamplingParams(
            max_tokens=max_tokens, temperature=0.0, ignore_eos=True, logprobs=PROBE_ALTERNATIVES
        )
        answers = self.engine.generate(list(prompts), params)
        probe_answers = []
        for answer in answers:
            if answer.error is not None:
                raise answer.error
            probe_answers.append(
                _probe_answer(
                    [logprob for logprob in answer.logprobs or () if logprob.token_id is not None]
                )
            )
        return probe_answers

    def follow(self, answers: Sequence[Given], tie: float) -> list[Followed | None]:
        """Score the answers' own tokens behind their prompts, many tokens in a pass.

        That takes rows for all of them, whatever the batch of the settings is. Such a pass rounds as
        another batch would: what the engine then makes of its own answers is part of how much it
        differs from itself.
        """
        settings = self.engine.settings
        rows = {
            "max_batch": max(settings.max_batch, SCORED_ROWS),
            "token_budget": max(settings.token_budget, SCORED_ROWS),
        }
        undo = self.engine.configure(rows)
        try:
            return [self._scored(request, answer) for request, answer in answers]
        finally:
            undo()

    def _scored(self, request: PlannedRequest, answer: str | tuple[int, ...]) -> Followed | None:
        if isinstance(answer, str) or not answer or is_constrained(request):
            return None
        prompt = self._tokens(request)
        scored = self.engine.score([*prompt, *answer], top=1)
        logprobs = [logprob for logprob in scored.logprobs[len(prompt) :] if logprob is not None]
        best = [top[0][1] for top in scored.top[len(prompt) :]]
        gaps = (max(most - own, 0.0) for most, own in zip(best, logprobs, strict=True))
        return Followed(tuple(gaps), tuple(logprobs))

    def in_process(self) -> Engine:
        """The engine itself."""
        return self.engine

    def answers(self, workload: Workload, count: int) -> list[TokenPair]:
        """Tokens of the first prompts of a workload and of what the model answers."""
        requests = workload.requests[:count]
        params = [sampling_params(request) for request in requests]
        generate = self.engine.generate([self._prompt(request) for request in requests], params)
        return [
            (tuple(self._tokens(request)), answer.token_ids)
            for request, answer in zip(requests, generate, strict=True)
            if answer.error is None
        ]

    def capture(self, workload: Workload, window: Window, folder: Path) -> Path | None:
        """Record a window as the trace `folder`, which must be absent or empty."""
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
        self._reserve(workload)
        self.engine.reset_prefix_cache()
        with recorded(folder):
            OwnWindow(self.engine, workload, window, self._prompt).run()
        return folder

    def launch_command(self, settings: Mapping[str, Setting]) -> str:
        """`assay serve` with every knob that differs from its default."""
        words = ["assay", "serve", self._source]
        if self.engine.device.name != "cpu":
            words += ["--device", self.engine.device.name]
        for name, knob in self.knobs().items():
            value = settings.get(name, knob.default)
            if value != knob.default:
                text = str(value).lower() if isinstance(value, bool) else str(value)
                words += ["--knob", f"{name}={text}"]
        return shlex.join(words)

    def close(self) -> None:
        """Nothing: who opened the engine closes it."""

    def _prompt(self, request: PlannedRequest) -> Prompt:
        return prompt_of(self.engine.files, request)

    def _tokens(self, request: PlannedRequest) -> Sequence[int]:
        prompt = self._prompt(request)
        return self.engine.files.tokenizer.encode(prompt) if isinstance(prompt, str) else prompt

    def _reserve(self, workload: Workload) -> None:
        """Grow the KV cache before the window: growing inside it would rebuild graphs."""
        longest = sorted(
            _tokens_bound(request) + request.max_tokens for request in workload.requests
        )
        at_once = min(workload.concurrency or len(longest), self.engine.settings.max_batch)
        block = self.engine.settings.block_tokens
        needed = sum(-(-tokens // block) * block + block for tokens in longest[-at_once:])
        self.engine.reserve_kv_cache(needed)


def source_of(engine: Engine) -> str:
    """What `assay serve` opens to serve the same model: a path, or a name."""
    files = engine.files
    if files.path is not None:
        return str(files.path)
    return SYNTHETIC if files.name not in SHAPES else files.name


_DETAILS: Final = (
    "architecture",
    "weight_format",
    "weight_bytes",
    "streamed_bytes",
    "kv_bytes",
    "layers",
    "notes",
)


def _tokens_bound(request: PlannedRequest) -> int:
    """Tokens of a prompt at most, near enough to size a cache: a token has two bytes or more."""
    size = len(request.prompt.encode()) // 2 + 8
    if not request.messages:
        return size
    # Behind the text are marks of turns, and tools.
    return (
        size
        + 16 * len(request.messages)
        + len(str(request.fields.get("tools", "")).encode()) // 2
        + 512
    )


def _capabilities(engine: Engine) -> frozenset[str]:
    has = engine.device.capabilities
    capabilities = {"speculation", "prefix-cache", "hot-knobs", "logprobs", "capture"}
    capabilities |= {"cuda", "cuda-graphs"} if has.is_gpu else {"cpu", "cpu-threads"}
    capabilities |= {f"kv-{name}" for name in has.kv_formats}
    capabilities |= {f"weights-{name}" for name in has.weight_formats}
    if has.executes_asynchronously:
        capabilities.add("async-scheduling")
    if (os.cpu_count() or 1) > 1:
        capabilities.add("multi-core")
    return frozenset(capabilities)


def _knob(knob: Knob) -> EngineKnob:
    return EngineKnob(
        name=knob.name,
        meaning=knob.meaning + _REBUILDS[knob.rebuilds],
        default=knob.default,
        hot=True,
        least=knob.least,
        most=knob.most,
        choices=knob.choices,
    )


def _probe_answer(chunks: Sequence[Chunk]) -> ProbeAnswer:
    tops = [chunk.top_logprobs for chunk in chunks]
    return ProbeAnswer(
        token_ids=tuple(chunk.token_id for chunk in chunks if chunk.token_id is not None),
        texts=tuple(chunk.text for chunk in chunks),
        logprobs=tuple(chunk.logprob for chunk in chunks if chunk.logprob is not None),
        margins=tuple(top[0][1] - top[1][1] for top in tops if len(top) > 1),
        top_logprobs=tuple({str(token): value for token, value in top} for top in tops),
    )
