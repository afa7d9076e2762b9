"""conv2d on a published network: Basic Pitch, which hears notes, against onnxruntime and double precision."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx_graph
import pytest

from assay.engine.loading.packages import PulledFile, Source, Wheel
from assay.engine.loading.unpacking import unpack
from assay.engine.loading.wheels import download_wheels

WHEEL = "738adb503aae7fdfc7d1e1511aa0ce35052315f260a19531ef4c356708425db0"
MODEL = PulledFile(
    "nmp.onnx",
    "2c3c1d144bfa61ad236e92e169c13535c880469a12a047d4e73451f2c059a0ec",
    230_444,
    ("basic_pitch/saved_models/icassp_2022/nmp.onnx",),
)
SOURCE = Source(
    wheels=(Wheel("basic-pitch", "0.4.0", WHEEL),),
    files=(MODEL,),
    description="Notes of a recording",
    license="Apache-2.0",
)
RATE, SAMPLES = 22_050, 43_844


@pytest.fixture(scope="module")
def model(machine_scratch: Path, scratch: Path) -> Path:
    """The network, fetched once for the machine."""
    path = machine_scratch / "models" / "basic-pitch" / MODEL.name
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        downloads = scratch / "basic-pitch"
        downloads.mkdir()
        unpack(MODEL, download_wheels(SOURCE, downloads, lambda text: None), path)
    return path


def exact(options: dict[str, Any], x: Any, weight: Any, bias: Any = None) -> Any:
    """A convolution in double precision."""
    top, left, _, _ = options.get("pads", [0, 0, 0, 0])
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (top, top), (left, left)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, weight.shape[2:], (2, 3))
    down, across = options["strides"]
    out = np.tensordot(
        windows[:, :, ::down, ::across], weight.astype(float), ([1, 4, 5], [1, 2, 3])
    )
    return out.transpose(0, 3, 1, 2) + (0 if bias is None else bias[None, :, None, None])


@pytest.mark.slow
def test_notes_are_those_of_onnxruntime(
    model: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    oracle = json.loads((root / "tests/data/basic_pitch_oracle.json").read_text())
    t = np.arange(SAMPLES) / RATE
    sound = 0.5 * np.sin(2 * np.pi * 440 * t) + 0.25 * np.sin(2 * np.pi * (200 + 150 * t) * t)
    own, layers = onnx_graph._convolution, []

    def compared(options: dict[str, Any], x: Any, weight: Any, bias: Any = None) -> Any:
        got = own(options, x, weight, bias)
        if weight.shape[2] > 1:
            expected = exact(options, x, weight, bias)
            layers.append(np.abs(got - expected).max() / np.abs(expected).max())
        return got

    monkeypatch.setattr(onnx_graph, "_convolution", compared)
    given = {"serving_default_input_2:0": sound.astype(np.float32)[None, :, None]}
    tensors = onnx_graph.evaluate(model, **given)
    assert len(layers) == 6
    assert max(layers) < 1e-5
    # Logarithms of nearly nothing: onnxruntime is as far from double precision.
    for name, wanted in oracle["outputs"].items():
        got = tensors[name]
        assert list(got.shape) == wanted["shape"]
        np.testing.assert_allclose(got[0, 86, :12], wanted["row"], atol=2e-3)
        assert got.max() == pytest.approx(wanted["largest"][0], abs=2e-3)
        assert int(got.argmax()) == wanted["largest"][1]
        assert (got.astype(float) ** 2).mean() == pytest.approx(wanted["mean_of_squares"], rel=0.01)
