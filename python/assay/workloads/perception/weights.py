"""Weights of the network, from a seed: no trained weights are part of this workload, and its boxes mean nothing.

Batch norms are folded into the convolutions before them, as every deployment does.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from assay.workloads.perception.configuration import POINT_INPUTS, Configuration
from assay.workloads.random_numbers import RandomNumbers

Floats = npt.NDArray[np.float32]

SEED: Final = 2_019
"""Of the weights that `assay bench perception` measures."""
_SCORE_BIAS: Final = -math.log(99.0)
"""A prior of 1 % for a box, as detectors begin training with (Lin et al. 2017)."""
_SCORE_DEVIATION: Final = 8.0
"""Of the filters of scores: about one anchor in a hundred passes the threshold."""
_RESIDUAL_DEVIATION: Final = 1.0


@dataclass(frozen=True, slots=True)
class Layer:
    """Weight and bias of a linear layer or a convolution."""

    weight: Floats
    bias: Floats


@dataclass(frozen=True, slots=True)
class NetworkWeights:
    """All weights; convolutions as (filters, channels, height, width)."""

    pillars: Layer
    """(channels, 10)."""
    blocks: tuple[tuple[Layer, ...], ...]
    upsampling: tuple[Layer, ...]
    """Transposed convolutions, (channels, filters, stride, stride), of a stride as large as the kernel."""
    heads: Layer
    """Scores, boxes and directions, one below the other: (channels, all upsampled channels, 1)."""


def network_weights(configuration: Configuration, seed: int = SEED) -> NetworkWeights:
    """Weights that keep the variance of activations (He et al. 2015)."""
    numbers = RandomNumbers(seed)

    def layer(shape: tuple[int, ...], inputs: int, filters: int) -> Layer:
        deviation = math.sqrt(2.0 / inputs)
        weight = (numbers.normal(math.prod(shape)) * deviation).astype(np.float32)
        bias = (numbers.normal(filters) * 0.02).astype(np.float32)
        return Layer(weight.reshape(shape), bias)

    pillars = layer(
        (configuration.pillar_channels, POINT_INPUTS), POINT_INPUTS, configuration.pillar_channels
    )
    # Coordinates are tens of meters: their weights are those of meters scaled to about 1.
    pillars.weight[:, :3] *= 0.05
    blocks, upsampling = [], []
    channels, wide = configuration.pillar_channels, configuration.upsampled_channels
    for block in configuration.blocks:
        layers = []
        for _ in range(1 + block.layers):
            layers.append(layer((block.channels, channels, 3, 3), 9 * channels, block.channels))
            channels = block.channels
        blocks.append(tuple(layers))
        stride = block.upsampling
        upsampling.append(layer((channels, wide, stride, stride), channels, wide))
    return NetworkWeights(pillars, tuple(blocks), tuple(upsampling), _heads(numbers, configuration))


def _heads(numbers: RandomNumbers, configuration: Configuration) -> Layer:
    """Filters of mean 0, because activations after ReLU are not; scores begin at the prior."""
    inputs = configuration.upsampled_channels * len(configuration.blocks)
    scores, boxes, directions = configuration.head_channels
    filters = scores + boxes + directions
    weight: npt.NDArray[Any] = numbers.normal(filters * inputs).reshape(filters, inputs)
    weight -= weight.mean(axis=1, keepdims=True)
    weight *= 1.0 / math.sqrt(inputs)
    weight[:scores] *= _SCORE_DEVIATION
    weight[scores : scores + boxes] *= _RESIDUAL_DEVIATION
    bias = np.zeros(filters, np.float32)
    bias[:scores] = _SCORE_BIAS
    return Layer(weight.astype(np.float32).reshape(filters, inputs, 1), bias)
