"""A vLLM `LLM` of this process behind the protocol; a change makes a new one in its place."""

from __future__ import annotations

import gc
import shlex
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from assay.improve.engines import adapter as adapters, placement, vllm_fields
from assay.improve.engines.adapter import Adapter
from assay.improve.engines.capturing import TRACED_TOKENS, shortened
from assay.improve.engines.disturbance import DisturbanceMeter
from assay.improve.engines.failures import OUT_OF_MEMORY
from assay.improve.engines.own_window import OwnWindow
from assay.improve.engines.protocol import (
    Engine,
    EngineDescription,
    EngineKnob,
    EngineLostError,
    Failure,
    ProbeAnswer,
    TrialFailedError,
    Undo,
)
from assay.improve.engines.vllm_arguments import VllmArguments
from assay.improve.engines.vllm_stepper import VllmStepper
from assay.load.window import summarize
from assay.load.workloads.measurement import Measurement, Setting
from assay.load.workloads.workload import Window, Workload

PROBE_ALTERNATIVES: Final = 5
_PROMPTS_ALONE: Final = (
    "an LLM of this process is given prompts: conversations are one text with the roles named, and "
    "fields such as tools are left out; vllm serve gets both"
)
_CONFIG: Final = "vllm_config/"
_IDENTITY: Final = {
    "model": "model_config/model",
    "tokenizer": "model_config/tokenizer",
    "dtype": "model_config/dtype",
    "max_model_len": "model_config/max_model_len",
    "skip_tokenizer_init": "model_config/skip_tokenizer_init",
    "trust_remote_code": "model_config/trust_remote_code",
    "seed": "model_config/seed",
    "load_format": "load_config/load_format",
    "tensor_parallel_size": "parallel_config/tensor_parallel_size",
    "enforce_eager": "model_config/enforce_eager",
    "gpu_memory_utilization": "cache_config/gpu_memory_utilization",
    "enable_prefix_caching": "cache_config/enable_prefix_caching",
    "quantization": "model_config/quantization",
}
"""Arguments of an `LLM` that was made elsewhere, and where its configuration has them."""

_FORMATS: Final = {
    "torch.bfloat16": "bf16",
    "bfloat16": "bf16",
    "torch.float16": "f16",
    "float16": "f16",
}
"""Data types of weights under Assay's names."""


