"""Small Whisper models with random weights, written byte by byte as CTranslate2 and ggml files."""

import json
import struct
from pathlib import Path

import numpy as np

VOCABULARY = 51_864
WIDTH, HEADS, LAYERS, MELS = 64, 2, 2, 80
AUDIO_CONTEXT, TEXT_CONTEXT = 50, 64


def tensors() -> dict[str, np.ndarray]:
    """Weights by the names of CTranslate2; the same on every machine."""
    random = np.random.default_rng(7)

    def normal(*shape: int, scale: float) -> np.ndarray:
        return (random.standard_normal(shape, np.float32) * np.float32(scale)).astype(np.float16)

    made: dict[str, np.ndarray] = {}

    def linear(name: str, outputs: int, inputs: int) -> None:
        made[f"{name}/weight"] = normal(outputs, inputs, scale=1.5 * inputs**-0.5)
        made[f"{name}/bias"] = normal(outputs, scale=0.1)

    def norm(name: str) -> None:
        made[f"{name}/gamma"] = 1 + normal(WIDTH, scale=0.1)
        made[f"{name}/beta"] = normal(WIDTH, scale=0.1)

    for index, inputs in ((1, MELS), (2, WIDTH)):
        made[f"encoder/conv{index}/weight"] = normal(WIDTH, inputs, 3, scale=inputs**-0.5)
        made[f"encoder/conv{index}/bias"] = normal(WIDTH, scale=0.1)
    made["encoder/position_encodings/encodings"] = normal(AUDIO_CONTEXT, WIDTH, scale=1.0)
    made["decoder/position_encodings/encodings"] = normal(TEXT_CONTEXT, WIDTH, scale=1.0)
    embeddings = normal(VOCABULARY, WIDTH, scale=0.5)
    # So that texts have times and ends: these tokens are likelier than others.
    embeddings[50_363:] *= np.float16(1.25)
    embeddings[50_256] = embeddings[35_824] * np.float16(0.98)
    made["decoder/embeddings/weight"] = embeddings
    for side in ("encoder", "decoder"):
        made[f"{side}/num_heads"] = np.array(HEADS, np.int16)
        norm(f"{side}/layer_norm")
        for layer in range(LAYERS):
            prefix = f"{side}/layer_{layer}"
            for block in ("self_attention", "ffn", *(["attention"] * (side == "decoder"))):
                norm(f"{prefix}/{block}/layer_norm")
            linear(f"{prefix}/self_attention/linear_0", 3 * WIDTH, WIDTH)
            linear(f"{prefix}/self_attention/linear_1", WIDTH, WIDTH)
            linear(f"{prefix}/ffn/linear_0", 4 * WIDTH, WIDTH)
            linear(f"{prefix}/ffn/linear_1", WIDTH, 4 * WIDTH)
            if side == "decoder":
                linear(f"{prefix}/attention/linear_0", WIDTH, WIDTH)
                linear(f"{prefix}/attention/linear_1", 2 * WIDTH, WIDTH)
                linear(f"{prefix}/attention/linear_2", WIDTH, WIDTH)
    # What CTranslate2 asks for besides.
    for name, value in (("pre_norm", 1), ("activation", 3), ("scale_embeddings", 0)):
        made[f"decoder/{name}"] = np.array(value, np.int8)
    return made


def features() -> np.ndarray:
    """Features of 100 frames, the same on every machine."""
    random = np.random.default_rng(11)
    return random.standard_normal((MELS, 2 * AUDIO_CONTEXT), np.float32) * np.float32(0.5)


