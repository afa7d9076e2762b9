"""Shapes against published parameter counts, FLOP formulas and cache sizes."""

from __future__ import annotations

import pytest

from assay.model import Registry
from assay.stack import architecture

GROUPED = {"architecture.kv.layer_bytes_per_token": "architecture.kv.grouped"}
LATENT = {"architecture.kv.layer_bytes_per_token": "architecture.kv.latent"}


@pytest.fixture(scope="module")
def registry() -> Registry:
    return Registry.from_scopes([architecture.scope])


def shapes(**values: float | str) -> dict[str, float | str]:
    return {f"architecture.{name}": value for name, value in values.items()}


LLAMA_405B = shapes(
    layers=126, hidden=16384, heads=128, kv_heads=8, ffn=53248, ffn_matrices=3,
    vocabulary=128256, embedding_tables=2,
)  # fmt: skip
GPT_175B = shapes(
    layers=96, hidden=12288, heads=96, kv_heads=96, ffn=49152, ffn_matrices=2, vocabulary=51200,
    embedding_tables=1, sequence="2048 token",
)  # fmt: skip


def test_parameters_of_llama_405b(registry: Registry) -> None:
    found = registry.resolve("architecture.parameters", given=LLAMA_405B)
    assert found.value == pytest.approx(4.0585e11, rel=2e-5)


def test_training_flops_are_those_of_narayanan_et_al(registry: Registry) -> None:
    found = registry.resolve("architecture.training.flops_per_token", given=GPT_175B)
    layers, hidden, sequence, vocabulary = 96, 12288, 2048, 51200
    stated = 72 * layers * hidden**2 * (1 + sequence / (6 * hidden)) + 6 * hidden * vocabulary
    assert found.value == pytest.approx(stated, rel=1e-12)


@pytest.mark.parametrize(
    ("variants", "given", "size"),
    [
        (GROUPED, shapes(kv_heads=8, hidden=4096, heads=32), 4096),
        (LATENT, {"architecture.latent.width": 512, "architecture.latent.rotary_width": 64}, 1152),
    ],
)
def test_cache_of_a_token_and_layer_in_bf16(
    registry: Registry, variants: dict[str, str], given: dict[str, float | str], size: float
) -> None:
    given = {**given, "architecture.kv.element_bytes": "2 byte"}
    target = "architecture.kv.layer_bytes_per_token"
    assert registry.resolve(target, given=given, variants=variants).value == pytest.approx(size)


def test_more_key_heads_than_query_heads_are_reported(registry: Registry) -> None:
    given = {**GPT_175B, "architecture.kv_heads": 192}
    assert registry.resolve("architecture.parameters", given=given).violated
