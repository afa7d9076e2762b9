"""Hugging Face folders: every architecture, one file or several, and what is refused."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

from assay.cli.app import run
from assay.engine.loading import open_model
from assay.engine.loading.configuration import SCHEMAS, validated
from assay.engine.loading.synthetic import synthetic_model, write_folder
from assay.errors import AssayError, InputError


@pytest.mark.parametrize("architecture", SCHEMAS)
@pytest.mark.parametrize("shards", [1, 3])
def test_folder_equals_the_model_it_was_written_from(
    architecture: str, shards: int, tmp_path: Path
) -> None:
    source = synthetic_model(architecture, seed=5)
    write_folder(tmp_path, architecture, seed=5, shards=shards)
    model = open_model(tmp_path)
    assert (model.architecture, model.synthetic) == (architecture, False)
    assert dict(model.config) == dict(source.config)
    assert model.tensors.keys() == source.tensors.keys()
    for name, tensor in model.tensors.items():
        stored = tensor.to_float32()
        values = stored.T if tensor.transposed else stored
        np.testing.assert_array_equal(values, source.tensors[name].to_float32())
    assert model.tokenizer.encode("hi") == source.tokenizer.encode("hi") == [256, 104, 105]
    assert model.tokenizer.stop_ids == {257}
    assert model.chat_template is not None


def test_only_gpt2_matrices_are_transposed(tmp_path: Path) -> None:
    write_folder(tmp_path, "gpt2")
    transposed = {
        name.split("0.", 1)[-1]
        for name, tensor in open_model(tmp_path).tensors.items()
        if tensor.transposed and ".h.0." in name
    }
    assert transposed == {
        "attn.c_attn.weight",
        "attn.c_proj.weight",
        "mlp.c_fc.weight",
        "mlp.c_proj.weight",
    }


def test_bfloat16_is_rounded_to_nearest(tmp_path: Path) -> None:
    write_folder(tmp_path, "llama", format="bf16")
    name = "model.layers.1.mlp.up_proj.weight"
    stored = open_model(tmp_path).tensors[name]
    exact = synthetic_model("llama").tensors[name].to_float32()
    assert stored.format == "bf16"
    # Eight bits of significand: the rounding error is at most 2^-9 of the value.
    np.testing.assert_allclose(stored.to_float32(), exact, rtol=2**-8, atol=0)
    assert np.abs(stored.to_float32() / exact - 1).mean() < 2**-9


def edit(folder: Path, **changes: Any) -> None:
    path = folder / "config.json"
    config = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({k: v for k, v in config.items() if v is not ...}))


@pytest.mark.parametrize("architecture", SCHEMAS)
def test_missing_dimension_is_named(architecture: str, tmp_path: Path) -> None:
    write_folder(tmp_path, architecture)
    rules = SCHEMAS[architecture]
    for key in (*rules.dimensions, *rules.required):
        before = json.loads((tmp_path / "config.json").read_text())
        edit(tmp_path, **{key: ...})
        with pytest.raises(InputError, match=f'config.json: expected the key "{key}", got none'):
            open_model(tmp_path)
        edit(tmp_path, **before)


def test_defaults_are_noted(tmp_path: Path) -> None:
    write_folder(tmp_path, "llama")
    edit(tmp_path, rope_theta=..., head_dim=...)
    model = open_model(tmp_path)
    assert (model.config["rope_theta"], model.config["head_dim"]) == (10000.0, 64)
    assert [note.split("has no ")[1].split(":")[0] for note in model.notes] == [
        "rope_theta",
        "head_dim",
    ]


def test_rope_parameters_are_read() -> None:
    plain = dict(synthetic_model("llama").config)
    del plain["rope_theta"], plain["rope_scaling"]
    scaling = {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64,
    }
    newer = plain | {"rope_parameters": {"rope_theta": 5e5, **scaling}}
    config, notes = validated("config.json", "llama", newer)
    assert (config["rope_theta"], config["rope_scaling"]) == (5e5, scaling)
    assert notes == ()
    newer = plain | {"rope_parameters": {"rope_theta": 5e5, "rope_type": "default"}}
    assert validated("config.json", "llama", newer)[0]["rope_scaling"] is None


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"model_type": ...}, '"model_type"'),
        ({"model_type": "mamba"}, '"mamba"'),
        ({"hidden_size": "256"}, "hidden_size"),
        ({"hidden_size": True}, "hidden_size"),
        ({"hidden_size": -1}, "hidden_size"),
        ({"num_hidden_layers": 10**12}, "num_hidden_layers"),
        ({"num_hidden_layers": 2**31 - 1}, "2147483647 layers"),
        ({"num_hidden_layers": 3}, r"model\.layers\.2"),
        ({"num_hidden_layers": 1}, r"model\.layers\.1"),
        ({"num_key_value_heads": 3}, "num_key_value_heads 3"),
        ({"vocab_size": 259}, r"shape \[259, 256\]"),
        ({"intermediate_size": 513}, r"\[513, 256\]"),
        ({"rms_norm_eps": "small"}, "rms_norm_eps"),
        ({"quantization_config": {"quant_method": "gptq"}}, "quantization_config"),
        ({"attention_bias": True}, r"q_proj\.bias"),
    ],
)
def test_invalid_configurations_are_refused(
    changes: dict[str, Any], named: str, tmp_path: Path
) -> None:
    write_folder(tmp_path, "llama")
    edit(tmp_path, **changes)
    with pytest.raises(AssayError, match=named):
        open_model(tmp_path)


def write_index(folder: Path, weight_map: Any) -> None:
    path = folder / "model.safetensors.index.json"
    path.write_text(json.dumps({"weight_map": weight_map}))


def break_map(folder: Path, change: Callable[[dict[str, str]], Any]) -> None:
    path = folder / "model.safetensors.index.json"
    found = json.loads(path.read_text())["weight_map"]
    write_index(folder, change(found))


SHARD = "model-00001-of-00002.safetensors"


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda _: [1], 'object "weight_map"'),
        (lambda found: found | {"lm_head.weight": "../model.safetensors"}, "lm_head.weight"),
        (lambda found: found | {"lm_head.weight": "/etc/passwd"}, "lm_head.weight"),
        (lambda found: found | {"lm_head.weight": 3}, "lm_head.weight"),
        (lambda found: found | {"lm_head.weight": "weights.bin"}, "lm_head.weight"),
        (lambda found: found | {"more": SHARD}, 'expected the tensor "more"'),
        (lambda found: {k: v for k, v in found.items() if k != "lm_head.weight"}, "lm_head"),
        (lambda found: dict.fromkeys(found, SHARD), "expected the tensor"),
    ],
)
def test_invalid_index_is_refused(
    change: Callable[[dict[str, str]], Any], named: str, tmp_path: Path
) -> None:
    write_folder(tmp_path, "llama", shards=2)
    break_map(tmp_path, change)
    with pytest.raises(InputError, match=named):
        open_model(tmp_path)


def test_missing_shards_are_named(tmp_path: Path) -> None:
    write_folder(tmp_path, "llama", shards=2)
    (tmp_path / SHARD).unlink()
    with pytest.raises(InputError, match=SHARD):
        open_model(tmp_path)


def rewrite(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    path = folder / "model.safetensors"
    tensors = {k: v.copy() for k, v in safetensors.numpy.load_file(path).items()}
    change(tensors)
    safetensors.numpy.save_file(tensors, path)


def test_tied_embeddings_stored_twice_are_used_once(tmp_path: Path) -> None:
    write_folder(tmp_path, "llama", config={"tie_word_embeddings": True})
    rewrite(tmp_path, lambda t: t.update({"lm_head.weight": t["model.embed_tokens.weight"] + 1}))
    assert "lm_head.weight" not in open_model(tmp_path).tensors


def test_buffers_of_older_checkpoints_are_ignored(tmp_path: Path) -> None:
    write_folder(tmp_path, "gpt2")
    mask = {"transformer.h.0.attn.bias": np.ones((1, 1, 4, 4), np.float32)}
    rewrite(tmp_path, lambda tensors: tensors.update(mask))
    assert open_model(tmp_path).tensors.keys().isdisjoint(mask)


def test_gpt2_without_its_prefix_is_read(tmp_path: Path) -> None:
    write_folder(tmp_path, "gpt2")

    def shorten(tensors: dict[str, Any]) -> None:
        for name in list(tensors):
            tensors[name.removeprefix("transformer.")] = tensors.pop(name)

    rewrite(tmp_path, shorten)
    assert "transformer.h.1.mlp.c_fc.weight" in open_model(tmp_path).tensors


def test_unknown_tensors_are_refused(tmp_path: Path) -> None:
    write_folder(tmp_path, "llama")
    extra = {"model.layers.0.self_attn.q_norm.weight": np.ones(64, np.float32)}
    rewrite(tmp_path, lambda tensors: tensors.update(extra))
    with pytest.raises(AssayError, match="q_norm"):
        open_model(tmp_path)


@pytest.mark.parametrize(
    ("file", "content", "named"),
    [
        ("config.json", None, "config.json: expected a file"),
        ("config.json", b"{", "config.json: expected JSON"),
        ("config.json", b"[" * 100_000, "config.json: expected JSON"),
        ("config.json", b"[]", "config.json: expected a JSON object"),
        ("model.safetensors", None, "expected model.safetensors or"),
        ("model.safetensors", b"\xff" * 16, "model.safetensors: header length"),
        ("tokenizer.json", None, "tokenizer.json: expected a file"),
        ("tokenizer.json", b"{}", "tokenizer.json: expected a tokenizer"),
        ("generation_config.json", b'{"eos_token_id": "x"}', "eos_token_id"),
        ("generation_config.json", b'{"eos_token_id": 999}', "999"),
    ],
)
def test_broken_files_are_named(
    file: str, content: bytes | None, named: str, tmp_path: Path
) -> None:
    write_folder(tmp_path, "llama")
    (tmp_path / file).unlink(missing_ok=True)
    if content is not None:
        (tmp_path / file).write_bytes(content)
    with pytest.raises(AssayError, match=named):
        _ = open_model(tmp_path).tokenizer


MISSING_MARK = {
    "type": "TemplateProcessing",
    "single": [
        {"SpecialToken": {"id": "<none>", "type_id": 0}},
        {"Sequence": {"id": "A", "type_id": 0}},
    ],
    "pair": [],
    "special_tokens": {},
}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"post_processor": MISSING_MARK}, "no entry found for key"),
        (
            {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAA"}},
            "Cannot parse precompiled_charsmap",
        ),
    ],
)
def test_library_panic_is_one_error(
    changed: dict[str, Any], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_folder(tmp_path, "llama")
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changed))
    assert run(["models", str(tmp_path)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"error: {path}: expected a tokenizer, got one that the library")
    assert message in captured.err
    assert len(captured.err.splitlines()) == 1


def test_text_on_which_the_library_panics_is_refused(tmp_path: Path) -> None:
    write_folder(tmp_path, "llama")
    path = tmp_path / "tokenizer.json"
    grown = {"type": "Replace", "pattern": {"String": ""}, "content": "abc"}
    path.write_text(json.dumps(json.loads(path.read_text()) | {"normalizer": grown}))
    tokenizer = open_model(tmp_path).tokenizer
    with pytest.raises(InputError, match="expected a tokenizer that takes the text"):
        tokenizer.encode("hello")


def test_prompts_are_neither_truncated_nor_padded(tmp_path: Path) -> None:
    write_folder(tmp_path, "llama")
    path = tmp_path / "tokenizer.json"
    cut = {"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0}
    filled = {"strategy": {"Fixed": 8}, "direction": "Right", "pad_to_multiple_of": None}
    filled |= {"pad_id": 0, "pad_type_id": 0, "pad_token": "x"}
    changed = json.loads(path.read_text()) | {"truncation": cut, "padding": filled}
    path.write_text(json.dumps(changed))
    assert open_model(tmp_path).tokenizer.encode("hello") == [256, *b"hello"]


def test_all_eos_tokens_stop(tmp_path: Path) -> None:
    write_folder(tmp_path, "llama")
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [0, 257]}')
    assert open_model(tmp_path).tokenizer.stop_ids == {0, 257}


def test_chat_template_is_found_in_every_location(tmp_path: Path) -> None:
    write_folder(tmp_path, "llama")
    settings = tmp_path / "tokenizer_config.json"
    named = [{"name": "rag", "template": "r"}, {"name": "default", "template": "d"}]
    settings.write_text(json.dumps({"chat_template": named}))
    assert open_model(tmp_path).template_text == "d"
    (tmp_path / "chat_template.jinja").write_text("file")
    assert open_model(tmp_path).template_text == "file"
    (tmp_path / "chat_template.jinja").write_bytes(b"\xff")
    with pytest.raises(InputError, match=r"chat_template\.jinja cannot be read: expected UTF-8"):
        open_model(tmp_path)


def test_single_safetensors_file_hints_at_its_folder(tmp_path: Path) -> None:
    write_folder(tmp_path, "llama")
    with pytest.raises(InputError, match="folder that holds") as caught:
        open_model(tmp_path / "model.safetensors")
    assert caught.value.hint == f"open {tmp_path}"
