"""The downloaded SmolLM2: configuration, tensors, tokenizer and chat template."""

from pathlib import Path

import gguf
import numpy as np
import pytest

from assay.engine.loading import ModelFiles, open_model


@pytest.fixture(scope="module")
def model(smollm2: Path) -> ModelFiles:
    return open_model("smollm2")


@pytest.fixture(scope="module")
def oracle(smollm2: Path) -> gguf.GGUFReader:
    return gguf.GGUFReader(smollm2)


def test_configuration_is_the_published_one(model: ModelFiles) -> None:
    # https://huggingface.co/HuggingFaceTB/SmolLM2-135M-Instruct/blob/main/config.json
    published = {
        "model_type": "llama",
        "hidden_size": 576,
        "intermediate_size": 1536,
        "num_hidden_layers": 30,
        "num_attention_heads": 9,
        "num_key_value_heads": 3,
        "vocab_size": 49152,
        "max_position_embeddings": 8192,
        "rope_theta": 100000,
        "rope_scaling": None,
        "hidden_act": "silu",
        "attention_bias": False,
        "tie_word_embeddings": True,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }
    assert {key: model.config[key] for key in published} == published
    assert model.config["rms_norm_eps"] == pytest.approx(1e-5, rel=1e-6)
    assert (model.architecture, model.rope_pairs) == ("llama", "interleaved")


def test_tensor_bytes_match_the_reference_reader(
    model: ModelFiles, oracle: gguf.GGUFReader
) -> None:
    assert len(model.tensors) == len(oracle.tensors)
    names = {
        "token_embd.weight": "model.embed_tokens.weight",
        "blk.7.attn_k.weight": "model.layers.7.self_attn.k_proj.weight",
        "blk.29.ffn_down.weight": "model.layers.29.mlp.down_proj.weight",
        "blk.0.attn_norm.weight": "model.layers.0.input_layernorm.weight",
        "output_norm.weight": "model.norm.weight",
    }
    found = {one.name: one for one in oracle.tensors}
    for stored, name in names.items():
        tensor = model.tensors[name]
        assert tensor.format.upper() == found[stored].tensor_type.name
        assert tensor.shape == tuple(int(extent) for extent in reversed(found[stored].shape))
        assert bytes(tensor.bytes) == found[stored].data.tobytes()
    norm = model.tensors["model.norm.weight"].to_float32()
    np.testing.assert_array_equal(norm, found["output_norm.weight"].data)


def test_only_queries_and_keys_are_permuted(model: ModelFiles) -> None:
    permuted = {name.split(".")[-2] for name, one in model.tensors.items() if one.permuted}
    assert permuted == {"q_proj", "k_proj"}


@pytest.mark.parametrize(
    "text",
    ["", " ", "a  b\n\n c\t", "1234567890", "caf\u00e9 \u4f60\u597d \U0001f600\u200d\U0001f4a9"],
)
def test_text_round_trips(model: ModelFiles, text: str) -> None:
    tokenizer = model.tokenizer
    tokens = tokenizer.encode(text)
    assert tokenizer.decode(tokens) == text
    detokenizer = tokenizer.detokenizer()
    pieces = [detokenizer.push(token) for token in tokens]
    assert "\ufffd" not in "".join(pieces)
    assert "".join(pieces) + detokenizer.finish() == text


def test_no_bos_token_is_added_and_eos_tokens_stop(model: ModelFiles) -> None:
    tokenizer = model.tokenizer
    assert not tokenizer.add_bos
    assert tokenizer.eos_id == 2
    assert {0, 2} <= tokenizer.stop_ids


def test_digits_are_single_tokens(model: ModelFiles) -> None:
    assert len(model.tokenizer.encode("2026", add_special=False)) == 4


def test_chat_template_renders_the_training_format(model: ModelFiles) -> None:
    assert model.chat_template is not None
    text = model.chat_template.render([{"role": "user", "content": "Hi"}])
    assert text == (
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging "
        "Face<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    )
