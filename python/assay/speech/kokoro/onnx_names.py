"""Parameters of Kokoro by the names of its PyTorch definition, read from the initializers of its ONNX file.

The exporter folded weight norms and transposed matrices, and named the results after nodes:
a parameter belongs to the module of the node that reads it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from assay._native import OnnxFile, OnnxNode, StoredTensor
from assay.errors import InputError

Parameters = Mapping[str, npt.NDArray[np.float32]]
"""Values by name, as in the PyTorch definition."""

_PREDICTOR: Final = ("F0", "N", "shared", "F0_proj", "N_proj")
"""Modules of the predictor that are called from outside of it: their nodes do not name it."""
_GATES: Final = (0, 2, 3, 1)
"""Where PyTorch's gates i, f, g, o are in the order of ONNX: i, o, f, c."""


def read_parameters(path: Path) -> Parameters:
    """All parameters of a file."""
    graph = OnnxFile(path).graph
    stored = {tensor.name: tensor for tensor in graph.tensors() if tensor.format == "f32"}
    parameters = {
        _without_part(name): _values(tensor)
        for name, tensor in stored.items()
        if name.startswith(("encoder.", "decoder."))
    }
    for node in graph.nodes():
        inputs = [stored.get(name) for name in node.inputs]
        parameters.update(_of_node(node, inputs))
    if "bert_encoder.weight" not in parameters or "decoder.asr_res.0.weight" not in parameters:
        raise InputError(
            f"{path}: expected the parameters of Kokoro-82M, got those of another model",
            "fetch it with: assay pull kokoro",
        )
    return parameters


def _of_node(
    node: OnnxNode, inputs: list[StoredTensor | None]
) -> Iterator[tuple[str, npt.NDArray[np.float32]]]:
    module = _module(node)
    if node.operation in ("Conv", "ConvTranspose") and inputs[1] is not None:
        yield f"{module}.weight", _values(inputs[1])
    elif node.operation == "MatMul" and inputs[1] is not None:
        yield f"{module}.weight", _values(inputs[1]).T
    elif node.operation == "LSTM":
        inputs_weight, hidden_weight, biases = inputs[1:4]
        if inputs_weight is None or hidden_weight is None or biases is None:
            raise InputError(
                f"node {node.name!r}: expected weights of an LSTM in the file, got none"
            )
        halves = np.split(_values(biases), 2, axis=1)
        named = zip(
            ("weight_ih", "weight_hh", "bias_ih", "bias_hh"),
            (_values(inputs_weight), _values(hidden_weight), *halves),
            strict=True,
        )
        for name, values in named:
            for direction, suffix in zip(values, ("", "_reverse"), strict=True):
                gates = np.split(direction, 4)
                ordered = np.concatenate([gates[gate] for gate in _GATES])
                yield f"{module}.{name}_l0{suffix}", ordered


def _module(node: OnnxNode) -> str:
    """The module of a node: that of its bias, where it has one, else the one it is named after."""
    for name in node.inputs[2:]:
        if name.endswith(".bias"):
            return _without_part(name.removesuffix(".bias"))
    path = node.name.strip("/").rpartition("/")[0].replace("/", ".")
    return _without_part(path)


def _without_part(name: str) -> str:
    """A name without the exporter's first part, which is "encoder" or "decoder"."""
    name = name.partition(".")[2]
    return f"predictor.{name}" if name.partition(".")[0] in _PREDICTOR else name


def _values(tensor: StoredTensor) -> npt.NDArray[np.float32]:
    stored: Any = tensor
    return np.frombuffer(stored, np.float32).reshape(tensor.shape)