class VllmInProcess(Engine):
    """Drives an `LLM`; it must have no other requests while it is tuned.

    `arguments` are those that the `LLM` was made with. Without them, the ones that choose model and
    memory are taken from its configuration. After a change `llm` is another object.
    """

    def __init__(self, llm: Any, arguments: Mapping[str, Any] | None = None) -> None:
        """Take an `LLM` over."""
        self._llm: Any = llm
        self._make: Callable[..., Any] = type(llm)
        # It is imported already: somebody made the object.
        self._vllm = sys.modules["vllm"]
        release = VllmArguments.from_data(vllm_fields.read(self._vllm))
        self.adapter: Adapter = release.adapter(adapters.load("vllm"))
        self._notes: list[str] = []
        if arguments is None:
            arguments = {name: self._configured(path) for name, path in _IDENTITY.items()}
            self._notes.append(
                "arguments of the LLM were taken from its configuration, without those that it "
                "does not state"
            )
        self._arguments = dict(arguments)
        self._meter = DisturbanceMeter(self._gpu())

    @property
    def llm(self) -> Any:
        """The `LLM` in force; the one that was given is empty after the first change."""
        if self._llm is None:
            raise EngineLostError("vLLM: expected an engine, got none since the last start failed")
        return self._llm

    def describe(self) -> EngineDescription:
        """The release, the model and the machine."""
        gpu = self._gpu()
        capabilities = {
            *self.adapter.capabilities,
            "logprobs",
            "cuda" if gpu is not None else "cpu",
        }
        if self._is_traceable():
            capabilities.add("capture")
        notes = [*self._notes, *(f"{name}: {why}" for name, why in self.adapter.skipped.items())]
        if self._configured("model_config/skip_tokenizer_init"):
            notes.append("the model has no tokenizer: prompts have a token for each word")
        return EngineDescription(
            engine="vllm",
            release=str(self._vllm.__version__),
            model=Path(str(self._arguments["model"])).name,
            device="cpu" if gpu is None else f"cuda:{gpu}",
            hardware=placement.hardware(gpu),
            capabilities=frozenset(capabilities),
            context_limit=self._configured("model_config/max_model_len"),
            synthetic=str(self._configured("load_config/load_format")) == "dummy",
            details={
                "weights": str(self._arguments["model"]),
                "weight_format": _FORMATS.get(str(self._configured("model_config/dtype"))),
                "in_process": True,
            },
            degradations=tuple(notes),
        )

    def knobs(self) -> Mapping[str, EngineKnob]:
        """Fields of the release's `EngineArgs`."""
        return {name: knob.to_knob() for name, knob in self.adapter.knobs.items()}

    def settings(self) -> Mapping[str, Setting]:
        """What the engine's configuration states; what it does not, as it was given."""
        settings: dict[str, Setting] = {}
        for name, knob in self.adapter.knobs.items():
            stated = [source.path.removeprefix(_CONFIG) for source in knob.read if source.endpoint]
            value = self._configured(stated[0]) if stated else self._arguments.get(name)
            settings[name] = (
                knob.default if value is None and not stated else vllm_fields.plain(value)
            )
        return settings

    def configure(self, changes: Mapping[str, Setting]) -> Undo:
        """Make another `LLM` with changes; where that fails, one with the former arguments."""
        checked = self.adapter.check(changes)
        before = dict(self._arguments)
        if not checked:
            return lambda: None
        try:
            self._remake({**before, **checked})
        except Exception as error:
            # vLLM raises many kinds, and whatever it was, the former engine must come back.
            kind = _kind(error)
            said = f"vLLM ({kind}): {str(error).splitlines()[0][:200] if str(error) else error!r}"
            self._return_to(before, said, kind)
            raise TrialFailedError(said, failure=kind) from error
        return lambda: self._remake(before)

    def measure(self, workload: Workload, window: Window) -> Measurement:
        """Run a window, closed or open, on an empty prefix cache."""
        is_more = any(request.messages or request.fields for request in workload.requests)
        if is_more and _PROMPTS_ALONE not in self._notes:
            self._notes.append(_PROMPTS_ALONE)
        if window.warmup_requests:
            warmup = replace(window, requests=window.warmup_requests, seconds=None)
            OwnWindow(VllmStepper(self.llm), workload, warmup).run()
        self.llm.reset_prefix_cache()
        run = OwnWindow(VllmStepper(self.llm), workload, window)
        started_at = time.time()
        self._meter.begin()
        try:
            run.run()
        except Exception as error:
            # The engine's process died, or a kernel failed: nothing of it can be used again.
            raise EngineLostError(
                f"vLLM in the window: {str(error)[:200] or error!r}", failure=_kind(error)
            ) from error
        return summarize(
            workload,
            run.records,
            run.seconds,
            started_at=started_at,
            settings=self.settings(),
            disturbances=self._meter.end(),
            details={"in_process": True},
        )

    def probe(self, prompts: Sequence[str], max_tokens: int) -> list[ProbeAnswer]:
        """Greedy answers, all prompts in one batch, on an empty prefix cache."""
        from vllm import SamplingParams

        self.llm.reset_prefix_cache()
        stepper = VllmStepper(self.llm)
        params = SamplingParams(
            max_tokens=max_tokens,
            temperature=0.0,
            ignore_eos=True,
            logprobs=PROBE_ALTERNATIVES,
            detokenize=False,
        )
        asked = [stepper.prompt(prompt) for prompt in prompts]
        return [
            _answer(output.outputs[0])
            for output in self.llm.generate(asked, params, use_tqdm=False)
        ]

    def capture(self, workload: Workload, window: Window, folder: Path) -> Path | None:
        """A trace of a window by PyTorch's profiler, where the engine runs in this process."""
        if not self._is_traceable():
            self._notes.append(
                "no trace: the engine runs in a child process; VLLM_ENABLE_V1_MULTIPROCESSING=0 "
                "keeps it in this one"
            )
            return None
        import torch.profiler as profiler

        from assay.observe.importers.detect import open_trace

        kinds = [profiler.ProfilerActivity.CPU, profiler.ProfilerActivity.CUDA]
        # The first use of the profiler initializes CUPTI, which is no part of a step.
        with profiler.profile(activities=kinds):
            self.measure(shortened(workload, 2), replace(window, requests=1))
        with profiler.profile(activities=kinds) as recorded:
            self.measure(shortened(workload, TRACED_TOKENS), window)
        folder.parent.mkdir(parents=True, exist_ok=True)
        path = folder.with_name(f"{folder.name}.kineto.json")
        recorded.export_chrome_trace(str(path))
        open_trace(path).save(folder)
        path.unlink()
        return folder

    def launch_command(self, settings: Mapping[str, Setting]) -> str:
        """`vllm serve` with the arguments of the `LLM` and every knob that was changed."""
        words = ["vllm", "serve", str(self._arguments["model"])]
        for name, value in self._arguments.items():
            if name != "model" and name not in self.adapter.knobs:
                words += _flag(name, value)
        now = self.settings()
        chosen = {
            name: value
            for name, value in self.adapter.check(settings).items()
            if name in self._arguments or value != now.get(name)
        }
        for name, value in chosen.items():
            words += self.adapter.knob(name).to_arguments(value)
        return shlex.join(words)

    def close(self) -> None:
        """Leave the `LLM` to who made it; one that a change made is still theirs to use."""

    def _remake(self, arguments: Mapping[str, Any]) -> None:
        self._free()
        self._llm = self._make(**arguments)
        self._arguments = dict(arguments)

    def _return_to(self, before: Mapping[str, Any], said: str, kind: Failure) -> None:
        try:
            self._remake(before)
        except Exception as second:
            raise EngineLostError(
                f"{said}; nor does it start with the former arguments: {str(second)[:200]}",
                failure=kind,
            ) from second

    def _free(self) -> None:
        """Give the GPU's memory back: two engines do not fit."""
        llm, self._llm = self._llm, None
        if llm is not None:
            llm.llm_engine.engine_core.shutdown()
            # Its maker may hold the object still: its engine must go all the same.
            vars(llm).clear()
        del llm
        gc.collect()
        distributed = sys.modules.get("vllm.distributed")
        clean_up = getattr(distributed, "cleanup_dist_env_and_memory", None)
        if clean_up is not None:
            # As vLLM's own tests go from one engine to the next.
            clean_up()
        torch = sys.modules.get("torch")
        if torch is not None and torch.cuda.is_available():
            torch.cuda.empty_cache()

    def _configured(self, path: str) -> Any:
        """A value of the engine's configuration; None where this release has no such field."""
        value = self.llm.llm_engine.vllm_config
        for step in path.split("/"):
            value = getattr(value, step, None)
        return value

    def _is_traceable(self) -> bool:
        return type(self.llm.llm_engine.engine_core).__name__ == "InprocClient"

    def _gpu(self) -> int | None:
        torch = sys.modules.get("torch")
        return 0 if torch is not None and torch.cuda.is_available() else None


