"""The same trunk by PyTorch, eager or through `torch.compile`."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np

from assay.runtime.hardware import Device
from assay.workloads.contract import Arrays, DataSet, Missing, Program, WorkloadRival
from assay.workloads.protein.configuration import Trunk
from assay.workloads.protein.weights import EPSILON, TriangleWeights, TrunkWeights


class _HasWeights(Protocol):
    @property
    def weights(self) -> TrunkWeights: ...


class PyTorchRival(WorkloadRival):
    """PyTorch in float32 on a CPU, at its highest precision; in bfloat16 on a GPU."""

    packages = MappingProxyType({"torch": None})
    install = "pip install torch"

    def __init__(self, trunk: Trunk, source: _HasWeights, *, compiled: bool) -> None:
        """The same trunk, whose weights are made on first use."""
        self.name = "torch.compile" if compiled else "PyTorch"
        self._trunk, self._source, self._compiled = trunk, source, compiled

    def prepare(self, data: DataSet, device: Device) -> Program | Missing:
        """The trunk with its weights, on the CPU or the GPU that the device names."""
        try:
            import torch
        except ModuleNotFoundError:
            return Missing("not installed")
        place = "cuda" if str(device).startswith("cuda") else "cpu"
        if place == "cuda" and not torch.cuda.is_available():
            return Missing(f"has no device {device}")
        return _TorchProgram(torch, data, place, self._trunk, self._source.weights, self._compiled)


class _TorchProgram(Program):
    def __init__(
        self,
        torch: Any,
        data: DataSet,
        place: str,
        trunk: Trunk,
        weights: TrunkWeights,
        compiled: bool,
    ) -> None:
        torch.set_float32_matmul_precision("highest")
        self._torch, self._place, self._trunk = torch, place, trunk
        self._dtype = torch.bfloat16 if place == "cuda" else torch.float32
        self._weights = _tensors(torch, weights, place, self._dtype)
        self._forward = torch.compile(self._logits_of) if compiled else self._logits_of
        shape = (len(data.arrays["alignments"]), trunk.residues, trunk.residues, trunk.bins)
        self._shape = shape
        offsets = np.arange(trunk.residues)[:, None] - np.arange(trunk.residues)[None]
        offsets = np.clip(offsets, -trunk.relative, trunk.relative) + trunk.relative
        self._offsets = torch.from_numpy(offsets).to(place)
        self._alignments: list[Any] = []
        self._results: list[Any] = []
        self.load(data)

    def load(self, data: DataSet) -> None:
        self._alignments = [
            self._torch.from_numpy(alignment.astype(np.int64)).to(self._place)
            for alignment in data.arrays["alignments"]
        ]

    def run(self) -> Mapping[str, float]:
        with self._torch.inference_mode():
            self._results = [self._forward(alignment) for alignment in self._alignments]
        if self._place == "cuda":
            self._torch.cuda.synchronize()
        return {}

    def outputs(self) -> Arrays:
        logits = np.full(self._shape, np.nan, np.float32)
        for index, values in enumerate(self._results):
            logits[index] = values.float().cpu().numpy()
        return {"logits": logits}

    def poison(self) -> None:
        self._results = []

    def _logits_of(self, alignment: Any) -> Any:
        torch, weights = self._torch, self._weights
        m = weights.symbols[alignment]
        first = alignment[0]
        z = weights.relative[self._offsets] + weights.left[first][:, None] + weights.right[first]
        for block in weights.blocks:
            m = m + self._attend(m, block.rows, z)
            m = m + self._attend(m.transpose(0, 1), block.columns, None).transpose(0, 1)
            m = m + _transition(torch, m, block.alignment_transition)
            z = z + _outer(torch, m, block.outer)
            z = z + triangle(torch, z[None], block.outgoing, incoming=False)[0]
            z = z + triangle(torch, z[None], block.incoming, incoming=True)[0]
            z = z + _transition(torch, z, block.pair_transition)
        return torch.nn.functional.linear(z + z.transpose(0, 1), weights.distances)

    def _attend(self, m: Any, weights: Any, z: Any) -> Any:
        torch, linear = self._torch, self._torch.nn.functional.linear
        x = _norm(torch, m, weights.norm)
        count, length, _ = x.shape
        q, k, v = (
            linear(x, matrix).view(count, length, self._trunk.heads, -1).transpose(1, 2)
            for matrix in (weights.query, weights.key, weights.value)
        )
        bias = None
        if z is not None:
            pairs = linear(_norm(torch, z, weights.pair_norm), weights.pair_bias)
            bias = pairs.permute(2, 0, 1)[None].expand(count, -1, -1, -1)
        mixed = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        mixed = mixed.transpose(1, 2).reshape(count, length, -1)
        return linear(mixed * torch.sigmoid(linear(x, weights.gate)), weights.out)


def triangle(torch: Any, z: Any, weights: Any, *, incoming: bool, mask: Any = None) -> Any:
    """The update of pairs (batch, N, N, channels) by their triangles."""
    linear = torch.nn.functional.linear
    x = _norm(torch, z, weights.norm)
    left = linear(x, weights.left) * torch.sigmoid(linear(x, weights.left_gate))
    right = linear(x, weights.right) * torch.sigmoid(linear(x, weights.right_gate))
    if mask is not None:
        left, right = left * mask[..., None], right * mask[..., None]
    total = torch.einsum("bkih,bkjh->bijh" if incoming else "bikh,bjkh->bijh", left, right)
    gated = _norm(torch, total, weights.out_norm) * torch.sigmoid(linear(x, weights.out_gate))
    return linear(gated, weights.out)


def triangle_tensors(torch: Any, weights: TriangleWeights, place: str, dtype: Any) -> Any:
    """The weights of a triangle multiplication as tensors."""
    return _tensors(torch, weights, place, dtype)


def _tensors(torch: Any, value: Any, place: str, dtype: Any) -> Any:
    """Data classes of arrays as the same names of tensors."""
    if value is None:
        return None
    if isinstance(value, np.ndarray):
        return torch.from_numpy(value).to(place, dtype)
    if isinstance(value, tuple):
        return [_tensors(torch, part, place, dtype) for part in value]
    tensors = _Names()
    for name in value.__dataclass_fields__:
        setattr(tensors, name, _tensors(torch, getattr(value, name), place, dtype))
    return tensors


class _Names:
    """Tensors by name."""


def _norm(torch: Any, x: Any, norm: Any) -> Any:
    return torch.nn.functional.layer_norm(x, x.shape[-1:], norm.weight, norm.bias, EPSILON)


def _transition(torch: Any, x: Any, weights: Any) -> Any:
    linear = torch.nn.functional.linear
    return linear(torch.relu(linear(_norm(torch, x, weights.norm), weights.first)), weights.second)


def _outer(torch: Any, m: Any, weights: Any) -> Any:
    linear = torch.nn.functional.linear
    x = _norm(torch, m, weights.norm)
    products = torch.einsum("sic,sjd->ijcd", linear(x, weights.left), linear(x, weights.right))
    return linear(products.flatten(2) / m.shape[0], weights.out)
