"""`diagnose_server`: watch a running server, probe it, compare with a prediction, name causes."""

from __future__ import annotations

import statistics
import time
from dataclasses import asdict, dataclass
from typing import Any, Final

from assay.answers import Progress, silent
from assay.diagnose import subject
from assay.diagnose.hypothesis import Evidence, Hypothesis
from assay.diagnose.live.causes import Scene, find_causes
from assay.diagnose.live.client import Client
from assay.diagnose.live.diagnosis import ServerDiagnosis
from assay.diagnose.live.expectation import Expectation, expect
from assay.diagnose.live.observed import with_claims
from assay.diagnose.live.probes import (
    CONCURRENCIES,
    LENGTH,
    SINGLE,
    TOGETHER,
    Probe,
    Prober,
    Probes,
)
from assay.diagnose.live.watch import Watch, Window
from assay.diagnose.mechanisms.host import HOST_LAUNCH
from assay.diagnose.violation import Violation
from assay.errors import InputError
from assay.http_client import ServerError
from assay.openai_api.answers import ServedModel
from assay.planner import hardware_spec, model_spec


def host_launch(
    expected: Expectation, sequences: int, context: int, step_ns: float
) -> Hypothesis | None:
    """The cause where a step is longer than predicted, and as long as one of single launches.

    No server states whether it replays graphs; a busy host looks the same from outside, so a trace
    is still needed to tell where the gaps are.
    """
    graphs = expected.step(sequences, context)
    if graphs is None or step_ns <= graphs["hi"]:
        return None
    eager = expected.step(sequences, context, cuda_graphs=False)
    if eager is None or not eager["lo"] <= step_ns <= eager["hi"]:
        return None
    base = HOST_LAUNCH
    return Hypothesis(
        base.name,
        base.sentence,
        step_ns - graphs["expected"],
        step_ns - graphs["hi"],
        step_ns - graphs["lo"],
        "cannot be told apart from a busy host without a trace",
        (
            Evidence(
                f"a step takes {step_ns / 1e6:.2f} ms; with CUDA graphs {_range(graphs)} is "
                f"predicted, with a launch for each kernel {_range(eager)}",
                source="prediction",
            ),
        ),
        base.fix,
    )


def _range(step: dict[str, float]) -> str:
    expected, lo, hi = (step[name] / 1e6 for name in ("expected", "lo", "hi"))
    return f"{expected:.2f} ms ({lo:.2f} to {hi:.2f})"


DURATION_S: Final = 30.0
WATCHED: Final = 0.3
"""Share of the duration in which the server is only watched, before the first probe."""
MOST_AT_ONCE: Final = 64

_ATTACH: Final = {
    "vLLM": "assay trace attach --url {url} --steps 20",
    "SGLang": "assay trace attach --url {url} --steps 20",
    "assay": "assay trace attach --url {url} --duration-s 5",
}
"""How a slice of a running server is traced; another one is started anew under the tracer."""


@dataclass(frozen=True, slots=True)
class _Measured:
    model: ServedModel
    server: str | None
    probes: Probes
    passive: Window
    probing: Window
    is_local: bool


