"""The native GGUF and safetensors readers against the reference libraries."""

import gc
from pathlib import Path

import gguf
import numpy as np
import pytest
import safetensors.numpy

import ggml_blocks
from assay._native import BLOCK_FORMATS, GgufFile, SafeTensorsFile
from assay.errors import InputError


def test_block_sizes_and_codes_match_the_gguf_package() -> None:
    # Removed types and types that our table does not list are not compared.
    known = {one.name.lower(): (int(one), *size) for one, size in gguf.GGML_QUANT_SIZES.items()}
    ours = {
        name: (block.gguf_code, block.values, block.bytes) for name, block in BLOCK_FORMATS.items()
    }
    shared = ours.keys() & known.keys()
    assert {name: ours[name] for name in shared} == {name: known[name] for name in shared}
    assert {"f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "q4_k", "q6_k"} <= shared


@pytest.mark.parametrize("name", ggml_blocks.FORMATS)
def test_blocks_of_the_kernel_tests_are_those_of_the_gguf_package(name: str) -> None:
    blocks, values = ggml_blocks.random_blocks(name, 3, 64, seed=2)
    reference = gguf.quants.dequantize(blocks, gguf.GGMLQuantizationType[name])
    np.testing.assert_allclose(values, reference, rtol=1e-6)


def test_gguf_of_the_reference_writer_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_array("numbers", [1, -2, 3])
    writer.add_array("words", ["a", "b\u00e9"])
    writer.add_float32("half", 0.5)
    writer.add_bool("yes", True)
    values = np.arange(12, dtype=np.float32).reshape(3, 4)
    blocks = gguf.quants.quantize(
        np.linspace(-1, 1, 64, dtype=np.float32).reshape(2, 32), gguf.GGMLQuantizationType.Q4_0
    )
    writer.add_tensor("plain", values)
    writer.add_tensor("blocks", blocks, raw_dtype=gguf.GGMLQuantizationType.Q4_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()

    file = GgufFile(path)
    assert file.version == 3
    assert file.value("numbers") == [1, -2, 3]
    assert file.value("words") == ["a", "b\u00e9"]
    assert file.value("half") == 0.5
    assert file.value("yes") is True
    with pytest.raises(KeyError):
        file.value("absent")
    assert (file.count("words"), file.count("half"), file.count("absent")) == (2, None, None)
    with pytest.raises(InputError, match="numbers: expected an array of text, got an array of i32"):
        file.texts("numbers")
    words = file.texts("words")
    assert (len(words), words[1]) == (2, "b\u00e9")
    with pytest.raises(IndexError):
        words[2]
    assert words.indices() == {"a": 0, "b\u00e9": 1}
    assert words.indices("xb\u00e9y") == {"b\u00e9": 1}
    with pytest.raises(InputError, match="words 0: expected two texts"):
        words.pairs()
    plain, stored = file.tensors()
    assert (plain.name, plain.format, plain.shape) == ("plain", "f32", (3, 4))
    np.testing.assert_array_equal(np.frombuffer(plain, "<f4").reshape(3, 4), values)
    assert (stored.format, stored.shape, stored.nbytes) == ("q4_0", (2, 32), 36)
    assert bytes(stored) == blocks.tobytes()


def test_safetensors_of_the_reference_library_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    tensors = {
        "a": np.arange(6, dtype=np.float32).reshape(2, 3),
        "b": np.array([1, -2], dtype=np.int64),
        "half": np.array([[0.5]], dtype=np.float16),
        "empty": np.zeros((0, 4), dtype=np.uint8),
    }
    safetensors.numpy.save_file(tensors, path, metadata={"made by": "a test"})
    file = SafeTensorsFile(path)
    assert file.metadata() == {"made by": "a test"}
    found = {one.name: one for one in file.tensors()}
    assert found.keys() == tensors.keys()
    for name, values in tensors.items():
        assert found[name].shape == values.shape
        assert bytes(found[name]) == values.tobytes()


def test_tensor_bytes_are_read_only_views_that_outlive_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    safetensors.numpy.save_file({"a": np.arange(4, dtype=np.float32)}, path)
    (tensor,) = SafeTensorsFile(path).tensors()
    first, second = np.frombuffer(tensor, "<f4"), np.frombuffer(tensor, "<f4")
    assert np.shares_memory(first, second)
    assert not first.flags.writeable
    del tensor, second
    gc.collect()
    path.unlink()
    assert first.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("reader", [GgufFile, SafeTensorsFile])
def test_errors_name_the_file_and_the_field(
    reader: type[GgufFile | SafeTensorsFile], tmp_path: Path
) -> None:
    path = tmp_path / "broken"
    path.write_bytes(b"GG")
    with pytest.raises(InputError, match=r"broken: (magic|header length): expected"):
        reader(path)
    with pytest.raises(InputError, match=r"absent: file: expected"):
        reader(tmp_path / "absent")
    with pytest.raises(InputError, match=r"file: expected"):
        reader(tmp_path)
