"""Predictions against closed forms and against drafts decoded by hand."""

import math

import pytest
from policy_situations import candidate, description, diagnosis, known, lever, measurement, workload

from assay.improve.policy.known import Sample
from assay.improve.policy.prediction import (
    Prediction,
    Unpredictable,
    amdahl,
    between,
    inverse,
    pooled,
    spread,
)
from assay.improve.policy.predictors import (
    causes,
    formats,
    occupancy,
    padding,
    speculation,
    threads,
    whatif,
)
from assay.improve.policy.ranking import predicted
from assay.intervals import Interval
from assay.planner.specs import Ceiling, HardwareSpec


def ratio_of(answer: Prediction | Unpredictable | str) -> Interval:
    assert isinstance(answer, Prediction), answer
    assert answer.ratio.lo <= answer.ratio.value <= answer.ratio.hi
    return answer.ratio


def test_a_batch_of_eight_gains_between_nothing_and_eight_times() -> None:
    """No prefill: the bounds are those of the step, constant or in proportion."""
    baseline = measurement(mean_tpot_ms=10.0, output_throughput=100.0)
    answer = occupancy.predict(candidate("x", "max_batch", 8), known(baseline=baseline))
    assert ratio_of(answer) == pytest.approx((math.sqrt(8), 1.0, 8.0))


def test_prefill_is_not_shared_by_a_batch() -> None:
    """A request: 0.5 s of steps and 0.5 s of prefill. Free steps would double the throughput."""
    baseline = measurement(mean_tpot_ms=10.0, output_throughput=50.0)
    found = ratio_of(occupancy.predict(candidate("x", "max_batch", 1024), known(baseline=baseline)))
    # Eight clients: 8 / (8 * 0.5 + 0.5 * 1) requests a second at best, 1 before.
    assert found.hi == pytest.approx(8 / 4.5)
    assert found.lo == pytest.approx(1.0)


def test_a_latency_falls_with_the_batch() -> None:
    situation = known(workload=workload(8, "mean_tpot_ms"), settings={"max_batch": 8})
    found = ratio_of(occupancy.predict(candidate("x", "max_batch", 2), situation))
    assert found == pytest.approx((2.0, 1.0, 4.0))


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"workload": workload(8, "p99_ttft_ms")}, "no model of p99_ttft_ms"),
        ({"workload": workload(8, arrival="poisson", rate=3.0)}, "an open loop"),
        ({}, "the baseline has no TPOT"),
    ],
)
def test_what_the_model_of_batches_does_not_answer(changes: dict[str, object], why: str) -> None:
    answer = occupancy.predict(candidate("x", "max_batch", 8), known(**changes))
    assert isinstance(answer, str)
    assert why in answer


def test_drafts_of_a_copy_are_accepted() -> None:
    """By hand: the text 1..9, copied. The first token has no draft that fits, then eight follow."""
    text = tuple(range(1, 10))
    copied = [Sample(text, text)]
    assert speculation.replay(copied, 0) == (1.0, 0.0)
    # Step 1: the prompt ends with 9, which occurs once: no draft; the model says 1.
    # Step 2: after 1 the prompt goes on 2 3 4 5, all accepted, and the model adds 6.
    # Step 3: 7 8 9 and, after the end of the prompt, 1: three accepted, nothing is left to add.
    assert speculation.replay(copied, 4).tokens_per_step == pytest.approx(9 / 3)


def test_drafts_of_new_text_are_not() -> None:
    fresh = [Sample(tuple(range(100)), tuple(range(200, 250)))]
    assert speculation.replay(fresh, 8) == (1.0, 0.0)


def test_a_copying_workload_gains_by_drafts_and_a_fresh_one_does_not() -> None:
    baseline = measurement(mean_tpot_ms=10.0, output_throughput=100.0)
    one = candidate("x", "speculation_depth", 4)
    text = tuple(range(40))
    copies = known(baseline=baseline, workload=workload(1), samples=(Sample(text, text),))
    found = ratio_of(speculation.predict(one, copies))
    assert found.hi == pytest.approx(speculation.replay(copies.samples, 4).tokens_per_step)
    assert found.lo < found.hi / 2
    fresh = known(baseline=baseline, samples=(Sample(text, tuple(range(100, 140))),))
    assert ratio_of(speculation.predict(one, fresh)).hi == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("value", "depth"),
    [(4, 4), (None, 0), ("none", 0), ("ngram-mod", 16), ('{"num_speculative_tokens": 8}', 8)],
)
def test_depths_of_three_engines(value: int | str | None, depth: int) -> None:
    assert speculation._depth(value) == depth


def test_random_weights_and_missing_answers_say_so() -> None:
    one = candidate("x", "speculation_depth", 4)
    assert speculation.predict(one, known()) == Unpredictable(
        "no recorded answers to replay drafts on"
    )
    # Other models are not asked: the time of a step does not say what a text repeats.
    launches = known(
        levers={"x": lever("x", "speculation_depth", 4, addresses=("host launch",))},
        diagnosis=diagnosis({"host launch": 0.5}),
    )
    assert predicted(one, launches) == "no recorded answers to replay drafts on"
    random = known(description=description(synthetic=True), samples=(Sample((1,), (1,)),))
    assert "random weights" in str(speculation.predict(one, random))


