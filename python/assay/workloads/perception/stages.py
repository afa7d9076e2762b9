"""Seconds by stage, and what every program of the workload gives: maps and boxes of all frames."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import numpy as np
import numpy.typing as npt

from assay.workloads.contract import Arrays
from assay.workloads.perception.boxes import Boxes
from assay.workloads.perception.configuration import BOX_CODE, Configuration

PILLARS: Final = "pillars"
FEATURES: Final = "features"
NETWORK: Final = "network"
"""Backbone and heads."""
BOXES: Final = "boxes"


class StageTimes:
    """Adds up the seconds of each stage over frames."""

    def __init__(self) -> None:
        """Begin with none."""
        self.seconds: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time one stage of one frame."""
        begin = time.perf_counter()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - begin


class Detections:
    """Outputs of all frames, of the same shapes whatever the number of boxes."""

    def __init__(self, frames: int, configuration: Configuration) -> None:
        """Allocate what programs write."""
        rows, columns = configuration.map_rows, configuration.map_columns
        maps = (frames, sum(configuration.head_channels), rows, columns)
        most = configuration.most_boxes
        self.maps: npt.NDArray[np.float32] = np.empty(maps, np.float32)
        self.boxes = np.empty((frames, most, BOX_CODE), np.float32)
        self.scores = np.empty((frames, most), np.float32)
        self.labels = np.empty((frames, most), np.int32)
        self.anchors = np.empty((frames, most), np.int32)
        self.poison()

    def poison(self) -> None:
        """Overwrite everything."""
        for array in (self.maps, self.boxes, self.scores):
            array.fill(np.nan)
        for whole in (self.labels, self.anchors):
            whole.fill(-2)

    def store(self, frame: int, boxes: Boxes) -> None:
        """Keep the boxes of a frame; the rest of its rows are zero, of anchor -1."""
        count = len(boxes.scores)
        parts = (
            (self.boxes, boxes.boxes),
            (self.scores, boxes.scores),
            (self.labels, boxes.labels),
        )
        for target, values in parts:
            target[frame, :count] = values
            target[frame, count:] = 0
        self.anchors[frame, :count] = boxes.anchors
        self.anchors[frame, count:] = -1

    def arrays(self) -> Arrays:
        """Copies of everything, by name."""
        return {
            "maps": self.maps.copy(),
            "boxes": self.boxes.copy(),
            "scores": self.scores.copy(),
            "labels": self.labels.copy(),
            "anchors": self.anchors.copy(),
        }
