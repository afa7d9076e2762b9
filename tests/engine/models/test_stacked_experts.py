"""Experts that are stored as one tensor, in MXFP4 as gpt-oss has them on Hugging Face."""

import gguf
import numpy as np
import pytest

from assay.engine import Engine
from assay.engine.architectures.decoder import StackedLinear
from assay.engine.architectures.registry import ARCHITECTURES
from assay.engine.loading.configuration import validated
from assay.engine.loading.model_files import ModelFiles, Tensor
from assay.engine.loading.synthetic import synthetic_model
from assay.engine.models.stacked_experts import mxfp4_values, stacked_blocks, stacked_values
from assay.errors import AssayError
from chosen_device import NAME

MXFP4 = {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn"]}


def quantized(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Blocks with adjacent values in a byte, and scales, of the nearest MXFP4 values."""
    levels = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    groups = values.reshape(*values.shape[:-1], -1, 32)
    largest = np.abs(groups).max(axis=-1)
    exponent = np.floor(np.log2(np.maximum(largest, 1e-30))).astype(int) - 2
    scaled = np.abs(groups) / 2.0 ** exponent[..., None]
    codes = np.abs(scaled[..., None] - levels).argmin(axis=-1) + 8 * (groups < 0)
    return (codes[..., ::2] | codes[..., 1::2] << 4).astype(np.uint8), (exponent + 127).astype(
        np.uint8
    )


def test_values_are_those_of_the_gguf_library() -> None:
    generator = np.random.default_rng(0)
    blocks = generator.integers(0, 256, (4, 2, 16), np.uint8)
    scales = generator.integers(100, 140, (4, 2), np.uint8)
    # GGML keeps value j and value j + 16 in a byte, behind the scale.
    codes = np.stack([blocks & 15, blocks >> 4], axis=-1).reshape(4, 2, 32)
    packed = codes[..., :16] | codes[..., 16:] << 4
    stored = np.concatenate([scales[..., None], packed], axis=-1).astype(np.uint8).reshape(4, -1)
    expected = gguf.dequantize(stored, gguf.GGMLQuantizationType.MXFP4)
    np.testing.assert_array_equal(mxfp4_values(blocks, scales), expected)


def test_blocks_are_those_of_the_gguf_library() -> None:
    generator = np.random.default_rng(1)
    linear = StackedLinear("up", 3, 6, 64, packed=True, interleaved=True)
    blocks = generator.integers(0, 256, (3, 6, 2, 16), np.uint8)
    scales = generator.integers(100, 140, (3, 6, 2), np.uint8)
    tensors = {
        "up_blocks": tensor_of("up_blocks", "u8", blocks),
        "up_scales": tensor_of("up_scales", "u8", scales),
    }
    read = gguf.dequantize(stacked_blocks(linear, tensors), gguf.GGMLQuantizationType.MXFP4)
    np.testing.assert_array_equal(read, stacked_values(linear, tensors))


def test_packed_experts_equal_unpacked_ones_of_the_same_values() -> None:
    """Blocks stay as stored, 4.25 bits a weight, on every device."""
    plain = synthetic_model("gpt_oss")
    config, _ = validated("config.json", "gpt_oss", {**plain.config, "quantization_config": MXFP4})
    packed, exact = dict(plain.tensors), dict(plain.tensors)
    for name, tensor in plain.tensors.items():
        if not name.endswith(("gate_up_proj", "down_proj")):
            continue
        blocks, scales = quantized(tensor.to_float32().swapaxes(1, 2))
        values = np.ascontiguousarray(mxfp4_values(blocks, scales).swapaxes(1, 2))
        exact[name] = tensor_of(name, "f32", values)
        packed.pop(name)
        packed[f"{name}_blocks"] = tensor_of(f"{name}_blocks", "u8", blocks)
        packed[f"{name}_scales"] = tensor_of(f"{name}_scales", "u8", scales)
    shapes = ARCHITECTURES["gpt_oss"].decoder(config).tensors()
    assert {name: tensor.shape for name, tensor in packed.items()} == shapes
    outputs: list[np.ndarray] = []
    sizes: list[int] = []
    for label, settings, tensors in (("exact", plain.config, exact), ("packed", config, packed)):
        files = ModelFiles(
            name=label,
            path=None,
            architecture="gpt_oss",
            config=settings,
            tensors=tensors,
            rope_pairs="half",
            make_tokenizer=plain.make_tokenizer,
        )
        with Engine.load(files, NAME) as engine:
            outputs.append(engine.logits("Gravity is"))
            sizes.append(engine.model.weight_bytes)
            assert not [note for note in engine.model.notes if "mxfp4" in note]
    experts = sum(
        tensor.bytes.nbytes for name, tensor in packed.items() if name not in plain.tensors
    )
    if NAME == "cpu":
        # In the memory of the device as in the file: 17 bytes for 32 weights, instead of 128.
        assert sizes[0] - sizes[1] == experts * (128 - 17) // 17
    # Kernels of quantized weights round x, not the weights.
    np.testing.assert_allclose(outputs[1], outputs[0], atol=2e-2 * np.abs(outputs[0]).max())


def tensor_of(name: str, format: str, values: np.ndarray) -> Tensor:
    data = memoryview(np.ascontiguousarray(values).view(np.uint8).data).cast("B")
    return Tensor(name, format, values.shape, data)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"quantization_config": {"quant_method": "gptq"}}, "mxfp4"),
        ({"quantization_config": 4}, "mxfp4"),
        ({"quantization_config": MXFP4, "intermediate_size": 40}, "intermediate_size"),
        ({"swiglu_limit": 5.0}, "swiglu_limit"),
        ({"swiglu_alpha": 1.0}, "swiglu_alpha"),
    ],
)
def test_what_the_kernels_do_not_have_is_refused(changes: dict, named: str) -> None:
    given = {**synthetic_model("gpt_oss").config, **changes}
    with pytest.raises(AssayError, match=named):
        ARCHITECTURES["gpt_oss"].decoder(validated("config.json", "gpt_oss", given)[0])
