"""Serving against closed forms, published sizes and the laws that rates obey."""

from __future__ import annotations

import pytest
from scipy.stats import norm

from assay.catalog import engines, models
from assay.model import Registry
from assay.stack import registry as whole_stack
from assay.validate.serving.predict import hardware

CHOICES: dict[str, float] = {
    "serving.tensor": 1,
    "serving.pipeline": 1,
    "serving.expert": 1,
    "serving.attention_replicas": 1,
    "serving.compute_bits": 16,
    "serving.expert_bits": 16,
    "serving.weight_bytes": 2,
    "serving.expert_bytes": 2,
    "serving.kv_bytes": 2,
    "serving.prompt": 1024,
    "serving.output": 256,
    "serving.concurrency": 32,
    "serving.static": 0,
    "serving.separate": 0,
    "serving.group_limit": 1000,
    "serving.slo.time_to_first_token": 1.0,
    "serving.slo.time_per_output_token": 0.02,
    "serving.latency_spread": 0.5,
}


@pytest.fixture(scope="module")
def registry() -> Registry:
    return whole_stack()


def given(
    system: str, model: str, engine: str = "vllm", client: str = "inferencex", **changes: float
) -> dict[str, float]:
    own = {f"serving.{name}": value for name, value in changes.items()}
    return {
        **hardware(system),
        **engines.given(engine, client),
        **models.find(model).given,
        **CHOICES,
        **own,
    }


def ask(registry: Registry, name: str, values: dict[str, float]) -> float:
    return registry.resolve(f"serving.{name}", given=dict(values)).value


@pytest.mark.parametrize(
    ("model", "size"),
    [
        # DeepSeek-V2, sec. 2.1: 512 + 64 elements a token and layer; Llama 3: 8 x 128 twice.
        ("deepseek-v3", 1152),
        ("llama-3.1-8b", 4096),
        ("llama-3.1-70b", 4096),
    ],
)
def test_keys_of_a_token(registry: Registry, model: str, size: int) -> None:
    values = given("h200_sxm", model)
    layers = values["architecture.layers"]
    assert ask(registry, "kv.bytes_per_token", values) == size * layers


def test_weights_of_published_models(registry: Registry) -> None:
    # 8,030,261,248 weights in two bytes, on one GPU and on two.
    one = given("h200_sxm", "llama-3.1-8b")
    assert ask(registry, "weight_memory", one) == pytest.approx(2 * 8_030_261_248, rel=1e-9)
    assert ask(registry, "weight_memory", one | {"serving.tensor": 2}) == pytest.approx(
        8_030_261_248, rel=1e-9
    )
    # Attention weights once more for each further replica.
    two = one | {"serving.tensor": 2, "serving.attention_replicas": 2}
    attention = 32 * (4096 * 4096 * 2 + 4096 * 1024 * 2)
    assert ask(registry, "weight_memory", two) == pytest.approx(8_030_261_248 + attention, rel=1e-3)


def test_bytes_of_a_decode_step_of_llama_8b(registry: Registry) -> None:
    # 15.0 GB are streamed a step: all weights but the embedding's rows. At the read ceiling
    # measured on an H200, 4.57 TB/s, that takes 3.28 ms.
    values = given("h200_sxm", "llama-3.1-8b", concurrency=1, prompt=1, output=2, static=1)
    size = ask(registry, "decode.size", values)
    assert size == pytest.approx(15.0e9, rel=0.005)
    assert size / 4.57e12 == pytest.approx(3.28e-3, rel=0.005)
    assert ask(registry, "decode_floor", values) < ask(registry, "decode.time", values)


def test_requests_that_fit_beside_the_weights(registry: Registry) -> None:
    values = given("h200_sxm", "llama-3.1-8b", concurrency=1e6)
    free = (
        values["serving.memory_share"] * values["gpu.memory.capacity"]
        - 2 * 8_030_261_248
        - values["serving.reserved_memory"]
    )
    held = 1024 + values["serving.reserved_output"] * 256
    assert ask(registry, "kv.capacity", values) == pytest.approx(free / (32 * 4096), rel=1e-6)
    expected = min(free / (32 * 4096) / held, values["serving.batch_limit"])
    assert ask(registry, "batch", values) == pytest.approx(expected, rel=1e-6)
    assert ask(registry, "batch", values | {"serving.concurrency": 7}) == 7


