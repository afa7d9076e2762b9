"""One fit verdict and one time: `predict` and `resolve` answer the same step alike."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache

from property_harness import Answers, Draw, Invariant, RefusedError, Violation, graph_given

from assay.errors import AssayError
from assay.planner import BatchConfig, HardwareSpec, ModelSpec, hardware_spec, model_spec
from assay.planner.evaluation import engine_constants
from assay.planner.fit import Fit, judge
from assay.planner.predict import predict_graph

TIME, DECODING = "serving.decode.time", "serving.decoding"
NETWORK = "interconnect.nic.line_rate"
REQUEST, CACHE, HELD = (
    "serving.one_request_memory", "serving.cache_memory", "serving.requests_that_fit",
)  # fmt: skip
NEEDS = (TIME, DECODING, REQUEST, CACHE, HELD, "serving.weight_memory")
AGREE = 0.03
CLIENT = {
    name: value
    for name, value in engine_constants("vllm").given.items()
    if name in ("serving.host_time", "serving.host_sequence_time")
}


@lru_cache(512)
def _model(name: str) -> ModelSpec:
    return model_spec(name)


@lru_cache(64)
def _hardware(name: str) -> HardwareSpec:
    try:
        return hardware_spec(name)
    except AssayError as error:
        raise RefusedError(error.message) from error


def _batch(
    draw: Draw, context: float, requests: float
) -> tuple[ModelSpec, HardwareSpec, BatchConfig]:
    model = _model(draw.entries.get("models", "llama-3.1-8b"))
    batch = BatchConfig(
        round(requests), context=round(context),
        tensor=int(draw.given("serving.tensor")), weight_dtype=model.weight_dtype or "bf16",
    )  # fmt: skip
    return model, _hardware(draw.entries.get("accelerators", "h200_sxm")), batch


def verdicts(draw: Draw, answers: Answers) -> Violation | None:
    """`predict` refuses what `resolve` reports as violated, and nothing else."""
    prompt, output = draw.given("serving.prompt"), draw.given("serving.output")
    # A step holds the contexts that it reads: one token of output is the next.
    shown = draw.changed({"serving.prompt": prompt + output - 1, "serving.output": 1.0})
    model, hardware, batch = _batch(shown, prompt + output, shown.given("serving.concurrency"))
    fit: Fit = judge(model, hardware, batch, running=1024)
    said = answers.seen(shown, "predict.fits", float(not fit.broken))
    given = graph_given(shown)
    holds = answers.value(shown, REQUEST) <= answers.value(shown, CACHE)
    asked = min(given["serving.concurrency"], given["serving.batch_limit"])
    held = answers.value(shown, HELD)
    holds = holds and asked <= held
    near = math.isclose(asked, held, rel_tol=AGREE) or math.isclose(
        answers.value(shown, REQUEST), answers.value(shown, CACHE), rel_tol=AGREE
    )
    if near or said == float(holds):
        return None
    text = (
        f"predict {'fits' if said else 'does not fit'} ({', '.join(fit.broken)}), resolve says not"
    )
    return Violation(f"{text}: {held:.6g} requests are held of {asked:g}", HELD, (shown,))


def times(draw: Draw, answers: Answers) -> Violation | None:
    """A decode step takes as long for `predict` as for `resolve`, with the same client and network.

    `predict` has the constants of a client in the engine's process, the scenario those of a server.
    """
    prompt, output = draw.given("serving.prompt"), draw.given("serving.output")
    given = graph_given(draw)
    client = {name: value for name, value in CLIENT.items() if name in given}
    draw = draw.changed(client)
    # Long prompts, and more tokens than an iteration takes, leave fewer to decode than there are: on
    # average no whole number, which `predict` needs. Tiles of GEMMs jump between two of them.
    decoding = answers.value(draw, DECODING)
    if not math.isclose(decoding, max(round(decoding), 1), rel_tol=0.005):
        return None
    predicted = []
    for whole in {max(math.floor(decoding), 1), math.ceil(decoding)}:
        model, hardware, batch = _batch(draw, prompt + output / 2, whole)
        # The scenario has a network, whose rate may be less than that of the accelerator's own adapters.
        hardware = replace(hardware, given={**hardware.given, NETWORK: given[NETWORK]})
        step = predict_graph(model, hardware, batch).totals["step"].value * 1e-9
        predicted.append(answers.seen(draw, "predict.step", step))
    resolved = answers.value(draw, TIME)
    if min(predicted) / (1 + AGREE) <= resolved <= max(predicted) * (1 + AGREE):
        return None
    said = " to ".join(f"{step * 1e3:.4g}" for step in sorted(predicted))
    return Violation(f"predict {said} ms, resolve {resolved * 1e3:.4g} ms", TIME, (draw,))


INVARIANTS = (
    Invariant(
        "one fit verdict of predict and resolve", "step", verdicts,
        lambda _, name, number: 1.0 if name == "predict.fits" else number, NEEDS,
    ),
    Invariant(
        "predict and resolve agree on a step", "step", times,
        lambda _, name, number: 1.1 * number if name == "predict.step" else number, NEEDS, every=3,
    ),
)  # fmt: skip
