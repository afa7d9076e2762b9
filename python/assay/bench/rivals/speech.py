"""Rivals of the speech suite: what they do with the same files, on all usable cores."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from assay.bench.harness.case import Absent
from assay.bench.rivals.decoder import usable_cores
from assay.errors import InputError

MODULES: Final = {
    "faster-whisper": "faster_whisper",
    "whisper.cpp": "pywhispercpp",
    "onnxruntime": "onnxruntime",
    "torch": "torch",
}
"""The module that each rival needs."""

_BYTE_LEVEL: Final = {
    "type": "ByteLevel",
    "add_prefix_space": False,
    "trim_offsets": True,
    "use_regex": True,
}

Transcribe = Callable[[Any], str]


def require(names: Sequence[str]) -> None:
    """Refuse rivals that were asked for and are not installed."""
    for name in names:
        if (missing := absent(name)) is not None:
            raise InputError(
                f"--rival {name}: expected the package {MODULES[name]}, got none",
                f"install it beside assay, or leave out --rival {name}: {missing.reason}",
            )


def absent(name: str) -> Absent | None:
    """Why a rival is not measured, if it is not."""
    if importlib.util.find_spec(MODULES[name]) is None:
        return Absent(name, f"{MODULES[name]} not installed")
    return None


def faster_whisper(folder: Path, not_said: Sequence[int], compute_type: str) -> Transcribe:
    """Whisper of CTranslate2 in float32 or int8, greedily, at one temperature, without tokens that are not said."""
    import faster_whisper as library

    files = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    # Without a tokenizer of its own it would ask a server for one.
    files["tokenizer.json"] = _tokenizer(folder)
    model = library.WhisperModel(
        str(folder),
        device="cpu",
        compute_type=compute_type,
        cpu_threads=usable_cores(),
        files=files,
    )

    def transcribe(samples: Any) -> str:
        segments, _ = model.transcribe(
            samples, beam_size=1, temperature=0.0, language="en", suppress_tokens=list(not_said)
        )
        return "".join(segment.text for segment in segments).strip()

    return transcribe


def _tokenizer(folder: Path) -> bytes:
    """A tokenizer of the words of vocabulary.txt, for decoding only: nothing is encoded."""
    import json

    words = (folder / "vocabulary.txt").read_text(encoding="utf-8").split("\n")
    words = [word for word in words if word]
    end = words.index("<|endoftext|>") if "<|endoftext|>" in words else len(words)
    special = [
        {
            "id": number,
            "content": word,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
        for number, word in enumerate(words)
        if number >= end
    ]
    return json.dumps(
        {
            "version": "1.0",
            "added_tokens": special,
            "pre_tokenizer": _BYTE_LEVEL,
            "decoder": _BYTE_LEVEL,
            "model": {
                "type": "BPE",
                "vocab": {word: number for number, word in enumerate(words[:end])},
                "merges": [],
            },
        }
    ).encode()


def whisper_cpp(path: Path) -> Transcribe:
    """whisper.cpp through pywhispercpp, greedily and at one temperature."""
    from pywhispercpp.model import Model

    model = Model(
        str(path),
        n_threads=usable_cores(),
        print_progress=False,
        print_realtime=False,
        redirect_whispercpp_logs_to=None,
        temperature_inc=0.0,
        greedy={"best_of": 1},
    )

    def transcribe(samples: Any) -> str:
        return " ".join(segment.text.strip() for segment in model.transcribe(samples))

    return transcribe


def onnx_session(path: Path) -> Any:
    """A session of onnxruntime."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = usable_cores()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def moonshine(folder: Path) -> Callable[[Any], list[int]]:
    """The tokens of Moonshine by onnxruntime, with its cache of keys and values."""
    from assay.speech.file_names import MOONSHINE_DECODER, MOONSHINE_ENCODER

    encoder, decoder = (
        onnx_session(folder / name) for name in (MOONSHINE_ENCODER, MOONSHINE_DECODER)
    )
    names = [entry.name for entry in decoder.get_inputs()]
    pasts = [name for name in names if name.startswith("past")]

    def tokens(samples: Any) -> list[int]:
        [states] = encoder.run(None, {"input_values": samples[None]})
        cache = {name: np.zeros((0, 8, 1, 36), np.float32) for name in pasts}
        written = [1]
        for step in range(max(1, 6 * len(samples) // 16_000)):
            logits, *presents = decoder.run(
                None,
                {
                    "input_ids": np.array([written[-1:]], np.int64),
                    "encoder_hidden_states": states,
                    "use_cache_branch": np.array([step > 0]),
                    **cache,
                },
            )
            for name, present in zip(pasts, presents, strict=True):
                if step == 0 or ".decoder." in name:
                    cache[name] = present
            written.append(int(logits[0, -1].argmax()))
            if written[-1] == 2:
                break
        return [token for token in written if token not in (1, 2)]

    return tokens


def kokoro(folder: Path) -> Callable[[Any, Any], Any]:
    """The waveform of tokens in a style, by onnxruntime."""
    session = onnx_session(folder / "model.onnx")

    def speak(tokens: Any, style: Any) -> Any:
        speed = np.ones(1, np.float32)
        inputs = {"input_ids": tokens[None], "style": style[None], "speed": speed}
        return session.run(None, inputs)[0].reshape(-1)

    return speak


def silero(path: Path) -> Callable[[Any], list[float]]:
    """The probabilities of a stream by onnxruntime, a chunk a call."""
    session = onnx_session(path)
    rate = np.array(16_000, np.int64)

    def probabilities(samples: Any) -> list[float]:
        state, context = np.zeros((2, 1, 128), np.float32), np.zeros((1, 64), np.float32)
        results = []
        for chunk in samples[: len(samples) // 512 * 512].reshape(-1, 1, 512):
            joined = np.concatenate([context, chunk], 1)
            probability, state = session.run(None, {"input": joined, "state": state, "sr": rate})
            context = joined[:, -64:]
            results.append(float(probability[0, 0]))
        return results

    return probabilities