def test_weights_and_one_request_must_fit(registry: Registry) -> None:
    for ranks, status in ((1, "false"), (4, "true")):
        values = given("h100_sxm", "llama-3.1-70b", tensor=ranks, concurrency=4)
        found = registry.resolve("serving.time_per_output_token", given=dict(values))
        verdicts = {verdict.name: verdict.status for verdict in found.constraints}
        assert verdicts["serving.fits_memory"] == status


def test_requests_in_service_are_rate_times_time(registry: Registry) -> None:
    # Little 1961: what is in a system is what enters a second times how long it stays.
    values = given("h200_sxm", "llama-3.1-8b", concurrency=64)
    rate, stay = (ask(registry, name, values) for name in ("request_rate", "answer_time"))
    assert rate * stay == pytest.approx(64)
    tokens = ask(registry, "throughput", values)
    assert tokens == pytest.approx(rate * 256)
    assert ask(registry, "throughput_per_gpu", values) == pytest.approx(tokens)


def test_goodput_is_what_meets_both_limits(registry: Registry) -> None:
    values = given("h200_sxm", "llama-3.1-8b", concurrency=64)
    names = ("time_to_first_token", "time_per_output_token", "request_rate", "goodput")
    first, token, rate, goodput = (ask(registry, name, values) for name in names)
    share = 1.0
    for limit, time in ((1.0, first), (0.02, token)):
        share *= norm.cdf(norm.ppf(0.5) + _log(limit / time) / 0.5)
    assert goodput == pytest.approx(rate * share, rel=1e-9)
    none = values | {"serving.slo.time_per_output_token": 1e-5}
    assert ask(registry, "goodput", none) < 1e-6 * rate


def _log(ratio: float) -> float:
    from math import log

    return log(ratio)


@pytest.mark.parametrize(
    ("change", "name", "sign"),
    [
        ({"serving.concurrency": 128}, "time_per_output_token", 1),
        ({"serving.concurrency": 128}, "throughput", 1),
        ({"serving.concurrency": 128}, "time_to_first_token", 1),
        ({"serving.prompt": 4096}, "time_to_first_token", 1),
        ({"serving.prompt": 4096}, "kv.request_memory", 1),
        ({"serving.weight_bytes": 1}, "time_per_output_token", -1),
        ({"serving.kv_bytes": 1}, "kv.request_memory", -1),
        ({"serving.tensor": 2}, "time_per_output_token", -1),
        ({"architecture.hidden": 8192}, "time_per_output_token", 1),
        ({"architecture.hidden": 8192}, "weight_memory", 1),
        ({"hbm.pin_rate": 0.4e9}, "time_per_output_token", 1),
        ({"gpu.clock": 1.2e9}, "time_to_first_token", 1),
    ],
)
def test_what_moves_what(
    registry: Registry, change: dict[str, float], name: str, sign: int
) -> None:
    values = given("h200_sxm", "llama-3.1-8b")
    before, after = (ask(registry, name, v) for v in (values, values | change))
    assert (after - before) * sign > 0.01 * before


def test_prompts_on_gpus_of_their_own_do_not_disturb(registry: Registry) -> None:
    together = given("h200_sxm", "llama-3.1-8b", concurrency=64, prompt=8192)
    apart = together | {"serving.separate": 1}
    token = "time_per_output_token"
    assert ask(registry, token, apart) < 0.9 * ask(registry, token, together)
    sent = ask(registry, "transfer_time", apart)
    # 8192 tokens of 131072 bytes over one adapter of 400 Gbit/s, at the share it reaches.
    rate = apart["interconnect.nic.share"] * 50e9
    assert sent == pytest.approx(8192 * 131072 / rate, rel=1e-6)
    assert ask(registry, "transfer_time", together) == 0


def test_a_window_bounds_what_decoding_reads(registry: Registry) -> None:
    values = given("h100_sxm", "gpt-oss-120b", tensor=2, expert_bytes=0.5625, kv_bytes=2)
    short, long = (
        ask(registry, "decode.decode_window.size", values | {"serving.prompt": length})
        for length in (1024, 16384)
    )
    assert short == long
    full = [
        ask(registry, "decode.decode_full.size", values | {"serving.prompt": length})
        for length in (1024, 16384)
    ]
    assert full[1] > 10 * full[0]
