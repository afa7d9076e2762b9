"""GGUF files in formats without kernels, and models that are split into several files."""

from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from gguf_models import ARCHITECTURES, small, write
from numpy.typing import NDArray

from assay.engine import Engine
from assay.engine.loading import ModelFiles, exact_q8_0, open_model
from assay.errors import InputError

QUANTIZED = ("q5_0", "q5_1", "iq4_nl", "q2_k", "q3_k", "iq4_xs")


def quantized_tensors(model: ModelFiles, name: str) -> dict[str, NDArray[np.uint8]]:
    """Random blocks of a format for every matrix whose rows fill whole blocks, by stored names."""
    kind = gguf.GGMLQuantizationType[name.upper()]
    values, size = gguf.GGML_QUANT_SIZES[kind]
    names = gguf.get_tensor_name_map(ARCHITECTURES[model.architecture], 64)
    random = np.random.default_rng(7)
    found = {}
    for name_, tensor in model.tensors.items():
        if len(tensor.shape) != 2 or "mlp" not in name_:
            continue
        rows, columns = tensor.shape
        blocks = random.integers(0, 256, (rows * columns // values, size), np.uint8)
        scale = np.array([0.01], "<f2").view(np.uint8)
        # The scales of every format, so that no random one is infinite.
        for first in {"q2_k": (80, 82), "q3_k": (108,), "mxfp4": ()}.get(name, (0,)):
            blocks[:, first : first + 2] = scale
        if name in ("q5_1", "q5_k"):
            blocks[:, 2:4] = scale
        if name == "mxfp4":
            blocks[:, 0] = 120
        stored = names.get_name(name_, try_suffixes=(".weight",))
        assert stored is not None
        found[stored] = blocks.reshape(rows, -1)
    return found


def write_quantized(path: Path, model: ModelFiles, name: str, *, dense: bool) -> None:
    """The model with random blocks in its MLPs, as such or as the values they stand for."""
    kind = gguf.GGMLQuantizationType[name.upper()]
    blocks = quantized_tensors(model, name)
    plain = gguf.GGUFWriter.add_tensor

    def add(writer: Any, stored: str, values: NDArray[Any], **options: Any) -> None:
        if stored not in blocks:
            plain(writer, stored, values, **options)
        elif dense and name in exact_q8_0.FORMATS:
            exact = exact_q8_0.as_q8_0(blocks[stored], name).reshape(len(blocks[stored]), -1)
            plain(writer, stored, exact, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
        elif dense:
            exact = gguf.quants.dequantize(blocks[stored], kind).astype(np.float16)
            plain(writer, stored, exact)
        else:
            plain(writer, stored, blocks[stored], raw_dtype=kind)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gguf.GGUFWriter, "add_tensor", add)
        write(path, model)


@pytest.mark.parametrize("name", QUANTIZED)
def test_formats_without_kernels_are_computed_as_f16_or_exactly_as_q8_0(
    name: str, tmp_path: Path
) -> None:
    model = small("llama")
    write_quantized(tmp_path / "blocks.gguf", model, name, dense=False)
    write_quantized(tmp_path / "dense.gguf", model, name, dense=True)
    logits = []
    for file in ("blocks.gguf", "dense.gguf"):
        with Engine.load(tmp_path / file) as engine:
            logits.append(engine.logits("abc"))
            notes = engine.describe()["notes"]
            format = "q8_0, which is exact" if name in exact_q8_0.FORMATS else "f16"
            assert (f"{name} computed as {format}" in notes) == (file == "blocks.gguf")
    assert np.array_equal(*logits)


@pytest.mark.parametrize("name", ["q5_k", "mxfp4"])
def test_formats_with_kernels_are_computed_as_they_are(name: str, tmp_path: Path) -> None:
    model = small("llama")
    write_quantized(tmp_path / "blocks.gguf", model, name, dense=False)
    write_quantized(tmp_path / "dense.gguf", model, name, dense=True)
    with (
        Engine.load(tmp_path / "blocks.gguf") as blocks,
        Engine.load(tmp_path / "dense.gguf") as dense,
    ):
        assert name not in " ".join(blocks.describe()["notes"])
        got, expected = blocks.logits("abc"), dense.logits("abc")
        # Activations are rounded to 8 bits beside quantized weights.
        assert 0 < np.linalg.norm(got - expected) / np.linalg.norm(expected) < 2e-2


def test_a_split_model_is_read_from_all_its_parts(tmp_path: Path) -> None:
    model = small("qwen2")
    write(tmp_path / "whole.gguf", model)
    expected = open_model(tmp_path / "whole.gguf")
    parts = split(tmp_path, model, 3)
    found = open_model(parts[0])
    assert found.tensors.keys() == expected.tensors.keys()
    for name, tensor in found.tensors.items():
        assert tensor.bytes == expected.tensors[name].bytes
    with pytest.raises(InputError, match="expected the first of 3 parts, got part 2"):
        open_model(parts[1])
    parts[0].rename(tmp_path / "renamed.gguf")
    with pytest.raises(InputError, match="ends with -00001-of-00003"):
        open_model(tmp_path / "renamed.gguf")
    (tmp_path / "renamed.gguf").rename(parts[0])
    content = parts[2].read_bytes()
    parts[2].write_bytes(parts[1].read_bytes())
    with pytest.raises(InputError, match=r"expected split\.no 2 of 3, got 1 of 3"):
        open_model(parts[0])
    parts[2].write_bytes(content)
    parts[1].unlink()
    with pytest.raises(InputError, match="expected part 2 of 3 beside the first"):
        open_model(parts[0])


def split(folder: Path, model: ModelFiles, count: int) -> list[Path]:
    """The model in several files, by the gguf package's own writer."""
    plain = gguf.GGUFWriter.__init__
    tensors = len(model.tensors)

    def begin(writer: Any, path: Path, architecture: str) -> None:
        plain(writer, path, architecture, split_max_tensors=-(-tensors // count))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gguf.GGUFWriter, "__init__", begin)
        write(folder / "model.gguf", model)
    parts = sorted(folder.glob("model-*-of-*.gguf"))
    assert len(parts) == count
    return parts
