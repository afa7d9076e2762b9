"""The reader of ONNX files: what Python sees of a model written field by field."""

from pathlib import Path

import numpy as np
import pytest

from assay._native import OnnxFile, OnnxGraph, StoredTensor
from assay.errors import InputError


def _varint(number: int) -> bytes:
    groups = bytearray()
    while number > 0x7F:
        groups.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*groups, number])


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _model(graph: bytes) -> bytes:
    return _bytes(2, b"a program") + _bytes(7, graph) + _bytes(8, _number(2, 20))


def _tensor(name: bytes, values: np.ndarray, kind: int) -> bytes:
    extents = b"".join(_number(1, extent) for extent in values.shape)
    return extents + _number(2, kind) + _bytes(8, name) + _bytes(9, values.tobytes())


def test_weights_and_nodes_are_read(tmp_path: Path) -> None:
    weight = np.arange(6, dtype=np.float32).reshape(2, 3)
    branch = _bytes(2, b"branch") + _bytes(5, _tensor(b"inner", np.array([7]), 7))
    attributes = (
        _bytes(1, b"pads") + _bytes(8, _varint(1) + _varint(300)) + _number(20, 7),
        _bytes(1, b"mode") + _bytes(4, b"linear") + _number(20, 3),
        _bytes(1, b"then") + _bytes(6, branch) + _number(20, 5),
    )
    node = _bytes(1, b"x") + _bytes(2, b"y") + _bytes(3, b"/a/Conv") + _bytes(4, b"Conv")
    node += b"".join(_bytes(5, attribute) for attribute in attributes)
    path = tmp_path / "model.onnx"
    path.write_bytes(_model(_bytes(1, node) + _bytes(5, _tensor(b"w", weight, 1))))

    file = OnnxFile(path)
    assert (file.producer, file.operator_sets) == ("a program", {"": 20})
    (stored,) = file.graph.tensors()
    assert (stored.name, stored.format, stored.shape) == ("w", "f32", (2, 3))
    np.testing.assert_array_equal(
        np.frombuffer(memoryview(stored), np.float32).reshape(2, 3), weight
    )
    (only,) = file.graph.nodes()
    assert (only.name, only.operation, only.domain) == ("/a/Conv", "Conv", "")
    assert (only.inputs, only.outputs) == (["x"], ["y"])
    values = only.attributes()
    inner = values.pop("then")
    assert values == {"pads": [1, 300], "mode": b"linear"}
    assert isinstance(inner, OnnxGraph)
    (constant,) = inner.tensors()
    assert isinstance(constant, StoredTensor)
    assert np.frombuffer(memoryview(constant), np.int64) == 7


@pytest.mark.parametrize("content", [b"", b"GGUF\x03\0\0\0", b"\xff" * 40, _model(b"\x2a\x7f")])
def test_other_files_are_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"model\.onnx: .*: expected .*, got "):
        OnnxFile(path)