def diagnose_server(
    url: str,
    *,
    model: str | None = None,
    gpu: str | None = None,
    engine: str | None = None,
    dtype: str | None = None,
    kv_dtype: str = "bf16",
    tensor: int | None = None,
    duration_s: float = DURATION_S,
    most_at_once: int = max(CONCURRENCIES),
    progress: Progress = silent,
) -> ServerDiagnosis:
    """Say where the time of a running server's steps goes, and why.

    It is watched for a while, then probed with short completions one by one and several at once.
    Model and GPU, where given or known, predict what the steps of those probes should take.
    """
    if not 1.0 <= duration_s <= 3600.0:
        raise InputError(f"--duration: expected 1 to 3,600 seconds, got {duration_s:g}")
    if not 1 <= most_at_once <= MOST_AT_ONCE:
        raise InputError(f"--concurrency: expected 1 to {MOST_AT_ONCE}, got {most_at_once}")
    subject.check_sizes(tensor=tensor)
    subject.check_engine(engine)
    # Bad names are told before the server is disturbed.
    spec = None if model is None else model_spec(model)
    hardware = None if gpu is None else hardware_spec(gpu)
    client = Client(url)
    measured, notes = _measure(client, duration_s, most_at_once, progress)
    progress("predicting")
    single = measured.probes.of(SINGLE)
    tpots = [tpot for probe in single if (tpot := probe.tpot_s) is not None]
    if not tpots:
        raise ServerError(
            f"{client.url}: expected completions of several tokens, got one token each",
            "the model ends at once, and the server takes no ignore_eos",
        )
    others = measured.passive.gauge("engine_requests_running")
    batch = 1 + round(statistics.mean(others) if others else 0.0)
    expected = expect(
        measured.model, measured.server, measured.passive,
        model=spec, hardware=hardware, engine=engine, dtype=dtype, kv_dtype=kv_dtype, tensor=tensor,
        is_local=measured.is_local,
    )  # fmt: skip
    notes += expected.notes
    has_load = bool(measured.passive.grown("engine_generation_tokens"))
    load = measured.passive if has_load else measured.probing
    if measured.server is not None and not has_load:
        notes.append(
            f"the server had no load of its own in {measured.passive.seconds:.0f} s: causes under "
            "load are of the probes alone; run it while the server works"
        )
    step_ns = 1e9 * statistics.median(tpots)
    causes, unexamined = find_causes(Scene(load, has_load, step_ns, measured.probes))
    if has_load:
        progress("estimating effects of states")
        causes, estimated = with_claims(load, causes)
        notes += estimated
    launches = host_launch(expected, batch, _context(_median_single(single)), step_ns)
    if launches is not None:
        causes.append(launches)
        causes.sort(key=lambda cause: -cause.ns_per_token)
    notes += [*unexamined, _needs_trace(client.url, measured.server), *client.notes]
    return _report(client.url, measured, expected, batch, tpots, causes, notes)


def _measure(
    client: Client, duration_s: float, most_at_once: int, say: Progress
) -> tuple[_Measured, list[str]]:
    """Watch, then probe."""
    say(f"asking {client.url} for its model")
    served = client.model()
    watch = Watch(client)
    begun_s = time.monotonic()
    with watch.running():
        start_ns = watch.mark()
        say("watching the server")
        time.sleep(WATCHED * duration_s)
        middle_ns = watch.mark()
        prober = Prober(client, served, begun_s + duration_s, most_at_once=most_at_once, say=say)
        probes = prober.run()
        end_ns = watch.mark()
    samples = watch.samples()
    notes = [*watch.gaps(), *probes.notes]
    if watch.server is None:
        notes.append(
            f"{watch.metrics_url} has no metrics: causes under load are not examined; llama.cpp "
            "needs --metrics"
        )
    if not watch.is_local:
        notes.append(
            "the server is on another machine: its GPU and CPU are not sampled; run there for that"
        )
    passive = Window(samples, start_ns, middle_ns)
    probing = Window(samples, middle_ns, end_ns)
    return _Measured(served, watch.server, probes, passive, probing, watch.is_local), notes


def _needs_trace(url: str, server: str | None) -> str:
    attach = _ATTACH.get(server or "", "assay trace attach -- COMMAND, which starts the server")
    return (
        "launch gaps, host stalls, synchronization, lost overlap, kernel by kernel time, operations "
        f"and critical path: need a trace: {attach.format(url=url)}, then assay diagnose TRACE"
    )


