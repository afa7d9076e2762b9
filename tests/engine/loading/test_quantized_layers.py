"""Quantized Hugging Face checkpoints: codes packed by loops that follow the formats' definitions."""

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from assay.engine import Engine
from assay.engine.loading import fp4_layers, open_model
from assay.engine.loading.dequantize_layers import _e4m3_table
from assay.engine.loading.model_files import Tensor
from assay.engine.loading.synthetic import write_folder
from assay.errors import AssayError, InputError, UnsupportedError

GROUP = 64
CONFIG = {"hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 1, "head_dim": 32}


def e4m3(code: int) -> float:
    """The value of an 8-bit float, from the definition of the format (OCP, 2023)."""
    sign, exponent, fraction = code >> 7, code >> 3 & 15, code & 7
    if exponent == 15 and fraction == 7:
        return float("nan")
    value = 2.0**-6 * fraction / 8 if exponent == 0 else 2.0 ** (exponent - 7) * (1 + fraction / 8)
    return -value if sign else value


def random_codes(shape: tuple[int, ...], most: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, most, shape)


def pack(codes: list[int], bits: int, order: list[int]) -> int:
    """One 32-bit word: the code at place i is the one of column order[i]."""
    word = sum(codes[column] << (bits * place) for place, column in enumerate(order))
    return word - (1 << 32) if word >= 1 << 31 else word


def packed_rows(codes: np.ndarray, bits: int, order: list[int] | None = None) -> np.ndarray:
    """Codes packed along the last axis."""
    count = 32 // bits
    places = order or list(range(count))
    return np.array(
        [
            [pack(row[at : at + count], bits, places) for at in range(0, len(row), count)]
            for row in codes.tolist()
        ],
        np.int32,
    )


def scales_of(shape: tuple[int, ...], seed: int) -> np.ndarray:
    return np.random.default_rng(seed).uniform(0.001, 0.01, shape).astype(np.float16)


def make_fp8_blocks(rows: int, columns: int, seed: int) -> tuple[dict[str, Any], np.ndarray]:
    codes = random_codes((rows, columns), 120, seed).astype(np.uint8)
    grid = -(-rows // 128), -(-columns // 128)
    scale = scales_of(grid, seed).astype(np.float32)
    values = np.empty((rows, columns), np.float32)
    for row in range(rows):
        for column in range(columns):
            values[row, column] = e4m3(int(codes[row, column])) * scale[row // 128, column // 128]
    return {"weight": ("F8_E4M3", codes), "weight_scale_inv": scale}, values


def make_fp8_channels(rows: int, columns: int, seed: int) -> tuple[dict[str, Any], np.ndarray]:
    codes = random_codes((rows, columns), 120, seed).astype(np.uint8)
    scale = scales_of((rows, 1), seed).astype(np.float32)
    values = np.array([[e4m3(code) for code in row] for row in codes.tolist()], np.float32) * scale
    return {"weight": ("F8_E4M3", codes), "weight_scale": scale}, values


def make_int8(rows: int, columns: int, seed: int) -> tuple[dict[str, Any], np.ndarray]:
    codes = (random_codes((rows, columns), 255, seed) - 127).astype(np.int8)
    scale = scales_of((rows, 1), seed)
    return {"weight": codes, "weight_scale": scale}, codes * scale.astype(np.float32)


def make_packed(rows: int, columns: int, seed: int) -> tuple[dict[str, Any], np.ndarray]:
    codes = random_codes((rows, columns), 16, seed)
    scale = scales_of((rows, columns // GROUP), seed)
    values = (codes - 8).astype(np.float32) * np.repeat(scale.astype(np.float32), GROUP, axis=1)
    parts = {
        "weight_packed": packed_rows(codes, 4),
        "weight_scale": scale,
        "weight_shape": np.array([rows, columns], np.int64),
    }
    return parts, values


def e2m1(code: int) -> float:
    """The value of a 4-bit float, from the definition of the format (OCP, 2023)."""
    sign, exponent, fraction = code >> 3, code >> 1 & 3, code & 1
    value = fraction / 2 if exponent == 0 else 2.0 ** (exponent - 1) * (1 + fraction / 2)
    return -value if sign else value


def e2m1_codes(rows: int, columns: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Bytes of two codes, the first in the lower half, and what they stand for."""
    codes = random_codes((rows, columns), 16, seed)
    values = np.array([[e2m1(code) for code in row] for row in codes.tolist()], np.float32)
    return (codes[:, ::2] | codes[:, 1::2] << 4).astype(np.uint8), values


def make_nvfp4(rows: int, columns: int, seed: int) -> tuple[dict[str, Any], np.ndarray]:
    packed, values = e2m1_codes(rows, columns, seed)
    codes = random_codes((rows, columns // 16), 120, seed + 1).astype(np.uint8)
    scale = np.array([[e4m3(code) for code in row] for row in codes.tolist()], np.float32)
    divisor = np.array([7013.0], np.float32)
    parts = {
        "weight_packed": packed,
        "weight_scale": ("F8_E4M3", codes),
        "weight_global_scale": divisor,
        "input_global_scale": np.array([3.0], np.float32),
    }
    return parts, values * np.repeat(scale / divisor, 16, axis=1)


def make_modelopt(rows: int, columns: int, seed: int) -> tuple[dict[str, Any], np.ndarray]:
    packed, values = e2m1_codes(rows, columns, seed)
    codes = random_codes((rows, columns // 16), 120, seed + 1).astype(np.uint8)
    scale = np.array([[e4m3(code) for code in row] for row in codes.tolist()], np.float32)
    factor = np.array(0.000143, np.float32)
    parts = {
        "weight": packed,
        "weight_scale": ("F8_E4M3", codes),
        "weight_scale_2": factor,
        "input_scale": np.array(0.01, np.float32),
    }
    return parts, values * np.repeat(scale * factor, 16, axis=1)


def make_mxfp4(rows: int, columns: int, seed: int) -> tuple[dict[str, Any], np.ndarray]:
    packed, values = e2m1_codes(rows, columns, seed)
    exponents = random_codes((rows, columns // 32), 6, seed + 1) + 117
    scale = np.ldexp(np.float32(1), exponents - 127).astype(np.float32)
    parts = {"weight_packed": packed, "weight_scale": exponents.astype(np.uint8)}
    return parts, values * np.repeat(scale, 32, axis=1)


def make_awq(rows: int, columns: int, seed: int) -> tuple[dict[str, Any], np.ndarray]:
    order = [0, 2, 4, 6, 1, 3, 5, 7]
    codes = random_codes((columns, rows), 16, seed)
    zeros = random_codes((columns // GROUP, rows), 16, seed + 1)
    scale = scales_of((columns // GROUP, rows), seed)
    values = np.empty((rows, columns), np.float32)
    for column in range(columns):
        group = column // GROUP
        values[:, column] = (codes[column] - zeros[group]) * scale[group].astype(np.float32)
    parts = {
        "qweight": packed_rows(codes, 4, order),
        "qzeros": packed_rows(zeros, 4, order),
        "scales": scale,
    }
    return parts, values


def make_gptq(rows: int, columns: int, seed: int) -> tuple[dict[str, Any], np.ndarray]:
    codes = random_codes((columns, rows), 16, seed)
    zeros = random_codes((columns // GROUP, rows), 15, seed + 1)
    scale = scales_of((columns // GROUP, rows), seed)
    # Activation order: groups are scattered over the inputs.
    group = [column // GROUP for column in range(columns)]
    random.Random(seed).shuffle(group)
    values = np.empty((rows, columns), np.float32)
    for column in range(columns):
        scaled = scale[group[column]].astype(np.float32)
        values[:, column] = (codes[column] - (zeros[group[column]] + 1)) * scaled
    parts = {
        "qweight": packed_rows(codes.T, 4).T.copy(),
        "qzeros": packed_rows(zeros, 4),
        "scales": scale,
        "g_idx": np.array(group, np.int32),
    }
    return parts, values


def compressed(format_: str, bits: int, kind: str) -> dict[str, Any]:
    weights = {"num_bits": bits, "type": kind, "symmetric": True, "strategy": "channel"}
    if kind == "float" and bits == 4:
        weights |= {"group_size": 16 if format_.startswith("nv") else 32}
    groups = {"group_0": {"targets": ["Linear"], "weights": weights}}
    return {"quant_method": "compressed-tensors", "format": format_, "config_groups": groups}


SCHEMES: dict[str, tuple[Any, dict[str, Any]]] = {
    "fp8 blocks": (make_fp8_blocks, {"quant_method": "fp8", "weight_block_size": [128, 128]}),
    "fp8": (make_fp8_channels, {"quant_method": "fp8"}),
    "awq": (make_awq, {"quant_method": "awq", "bits": 4, "group_size": GROUP, "version": "gemm"}),
    "gptq": (make_gptq, {"quant_method": "gptq", "bits": 4, "desc_act": True}),
    "float-quantized": (make_fp8_channels, compressed("float-quantized", 8, "float")),
    "int-quantized": (make_int8, compressed("int-quantized", 8, "int")),
    "pack-quantized": (make_packed, compressed("pack-quantized", 4, "int")),
    "packed nvfp4": (make_nvfp4, compressed("nvfp4-pack-quantized", 4, "float")),
    "packed mxfp4": (make_mxfp4, compressed("mxfp4-pack-quantized", 4, "float")),
    "modelopt nvfp4": (make_modelopt, {"quant_method": "modelopt", "quant_algo": "NVFP4"}),
}


def write_tensors(path: Path, tensors: dict[str, Any]) -> None:
    """A safetensors file; 8-bit floats are given as their codes."""
    plain = {name: one[1] if isinstance(one, tuple) else one for name, one in tensors.items()}
    save_file({name: np.ascontiguousarray(one) for name, one in plain.items()}, path)
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    for name, one in tensors.items():
        if isinstance(one, tuple):
            header[name]["dtype"] = one[0]
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data[8 + size :])


def write_models(folder: Path, scheme: str) -> tuple[Path, Path]:
    """The same model with quantized MLPs, and with the values that they stand for."""
    make, settings = SCHEMES[scheme]
    quantized, dense = folder / "quantized", folder / "dense"
    for one in (quantized, dense):
        write_folder(one, "llama", config=CONFIG)
    tensors: dict[str, Any] = load_file(quantized / "model.safetensors")
    exact = dict(tensors)
    for seed, name in enumerate(one for one in exact if ".mlp." in one):
        rows, columns = exact[name].shape
        parts, values = make(rows, columns, seed)
        del tensors[name]
        base = name.removesuffix(".weight")
        tensors |= {f"{base}.{suffix}": part for suffix, part in parts.items()}
        exact[name] = values
    write_tensors(quantized / "model.safetensors", tensors)
    save_file(exact, dense / "model.safetensors")
    config = json.loads((quantized / "config.json").read_text())
    config["quantization_config"] = settings
    (quantized / "config.json").write_text(json.dumps(config))
    return quantized, dense


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_quantized_checkpoint_is_the_model_of_its_values(scheme: str, tmp_path: Path) -> None:
    quantized, dense = write_models(tmp_path, scheme)
    files, exact = open_model(quantized), open_model(dense)
    assert files.tensors.keys() == exact.tensors.keys()
    for name, tensor in files.tensors.items():
        values = tensor.to_float32() if tensor.compute is None else tensor.compute()
        assert np.array_equal(values, exact.tensors[name].to_float32()), name
    with Engine.load(files, weight_format="f16") as engine:
        expected = engine.logits("abc")
    with Engine.load(files) as engine:
        assert f"{scheme} computed as f16" in engine.describe()["notes"]
        assert np.allclose(engine.logits("abc"), expected, atol=1e-2)


def test_four_bit_floats_have_the_values_of_compressed_tensors(root: Path) -> None:
    """Values that the library computed in float32, bit by bit."""
    recorded = json.loads((root / "tests/data/fp4_layers.json").read_text())
    codes = tensor("codes", "u8", bytes.fromhex(recorded["codes"]), recorded["shape"])
    scale = tensor("scale", "f8_e4m3", bytes.fromhex(recorded["nvfp4_scales"]), (3, 4))
    divisor = tensor("divisor", "f32", np.float32(recorded["divisor"]).tobytes(), (1,))
    parts = {"weight_packed": codes, "weight_scale": scale, "weight_global_scale": divisor}
    assert fp4_layers.nvfp4_divided(parts).tobytes().hex() == recorded["nvfp4_values"]
    exponents = tensor("scale", "u8", bytes.fromhex(recorded["mxfp4_scales"]), (3, 2))
    parts = {"weight_packed": codes, "weight_scale": exponents}
    assert fp4_layers.mxfp4(parts).tobytes().hex() == recorded["mxfp4_values"]


def tensor(name: str, format_: str, data: bytes, shape: Sequence[int]) -> Tensor:
    return Tensor(name, format_, tuple(shape), memoryview(data))


def test_modelopt_may_state_the_quantization_in_a_file_of_its_own(tmp_path: Path) -> None:
    quantized, dense = write_models(tmp_path, "modelopt nvfp4")
    config = json.loads((quantized / "config.json").read_text())
    del config["quantization_config"]
    (quantized / "config.json").write_text(json.dumps(config))
    stated = {"quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8"}}
    (quantized / "hf_quant_config.json").write_text(json.dumps(stated))
    assert open_model(quantized).tensors.keys() == open_model(dense).tensors.keys()


def test_scales_of_a_cache_are_named_and_not_used(tmp_path: Path) -> None:
    quantized, _ = write_models(tmp_path, "int-quantized")
    path = quantized / "model.safetensors"
    scale = {"model.layers.0.self_attn.k_proj.k_scale": np.ones(1, np.float32)}
    save_file(load_file(path) | scale, path)
    notes = open_model(quantized).notes
    assert [note for note in notes if "1 scales of an 8-bit KV cache are not used" in note]


def test_experts_in_mxfp4_are_read_from_a_folder(tmp_path: Path) -> None:
    """The one architecture that has a quantization of its own."""
    settings = {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn"]}
    write_folder(tmp_path, "gpt_oss", config={"quantization_config": settings})
    names = open_model(tmp_path).tensors.keys()
    assert "model.layers.0.mlp.experts.gate_up_proj_blocks" in names


def test_every_code_of_an_8_bit_float() -> None:
    found, expected = _e4m3_table().tolist(), [e4m3(code) for code in range(256)]
    assert [repr(abs(one)) for one in found] == [repr(abs(one)) for one in expected]
    assert [one < 0 for one in found] == [one < 0 for one in expected]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "got bitsandbytes"),
        ({"quant_method": "unheard-of"}, "quant_method as one of fp8"),
        ({"quant_method": ["fp8"]}, "quant_method as one of fp8"),
        ({"quant_method": "gptq", "bits": 3}, "bits as one of 4, 8, got 3"),
        ({"quant_method": "awq", "bits": 4, "version": "gemv"}, "version as one of gemm"),
        ({"quant_method": "fp8", "weight_block_size": [0, 128]}, "weight_block_size"),
        ({"quant_method": "fp8", "weight_block_size": "128"}, "weight_block_size"),
        ({"quant_method": "compressed-tensors", "format": "x", "config_groups": {}}, "one group"),
        (compressed("mxfp6-pack-quantized", 6, "float"), "format as one of float-quantized"),
        (compressed("nvfp4-pack-quantized", 8, "float"), "num_bits as one of 4, got 8"),
        ({"quant_method": "modelopt", "quant_algo": "W4A8_AWQ"}, "quant_algo as one of NVFP4"),
        ("int4", "as an object"),
    ],
)
def test_other_quantizations_are_refused_by_name(
    settings: Any, message: str, tmp_path: Path
) -> None:
    write_folder(tmp_path, "llama", config=CONFIG)
    config = json.loads((tmp_path / "config.json").read_text())
    config["quantization_config"] = settings
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises((UnsupportedError, InputError), match=message):
        open_model(tmp_path)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_damaged_parts_give_typed_errors(scheme: str, tmp_path: Path) -> None:
    quantized, _ = write_models(tmp_path, scheme)
    path = quantized / "model.safetensors"
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    chance = random.Random(3)
    parts = [name for name in header if ".mlp." in name and not name.endswith("input_scale")]
    refused = 0
    for name in chance.sample(parts, 5):
        for change in ("missing", "shape", "type"):
            changed = json.loads(json.dumps(header))
            if change == "missing":
                changed[f"{name}.gone"] = changed.pop(name)
            elif change == "shape":
                changed[name]["shape"] = [1, *changed[name]["shape"]]
            else:
                halves = {"I32": "F32", "F16": "I16", "F32": "I32", "I64": "F64", "I8": "U8"}
                changed[name]["dtype"] = halves.get(changed[name]["dtype"], "U8")
            text = json.dumps(changed).encode()
            path.write_bytes(len(text).to_bytes(8, "little") + text + data[8 + size :])
            refused += _is_refused(quantized)
    # Some changes mean the same: a scale with another extent of one.
    assert refused >= 8


def _is_refused(folder: Path) -> bool:
    """Whether a model is refused with a typed error; any other error fails the test."""
    try:
        for tensor in open_model(folder).tensors.values():
            if tensor.compute is not None:
                tensor.compute()
    except AssayError:
        return True
    return False
