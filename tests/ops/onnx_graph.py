"""Evaluates a small ONNX graph in NumPy, with its convolutions in our kernels."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from assay import ops, xp
from assay._native import OnnxFile, OnnxNode

Values = npt.NDArray[Any]

TYPES = {"f32": "<f4", "i64": "<i8", "i32": "<i4", "bool": "?"}
CASTS = {1: np.float32, 6: np.int32, 7: np.int64, 9: np.bool_}
ELEMENTWISE: dict[str, Callable[..., Values]] = {
    "Neg": np.negative,
    "Mul": np.multiply,
    "Add": np.add,
    "Sub": np.subtract,
    "Div": np.divide,
    "Sqrt": np.sqrt,
    "Log": np.log,
    "Equal": np.equal,
    "Where": np.where,
    "Relu": lambda x: np.maximum(x, 0),
    "Sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "Shape": lambda x: np.array(x.shape, np.int64),
}
REDUCTIONS = {"ReduceSum": np.sum, "ReduceMin": np.min, "ReduceMax": np.max}


def evaluate(path: Path, **inputs: Values) -> dict[str, Values]:
    """Every tensor of the graph by name."""
    graph = OnnxFile(path).graph
    known: dict[str, Values] = dict(inputs)
    for tensor in graph.tensors():
        stored = np.frombuffer(memoryview(tensor), TYPES[tensor.format])  # type: ignore[arg-type]
        known[tensor.name] = stored.reshape(tensor.shape)
    for node in graph.nodes():
        given = [known[name] if name else None for name in node.inputs]
        known[node.outputs[0]] = _result(node, given)
    return known


def _result(node: OnnxNode, given: list[Any]) -> Values:
    options: dict[str, Any] = dict(node.attributes())
    name = node.operation
    if name in ELEMENTWISE:
        return np.asarray(ELEMENTWISE[name](*given))
    if name in REDUCTIONS:
        axes = options.get("axes") or (given[1].tolist() if len(given) > 1 else None)
        keep = bool(options.get("keepdims", 1))
        return np.asarray(
            REDUCTIONS[name](given[0], axis=tuple(axes) if axes else None, keepdims=keep)
        )
    if name == "Conv":
        return _convolution(options, *given)
    if name == "Reshape":
        shape = [
            given[0].shape[at] if size == 0 else size for at, size in enumerate(given[1].tolist())
        ]
        return np.asarray(given[0].reshape(shape))
    if name == "Unsqueeze":
        axes = options.get("axes") or given[1].tolist()
        return np.expand_dims(given[0], tuple(axes))
    if name == "Transpose":
        return np.ascontiguousarray(given[0].transpose(options["perm"]))
    if name == "Concat":
        return np.concatenate(given, options["axis"])
    if name == "Cast":
        return np.asarray(given[0].astype(CASTS[options["to"]]))
    if name == "Pad":
        before, after = np.split(np.asarray(given[1]), 2)
        mode = options.get("mode", "constant")
        mode = mode.decode() if isinstance(mode, bytes) else mode
        return np.pad(given[0], list(zip(before, after, strict=True)), mode=mode)
    if name == "Slice":
        return _slice(*given)
    raise NotImplementedError(name)


def _slice(x: Values, starts: Values, ends: Values, axes: Any = None, steps: Any = None) -> Values:
    axes = range(len(starts)) if axes is None else axes.tolist()
    steps = [1] * len(starts) if steps is None else steps.tolist()
    places = [slice(None)] * x.ndim
    for axis, start, end, step in zip(axes, starts.tolist(), ends.tolist(), steps, strict=True):
        places[axis] = slice(start, None if step < 0 and end < -x.shape[axis] else end, step)
    return x[tuple(places)]


def _convolution(options: dict[str, Any], x: Values, weight: Values, bias: Any = None) -> Values:
    top, left, bottom, right = options.get("pads", [0, 0, 0, 0])
    assert (top, left) == (bottom, right)
    arrays = [xp.asarray(np.ascontiguousarray(part, np.float32)) for part in (x, weight)]
    shift = None if bias is None else xp.asarray(np.ascontiguousarray(bias, np.float32))
    stride = tuple(options["strides"])
    return np.asarray(ops.conv2d(*arrays, shift, stride=stride, padding=(top, left)).to_numpy())
