"""The detector a second time, in plain NumPy, to verify outputs; it shares no code with the programs."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from assay.workloads.perception.configuration import Configuration
from assay.workloads.perception.weights import Layer, NetworkWeights

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


class ReferenceBoxes(NamedTuple):
    """Boxes, scores, labels and anchors, best first."""

    boxes: Doubles
    scores: Doubles
    labels: Integers
    anchors: Integers


def head_maps(points: Floats, configuration: Configuration, weights: NetworkWeights) -> Floats:
    """Scores, boxes and directions of a frame, (channels, rows, columns)."""
    x = canvas(points, configuration, weights.pillars)
    maps = []
    for block, layers, upsampling in zip(
        configuration.blocks, weights.blocks, weights.upsampling, strict=True
    ):
        for index, layer in enumerate(layers):
            x = _convolve(x, layer, block.stride if index == 0 else 1)
        maps.append(_upsample(x, upsampling))
    every = np.concatenate(maps)
    heads = weights.heads.weight[:, :, 0] @ every.reshape(len(every), -1)
    heads += weights.heads.bias[:, None]
    return heads.reshape(-1, *every.shape[1:])


def canvas(points: Floats, configuration: Configuration, layer: Layer) -> Floats:
    """The features of pillars at their cells, (channels, rows, columns)."""
    grid = configuration.grid
    least = np.array([grid.x_least, grid.y_least, grid.z_least], np.float32)
    size = np.array([grid.cell, grid.cell, grid.height], np.float32)
    places = np.floor((points[:, :3] - least) / size)
    inside = ((places >= 0) & (places < [grid.columns, grid.rows, 1])).all(axis=1)
    points, places = points[inside], places[inside].astype(np.int64)
    cells = places[:, 1] * grid.columns + places[:, 0]
    unique, first, pillar = np.unique(cells, return_index=True, return_inverse=True)
    appearance = np.argsort(first, kind="stable")
    rank = np.empty_like(appearance)
    rank[appearance] = np.arange(len(appearance))
    pillar = rank[pillar]
    # Points of a pillar are numbered in the order of the scan.
    order = np.argsort(pillar, kind="stable")
    starts = np.searchsorted(pillar[order], np.arange(len(unique)))
    slot = np.empty_like(pillar)
    slot[order] = np.arange(len(order)) - starts[pillar[order]]
    kept = (pillar < grid.most_pillars) & (slot < grid.most_points)
    pillars = min(len(unique), grid.most_pillars)
    padded = np.zeros((pillars, grid.most_points, 4), np.float32)
    padded[pillar[kept], slot[kept]] = points[kept]
    there = np.zeros((pillars, grid.most_points, 1), np.float32)
    there[pillar[kept], slot[kept]] = 1.0
    mean = padded[:, :, :3].sum(axis=1, keepdims=True) / there.sum(axis=1, keepdims=True)
    cells = unique[appearance[:pillars]]
    index = np.stack([cells % grid.columns, cells // grid.columns, np.zeros_like(cells)], axis=1)
    center = ((index.astype(np.float32) + np.float32(0.5)) * size + least)[:, None]
    xyz = padded[:, :, :3]
    inputs = np.concatenate([padded, xyz - mean, xyz - center], axis=2) * there
    features = np.maximum(inputs @ layer.weight.T + layer.bias, 0.0).max(axis=1)
    out = np.zeros((len(layer.bias), grid.rows * grid.columns), np.float32)
    out[:, cells] = features.T
    return out.reshape(-1, grid.rows, grid.columns)


def _convolve(x: Floats, layer: Layer, stride: int) -> Floats:
    """A 3 x 3 convolution with ReLU, tap by tap."""
    channels, rows, columns = x.shape
    padded = np.zeros((channels, rows + 2, columns + 2), np.float32)
    padded[:, 1:-1, 1:-1] = x
    rows, columns = (rows - 1) // stride + 1, (columns - 1) // stride + 1
    total = np.repeat(layer.bias[:, None], rows * columns, axis=1)
    for i in range(3):
        for j in range(3):
            seen = padded[:, i : i + stride * rows : stride, j : j + stride * columns : stride]
            seen = seen[:, :rows, :columns]
            total += layer.weight[:, :, i, j] @ np.ascontiguousarray(seen).reshape(channels, -1)
    np.maximum(total, 0.0, out=total)
    return total.reshape(-1, rows, columns)


def _upsample(x: Floats, layer: Layer) -> Floats:
    """A transposed convolution of a stride as large as its kernel, with ReLU."""
    channels, rows, columns = x.shape
    stride, filters = layer.weight.shape[2], layer.weight.shape[1]
    out = np.empty((filters, rows * stride, columns * stride), np.float32)
    for i in range(stride):
        for j in range(stride):
            product = layer.weight[:, :, i, j].T @ x.reshape(channels, -1) + layer.bias[:, None]
            out[:, i::stride, j::stride] = product.reshape(filters, rows, columns)
    return np.maximum(out, 0.0)


def choose_boxes(heads: Floats, configuration: Configuration) -> ReferenceBoxes:
    """The boxes of the heads' maps, in double precision."""
    kinds, grid = configuration.classes, configuration.grid
    scores, residuals, _ = configuration.head_channels
    rows, columns = heads.shape[1:]
    last = heads.reshape(len(heads), -1).T  # A row for each place.
    logits = last[:, :scores].reshape(-1, len(kinds))
    code = last[:, scores : scores + residuals].reshape(-1, 7).astype(np.float64)
    direction = last[:, scores + residuals :].reshape(-1, 2)
    best = logits.max(axis=1)
    probability = 1.0 / (1.0 + np.exp(-best.astype(np.float64)))
    (passing,) = np.nonzero(probability > configuration.score_threshold)
    # Ties are broken by the anchor, then by the place, as the maps have them.
    per_place = configuration.anchors
    place, anchor = passing // per_place, passing % per_place
    order = np.lexsort((place, anchor, -best[passing]))[: configuration.candidates]
    chosen, place, anchor = passing[order], place[order], anchor[order]
    sizes = np.repeat([[k.length, k.width, k.height] for k in kinds], 2, axis=0)[anchor]
    levels = np.repeat([k.bottom + k.height / 2 for k in kinds], 2)[anchor]
    turns = np.tile([0.0, 1.57], len(kinds))[anchor]
    xs = np.linspace(grid.x_least, grid.x_least + grid.columns * grid.cell, columns)[
        place % columns
    ]
    ys = np.linspace(grid.y_least, grid.y_least + grid.rows * grid.cell, rows)[place // columns]
    code = code[chosen]
    diagonal = np.hypot(sizes[:, 0], sizes[:, 1])
    heading = np.mod(code[:, 6] + turns - 0.78539, np.pi) + 0.78539
    heading += np.pi * (direction[chosen, 1] > direction[chosen, 0])
    boxes = np.column_stack(
        [
            code[:, 0] * diagonal + xs,
            code[:, 1] * diagonal + ys,
            code[:, 2] * sizes[:, 2] + levels,
            np.exp(code[:, 3:6]) * sizes,
            heading,
        ]
    )
    kept = _suppress(boxes[:, [0, 1, 3, 4, 6]], configuration)
    chosen = chosen[kept]
    return ReferenceBoxes(boxes[kept], probability[chosen], logits[chosen].argmax(axis=1), chosen)


def _suppress(planar: Doubles, configuration: Configuration) -> Integers:
    """Greedy suppression: each box that is left suppresses all that it overlaps."""
    alive = np.ones(len(planar), bool)
    kept: list[int] = []
    radius = np.hypot(planar[:, 2], planar[:, 3]) / 2
    for index in range(len(planar)):
        if not alive[index]:
            continue
        kept.append(index)
        if len(kept) == configuration.most_boxes:
            break
        apart = np.hypot(*(planar[:, :2] - planar[index, :2]).T)
        (near,) = np.nonzero(alive & (apart < radius + radius[index]))
        near = near[near > index]
        overlaps = overlap(planar[index], planar[near])
        alive[near[overlaps > configuration.overlap_threshold]] = False
    return np.array(kept, np.int64)


def _corners(planar: Doubles) -> Doubles:
    x, y, length, width, heading = planar.T
    along = np.array([0.5, -0.5, -0.5, 0.5]) * length[:, None]
    across = np.array([0.5, 0.5, -0.5, -0.5]) * width[:, None]
    cosine, sine = np.cos(heading)[:, None], np.sin(heading)[:, None]
    return np.stack(
        [x[:, None] + along * cosine - across * sine, y[:, None] + along * sine + across * cosine],
        axis=2,
    )


def overlap(box: Doubles, others: Doubles) -> Doubles:
    """Intersection over union of a box with others: corners inside, crossings of edges, sorted around their middle."""
    count = len(others)
    if count == 0:
        return np.empty(0)
    mine = np.broadcast_to(_corners(box[None]), (count, 4, 2))
    theirs = _corners(others)
    points = [mine, theirs]
    valid = [_inside(mine, np.asarray(others)), _inside(theirs, np.broadcast_to(box, (count, 5)))]
    for i in range(4):
        for j in range(4):
            start, step = mine[:, i], mine[:, (i + 1) % 4] - mine[:, i]
            other_start, other_step = theirs[:, j], theirs[:, (j + 1) % 4] - theirs[:, j]
            cross = step[:, 0] * other_step[:, 1] - step[:, 1] * other_step[:, 0]
            parallel = np.abs(cross) < 1e-12
            cross = np.where(parallel, 1.0, cross)
            gap = other_start - start
            s = (gap[:, 0] * other_step[:, 1] - gap[:, 1] * other_step[:, 0]) / cross
            t = (gap[:, 0] * step[:, 1] - gap[:, 1] * step[:, 0]) / cross
            points.append((start + s[:, None] * step)[:, None])
            meets = ~parallel & (s >= 0) & (s <= 1) & (t >= 0) & (t <= 1)
            valid.append(meets[:, None])
    corners: Any = np.concatenate(points, axis=1)
    there: Any = np.concatenate(valid, axis=1)
    number = there.sum(axis=1)
    middle = (corners * there[:, :, None]).sum(axis=1) / np.maximum(number, 1)[:, None]
    around = corners - middle[:, None]
    angle = np.where(there, np.arctan2(around[:, :, 1], around[:, :, 0]), np.inf)
    order = np.argsort(angle, axis=1)
    around = np.take_along_axis(around, order[:, :, None], axis=1)
    # What is not a corner repeats the first one, and adds no area.
    there = np.take_along_axis(there, order, axis=1)
    around = np.where(there[:, :, None], around, around[:, :1])
    after = np.roll(around, -1, axis=1)
    area = 0.5 * (around[:, :, 0] * after[:, :, 1] - around[:, :, 1] * after[:, :, 0]).sum(axis=1)
    area = np.where(number > 2, area, 0.0)
    ratio: Doubles = area / (box[2] * box[3] + others[:, 2] * others[:, 3] - area)
    return ratio


def _inside(points: Doubles, boxes: Doubles) -> Any:
    offset = points - boxes[:, None, :2]
    cosine, sine = np.cos(boxes[:, 4])[:, None], np.sin(boxes[:, 4])[:, None]
    along = offset[:, :, 0] * cosine + offset[:, :, 1] * sine
    across = offset[:, :, 1] * cosine - offset[:, :, 0] * sine
    half_length, half_width = boxes[:, 2:3] / 2 + 1e-9, boxes[:, 3:4] / 2 + 1e-9
    return (np.abs(along) <= half_length) & (np.abs(across) <= half_width)
