"""From aligned phonemes, pitch and loudness to the spectrum of a waveform."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from assay import ops, xp
from assay.runtime import Array, transfer
from assay.speech.kokoro import harmonics
from assay.speech.kokoro.harmonics import Floats
from assay.speech.kokoro.layers import (
    Builder,
    Convolution,
    SnakeBlock,
    Style,
    StyledBlock,
    Upsampling,
)

_KERNELS: Final = 3
"""Blocks of each stage of the generator, averaged."""
_DILATIONS: Final = (1, 3, 5)
_SLOPE: Final = 0.1


class Stage(NamedTuple):
    """One upsampling of the generator."""

    upsampling: Upsampling
    source: Convolution
    source_block: SnakeBlock
    blocks: tuple[SnakeBlock, ...]


class Generator(NamedTuple):
    """Upsampling blocks that filter a source of harmonics."""

    source: harmonics.Source
    stages: tuple[Stage, ...]
    last: Convolution

    def forward(self, x: Array, spectrum: Floats, style: Style) -> Floats:
        """Logarithms of magnitudes and sources of phases, (bins, frames)."""
        source = transfer.store("generator.spectrum", x.device, spectrum[None])
        for index, stage in enumerate(self.stages):
            label = f"generator.{index}"
            x = ops.leaky_relu(x, _SLOPE, label=f"{label}.activation")
            given = stage.source.forward(source, f"{label}.source")
            given = stage.source_block.forward(given, style, f"{label}.source")
            x = stage.upsampling.forward(x, f"{label}.upsampling")
            if index == len(self.stages) - 1:
                # Frames of a centered transform are one more than hops.
                x = xp.concat([x[:, :, 1:2], x], axis=2)
            x = x + given
            total = stage.blocks[0].forward(x, style, f"{label}.0")
            for number, block in enumerate(stage.blocks[1:], 1):
                total = total + block.forward(x, style, f"{label}.{number}")
            x = total * (1 / len(stage.blocks))
        x = ops.leaky_relu(x, 0.01, label="generator.activation")
        result: Floats = self.last.forward(x, "generator.last").to_numpy()[0]
        return result


class Decoder(NamedTuple):
    """Blocks with adaptive norms, then the generator."""

    pitch: Convolution
    loudness: Convolution
    text: Convolution
    encode: StyledBlock
    decode: tuple[StyledBlock, ...]
    generator: Generator

    def features(self, aligned: Array, pitch: Array, loudness: Array, style: Style) -> Array:
        """What the generator upsamples."""
        curves = [
            self.pitch.forward(pitch, "decoder.F0_conv"),
            self.loudness.forward(loudness, "decoder.N_conv"),
        ]
        x = self.encode.forward(xp.concat([aligned, *curves], axis=1), style, "decoder.encode")
        text = self.text.forward(aligned, "decoder.asr_res")
        for index, block in enumerate(self.decode):
            x = block.forward(
                xp.concat([x, text, *curves], axis=1), style, f"decoder.decode.{index}"
            )
        return x


def build_decoder(builder: Builder, blocks: str, generator: str) -> Decoder:
    """The decoder of the parameters, in a precision for its blocks and one for the generator.

    Its norms are added to the builder's styles.
    """
    builder = builder.with_precision(blocks)
    return Decoder(
        builder.convolution("decoder.F0_conv", stride=2),
        builder.convolution("decoder.N_conv", stride=2),
        builder.convolution("decoder.asr_res.0"),
        builder.styled_block("decoder.encode"),
        tuple(builder.styled_block(f"decoder.decode.{index}") for index in range(4)),
        build_generator(builder.with_precision(generator), "decoder.generator", (10, 6)),
    )


def build_generator(builder: Builder, name: str, rates: tuple[int, ...]) -> Generator:
    """The generator of the parameters, which upsamples by these factors."""
    stages = []
    for index, rate in enumerate(rates):
        kernel = builder.parameters[f"{name}.ups.{index}.weight"].shape[2]
        later = int(np.prod(rates[index + 1 :]))
        blocks = range(index * _KERNELS, (index + 1) * _KERNELS)
        stages.append(
            Stage(
                builder.upsampling(
                    f"{name}.ups.{index}", stride=rate, padding=(kernel - rate) // 2
                ),
                builder.convolution(
                    f"{name}.noise_convs.{index}",
                    stride=later,
                    padding=(later + 1) // 2 if later > 1 else 0,
                ),
                builder.snake_block(f"{name}.noise_res.{index}", _DILATIONS),
                tuple(
                    builder.snake_block(f"{name}.resblocks.{block}", _DILATIONS) for block in blocks
                ),
            )
        )
    mixing = "m_source.l_linear"
    # A copy is aligned, which tensors of a file need not be.
    weight, bias = (
        np.array(builder.parameters[f"{name}.{mixing}.{part}"]) for part in ("weight", "bias")
    )
    source = harmonics.Source(weight, bias)
    return Generator(source, tuple(stages), builder.convolution(f"{name}.conv_post"))