def _report(
    url: str,
    measured: _Measured,
    expected: Expectation,
    batch: int,
    tpots: list[float],
    causes: list[Hypothesis],
    notes: list[str],
) -> ServerDiagnosis:
    probes = measured.probes
    usual = _median_single(probes.of(SINGLE))
    context = _context(usual)
    step_ns = 1e9 * statistics.median(tpots)
    step = expected.step(batch, context)
    floor_ns = None if step is None else step["floor_ns"]
    lo, hi = (None, None) if step is None else (step["lo"], step["hi"])
    degradations = list(dict.fromkeys([*notes, *expected.failures()]))
    return ServerDiagnosis(
        url=url,
        server=measured.server,
        model=expected.model or measured.model.name,
        gpu=expected.gpu,
        engine=expected.engine,
        tensor=expected.tensor,
        batch=batch,
        context=context,
        step_ns=step_ns,
        predicted_ns=None if step is None else step["expected"],
        lo=lo,
        hi=hi,
        floor_ns=floor_ns,
        waterfall=_waterfall(step_ns, [1e9 * tpot for tpot in tpots], floor_ns),
        causes=[_cause(cause) for cause in causes],
        violations=[
            {**asdict(violation), "rows": list(violation.rows)}
            for violation in _violations(step_ns, lo, hi)
        ],
        ttft=[_first_token(probe, expected) for probe in (usual, *_distinct(probes.of(LENGTH)))],
        concurrency=[
            _at_once(probe, expected, batch - 1, context) for probe in (usual, *probes.of(TOGETHER))
        ],
        probes={"requests": probes.requests, "tokens": probes.tokens},
        settings=measured.probing.settings(),
        watched=measured.passive.summary(),
        probed=measured.probing.summary(),
        predictions=expected.predictions(),
        degradations=degradations,
        notes=degradations,
    )


def _waterfall(
    step_ns: float, observed: list[float], floor_ns: float | None
) -> list[dict[str, Any]]:
    """Floor and the rest, which add up to the step: only a trace divides the rest."""
    floor = 0.0 if floor_ns is None else min(floor_ns, step_ns)
    terms = [("floor", floor, floor, floor)] if floor_ns is not None else []
    lo, hi = (max(tpot - floor, 0.0) for tpot in (min(observed), max(observed)))
    terms.append(("unknown", step_ns - floor, lo, hi))
    return [
        {"name": name, "ns": ns, "lo": low, "hi": high, "rows": []} for name, ns, low, high in terms
    ]


def _violations(step_ns: float, lo: float | None, hi: float | None) -> list[Violation]:
    violations = []
    if lo is not None and hi is not None and not lo <= step_ns <= hi:
        violations.append(Violation("step time", "violated", "decode step", step_ns, lo, hi, "ns"))
    for name in ("kernel time", "memory traffic", "stream concurrency"):
        violations.append(
            Violation(
                name, "not measured", "decode step", None, None, None, "", (), "needs a trace"
            )
        )
    return violations


def _cause(cause: Hypothesis) -> dict[str, Any]:
    return {
        **asdict(cause),
        "part_of": list(cause.part_of),
        "within": cause.within or None,
        "evidence": [evidence.to_data() for evidence in cause.evidence],
    }


def _median_single(probes: list[Probe]) -> Probe:
    """The probe whose time per output token is the median of those sent one at a time."""
    timed = sorted(
        (probe for probe in probes if probe.tpot_s is not None), key=lambda probe: probe.tpot_s or 0
    )
    return timed[(len(timed) - 1) // 2]


def _context(probe: Probe) -> int:
    """Tokens that a step of a probe attends to, halfway through its answer."""
    return probe.prompt_tokens + probe.answers[0].completion_tokens // 2


def _distinct(probes: list[Probe]) -> list[Probe]:
    """The fastest probe of each length of the prompt, shortest first."""
    by_length: dict[int, Probe] = {}
    for probe in probes:
        tokens = probe.prompt_tokens
        key = next((size for size in by_length if abs(size - tokens) < 0.2 * size), tokens)
        if key not in by_length or probe.ttft_s < by_length[key].ttft_s:
            by_length[key] = probe
    return [by_length[size] for size in sorted(by_length)]


def _first_token(probe: Probe, expected: Expectation) -> dict[str, Any]:
    return {
        "prompt_tokens": probe.prompt_tokens,
        "observed_ns": 1e9 * probe.ttft_s,
        **expected.ttft(probe.prompt_tokens),
    }


def _at_once(probe: Probe, expected: Expectation, others: int, context: int) -> dict[str, Any]:
    step = expected.step(probe.concurrency + others, context)
    tpot = probe.tpot_s
    return {
        "concurrency": probe.concurrency,
        "tpot_ns": None if tpot is None else 1e9 * tpot,
        "ttft_ns": 1e9 * probe.ttft_s,
        "tokens_per_second": probe.tokens_per_second,
        "predicted_ns": None if step is None else step["expected"],
        "lo": None if step is None else step["lo"],
        "hi": None if step is None else step["hi"],
    }
