"""From the tensors of a GGUF file to those of a Hugging Face model: split, reshaped, joined.

llama.cpp's converter stacks the matrices of all experts, splits the up projection of latent attention
and stores the decay of a state-space layer instead of its logarithm; this undoes it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from assay.engine.loading.gguf_names import (
    EXPERT_NAMES,
    LONG_FACTORS,
    SHORT_FACTORS,
    hugging_face_name,
)
from assay.engine.loading.model_files import Tensor
from assay.engine.loading.tensor_values import tensor_values
from assay.errors import InputError
from assay.lazy_import import np

if TYPE_CHECKING:
    import numpy.typing as npt

    from assay._native import StoredTensor

PERMUTED: Final = ("llama", "granite", "smollm3")
"""Architectures for which llama.cpp permutes the rows of query and key matrices."""

_ROPE_TENSOR: Final = re.compile(r"\.self_attn\.[qk]_proj\.(weight|bias)$")
_STACKED: Final = re.compile(r"blk\.(0|[1-9][0-9]{0,5})\.(ffn_(?:gate|up|down)_exps)\.weight")
_SINGLE: Final = re.compile(
    r"blk\.(0|[1-9][0-9]{0,5})\.(ffn_(?:gate|up|down))\.(0|[1-9][0-9]{0,3})\.weight"
)
"""The name of one expert in the first files of Mixtral."""


def model_tensors(
    where: str, architecture: str, config: Mapping[str, Any], stored: Iterable[StoredTensor]
) -> dict[str, Tensor]:
    """The tensors of a file under their Hugging Face names."""
    tensors: dict[str, Tensor] = {}
    for one in stored:
        if one.name in (LONG_FACTORS, SHORT_FACTORS):
            # They are part of the configuration.
            continue
        for tensor in _tensors(where, architecture, one):
            tensors[tensor.name] = _reshaped(architecture, tensor)
    if architecture == "deepseek2":
        _join_latent_projections(where, config, tensors)
    return tensors


def _tensors(where: str, architecture: str, stored: StoredTensor) -> Iterator[Tensor]:
    names = EXPERT_NAMES.get(architecture)
    if names is not None and (matched := _STACKED.fullmatch(stored.name)):
        yield from _experts(where, stored, names[matched[2]].format(matched[1], "{}"))
        return
    if names is not None and (matched := _SINGLE.fullmatch(stored.name)):
        name = names[f"{matched[2]}_exps"].format(matched[1], matched[3])
        yield Tensor.stored(f"{name}.weight", stored)
        return
    name = hugging_face_name(where, architecture, stored.name)
    permuted = architecture in PERMUTED and _ROPE_TENSOR.search(name) is not None
    yield Tensor.stored(name, stored, permuted=permuted)


def _experts(where: str, stored: StoredTensor, name: str) -> Iterator[Tensor]:
    """The matrices of a stack, as views of it."""
    whole = Tensor.stored(stored.name, stored)
    if len(whole.shape) != 3:
        raise InputError(
            f'{where}: expected tensor "{stored.name}" with 3 axes, got shape {list(whole.shape)}'
        )
    count, *shape = whole.shape
    data = whole.bytes.cast("B")
    size = data.nbytes // max(count, 1)
    for expert in range(count):
        yield Tensor(
            f"{name.format(expert)}.weight",
            whole.format,
            (shape[0], shape[1]),
            data[expert * size : (expert + 1) * size],
        )


def _reshaped(architecture: str, tensor: Tensor) -> Tensor:
    """The same numbers in the shape of Hugging Face's file."""
    if architecture == "qwen2moe" and tensor.name.endswith(".shared_expert_gate.weight"):
        # A row, which some files store as a vector.
        return replace(tensor, shape=(1, math.prod(tensor.shape)))
    if architecture != "mamba2":
        return tensor
    if tensor.name.endswith(".A_log"):
        return _changed(tensor, lambda values: np.log(-values).reshape(-1))
    if tensor.name.endswith((".D", ".mixer.norm.weight")):
        return replace(tensor, shape=(math.prod(tensor.shape),))
    if tensor.name.endswith(".conv1d.weight") and len(tensor.shape) == 2:
        return replace(tensor, shape=(tensor.shape[0], 1, tensor.shape[1]))
    return tensor


def _changed(
    tensor: Tensor, change: Callable[[npt.NDArray[np.float32]], npt.NDArray[np.float32]]
) -> Tensor:
    """A small tensor with other values, in single precision."""
    with np.errstate(all="ignore"):
        values = np.ascontiguousarray(change(tensor.to_float32()), np.float32)
    return Tensor(tensor.name, "f32", values.shape, memoryview(values.data).cast("B"))


def _join_latent_projections(
    where: str, config: Mapping[str, Any], tensors: dict[str, Tensor]
) -> None:
    """Keys and values from the latent as one matrix; files have it split, keys transposed."""
    for name in [name for name in tensors if name.endswith(".k_b_proj.weight")]:
        keys, base = tensors.pop(name), name.removesuffix(".k_b_proj.weight")
        values = tensors.pop(f"{base}.v_b_proj.weight", None)
        heads, rank = config["num_attention_heads"], config["kv_lora_rank"]
        nope, value = config["qk_nope_head_dim"], config["v_head_dim"]
        expected = {"k_b": (heads, rank, nope), "v_b": (heads, value, rank)}
        got = {"k_b": keys.shape, "v_b": None if values is None else values.shape}
        if values is None or got != expected:
            raise InputError(
                f'{where}: expected "{base}" with k_b {expected["k_b"]} and v_b {expected["v_b"]}, '
                f"got {got['k_b']} and {got['v_b']}"
            )
        joined = f"{base}.kv_b_proj.weight"
        tensors[joined] = Tensor(
            joined,
            keys.format,
            (heads * (nope + value), rank),
            keys.bytes,
            compute=_Joined(keys, values),
        )


class _Joined:
    """Computes the rows of every head: those of its keys, then those of its values."""

    def __init__(self, keys: Tensor, values: Tensor) -> None:
        self._keys = keys
        self._values = values

    def __call__(self) -> npt.NDArray[np.float32]:
        keys = tensor_values(self._keys).swapaxes(1, 2)
        joined = np.concatenate([keys, tensor_values(self._values)], axis=1)
        return np.ascontiguousarray(joined.reshape(-1, joined.shape[-1]))
