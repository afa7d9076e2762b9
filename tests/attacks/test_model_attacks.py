"""Randomly corrupted model files: opened, or refused with an `AssayError`."""

import json
from pathlib import Path

import gguf
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from assay.engine.loading import open_model
from assay.engine.loading.synthetic import synthetic_model, write_folder
from assay.engine.loading.tokenizer import byte_alphabet
from assay.errors import AssayError

SMALL = {
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 16,
    "vocab_size": 259,
}


@pytest.fixture(scope="module")
def valid_file(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A small valid GGUF file."""
    model = synthetic_model("llama", config=SMALL)
    path = tmp_path_factory.mktemp("valid") / "model.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_embedding_length(32)
    writer.add_feed_forward_length(32)
    writer.add_block_count(1)
    writer.add_context_length(64)
    writer.add_head_count(2)
    writer.add_head_count_kv(1)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("llama-bpe")
    writer.add_bos_token_id(256)
    writer.add_eos_token_id(257)
    writer.add_chat_template("{{ messages[0].content }}")
    writer.add_token_list([*byte_alphabet(), "<|begin|>", "<|end|>", "xy"])
    writer.add_token_types([1] * 256 + [3, 3, 1])
    writer.add_token_merges(["x y"])
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, 1)
    for name, tensor in model.tensors.items():
        stored = names.get_name(name, try_suffixes=(".weight",))
        writer.add_tensor(stored, np.ascontiguousarray(tensor.to_float32()))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path.read_bytes()


def use(path: Path) -> None:
    model = open_model(path)
    tokens = model.tokenizer.encode("Hi <|end|> xy")
    model.tokenizer.decode(tokens)
    if model.chat_template is not None:
        model.chat_template.render([{"role": "user", "content": "Hi"}])
    for tensor in model.tensors.values():
        assert len(bytes(tensor.bytes)) == tensor.bytes.nbytes


def refusal(path: Path) -> str | None:
    """The message of a refused file; any error but an `AssayError` fails the test."""
    try:
        use(path)
    except AssayError as error:
        return error.message
    return None


def test_valid_file_is_opened(valid_file: bytes, tmp_path: Path) -> None:
    (tmp_path / "model.gguf").write_bytes(valid_file)
    use(tmp_path / "model.gguf")


CHANGES = st.lists(
    st.tuples(
        st.integers(0, 9000),
        st.one_of(
            st.binary(min_size=1, max_size=9),
            st.integers(0, 2**64 - 1).map(lambda number: number.to_bytes(8, "little")),
            st.sampled_from([b"llama", b"gpt2", b"qwen2", b"qwen3", b"\xff", b"\0" * 8]),
        ),
    ),
    min_size=1,
    max_size=4,
)


@settings(max_examples=300)
@given(changes=CHANGES, end=st.one_of(st.none(), st.integers(0, 20_000)))
def test_corrupted_gguf_is_opened_or_refused(
    valid_file: bytes,
    tmp_path_factory: pytest.TempPathFactory,
    changes: list[tuple[int, bytes]],
    end: int | None,
) -> None:
    data = bytearray(valid_file)
    for offset, new in changes:
        data[offset : offset + len(new)] = new
    path = tmp_path_factory.getbasetemp() / "changed.gguf"
    # A new file each time: an open mapping must never see its file change.
    path.unlink(missing_ok=True)
    path.write_bytes(data[:end])
    message = refusal(path)
    assert message is None or 0 < len(message) < 1000


JUNK = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**70), 2**70),
        st.floats(allow_nan=True),
        st.text(max_size=8),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=4,
)
KEYS = sorted(json.loads(json.dumps(dict(synthetic_model("llama").config))))


@settings(max_examples=200)
@given(changes=st.dictionaries(st.sampled_from(KEYS), JUNK, min_size=1, max_size=2))
def test_corrupted_configuration_is_opened_or_refused(
    tmp_path_factory: pytest.TempPathFactory, changes: dict[str, object]
) -> None:
    folder = tmp_path_factory.getbasetemp() / "changed"
    if not folder.exists():
        write_folder(folder, "llama", config=SMALL)
        (folder / "config.json").rename(folder / "valid.json")
    config = json.loads((folder / "valid.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | changes))
    assert refusal(folder) != ""
