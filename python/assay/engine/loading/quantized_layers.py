"""Quantized checkpoints of Hugging Face folders: their layers as tensors that compute their values.

A quantized layer is stored as several tensors: codes, scales, perhaps zero points. It becomes one
tensor of the layer's name, whose values are computed when the model is loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from assay.engine.loading import dequantize_layers as layers, fp4_layers as fp4
from assay.engine.loading.model_files import Tensor
from assay.errors import InputError, UnsupportedError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_REFUSED: Final = {
    "bitsandbytes": "its codes depend on tables that the package computes",
    "aqlm": "tables of codes are not read",
    "hqq": "its layout depends on the package's version",
    "quip": "tables of codes are not read",
    "eetq": "its layout is that of a kernel",
}
"""Methods that are known and not read, and why."""


@dataclass(frozen=True, slots=True)
class Scheme:
    """How the layers of a checkpoint are quantized."""

    name: str
    codes: str
    """The suffix of the tensor that holds the codes."""
    parts: tuple[str, ...]
    """The suffixes of the other tensors of a layer."""
    shape: Callable[[layers.Parts], tuple[int, int]]
    values: Callable[[layers.Parts], npt.NDArray[np.float32]]


def scheme_of(where: str, settings: Any) -> Scheme | None:
    """The scheme that `quantization_config` describes; None if there is none."""
    if settings is None:
        return None
    if not isinstance(settings, Mapping):
        raise InputError(
            f"{where}: expected quantization_config as an object, got {type(settings).__name__}"
        )
    method = settings.get("quant_method")
    if isinstance(method, str) and method in _REFUSED:
        raise UnsupportedError(
            f"{where}: expected a quantization that is read, got {method}: {_REFUSED[method]}",
            f"one of: {', '.join(_SCHEMES)}",
        )
    if not isinstance(method, str) or method not in _SCHEMES:
        raise UnsupportedError(
            f"{where}: expected quant_method as one of {', '.join(_SCHEMES)}, got {method!r}"
        )
    return _SCHEMES[method](where, settings)


def with_computed_layers(
    where: str, scheme: Scheme, stored: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """The tensors of a checkpoint, each quantized layer as one."""
    found: dict[str, Tensor] = {}
    used: set[str] = set()
    for name, tensor in stored.items():
        layer = name.removesuffix(f".{scheme.codes}")
        if layer == name:
            continue
        names = {part: f"{layer}.{part}" for part in (scheme.codes, *scheme.parts)}
        parts = {part: stored[one] for part, one in names.items() if one in stored}
        if scheme.codes == "weight" and len(parts) == 1:
            # A layer that was left as it is.
            continue
        used.update(names.values())
        weight = f"{layer}.weight"
        try:
            shape = scheme.shape(parts)
        except KeyError as missing:
            raise InputError(
                f'{where}: expected the tensor "{layer}.{missing.args[0]}" beside "{name}", got none'
            ) from None
        except ValueError as error:
            raise InputError(
                f'{where}: expected the parts of "{layer}" to fit {scheme.name}, got: {error}'
            ) from None
        found[weight] = Tensor(
            weight, scheme.name, shape, tensor.bytes, compute=_Values(where, layer, scheme, parts)
        )
    return found | {name: one for name, one in stored.items() if name not in used}


@dataclass(frozen=True, slots=True)
class _Values:
    """Computes the values of one layer."""

    where: str
    layer: str
    scheme: Scheme
    parts: layers.Parts

    def __call__(self) -> npt.NDArray[np.float32]:
        try:
            return self.scheme.values(self.parts)
        except KeyError as missing:
            raise InputError(
                f'{self.where}: expected the tensor "{self.layer}.{missing.args[0]}", got none'
            ) from None
        except (ValueError, IndexError) as error:
            raise InputError(
                f'{self.where}: expected the parts of "{self.layer}" to fit {self.scheme.name}, '
                f"got: {error}"
            ) from None


def _fp8(where: str, settings: Mapping[str, Any]) -> Scheme:
    block = settings.get("weight_block_size")
    if block is None:
        return Scheme(
            "fp8", "weight", ("weight_scale", "input_scale"), layers.plain_shape, layers.scaled
        )
    if not isinstance(block, list) or len(block) != 2 or not all(_is_size(one) for one in block):
        raise InputError(f"{where}: expected weight_block_size as two sizes, got {block!r}")
    rows, columns = block
    return Scheme(
        "fp8 blocks",
        "weight",
        ("weight_scale_inv",),
        layers.plain_shape,
        lambda parts: layers.block_scaled(parts, rows, columns),
    )


def _awq(where: str, settings: Mapping[str, Any]) -> Scheme:
    _expect(where, settings, "bits", (4,))
    _expect(where, settings, "version", ("gemm", None))
    return Scheme("awq", "qweight", ("qzeros", "scales"), layers.awq_shape, layers.awq)


def _gptq(where: str, settings: Mapping[str, Any]) -> Scheme:
    bits = _expect(where, settings, "bits", (4, 8))
    is_v2 = _expect(where, settings, "checkpoint_format", ("gptq", "gptq_v2", None)) == "gptq_v2"
    return Scheme(
        "gptq",
        "qweight",
        ("qzeros", "scales", "g_idx"),
        lambda parts: layers.gptq_shape(parts, bits),
        lambda parts: layers.gptq(parts, bits, zero_offset=0 if is_v2 else 1),
    )


def _compressed(where: str, settings: Mapping[str, Any]) -> Scheme:
    groups = settings.get("config_groups")
    weights = [
        group.get("weights")
        for group in (groups.values() if isinstance(groups, Mapping) else ())
        if isinstance(group, Mapping)
    ]
    if len(weights) != 1 or not isinstance(weights[0], Mapping):
        raise UnsupportedError(
            f"{where}: expected one group of weights in config_groups, got {len(weights)}"
        )
    scheme = weights[0]
    kind = _expect(where, settings, "format", _COMPRESSED_FORMATS)
    if kind in _FP4_FORMATS:
        return _fp4(where, scheme, kind)
    if kind != "pack-quantized":
        rest = ("weight_scale", "input_scale", "weight_zero_point")
        _expect(where, scheme, "num_bits", (8,))
        _expect(where, scheme, "symmetric", (True, None))
        return Scheme(kind, "weight", rest, layers.plain_shape, layers.scaled)
    bits = _expect(where, scheme, "num_bits", (4, 8))
    _expect(where, scheme, "symmetric", (True,))
    return Scheme(
        kind,
        "weight_packed",
        ("weight_scale", "weight_shape", "weight_g_idx"),
        lambda parts: layers.packed_shape(parts, bits),
        lambda parts: layers.packed(parts, bits),
    )


def _fp4(where: str, scheme: Mapping[str, Any], kind: str) -> Scheme:
    """4-bit floats of compressed-tensors; scales of activations are not used."""
    group, rest, values = _FP4_FORMATS[kind]
    _expect(where, scheme, "num_bits", (4,))
    _expect(where, scheme, "type", ("float",))
    _expect(where, scheme, "group_size", (group,))
    return Scheme(
        f"packed {kind.partition('-')[0]}",
        "weight_packed",
        (*rest, "input_global_scale"),
        lambda parts: fp4.fp4_shape(parts, "weight_packed", group),
        values,
    )


def _modelopt(where: str, settings: Mapping[str, Any]) -> Scheme:
    """NVIDIA's ModelOpt; scales of activations are not used."""
    algorithm = _expect(where, settings, "quant_algo", ("NVFP4", "FP8"))
    if algorithm == "FP8":
        return _fp8(where, {})
    return Scheme(
        "modelopt nvfp4",
        "weight",
        ("weight_scale", "weight_scale_2", "input_scale"),
        lambda parts: fp4.fp4_shape(parts, "weight", fp4.NVFP4_GROUP),
        fp4.nvfp4_multiplied,
    )


