"""The settings that `assay serve` starts an engine with, where the user gives none."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from assay.errors import AssayError, InputError

if TYPE_CHECKING:
    from assay.engine import Engine
    from assay.load.workloads.workload import ServiceLevel
    from assay.planner.serving_settings import StepLimits
    from assay.planner.specs import HardwareSpec
    from assay.runtime import Device

MEMORY_SHARE: Final = 0.9
"""The share of a GPU's memory that a server takes, as vLLM's gpu_memory_utilization by default."""
CAPTURE_SECONDS: Final = 15.0
"""Time for graphs before the first request is accepted; those left are captured when needed."""
TUNING_SECONDS: Final = 5.0
"""Time for choosing algorithms of GEMMs, those of the largest steps first."""
DISTINCT_TOKENS: Final = 251
"""Different tokens of a prompt that GEMMs are timed on: a prime, so that blocks differ, and in every vocabulary."""
LEAST_TUNED: Final = 512
"""Tokens of a step from which on its GEMMs are worth timing: fewer are bound by reading weights."""
MEASURED_PROMPT: Final = 8
MEASURED_TOKENS: Final = 8
"""Tokens of a request that is measured before others are accepted."""
UNPREDICTED: Final = {"max_batch": 256, "token_budget": 2048}
"""Knobs of a GPU whose steps are not predicted."""


@dataclass(frozen=True)
class Chosen:
    """Knobs for an engine, and a line that says why they are so."""

    knobs: Mapping[str, Any]
    line: str = ""


def service_level(text: str | None) -> ServiceLevel | None:
    """The limits of --slo: of the first token, and of each token after it."""
    if text is None:
        return None
    from assay.load.workloads.spec import parse_slo

    limits = parse_slo("--slo", text)
    if limits.e2el_ms is not None:
        raise InputError(
            "--slo: expected ttft or tpot, got e2el",
            "the time of a whole answer follows from its length: --slo ttft=1s,tpot=25ms",
        )
    return limits


def choose(
    source: str, device: Device, given: Mapping[str, Any], slo: ServiceLevel | None
) -> Chosen:
    """Knobs by prediction, those that are given left out; an SLO that no setting keeps is refused."""
    on_gpu = device.capabilities.is_gpu
    knobs: dict[str, Any] = {}
    if slo is not None and slo.tpot_ms is not None:
        knobs["max_step_ms"] = max(int(slo.tpot_ms), 1)
    if not on_gpu and slo is None:
        return Chosen({})
    wanted = {"max_batch", "token_budget"} - given.keys()
    if not wanted and slo is None:
        return Chosen({})
    try:
        line = _predicted(source, device, given, slo, knobs)
    except InputError as error:
        if error.message.startswith("--slo"):
            raise
        line = _unpredicted(error, on_gpu, knobs)
    except AssayError as error:
        line = _unpredicted(error, on_gpu, knobs)
    if not on_gpu:
        # Steps of a CPU are as long for any batch: only the pace of prefill follows the SLO.
        knobs = {name: value for name, value in knobs.items() if name == "max_step_ms"}
        line = f"max_step_ms {knobs['max_step_ms']:,}: chunks of prompts adapt" if knobs else ""
    chosen = {name: value for name, value in knobs.items() if name not in given}
    return Chosen(_consistent(chosen, given), line)


def prepare(engine: Engine, device: Device, kv_tokens: int | None, slo: ServiceLevel | None) -> str:
    """Give the KV cache what memory is free, and compile what requests would wait for; what was done.

    A limit of --slo that a request alone does not keep is refused, as it was measured.
    """
    if not device.capabilities.is_gpu:
        _check_measured(engine, slo)
        return ""
    size = ""
    if kv_tokens is None:
        tokens = engine.fill_kv_cache(MEMORY_SHARE)
        gib = engine.describe()["kv_bytes"] / (1 << 30)
        size = (
            f"KV cache of {tokens:,} tokens ({gib:.1f} GiB): what weights and buffers leave of "
            f"{MEMORY_SHARE:.0%} of the memory; "
        )
    begun = time.perf_counter()
    # Before graphs are captured, which keep the algorithms of their GEMMs.
    _tune(engine, device)
    graphs = engine.warm_up(CAPTURE_SECONDS)
    # What is compiled is loaded when it first runs.
    _measured(engine, min(engine.settings.token_budget, engine.context_limit // 2))
    _check_measured(engine, slo)
    return f"{size}kernels and {graphs:,} graphs ready in {time.perf_counter() - begun:.1f} s"


def _tune(engine: Engine, device: Device) -> None:
    """Time the GEMMs of steps with prompts, of every number of rows that they are padded to."""
    from assay.engine import SamplingParams
    from assay.engine.runner.graph_capture import PREFILL_TOKENS_MULTIPLE as MULTIPLE

    params = SamplingParams(max_tokens=1, temperature=0.0, ignore_eos=True)
    most = min(engine.settings.token_budget, engine.context_limit - 1) // MULTIPLE
    end: float | None = None
    with device.tuning_gemms():
        for rows in range(most * MULTIPLE, LEAST_TUNED - 1, -MULTIPLE):
            if end is not None and time.perf_counter() > end:
                return
            # Rows that differ: equal ones draw less power, and clocks stay higher than under load.
            engine.generate([[row % DISTINCT_TOKENS for row in range(rows)]], params)
            engine.reset_prefix_cache()
            # From the first on, which compiles kernels.
            end = end or time.perf_counter() + TUNING_SECONDS


def _measured(engine: Engine, tokens: int) -> tuple[float, float]:
    """Seconds to the first token of a prompt, and the shortest from token to token after it."""
    from assay.engine import SamplingParams

    begun = time.perf_counter()
    params = SamplingParams(max_tokens=MEASURED_TOKENS, temperature=0.0, ignore_eos=True)
    ends = [time.perf_counter() for _ in engine.stream([1] * tokens, params)]
    engine.reset_prefix_cache()
    return ends[0] - begun, min(after - before for before, after in pairwise(ends))


def _check_measured(engine: Engine, slo: ServiceLevel | None) -> None:
    """Refuse limits that a short prompt alone does not keep."""
    if slo is None:
        return
    _measured(engine, MEASURED_PROMPT)
    first_s, next_s = _measured(engine, MEASURED_PROMPT)
    for name, limit_ms, seconds in (("ttft", slo.ttft_ms, first_s), ("tpot", slo.tpot_ms, next_s)):
        if limit_ms is not None and 1e3 * seconds > limit_ms:
            raise InputError(
                f"--slo {name}: expected at least {1e3 * seconds:.3g} ms, as measured with one "
                f"prompt of {MEASURED_PROMPT} tokens on {engine.device.name}, got {limit_ms:g} ms",
                "a smaller model or another --knob weight_format is faster",
            )


def _predicted(
    source: str,
    device: Device,
    given: Mapping[str, Any],
    slo: ServiceLevel | None,
    knobs: dict[str, Any],
) -> str:
    from assay.planner import model_spec
    from assay.planner.serving_settings import serving_settings

    model = model_spec(source)
    stored = given.get("weight_format", "file")
    chosen = serving_settings(
        model,
        _hardware(device),
        _limits(slo),
        weight_dtype=(model.weight_dtype or "bf16") if stored == "file" else stored,
        kv_dtype=given.get("kv_format", "bf16"),
    )
    knobs["max_batch"], knobs["token_budget"] = chosen.max_batch, chosen.token_budget
    return chosen.sentence()


def _unpredicted(error: AssayError, on_gpu: bool, knobs: dict[str, Any]) -> str:
    if not on_gpu:
        return ""
    knobs |= UNPREDICTED
    settings = ", ".join(f"{name} {value:,}" for name, value in UNPREDICTED.items())
    return f"{settings}: chosen without a prediction ({error.message})"


def _hardware(device: Device) -> HardwareSpec:
    """The device as it was calibrated, else its accelerator in the catalog."""
    from assay.planner import hardware_spec

    try:
        return hardware_spec(device.name)
    except AssayError:
        if not device.capabilities.is_gpu:
            raise
    from assay.catalog import accelerators

    return hardware_spec(accelerators.find(device.description).name)


def _limits(slo: ServiceLevel | None) -> StepLimits:
    from assay.planner.serving_settings import StepLimits

    if slo is None:
        return StepLimits()
    return StepLimits(
        None if slo.ttft_ms is None else slo.ttft_ms / 1e3,
        None if slo.tpot_ms is None else slo.tpot_ms / 1e3,
    )


def _consistent(chosen: dict[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Batch and budget that fit each other where one of them is given."""
    batch, budget = chosen.get("max_batch"), chosen.get("token_budget")
    if batch is not None and "token_budget" in given:
        chosen["max_batch"] = min(batch, given["token_budget"])
    if budget is not None and "max_batch" in given:
        chosen["token_budget"] = max(budget, given["max_batch"])
    return chosen
