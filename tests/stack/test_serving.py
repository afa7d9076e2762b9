"""Serving against published sizes, measured steps and simulations."""

from __future__ import annotations

import heapq
from dataclasses import replace

import pytest

from assay.catalog import engines, models
from assay.model import Registry
from assay.model.resolving.resolve import make_resolver
from assay.scenario import built_in
from assay.scenario.includes import include
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
    "serving.slo.first_token_variation": 0.5,
    "serving.slo.output_token_variation": 0.2,
    "serving.slo.correlation": 0.0,
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
def test_kv_bytes_per_token_of_published_models(registry: Registry, model: str, size: int) -> None:
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
    # In four bytes all of them are: the embedding is not narrower than the rest.
    full = one | {"serving.weight_bytes": 4}
    assert ask(registry, "weight_memory", full) == pytest.approx(4 * 8_030_261_248, rel=1e-9)
    # Attention weights once more for each further replica.
    two = one | {"serving.tensor": 2, "serving.attention_replicas": 2}
    attention = 32 * (4096 * 4096 * 2 + 4096 * 1024 * 2)
    assert ask(registry, "weight_memory", two) == pytest.approx(8_030_261_248 + attention, rel=1e-3)


def test_bytes_of_a_decode_step_of_llama_8b(registry: Registry) -> None:
    # 15.0 GB are streamed a step: all weights but the embedding's rows.
    values = given("h200_sxm", "llama-3.1-8b", concurrency=1, prompt=1, output=2, static=1)
    assert ask(registry, "decode.size", values) == pytest.approx(15.0e9, rel=0.005)
    # vLLM's step at batch 1 on an H200 takes 4.93 ms (tests/data/vllm_h200_decode_llama8b.json),
    # and reading as many bytes at the measured ceiling of 4.57 TB/s takes 3.28 ms.
    assert (
        ask(registry, "decode.floor_time", values) < 3.28e-3 < ask(registry, "decode.time", values)
    )
    assert ask(registry, "decode.time", values) == pytest.approx(4.93e-3, rel=0.1)


def test_batch_size_is_limited_by_kv_memory(registry: Registry) -> None:
    # Admit requests of 1024 + 256 tokens one by one, 32 layers of 4096 bytes a token each.
    values = given("h200_sxm", "llama-3.1-8b", concurrency=1e6)
    values |= {"serving.reserved_output": 1.0}
    usable = values["serving.memory_share"] * values["gpu.memory.capacity"]
    # Sampling the logits of a million requests would take more than the GPU has.
    values["serving.batch_limit"] = 1024.0
    used, admitted = 2 * 8_030_261_248 + values["serving.reserved_memory"], 0
    used += 1024 * 128_256 * 12
    while used + 1280 * 32 * 4096 <= usable:
        used += 1280 * 32 * 4096
        admitted += 1
    assert admitted > 500
    assert 0 <= ask(registry, "batch", values) - admitted < 1
    assert ask(registry, "batch", values | {"serving.batch_limit": 256}) == 256
    assert ask(registry, "batch", values | {"serving.concurrency": 7}) == 7


def test_weights_and_one_request_must_fit(registry: Registry) -> None:
    for ranks, status in ((1, "false"), (4, "true")):
        values = given("h100_sxm", "llama-3.1-70b", tensor=ranks, concurrency=4)
        found = registry.resolve("serving.time_per_output_token", given=dict(values))
        verdicts = {verdict.name: verdict.status for verdict in found.constraints}
        assert verdicts["serving.fits_memory"] == status


def test_request_rate_is_that_of_a_simulated_closed_loop(registry: Registry) -> None:
    # 64 clients, each sending its next request when the last one is answered.
    values = given("h200_sxm", "llama-3.1-8b", concurrency=64)
    stay = ask(registry, "end_to_end_time", values)
    ends = [stay * (client + 1) / 64 for client in range(64)]
    heapq.heapify(ends)
    answered, horizon = 0, 100 * stay
    while ends[0] <= horizon:
        heapq.heapreplace(ends, ends[0] + stay)
        answered += 1
    assert ask(registry, "request_rate", values) == pytest.approx(answered / horizon, rel=1e-3)
    tokens = answered * 256 / horizon
    assert ask(registry, "throughput", values) == pytest.approx(tokens, rel=1e-3)


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
def test_sign_of_sensitivities(
    registry: Registry, change: dict[str, float], name: str, sign: int
) -> None:
    values = given("h200_sxm", "llama-3.1-8b")
    before, after = (ask(registry, name, v) for v in (values, values | change))
    assert (after - before) * sign > 0.01 * before


