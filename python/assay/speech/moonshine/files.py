"""Weights of Moonshine from its ONNX files, which are quantized to 8 bits."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from assay._native import OnnxFile, OnnxNode, StoredTensor
from assay.errors import InputError
from assay.lazy_import import np

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float32]

_HINT: Final = "assay pull moonshine-tiny downloads the files that are read"
_TYPES: Final = {"f32": "<f4", "u8": "u1", "i8": "i1"}
_MERGED: Final = "_merged_0"
"""What optimum appends to names of tensors that both branches of the decoder read."""


class QuantizedMatrix(NamedTuple):
    """Weights of integers times a scale, a row an output; integers have nine bits."""

    integers: npt.NDArray[np.int16]
    scale: float


class MoonshineFile:
    """A graph of Moonshine: its tensors by name, and its quantized matrices by the node that reads them."""

    def __init__(self, path: Path) -> None:
        """Read a file."""
        if not path.is_file():
            raise InputError(f"{path}: expected a file of Moonshine, got no such file", _HINT)
        self._path: Final = path
        graph = OnnxFile(path).graph
        self._tensors = {tensor.name.removesuffix(_MERGED): tensor for tensor in graph.tensors()}
        nodes = list(graph.nodes())
        for node in graph.nodes():
            for branch in ("else_branch", "then_branch"):
                body: Any = node.attributes().get(branch)
                nodes += [] if body is None else body.nodes()
        self._products: dict[str, OnnxNode] = {
            node.name.removesuffix("/MatMul_quant").replace("/", ".").lstrip("."): node
            for node in nodes
            if node.operation == "MatMulInteger"
        }

    def vector(self, name: str) -> Floats:
        """A tensor in single precision."""
        return np.asarray(self._values(name), np.float32)

    def convolution(self, name: str) -> Floats:
        """A convolution's weights: stored * scale + offset."""
        weight = self._values(f"{name}.weight_quantized").astype(np.float32)
        scale = self._values(f"{name}.weight_scale")[0]
        return np.asarray(weight * scale + self._values(f"{name}.weight_zero_point")[0])

    def matrix(self, name: str) -> QuantizedMatrix:
        """The matrix of a module, such as layers.0.self_attn.q_proj."""
        node = self._products.get(name)
        if node is None:
            raise InputError(f"{self._path}: expected the matrix {name}, got none", _HINT)
        return self.quantized(node.inputs[1].removesuffix("_quantized").removesuffix(_MERGED))

    def quantized(self, name: str, *, transposed: bool = False) -> QuantizedMatrix:
        """A matrix by the name of its tensor; `transposed` has a row an output already."""
        stored, zero_point, scale = (
            self._values(f"{name}{_MERGED}_{part}", f"{name}_{part}")
            for part in ("quantized", "zero_point", "scale")
        )
        if stored.ndim != 2 or stored.dtype != np.uint8:
            raise InputError(
                f"{self._path}: expected {name} as a matrix of u8, got {stored.dtype} of {stored.shape}",
                _HINT,
            )
        matrix = stored.T if transposed else stored
        integers = np.ascontiguousarray(matrix.astype(np.int16).T) - int(zero_point.reshape(-1)[0])
        return QuantizedMatrix(integers, float(scale.reshape(-1)[0]))

    def _values(self, *names: str) -> npt.NDArray[Any]:
        tensor: StoredTensor | None = next(
            (self._tensors[name] for name in names if name in self._tensors), None
        )
        if tensor is None or tensor.format not in _TYPES:
            got = "none" if tensor is None else tensor.format
            raise InputError(
                f"{self._path}: expected the tensor {names[0]} as {' or '.join(_TYPES)}, got {got}",
                _HINT,
            )
        values = np.frombuffer(memoryview(tensor), _TYPES[tensor.format])  # type: ignore[arg-type]
        return values.reshape(tensor.shape)
