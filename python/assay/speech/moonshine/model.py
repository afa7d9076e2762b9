"""Transcribes recordings with Moonshine, in pieces of up to half a minute."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from assay.errors import InputError
from assay.lazy_import import np
from assay.runtime import Device, device as device_named
from assay.speech.file_names import MOONSHINE_DECODER, MOONSHINE_ENCODER, MOONSHINE_TOKENIZER
from assay.speech.moonshine.decoder import Decoder
from assay.speech.moonshine.encoder import LEAST_SAMPLES, Encoder
from assay.speech.moonshine.files import MoonshineFile
from assay.speech.transcript import Progress, Segment, Transcript

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float32]

RATE: Final = 16_000
_START, _END = 1, 2
_TOKENS_PER_SECOND: Final = 6
"""Tokens at most, as in the reference program of the model: without them it may repeat without end."""
_LONGEST: Final = 30 * RATE
"""Samples that are heard at once: those that it was trained with."""
_SEARCHED: Final = 5 * RATE
"""Where a recording is cut: at the quietest place in the last five seconds."""
_QUIET: Final = RATE // 10
_SPACE: Final = "\u2581"


class Moonshine:
    """A model in device memory."""

    def __init__(self, folder: Path, device: Device | str = "cpu") -> None:
        """Load the folder that `assay pull moonshine-tiny` makes."""
        target = device_named(device)
        self._tokens = read_tokens(folder / MOONSHINE_TOKENIZER)
        self._encoder = Encoder(MoonshineFile(folder / MOONSHINE_ENCODER), target)
        self._decoder = Decoder(MoonshineFile(folder / MOONSHINE_DECODER), target)

    def transcribe(self, samples: Floats, progress: Progress | None = None) -> Transcript:
        """The text of samples at 16 kHz, a segment a piece."""
        seconds = samples.size / RATE
        segments = []
        for segment in self.stream(samples):
            segments.append(segment)
            if progress is not None:
                progress(segment.end, seconds)
        return Transcript(tuple(segments), "en", 1.0, seconds)

    def stream(self, samples: Floats) -> Iterator[Segment]:
        """The segments of samples at 16 kHz, as they are heard."""
        for start, end in pieces(samples):
            segment = self._segment(samples[start:end], start / RATE, end / RATE)
            if segment.text.strip():
                yield segment

    def tokens(self, samples: Floats) -> tuple[list[int], float]:
        """The likeliest tokens of one piece, without start and end, and their mean log-probability."""
        if len(samples) < LEAST_SAMPLES:
            samples = np.pad(samples, (0, LEAST_SAMPLES - len(samples)))
        most = max(1, len(samples) * _TOKENS_PER_SECOND // RATE)
        text = self._decoder.begin(self._encoder.forward(samples), most)
        tokens, total = [_START], 0.0
        for _ in range(most):
            logits = text.write(tokens[-1])
            token = int(logits.argmax())
            total -= float(np.log(np.exp(logits - logits[token]).sum()))
            tokens.append(token)
            if token == _END:
                break
        average = total / (len(tokens) - 1)
        return [token for token in tokens if token not in (_START, _END)], average

    def _segment(self, samples: Floats, start: float, end: float) -> Segment:
        tokens, average = self.tokens(samples)
        text = self.decode(tokens)
        written = text.strip().encode()
        return Segment(
            start=start,
            end=end,
            text=text,
            tokens=tuple(tokens),
            temperature=0.0,
            average_log_probability=average,
            compression_ratio=len(written) / len(zlib.compress(written)),
            no_speech_probability=None,
            seek=start,
        )

    def decode(self, tokens: list[int]) -> str:
        """The text of tokens, with the space before it."""
        content = b"".join(self._tokens[token] for token in tokens)
        return content.decode(errors="replace").replace(_SPACE, " ")


def pieces(samples: Floats, longest: int = _LONGEST) -> Iterator[tuple[int, int]]:
    """Parts of a recording of at most so many samples, cut where it is quiet."""
    start = 0
    while len(samples) - start > longest:
        searched = samples[start + longest - _SEARCHED : start + longest].reshape(-1, _QUIET)
        quietest = int(np.square(searched).mean(1).argmin())
        end = start + longest - _SEARCHED + quietest * _QUIET + _QUIET // 2
        yield start, end
        start = end
    if start < len(samples):
        yield start, len(samples)


def read_tokens(path: Path) -> list[bytes]:
    """The bytes of each token: a length of one byte, or of two from 128 on, then the bytes."""
    content = path.read_bytes()
    tokens: list[bytes] = []
    at = 0
    while at < len(content):
        length = content[at]
        at += 1
        if length >= 128 and at < len(content):
            length += 128 * (content[at] - 1)
            at += 1
        if at + length > len(content):
            raise InputError(f"{path}: expected {length} bytes of token {len(tokens)}, got fewer")
        tokens.append(content[at : at + length])
        at += length
    return tokens