_FP4_FORMATS: Final[dict[str, tuple[int, tuple[str, ...], Callable[[layers.Parts], Any]]]] = {
    "nvfp4-pack-quantized": (
        fp4.NVFP4_GROUP,
        ("weight_scale", "weight_global_scale"),
        fp4.nvfp4_divided,
    ),
    "mxfp4-pack-quantized": (fp4.MXFP4_GROUP, ("weight_scale",), fp4.mxfp4),
}
_COMPRESSED_FORMATS: Final = (
    *("float-quantized", "int-quantized", "pack-quantized"),
    *_FP4_FORMATS,
)

_SCHEMES: Final[dict[str, Callable[[str, Mapping[str, Any]], Scheme]]] = {
    "fp8": _fp8,
    "awq": _awq,
    "gptq": _gptq,
    "compressed-tensors": _compressed,
    "modelopt": _modelopt,
}


def is_cache_scale(name: str) -> bool:
    """Whether a tensor is a scale for an 8-bit KV cache; the cache has scales of its own here.

    >>> is_cache_scale("model.layers.0.self_attn.k_proj.k_scale")
    True
    """
    return name.endswith((".k_scale", ".v_scale"))


def _expect(where: str, settings: Mapping[str, Any], key: str, known: tuple[Any, ...]) -> Any:
    value = settings.get(key)
    if isinstance(value, bool) != any(isinstance(one, bool) for one in known) or value not in known:
        if value is None and None in known:
            return None
        names = ", ".join(str(one) for one in known if one is not None)
        raise UnsupportedError(
            f"{where}: expected quantization_config {key} as one of {names}, got {value!r}"
        )
    return value


def _is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 1 << 20
