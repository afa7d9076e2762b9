"""The detector against NumPy and recorded boxes of PyTorch; scans from a seed, and in KITTI's files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from assay.errors import InputError, ShapeError
from assay.runtime.hardware import device
from assay.workloads.contract import DataSet, start_of
from assay.workloads.perception import scans
from assay.workloads.perception.configuration import KITTI
from assay.workloads.perception.detector import Detector
from assay.workloads.perception.workload import WORKLOAD, Perception
from small_detector import SMALL

RECORDED = json.loads(Path(__file__).with_name("perception_pytorch.json").read_text("ascii"))
SMALL_WORKLOAD = Perception(SMALL)


@pytest.fixture(scope="module")
def data() -> DataSet:
    return SMALL_WORKLOAD.generate(RECORDED["seed"], 1)


@pytest.mark.parametrize("start", ["plain", "default"])
def test_boxes_are_those_of_pytorch(data: DataSet, start: str) -> None:
    cpu = device("cpu")
    settings = start_of(SMALL_WORKLOAD, cpu, "plain" if start == "plain" else "default")
    program = SMALL_WORKLOAD.prepare(data, cpu, settings)
    stages = program.run()
    program.load(SMALL_WORKLOAD.generate(RECORDED["seed"] + 1, 1))
    outputs = program.outputs()
    verified = SMALL_WORKLOAD.verify(outputs, data)
    assert verified.error <= verified.tolerance, verified
    assert list(stages) == ["pillars", "features", "network", "boxes"]
    assert outputs["anchors"][0].tolist() == RECORDED["anchors"]
    assert outputs["labels"][0].tolist() == RECORDED["labels"]
    np.testing.assert_allclose(outputs["boxes"][0], RECORDED["boxes"], atol=1e-3)
    program.poison()
    assert not SMALL_WORKLOAD.verify(program.outputs(), data).error <= verified.tolerance


def test_one_call_goes_from_a_scan_to_its_boxes(data: DataSet) -> None:
    points = data.arrays["points"][0, : data.arrays["counts"][0]]
    detector = Detector(SMALL, SMALL_WORKLOAD.weights, device("cpu"))
    found = detector.boxes(points)
    assert found.anchors.tolist() == [at for at in RECORDED["anchors"] if at >= 0]
    # Numbers of another type, and points that are none, change nothing.
    nowhere = np.full((2, 4), np.nan)
    again = detector.boxes(np.concatenate([points.astype(np.float64), nowhere]))
    np.testing.assert_array_equal(again.boxes, found.boxes)
    with pytest.raises(ShapeError, match=r"points of shape \(any, 4\), got \(5, 3\)"):
        detector.boxes(np.zeros((5, 3)))


def test_a_wrong_box_does_not_pass(data: DataSet) -> None:
    cpu = device("cpu")
    program = SMALL_WORKLOAD.prepare(data, cpu, start_of(SMALL_WORKLOAD, cpu, "default"))
    program.run()
    outputs = dict(program.outputs())
    for name in ("anchors", "labels", "boxes", "scores", "maps"):
        changed = outputs[name].copy()
        changed[0, 0] += 1
        verified = SMALL_WORKLOAD.verify({**outputs, name: changed}, data)
        assert verified.error > verified.tolerance, name


def test_a_frame_without_points_has_no_boxes_beyond_the_network_of_zeros() -> None:
    cpu = device("cpu")
    data = DataSet(
        {"points": np.zeros((1, 8, 4), np.float32), "counts": np.array([0], np.int32)}, 1
    )
    program = SMALL_WORKLOAD.prepare(data, cpu, start_of(SMALL_WORKLOAD, cpu, "default"))
    program.run()
    assert np.isfinite(program.outputs()["maps"]).all()


def test_scans_are_the_same_everywhere(data: DataSet) -> None:
    assert data.sha256 == RECORDED["sha256"]
    other = scans.scan(RECORDED["seed"] + 1)
    assert len(other) != len(scans.scan(RECORDED["seed"])) or (other != data.arrays["points"]).any()


def test_scans_look_like_a_road() -> None:
    points = scans.scan(5)
    distance = np.linalg.norm(points[:, :3].astype(np.float64), axis=1)
    assert distance.max() < 81.0
    on_road = np.abs(points[:, 2] + 1.73) < 0.2
    assert 0.2 < on_road.mean() < 0.95
    assert 0.0 <= points[:, 3].min() <= points[:, 3].max() < 1.0
    # A tenth of the rays drops out, and those above the horizon that meet nothing.
    assert 0.7 * scans.RAYS < len(points) < 0.95 * scans.RAYS


def test_files_of_kitti_are_written_and_read(tmp_path: Path) -> None:
    points = scans.scan(1)[:1_000]
    scans.write_scan(tmp_path / "000000.bin", points)
    assert (tmp_path / "000000.bin").stat().st_size == 16 * len(points)
    np.testing.assert_array_equal(scans.read_scan(tmp_path / "000000.bin"), points)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"12345", "expected 16 bytes a point, got 5 bytes"),
        (np.full(4, np.nan, "<f4").tobytes(), r"expected finite numbers, got \[nan.* at point 0"),
    ],
)
def test_damaged_scans_are_refused(tmp_path: Path, content: bytes, expected: str) -> None:
    path = tmp_path / "damaged.bin"
    path.write_bytes(content)
    with pytest.raises(InputError, match=expected):
        scans.read_scan(path)
    with pytest.raises(InputError, match=r"missing\.bin cannot be read"):
        scans.read_scan(str(tmp_path / "missing.bin"))


@pytest.mark.parametrize(
    ("points", "expected"),
    [
        (np.zeros((5, 3)), r"numbers of shape \(count, 4\), got float64 of shape \(5, 3\)"),
        (np.zeros(8), r"got float64 of shape \(8,\)"),
        ("points", "numbers of shape .* got <U6"),
        ([[0.0, 1.0, 2.0, 0.5], [0.0, np.nan, 2.0, 0.5]], r"got \[0.0, nan, 2.0, 0.5\] at point 1"),
        ([[1e300, 0.0, 0.0, 0.0]], "expected finite numbers"),
    ],
)
def test_points_that_no_scan_has_are_not_written(
    tmp_path: Path, points: object, expected: str
) -> None:
    path = tmp_path / "000000.bin"
    with pytest.raises(InputError, match=rf"^scan {path} cannot be written: .*{expected}"):
        scans.write_scan(path, points)  # type: ignore[arg-type]
    assert not path.exists()
    with pytest.raises(InputError, match="cannot be written: No such file"):
        scans.write_scan(tmp_path / "none" / "000000.bin", np.zeros((1, 4)))


def test_work_is_that_of_the_published_network() -> None:
    """The multiply-adds of PointPillars' backbone and heads for KITTI, layer by layer by hand."""
    first, second, third = 248 * 216, 124 * 108, 62 * 54
    backbone = 9 * (first * 4 * 64 * 64 + second * (64 * 128 + 5 * 128**2))
    backbone += 9 * third * (128 * 256 + 5 * 256**2)
    upsampling = 128 * (first * 64 + second * 4 * 128 + third * 16 * 256)
    heads = first * 384 * 72
    counts = np.array([0, 0], np.int32)
    work = WORKLOAD.work(DataSet({"counts": counts}, 2))
    assert work.flops == 2 * 2.0 * (backbone + upsampling + heads)
    assert (KITTI.map_rows, KITTI.map_columns) == (248, 216)
