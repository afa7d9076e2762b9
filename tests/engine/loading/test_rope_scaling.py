"""RoPE scaling of configurations: transformers' rules, and what is refused by name."""

import math
from typing import Any

import pytest

from assay.engine.loading.configuration import validated
from assay.engine.loading.synthetic import synthetic_model
from assay.errors import AssayError


def config(architecture: str = "llama", **changes: Any) -> dict[str, Any]:
    plain = dict(synthetic_model(architecture).config)
    plain.pop("rope_scaling", None)
    return plain | changes


def scaling(**changes: Any) -> Any:
    given = config(max_position_embeddings=131072, rope_scaling=changes)
    return validated("config.json", "llama", given)[0]["rope_scaling"]


# Attention factors that transformers' _compute_yarn_parameters returns for published settings:
# Qwen2.5 with YaRN, DeepSeek-V3, DeepSeek-V2 Lite, gpt-oss, and others.
@pytest.mark.parametrize(
    ("given", "attention_factor"),
    [
        ({"factor": 4.0}, 1.138629436111989),
        ({"factor": 40.0, "mscale": 1.0, "mscale_all_dim": 1.0}, 1.0),
        ({"factor": 40.0, "mscale": 0.707, "mscale_all_dim": 0.707}, 1.0),
        ({"factor": 40.0, "mscale": 1.0, "mscale_all_dim": 0.5}, 1.1557219901962608),
        ({"factor": 32.0, "truncate": False, "beta_fast": 32.0}, 1.3465735902799727),
        # mscale counts only beside mscale_all_dim, and a given factor before both.
        ({"factor": 4.0, "mscale": 3.0}, 1.138629436111989),
        ({"factor": 4.0, "mscale": 3.0, "mscale_all_dim": 0.0}, 1.138629436111989),
        ({"factor": 4.0, "mscale": 3.0, "mscale_all_dim": 1.0, "attention_factor": 0.5}, 0.5),
        ({"factor": 0.5}, 1.0),
        # Without a factor: the ratio of the contexts.
        ({"factor": None}, 0.1 * math.log(131072 / 4096) + 1.0),
    ],
)
def test_attention_factor_of_yarn(given: dict[str, Any], attention_factor: float) -> None:
    found = scaling(rope_type="yarn", original_max_position_embeddings=4096, **given)
    assert found["attention_factor"] == pytest.approx(attention_factor, rel=1e-12)
    assert (found["beta_fast"], found["beta_slow"]) == (32.0, 1.0)
    assert found["truncate"] is given.get("truncate", True)


def test_original_context_defaults_to_the_served_one_and_yields_to_the_outer_key() -> None:
    assert scaling(type="yarn", factor=4.0)["original_max_position_embeddings"] == 131072
    given = config(
        original_max_position_embeddings=512,
        rope_scaling={"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4096},
    )
    found = validated("config.json", "llama", given)[0]["rope_scaling"]
    assert found["original_max_position_embeddings"] == 512


def test_dynamic_scaling_is_plain_within_the_context() -> None:
    """Its base is that of training up to max_position_embeddings, the longest text served."""
    given = config(rope_scaling={"type": "dynamic", "factor": 2.0})
    found, notes = validated("config.json", "llama", given)
    assert found["rope_scaling"] is None
    assert "dynamic" in notes[-1]


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"rope_type": "longrope", "short_factor": [1.0], "long_factor": [1.0]}, "short_factor"),
        ({"type": "su"}, "short_factor as 32 numbers, got None"),
        ({"type": "longrope", "short_factor": [0.0] * 32}, "short_factor as a positive number"),
        ({"type": "mrope", "mrope_section": [16, 24, 24]}, '"mrope"'),
        ({"type": "default", "mrope_section": [16, 24, 24]}, '"mrope_section"'),
        ({"rope_type": "llama3", "factor": 8.0, "attention_factor": 2.0}, '"attention_factor"'),
        ({"rope_type": "llama3", "factor": 8.0}, '"low_freq_factor"'),
        ({"rope_type": "linear"}, '"factor"'),
        ({"rope_type": "linear", "factor": "two"}, "factor as a positive number"),
        ({"rope_type": "yarn", "factor": 4.0, "truncate": 0}, "truncate as true or false"),
        ({"rope_type": "yarn", "factor": 4.0, "extrapolation_factor": 2}, "extrapolation_factor"),
        ({"rope_type": "yarn", "factor": 4.0, "attention_factor": -1.0}, "attention_factor"),
        ({"rope_type": "default", "partial_rotary_factor": 0.5}, "partial_rotary_factor"),
        ({"full_attention": {"rope_type": "default"}}, "full_attention"),
    ],
)
def test_other_scalings_are_refused_by_name(given: dict[str, Any], named: str) -> None:
    with pytest.raises(AssayError, match=named):
        scaling(**given)


def test_two_bases_that_differ_are_refused() -> None:
    given = config(rope_theta=1e4, rope_parameters={"rope_theta": 5e5, "rope_type": "default"})
    with pytest.raises(AssayError, match=r"one rope_theta, got 10000\.0 and 500000\.0"):
        validated("config.json", "llama", given)
