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
        scores, residuals, _ = configuration.head_channels
        parts = (
            *((BOX_CODE, scores + part) for part in range(BOX_CODE)),
            *((DIRECTIONS, scores + residuals + part) for part in range(DIRECTIONS)),
            *((len(configuration.classes), kind) for kind in range(len(configuration.classes))),
        )
        steps, first = np.array(parts, np.int64).T * self._places
        self._steps = xp.asarray(steps, device=device, copy=True)
        self._first = xp.asarray(first, device=device, copy=True)
        self._anchors = xp.asarray(_anchor_table(configuration), device=device, copy=True)

    def choose(self, maps: Array) -> Boxes:
        """The boxes of maps (channels, rows, columns): scores, boxes and directions."""
        configuration = self._configuration
        anchors, classes = configuration.anchors, len(configuration.classes)
        scores = configuration.head_channels[0]
        values = xp.reshape(maps, (-1,))
        logits = xp.reshape(values[: scores * self._places], (anchors, classes, self._places))
        best = xp.reshape(xp.max(logits, axis=1), (-1,))
        every = (
            self._decode(values, xp.arange(best.shape[0], device=maps.device))
            if self._decode_all
            else None
        )
        (candidates,) = xp.nonzero(best > self._least_logit)
        order = xp.argsort(xp.take(best, candidates), descending=True)
        candidates = xp.take(candidates, order[: configuration.candidates])
        if candidates.shape[0] == 0:
            return _no_boxes()
        decoded = (
            self._decode(values, candidates)
            if every is None
            else xp.take(every, candidates, axis=0)
        )
        # Center x and y, length, width, heading.
        planar = xp.concat([decoded[:, :2], decoded[:, 3:5], decoded[:, 6:BOX_CODE]], axis=1)
        threshold, most = configuration.overlap_threshold, configuration.most_boxes
        kept = ops.rotated_nms(planar, threshold, most=most).to_numpy()
        kept = kept[kept >= 0]
        # The host chooses among some thousand: on a GPU, every index that is checked is a wait.
        chosen, anchor_places = decoded.to_numpy()[kept], candidates.to_numpy()[kept]
        anchor, place = anchor_places // self._places, anchor_places % self._places
        of_class = chosen[:, BOX_CODE:]
        return Boxes(
            boxes=chosen[:, :BOX_CODE],
            scores=1.0 / (1.0 + np.exp(-of_class.max(axis=1))),
            labels=of_class.argmax(axis=1).astype(np.int32),
            anchors=(place * anchors + anchor).astype(np.int32),
        )

    def _decode(self, values: Array, candidates: Array) -> Array:
        """Boxes of anchors, (count, 7), and their logits of each class beside them.

        Residuals are relative to an anchor (Yan et al. 2018, SECOND).
        """
        grid, columns = self._configuration.grid, self._configuration.map_columns
        anchor, place = candidates // self._places, candidates % self._places
        code = xp.take(values, anchor[:, None] * self._steps + self._first + place[:, None])
        forward, backward = (code[:, BOX_CODE + part] for part in range(DIRECTIONS))
        of_anchor = xp.take(self._anchors, anchor, axis=0)
        extents, scales = of_anchor[:, :3], of_anchor[:, 3:6]
        level, rotation = of_anchor[:, 6], of_anchor[:, 7]
        x = xp.astype(place % columns, xp.float32) * self._x_step + grid.x_least
        y = xp.astype(place // columns, xp.float32) * self._y_step + grid.y_least
        heading = code[:, 6] + rotation - _DIRECTION_OFFSET
        heading = heading - xp.floor(heading / _PERIOD) * _PERIOD + _DIRECTION_OFFSET
        turned = xp.astype(backward > forward, xp.float32) * _PERIOD
        parts = [
            code[:, :3] * scales + xp.stack([x, y, level], axis=1),
            xp.exp(code[:, 3:6]) * extents,
            (heading + turned)[:, None],
            code[:, BOX_CODE + DIRECTIONS :],
        ]
        return xp.concat(parts, axis=1)


def _anchor_table(configuration: Configuration) -> npt.NDArray[np.float32]:
    """Of each anchor: length, width, height, what scales residuals along x, y and z, level, heading."""
    rows: list[list[float]] = []
    for kind in configuration.classes:
        extents = [kind.length, kind.width, kind.height]
        diagonal = math.hypot(kind.length, kind.width)
        level = kind.bottom + kind.height / 2
        scales = [diagonal, diagonal, kind.height]
        rows.extend([*extents, *scales, level, rotation] for rotation in ROTATIONS)
    return np.array(rows, np.float32)


def _no_boxes() -> Boxes:
    none = np.empty(0, np.int32)
    return Boxes(np.empty((0, BOX_CODE), np.float32), np.empty(0, np.float32), none, none)