def test_disaggregated_prefill_does_not_slow_decode(registry: Registry) -> None:
    together = given("h200_sxm", "llama-3.1-8b", concurrency=64, prompt=8192)
    apart = together | {"serving.separate": 1}
    token = "time_per_output_token"
    assert ask(registry, token, apart) < 0.9 * ask(registry, token, together)
    sent = ask(registry, "transfer_time", apart)
    # 8192 tokens of 131072 bytes over one adapter of 400 Gbit/s, at the share it reaches.
    rate = apart["interconnect.nic.share"] * 50e9
    assert sent == pytest.approx(8192 * 131072 / rate, rel=1e-6)
    assert ask(registry, "transfer_time", together) == 0


def test_sliding_window_bounds_decode_reads(registry: Registry) -> None:
    # Whole prompts in one iteration, so that as many requests decode with the longer ones.
    values = given(
        "h100_sxm", "gpt-oss-120b", tensor=2, expert_bytes=0.5625, kv_bytes=2, prompt_budget=65536
    )
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


@pytest.mark.parametrize(("engine", "grows"), [("vllm", False), ("trtllm", True)])
def test_sliding_window_limits_decode_only_where_the_engine_skips_it(
    engine: str, grows: bool
) -> None:
    """Beyond the window, decode attention of a windowed layer costs more only without skipping."""
    base = built_in.preset("llama3_8b_h200_serving")
    paths = (f"engines/{engine}", "models/gemma-3-27b")
    scenario = base.with_includes([include(path, base.registry) for path in paths])
    target = "serving.decode.decode_window.time"
    short, long = (
        base.registry.resolve(
            target, {**scenario.exact_inputs.given, "serving.prompt": f"{tokens} token"},
            scenario.variants,
        ).require_value()
        for tokens in (4096, 16384)
    )  # fmt: skip
    assert (long > 1.2 * short) == grows


def test_top_p_orders_every_logit_of_every_sampled_token(registry: Registry) -> None:
    values = given("h200_sxm", "llama-3.1-8b", concurrency=64)
    sampled = ask(registry, "decode.tokens", values)
    plain = ask(registry, "decode.time", values)
    ordered = ask(registry, "decode.time", values | {"serving.sort_time": 1e-10})
    assert ordered - plain == pytest.approx(1e-10 * 128_256 * sampled, rel=1e-6)


def test_penalties_pass_over_every_logit_and_draw_power(registry: Registry) -> None:
    values = given("h200_sxm", "llama-3.1-8b", concurrency=64)
    plain, penalized = (
        [ask(registry, name, values | more) for name in ("decode.time", "decode.size")]
        for more in ({}, {"serving.penalty_time": 3.15e-11})
    )
    sampled = ask(registry, "decode.tokens", values)
    assert penalized[0] - plain[0] == pytest.approx(3.15e-11 * 128_256 * sampled, rel=1e-6)
    # 85 bytes a logit, by the source of apply_penalties.
    assert penalized[1] - plain[1] == pytest.approx(85 * 128_256 * sampled, rel=1e-3)


def test_errors_of_rate_and_power_are_not_those_of_energy() -> None:
    scenario = built_in.preset("llama3_8b_h200_serving")

    def energy(**errors: float) -> float:
        more = {f"serving.model_error.{name}": value for name, value in errors.items()}
        own = scenario.exact_inputs
        inputs = replace(own, values={**own.values, **more})
        value = make_resolver(scenario.registry, inputs, scenario.variants).value
        return value("serving.board_energy") or 0.0

    likely = energy()
    for name in ("step", "power", "transfer"):
        assert energy(**{name: 1.3}) == pytest.approx(likely, rel=0.02)
    assert energy(energy=1.3) == pytest.approx(1.3 * likely, rel=1e-6)


def test_board_energy_is_power_over_rate_and_tails_are_longer_than_medians() -> None:
    scenario = built_in.preset("llama3_8b_h200_serving")
    names = ("board_power", "board_energy", "throughput", "median_interval", "tail_interval")
    power, energy, rate, median, tail = (
        scenario.resolve(f"serving.{name}").value or 0.0 for name in names
    )
    assert energy * rate == pytest.approx(power, rel=1e-9)
    assert 70 < power < 700
    assert 0 < median <= tail
