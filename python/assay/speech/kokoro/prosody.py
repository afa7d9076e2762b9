"""Kokoro's prosody: how long each phoneme lasts, its pitch and its loudness."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from assay import ops, xp
from assay.runtime import Array, transfer
from assay.speech.kokoro.layers import (
    Builder,
    Convolution,
    LinearLayer,
    Recurrence,
    Style,
    StyledBlock,
)
from assay.speech.kokoro.text import columns

_EPSILON: Final = 1e-5


class Predictor(NamedTuple):
    """LSTMs with adaptive norms, and two branches of convolutions."""

    recurrences: tuple[Recurrence, ...]
    norms: tuple[int, ...]
    last: Recurrence
    durations: LinearLayer
    shared: Recurrence
    pitch: tuple[StyledBlock, ...]
    loudness: tuple[StyledBlock, ...]
    pitch_projection: Convolution
    loudness_projection: Convolution

    def encode(self, rows: Array, values: npt.NDArray[np.float32], style: Style) -> Array:
        """What durations, pitch and loudness are read from: a row for each phoneme."""
        repeated = transfer.store(
            "predictor.style", rows.device, np.tile(values, (rows.shape[0], 1))
        )
        for index, (recurrence, norm) in enumerate(zip(self.recurrences, self.norms, strict=True)):
            label = f"predictor.{index}"
            rows = recurrence.forward(xp.concat([rows, repeated], axis=1), f"{label}.lstm")
            gamma, beta = (xp.reshape(part, (rows.shape[1],)) for part in style.of(norm))
            rows = ops.layer_norm(rows, gamma + 1.0, beta, _EPSILON, label=f"{label}.norm")
        return xp.concat([rows, repeated], axis=1)

    def lengths(self, encoded: Array, speed: float) -> npt.NDArray[np.int64]:
        """Frames of each phoneme, at least one."""
        projected = self.durations.forward(
            self.last.forward(encoded, "predictor.lstm"), "predictor.durations"
        )
        scores = projected.to_numpy().astype(np.float64)
        frames = (1 / (1 + np.exp(-scores))).sum(axis=1) / speed
        rounded: npt.NDArray[np.int64] = np.maximum(np.rint(frames), 1).astype(np.int64)
        return rounded

    def curves(self, aligned: Array, style: Style) -> tuple[Array, Array]:
        """Pitch in Hz and loudness, two values for each frame: both (1, 1, 2 * frames)."""
        shared = columns(self.shared.forward(aligned, "predictor.shared"))
        pitch = loudness = shared
        for index, block in enumerate(self.pitch):
            pitch = block.forward(pitch, style, f"predictor.F0.{index}")
        for index, block in enumerate(self.loudness):
            loudness = block.forward(loudness, style, f"predictor.N.{index}")
        return (
            self.pitch_projection.forward(pitch, "predictor.F0_proj"),
            self.loudness_projection.forward(loudness, "predictor.N_proj"),
        )


def build_predictor(builder: Builder, layers: int) -> Predictor:
    """The predictor of the parameters; its norms are added to the builder's styles."""
    name = "predictor"
    return Predictor(
        tuple(builder.recurrence(f"{name}.text_encoder.lstms.{2 * at}") for at in range(layers)),
        tuple(builder.style(f"{name}.text_encoder.lstms.{2 * at + 1}") for at in range(layers)),
        builder.recurrence(f"{name}.lstm"),
        builder.linear(f"{name}.duration_proj.linear_layer"),
        builder.recurrence(f"{name}.shared"),
        tuple(builder.styled_block(f"{name}.F0.{at}") for at in range(3)),
        tuple(builder.styled_block(f"{name}.N.{at}") for at in range(3)),
        builder.convolution(f"{name}.F0_proj"),
        builder.convolution(f"{name}.N_proj"),
    )
