"""From maps of the heads to boxes: anchors, scores, residuals, non-maximum suppression."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from assay import ops, xp
from assay.runtime.array import Array
from assay.runtime.hardware import Device
from assay.workloads.perception.configuration import BOX_CODE, DIRECTIONS, ROTATIONS, Configuration

_DIRECTION_OFFSET: Final = 0.78539
"""Radians from which headings are forward or backward: OpenPCDet's configuration for KITTI."""
_PERIOD: Final = 2 * math.pi / DIRECTIONS


@dataclass(frozen=True, slots=True)
class Boxes:
    """Boxes of a frame, best first."""

    boxes: npt.NDArray[np.float32]
    """(count, 7): center, length, width, height and heading."""
    scores: npt.NDArray[np.float32]
    labels: npt.NDArray[np.int32]
    """Classes, by their place in the configuration."""
    anchors: npt.NDArray[np.int32]
    """Which anchor each box is of: place of the map times anchors of a place, plus the anchor."""


class BoxHead:
    """Chooses boxes from the maps of the heads."""

    def __init__(self, configuration: Configuration, device: Device, *, decode_all: bool) -> None:
        """Store the anchors; `decode_all` computes all boxes before any is chosen."""
        self._configuration = configuration
        self._decode_all = decode_all
        grid = configuration.grid
        self._places = configuration.map_rows * configuration.map_columns
        threshold = configuration.score_threshold
        self._least_logit = math.log(threshold / (1 - threshold))
        # Anchors stand on the outer edges of the range, as OpenPCDet places them.
        self._x_step = grid.columns * grid.cell / (configuration.map_columns - 1)
        self._y_step = grid.rows * grid.cell / (configuration.map_rows - 1)
        kinds = [kind for kind in configuration.classes for _ in ROTATIONS]
        extents = [[kind.length, kind.width, kind.height] for kind in kinds]
        levels = [kind.bottom + kind.height / 2 for kind in kinds]
        headings = [rotation for _ in configuration.classes for rotation in ROTATIONS]
        self._extents = xp.asarray(extents, dtype=xp.float32, device=device)
        self._levels = xp.asarray(levels, dtype=xp.float32, device=device)
        self._headings = xp.asarray(headings, dtype=xp.float32, device=device)

    def choose(self, maps: Array) -> Boxes:
        """The boxes of maps (channels, rows, columns): scores, boxes and directions."""
        configuration = self._configuration
        anchors, classes = configuration.anchors, len(configuration.classes)
        scores = configuration.head_channels[0]
        flat = xp.reshape(maps, (-1, self._places))
        logits = xp.reshape(flat[:scores], (anchors, classes, self._places))
        best = xp.reshape(xp.max(logits, axis=1), (-1,))
        every = (
            self._decode(flat, xp.arange(best.shape[0], device=maps.device))
            if self._decode_all
            else None
        )
        (candidates,) = xp.nonzero(best > self._least_logit)
        order = xp.argsort(xp.take(best, candidates), descending=True)
        candidates = xp.take(candidates, order[: configuration.candidates])
        if candidates.shape[0] == 0:
            return _no_boxes()
        boxes = (
            self._decode(flat, candidates) if every is None else xp.take(every, candidates, axis=0)
        )
        # Center x and y, length, width, heading.
        planar = xp.concat([boxes[:, :2], boxes[:, 3:5], boxes[:, 6:]], axis=1)
        # Only CPUs have the operation; some thousand boxes are copied.
        indices = ops.rotated_nms(
            planar.to_device("cpu"), configuration.overlap_threshold, most=configuration.most_boxes
        ).to_numpy()
        kept = xp.asarray(indices[indices >= 0], device=maps.device)
        candidates = xp.take(candidates, kept)
        anchor, place = candidates // self._places, candidates % self._places
        of_anchor = anchor * classes
        of_class = xp.stack([flat[of_anchor + kind, place] for kind in range(classes)], axis=1)
        top = xp.max(of_class, axis=1).to_numpy()
        return Boxes(
            boxes=xp.take(boxes, kept, axis=0).to_numpy(),
            scores=1.0 / (1.0 + np.exp(-top)),
            labels=xp.argmax(of_class, axis=1).to_numpy().astype(np.int32),
            anchors=(place * anchors + anchor).to_numpy().astype(np.int32),
        )

    def _decode(self, flat: Array, candidates: Array) -> Array:
        """Boxes of anchors: residuals relative to an anchor (Yan et al. 2018, SECOND), and directions."""
        configuration = self._configuration
        grid, columns = configuration.grid, configuration.map_columns
        scores, residuals, _ = configuration.head_channels
        anchor, place = candidates // self._places, candidates % self._places
        code = [flat[anchor * BOX_CODE + (scores + part), place] for part in range(BOX_CODE)]
        forward, backward = (
            flat[anchor * DIRECTIONS + (scores + residuals + part), place]
            for part in range(DIRECTIONS)
        )
        extents = xp.take(self._extents, anchor, axis=0)
        length, width, height = (extents[:, axis] for axis in range(3))
        diagonal = xp.sqrt(length * length + width * width)
        x = xp.astype(place % columns, xp.float32) * self._x_step + grid.x_least
        y = xp.astype(place // columns, xp.float32) * self._y_step + grid.y_least
        level, rotation = xp.take(self._levels, anchor), xp.take(self._headings, anchor)
        heading = code[6] + rotation - _DIRECTION_OFFSET
        heading = heading - xp.floor(heading / _PERIOD) * _PERIOD + _DIRECTION_OFFSET
        turned = xp.astype(backward > forward, xp.float32) * _PERIOD
        parts = [
            code[0] * diagonal + x,
            code[1] * diagonal + y,
            code[2] * height + level,
            xp.exp(code[3]) * length,
            xp.exp(code[4]) * width,
            xp.exp(code[5]) * height,
            heading + turned,
        ]
        return xp.stack(parts, axis=1)


def _no_boxes() -> Boxes:
    none = np.empty(0, np.int32)
    return Boxes(np.empty((0, BOX_CODE), np.float32), np.empty(0, np.float32), none, none)
