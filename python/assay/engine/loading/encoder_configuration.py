"""The required keys of `config.json` for each architecture of encoders."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from assay.engine.architectures.registry import ENCODERS
from assay.engine.loading.configuration import check_dimension, check_divides, check_positive
from assay.engine.loading.configuration_keys import check_keys
from assay.errors import InputError, UnsupportedError


def validated_encoder(
    where: str, architecture: str, found: Mapping[str, Any]
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """A configuration with every key of its architecture, and notes of the defaults used."""
    one = ENCODERS[architecture]
    config, notes = {**found, "model_type": architecture}, []
    for key, value in one.schema.defaults.items():
        if key not in config:
            config[key] = value
            notes.append(f"{where} has no {key}: {value}, as transformers reads it")
    for key in (*one.schema.dimensions, *one.schema.required):
        if key not in config:
            raise InputError(
                f'{where}: expected the key "{key}", got none',
                f"a {architecture} model cannot be read without it",
            )
    for key in one.schema.dimensions:
        check_dimension(where, key, config[key])
    check_positive(where, "layer_norm_eps", config["layer_norm_eps"])
    if not isinstance(config["hidden_act"], str):
        raise InputError(f"{where}: expected hidden_act as a text, got {config['hidden_act']!r}")
    if config.get("is_decoder"):
        raise UnsupportedError(
            f"{where}: expected is_decoder false, got true",
            "its attention would be causal; the engine computes it in both directions",
        )
    check_divides(
        where,
        "hidden_size",
        config["hidden_size"],
        "num_attention_heads",
        config["num_attention_heads"],
    )
    if "pad_token_id" in one.schema.keys:
        _check_padding(where, config)
    notes += check_keys(where, architecture, found, one.schema.keys.union(one.ignored))
    return config, tuple(notes)


def _check_padding(where: str, config: Mapping[str, Any]) -> None:
    """Check the token whose ID says where positions begin."""
    padding, rows = config["pad_token_id"], config["max_position_embeddings"]
    if isinstance(padding, bool) or not isinstance(padding, int) or not 0 <= padding < rows - 1:
        raise InputError(
            f"{where}: expected pad_token_id below {rows - 1}, max_position_embeddings less one, "
            f"got {padding!r}"
        )