def _flag(name: str, value: Any) -> list[str]:
    """An argument that is no knob, as the command line takes it."""
    flag = f"--{name.replace('_', '-')}"
    if isinstance(value, bool):
        return [flag] if value else []
    return [] if value is None else [flag, str(value).removeprefix("torch.")]


def _kind(error: BaseException) -> Failure:
    said = f"{type(error).__name__}: {error}".lower()
    if any(words in said for words in OUT_OF_MEMORY):
        return "OOM"
    # Pydantic's errors and those of vLLM's own checks are values that it does not take.
    return "refused" if isinstance(error, ValueError | TypeError) else "crash"


def _answer(output: Any) -> ProbeAnswer:
    tops = [
        {str(token): float(alternative.logprob) for token, alternative in position.items()}
        for position in output.logprobs or ()
    ]
    ranked = [sorted(top.values(), reverse=True) for top in tops]
    ids = tuple(map(int, output.token_ids))
    chosen = zip(ids, tops, strict=False)
    return ProbeAnswer(
        token_ids=ids,
        texts=tuple(map(str, ids)),
        logprobs=tuple(top[str(token)] for token, top in chosen),
        margins=tuple(values[0] - values[1] for values in ranked if len(values) > 1),
        top_logprobs=tuple(tops),
    )