def ceilings(**rates: float) -> HardwareSpec:
    """Bandwidth by threads: t1=10, t2=15."""
    return HardwareSpec(
        "cpu", {}, "calibration",
        {
            name: Ceiling(rate, rate, rate, "byte/s", 3,
                          {"operation": "read", "bytes": 1 << 30, "threads": int(name[1:])})
            for name, rate in rates.items()
        },
    )  # fmt: skip


def test_threads_by_calibrated_bandwidth_and_the_share_of_kernels() -> None:
    one = candidate("x", "threads", 2)
    hardware = ceilings(t1=10e9, t2=15e9)
    assert ratio_of(threads.predict(one, known(hardware=hardware))).value == pytest.approx(1.5)
    # Kernels are a fifth of the step: 1 / (0.8 + 0.2 / 1.5).
    limited = known(hardware=hardware, diagnosis=diagnosis({"host launch": 0.8}, floor=0.2))
    assert ratio_of(threads.predict(one, limited)).value == pytest.approx(1 / (0.8 + 0.2 / 1.5))


def test_threads_without_a_calibration_are_bounded_by_cores() -> None:
    found = ratio_of(threads.predict(candidate("x", "threads", 64), known()))
    assert found == pytest.approx((2.0, 1.0, 4.0))
    same = known(settings={"threads": 0})
    assert ratio_of(threads.predict(candidate("x", "threads", 4), same)) == (1.0, 1.0, 1.0)
    gpu = known(description=description(capabilities=frozenset({"cuda"})))
    assert threads.predict(candidate("x", "threads", 2), gpu) == "the kernels run on a GPU"


def test_causes_bound_what_can_be_saved() -> None:
    graphs = lever("graphs", "graph_buckets", 8, addresses=("host launch", "launch_gaps"))
    situation = known(levers={"graphs": graphs}, diagnosis=diagnosis({"host launch": 0.5}))
    found = ratio_of(causes.predict(candidate("graphs", "graph_buckets", 8), situation))
    # The term is the cause's own and counts once: at most half of the step.
    assert found == pytest.approx((math.sqrt(2), 1.0, 2.0))
    other = known(levers={"graphs": graphs}, diagnosis=diagnosis({"sampling": 0.5}))
    assert isinstance(causes.predict(candidate("graphs", "graph_buckets", 8), other), Prediction), (
        "launch_gaps itself is addressed"
    )
    assert causes.predict(candidate("graphs", "graph_buckets", 8), known()) == "no diagnosis"


def test_formats_by_bytes_of_a_weight() -> None:
    stored = known(description=description(details={"weight_format": "bf16"}))
    halved = ratio_of(formats.predict(candidate("x", "weight_format", "int8"), stored))
    assert halved == pytest.approx((math.sqrt(2), 1.0, 2.0))
    small = known(description=description(details={"weight_format": "q4_0"}))
    larger = ratio_of(formats.predict(candidate("x", "weight_format", "q8_0"), small))
    # GGUF: 18 bytes for 32 weights, and 34.
    assert larger.lo == pytest.approx(18 / 34)
    assert "not known" in str(formats.predict(candidate("x", "weight_format", "int8"), known()))


def test_no_trace_no_replay() -> None:
    graphs = lever("graphs", "graph_buckets", 8, changes=("launch=graph",))
    one = candidate("graphs", "graph_buckets", 8)
    assert whatif.predict(one, known(levers={"graphs": graphs})) == "no trace to replay"
    assert whatif.predict(one, known()) == "no what-if change describes it"


def test_arithmetic_of_ratios() -> None:
    assert inverse(Interval(2.0, 1.0, 4.0)) == (0.5, 0.25, 1.0)
    assert between(4.0, 1.0) == (2.0, 1.0, 4.0)
    assert amdahl(Interval(1e9, 1e9, 1e9), 0.5).value == pytest.approx(2.0)
    wide, narrow = spread(4.0, 1.0), spread(1.0, 0.01)
    assert pooled([wide, narrow], 0.0).value == pytest.approx(1.0, abs=0.001)
    assert pooled([narrow, narrow], 0.0).hi < narrow.hi


def test_padding_to_captured_sizes() -> None:
    """17 rows run as 20 with four sizes between powers of two (16, 20, 24, 28), as 18 with eight."""
    settings = {"graph_buckets": 4, "max_batch": 17, "speculation_depth": 0}
    situation = known(settings=settings, workload=workload(17))
    found = ratio_of(padding.predict(candidate("x", "graph_buckets", 8), situation))
    assert found.hi == pytest.approx(20 / 18)
    assert found.lo == pytest.approx(1.0)
    few = known(settings={**settings, "max_batch": 4}, workload=workload(4))
    assert ratio_of(padding.predict(candidate("x", "graph_buckets", 8), few)) == (1.0, 1.0, 1.0)
    off = known(settings={**settings, "graph_buckets": 0})
    assert isinstance(padding.predict(candidate("x", "graph_buckets", 8), off), str)