def quantized(made: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Matrices as CTranslate2's converter writes them in int8: 127 over the largest of a row is its scale."""
    out: dict[str, np.ndarray] = {}
    for name, values in made.items():
        out[name] = values
        if name.endswith("weight") and values.ndim == 2:
            scale = 127 / np.abs(values.astype(np.float32)).max(axis=1)
            out[name] = np.rint(values * scale[:, None]).astype(np.int8)
            out[f"{name}_scale"] = scale.astype(np.float32)
    return out


def write_ctranslate2(folder: Path, *, int8: bool = False) -> Path:
    """A folder with model.bin, vocabulary.txt and config.json."""
    codes = {"float32": 0, "int8": 1, "int16": 2, "float16": 4}
    made = quantized(tensors()) if int8 else tensors()

    def string(text: str) -> bytes:
        return struct.pack("<H", len(text) + 1) + text.encode() + b"\0"

    parts = [struct.pack("<I", 6), string("WhisperSpec"), struct.pack("<II", 3, len(made))]
    for name, values in made.items():
        parts += [string(name), struct.pack("<B", values.ndim)]
        parts += [struct.pack("<I", extent) for extent in values.shape]
        parts += [struct.pack("<BI", codes[values.dtype.name], values.nbytes), values.tobytes()]
    parts += [struct.pack("<I", 1), string("decoder/projection/weight")]
    parts += [string("decoder/embeddings/weight")]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.bin").write_bytes(b"".join(parts))
    (folder / "vocabulary.txt").write_text("\n".join(vocabulary_lines()) + "\n", "utf-8")
    heads = {"alignment_heads": [[0, 1], [1, 0]], "lang_ids": [50_258]}
    suppressed = {"suppress_ids": [1, 2], "suppress_ids_begin": [220, 50_256]}
    (folder / "config.json").write_text(json.dumps(heads | suppressed))
    return folder


def vocabulary_lines() -> list[str]:
    """256 bytes, numbered pieces, then the special tokens of an English model."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = [chr(byte) for byte in printable] + [chr(256 + place) for place in range(68)]
    # Byte 32, the space, is the 33rd that is not printable: its token is 220, as in GPT-2.
    digits = str.maketrans("0123456789", "abcdefghij")
    numbers = range(50_256 - len(letters))
    pieces = letters + [f"q{number}".translate(digits) for number in numbers]
    tasks = ("translate", "transcribe", "startoflm", "startofprev", "nospeech", "notimestamps")
    specials = ["<|endoftext|>", "<|startoftranscript|>"]
    specials += [f"<|language{number}|>" for number in range(99)]
    specials += [f"<|{task}|>" for task in tasks]
    specials += [f"<|{number * 0.02:.2f}|>" for number in range(1_501)]
    assert len(pieces) + len(specials) == VOCABULARY
    return pieces + specials


def write_ggml(path: Path) -> Path:
    """The same weights as a file of whisper.cpp."""
    made = tensors()
    audio = (VOCABULARY, AUDIO_CONTEXT, WIDTH, HEADS, LAYERS)
    numbers = (*audio, TEXT_CONTEXT, WIDTH, HEADS, LAYERS, MELS, 1)
    parts = [struct.pack("<12i", 0x67676D6C, *numbers), struct.pack("<2i", 80, 201)]
    parts += [bytes(4 * 80 * 201), struct.pack("<i", 50_256)]
    parts += [struct.pack("<I", 1) + b"x"] * 50_256
    for name, values in _openai_names(made).items():
        kind = {"float32": 0, "float16": 1}[values.dtype.name]
        parts += [struct.pack("<3i", values.ndim, len(name), kind)]
        parts += [struct.pack("<i", extent) for extent in reversed(values.shape)]
        parts += [name.encode(), values.tobytes()]
    path.write_bytes(b"".join(parts))
    return path


def _openai_names(made: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    named = {
        "encoder.positional_embedding": made["encoder/position_encodings/encodings"],
        "decoder.positional_embedding": made["decoder/position_encodings/encodings"],
        "decoder.token_embedding.weight": made["decoder/embeddings/weight"],
    }

    def copy(target: str, source: str) -> None:
        for ours, theirs in (("weight", "gamma"), ("bias", "beta")):
            key = f"{source}/{ours}" if f"{source}/{ours}" in made else f"{source}/{theirs}"
            named[f"{target}.{ours}"] = made[key]

    for index in (1, 2):
        named[f"encoder.conv{index}.weight"] = made[f"encoder/conv{index}/weight"]
        named[f"encoder.conv{index}.bias"] = made[f"encoder/conv{index}/bias"][:, None]
    copy("encoder.ln_post", "encoder/layer_norm")
    copy("decoder.ln", "decoder/layer_norm")
    for side in ("encoder", "decoder"):
        for layer in range(LAYERS):
            source, target = f"{side}/layer_{layer}", f"{side}.blocks.{layer}"
            copy(f"{target}.attn_ln", f"{source}/self_attention/layer_norm")
            copy(f"{target}.attn.out", f"{source}/self_attention/linear_1")
            copy(f"{target}.mlp_ln", f"{source}/ffn/layer_norm")
            copy(f"{target}.mlp.0", f"{source}/ffn/linear_0")
            copy(f"{target}.mlp.2", f"{source}/ffn/linear_1")
            fused = [(f"{target}.attn", f"{source}/self_attention/linear_0", "query key value")]
            if side == "decoder":
                copy(f"{target}.cross_attn_ln", f"{source}/attention/layer_norm")
                copy(f"{target}.cross_attn.query", f"{source}/attention/linear_0")
                copy(f"{target}.cross_attn.out", f"{source}/attention/linear_2")
                fused.append((f"{target}.cross_attn", f"{source}/attention/linear_1", "key value"))
            for prefix, name, parts in fused:
                for place, part in enumerate(parts.split()):
                    rows = slice(place * WIDTH, (place + 1) * WIDTH)
                    named[f"{prefix}.{part}.weight"] = made[f"{name}/weight"][rows]
                    named[f"{prefix}.{part}.bias"] = made[f"{name}/bias"][rows]
    return named
