"""Whisper models with random weights and any sizes, in memory."""

from pathlib import Path

import numpy as np
import numpy.typing as npt

from assay.runtime import Device
from assay.speech.whisper.decoder import Decoder
from assay.speech.whisper.encoder import Encoder
from assay.speech.whisper.files import Dimensions, WhisperFiles
from assay.speech.whisper.layers import Loader
from assay.speech.whisper.vocabulary import Vocabulary

Values = npt.NDArray[np.float16]

SMALL = Dimensions(
    mels=80, audio_context=50, audio_width=128, audio_heads=2, audio_layers=2, text_context=40,
    text_width=128, text_heads=2, text_layers=2, vocabulary=1000,
)  # fmt: skip
"""Heads of 64, as all of Whisper's."""


def random_files(sizes: Dimensions = SMALL) -> WhisperFiles:
    """A model; the weights of its layers are equal."""
    random = np.random.default_rng(3)
    width = sizes.audio_width
    made: dict[str, Values] = {}

    def normal(*shape: int, scale: float) -> Values:
        return (random.standard_normal(shape, np.float32) * np.float32(scale)).astype(np.float16)

    def linear(name: str, outputs: int, inputs: int) -> None:
        made[f"{name}.weight"] = normal(outputs, inputs, scale=inputs**-0.5)
        made[f"{name}.bias"] = normal(outputs, scale=0.1)

    def norm(name: str) -> None:
        made[f"{name}.weight"] = 1 + normal(width, scale=0.1)
        made[f"{name}.bias"] = normal(width, scale=0.1)

    for index, inputs in ((1, sizes.mels), (2, width)):
        made[f"encoder.conv{index}.weight"] = normal(width, inputs, 3, scale=(3 * inputs) ** -0.5)
        made[f"encoder.conv{index}.bias"] = normal(width, scale=0.1)
    made["encoder.positional_embedding"] = normal(sizes.audio_context, width, scale=0.5)
    made["decoder.positional_embedding"] = normal(sizes.text_context, width, scale=0.5)
    made["decoder.token_embedding.weight"] = normal(sizes.vocabulary, width, scale=0.5)
    norm("encoder.ln_post")
    norm("decoder.ln")
    for side, layers in (("encoder", sizes.audio_layers), ("decoder", sizes.text_layers)):
        for layer in range(layers):
            block = f"{side}.blocks.{layer}"
            for name in ("attn_ln", "mlp_ln", *(["cross_attn_ln"] * (side == "decoder"))):
                norm(f"{block}.{name}")
            linear(f"{block}.attn.qkv", 3 * width, width)
            linear(f"{block}.attn.out", width, width)
            linear(f"{block}.mlp.0", 4 * width, width)
            linear(f"{block}.mlp.2", width, 4 * width)
            for part in ("query", "key", "value", "out") if side == "decoder" else ():
                linear(f"{block}.cross_attn.{part}", width, width)
    vocabulary = Vocabulary.__new__(Vocabulary)
    stored = {name: (lambda values=values: values) for name, values in made.items()}
    return WhisperFiles(Path("random"), sizes, vocabulary, (), stored, "f16")


def load(device: Device) -> tuple[Encoder, Decoder]:
    """The small model on a device."""
    loader = Loader(random_files(), device)
    return Encoder(loader), Decoder(loader)


def features(recordings: int) -> npt.NDArray[np.float32]:
    """Features of recordings that differ."""
    random = np.random.default_rng(4)
    shape = (recordings, SMALL.mels, 2 * SMALL.audio_context)
    return random.standard_normal(shape, np.float32) * np.float32(0.5)
