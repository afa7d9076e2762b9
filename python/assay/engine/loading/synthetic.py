"""Synthetic models: random weights from a seed, equal on every machine; the text means nothing.

They need no download, and give tests a small model of every architecture.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from assay.engine.architectures.registry import ARCHITECTURES, ENCODERS
from assay.engine.architectures.schema import Architecture
from assay.engine.loading.configuration import known_architecture, validated
from assay.engine.loading.encoder_configuration import validated_encoder
from assay.engine.loading.hugging_face import INDEX, SINGLE
from assay.engine.loading.model_files import ModelFiles, Tensor
from assay.engine.loading.tensor_shapes import expected_shapes
from assay.engine.loading.tokenizer import Tokenizer, byte_alphabet
from assay.engine.loading.vocabulary import LibraryVocabulary
from assay.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

BEGIN, END = "<|begin|>", "<|end|>"
_SPECIALS: Final = (BEGIN, END)
_BYTES: Final = 256
VOCABULARY: Final = _BYTES + len(_SPECIALS)

TEMPLATE: Final = (
    "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}<|end|>\n"
    "{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}"
)

_LLAMA: Final[dict[str, Any]] = {
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 1024,
    "rms_norm_eps": 1e-5,
    "hidden_act": "silu",
    "rope_theta": 10000.0,
    "rope_scaling": None,
    "tie_word_embeddings": False,
    "bos_token_id": _BYTES,
    "eos_token_id": _BYTES + 1,
}
_GPT2: Final[dict[str, Any]] = {
    "n_embd": 256,
    "n_layer": 2,
    "n_head": 4,
    "n_positions": 1024,
    "n_inner": None,
    "vocab_size": VOCABULARY,
    "layer_norm_epsilon": 1e-5,
    "activation_function": "gelu_new",
    "tie_word_embeddings": True,
    "bos_token_id": _BYTES,
    "eos_token_id": _BYTES + 1,
}
_ANY_ARCHITECTURE: Final = ("head_dim", "bos_token_id", "eos_token_id")


def _small(name: str, architecture: Architecture) -> dict[str, Any]:
    known = (*architecture.schema.keys, *_ANY_ARCHITECTURE)
    base = _GPT2 if name == "gpt2" else _LLAMA
    return {key: value for key, value in base.items() if key in known} | dict(architecture.small)


SMALL: Final[dict[str, dict[str, Any]]] = {
    **{name: _small(name, architecture) for name, architecture in ARCHITECTURES.items()},
    **{name: dict(encoder.small) for name, encoder in ENCODERS.items()},
}
"""A small configuration of each architecture."""


def synthetic_model(
    architecture: str = "llama",
    *,
    seed: int = 0,
    config: Mapping[str, Any] | None = None,
    complete: bool = False,
) -> ModelFiles:
    """A model in memory; `config` overrides keys of the small configuration.

    With `complete` it is the whole configuration, as a config.json has it.
    """
    settings = _settings(architecture, config, complete)
    tensors = {}
    for name, values in _weights(architecture, settings, seed).items():
        tensors[name] = Tensor(
            name, "f32", values.shape, memoryview(values.view("u1").data).cast("B")
        )
    return ModelFiles(
        name=_name(architecture, seed, config),
        path=None,
        architecture=architecture,
        config=settings,
        tensors=tensors,
        rope_pairs="half",
        make_tokenizer=synthetic_tokenizer,
        template_text=TEMPLATE,
        notes=("synthetic: random weights, the text means nothing",),
        synthetic=True,
    )


def _name(architecture: str, seed: int, config: Mapping[str, Any] | None) -> str:
    """A unique name for each set of weights."""
    if seed == 0 and not config:
        return f"synthetic-{architecture}"
    key = json.dumps([seed, config or {}], sort_keys=True)
    return f"synthetic-{architecture}-{hashlib.sha256(key.encode()).hexdigest()[:8]}"


def write_folder(
    folder: Path,
    architecture: str,
    *,
    seed: int = 0,
    config: Mapping[str, Any] | None = None,
    complete: bool = False,
    format: str = "f32",
    shards: int = 1,
) -> None:
    """Write the same model as a Hugging Face folder, in f32 or bf16, in one file or several."""
    settings = _settings(architecture, config, complete)
    folder.mkdir(parents=True, exist_ok=True)
    stored = {}
    for name, values in _weights(architecture, settings, seed).items():
        stored[name] = values
        # GPT-2 on Hugging Face stores its matrices as inputs by outputs.
        if architecture == "gpt2" and ".c_" in name and values.ndim == 2:
            stored[name] = values.T
    names = list(stored)
    weight_map: dict[str, str] = {}
    for shard in range(shards):
        file = SINGLE if shards == 1 else f"model-{shard + 1:05}-of-{shards:05}.safetensors"
        tensors = {name: stored[name] for name in names[shard::shards]}
        weight_map |= dict.fromkeys(tensors, file)
        (folder / file).write_bytes(_safetensors(tensors, format))
    if shards > 1:
        _write_json(folder / INDEX, {"metadata": {}, "weight_map": weight_map})
    _write_json(folder / "config.json", dict(config or {}) if complete else settings)
    _write_json(
        folder / "tokenizer_config.json",
        {"bos_token": BEGIN, "eos_token": END, "chat_template": TEMPLATE},
    )
    _library().save(str(folder / "tokenizer.json"))


def _write_json(path: Path, data: Any) -> None:
    path.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")


def _settings(
    architecture: str, config: Mapping[str, Any] | None, complete: bool
) -> dict[str, Any]:
    if architecture not in ENCODERS:
        known_architecture("synthetic model", architecture)
    base = {} if complete else SMALL[architecture]
    check = validated_encoder if architecture in ENCODERS else validated
    settings, _ = check("synthetic model", architecture, base | dict(config or {}))
    return settings


def _weights(
    architecture: str, config: Mapping[str, Any], seed: int
) -> dict[str, NDArray[np.float32]]:
    return {
        name: _values(name, shape, seed)
        for name, shape in expected_shapes(architecture, config).items()
    }


def _values(name: str, shape: tuple[int, ...], seed: int) -> NDArray[np.float32]:
    """Uniform values from a generator's raw bits, which are equal in every NumPy version."""
    import numpy as np

    key = hashlib.sha256(f"{seed} {name}".encode()).digest()
    bits = np.random.Philox(key=int.from_bytes(key[:16], "little"))
    count = math.prod(shape)
    unit = (bits.random_raw(count) >> np.uint64(40)).astype(np.float32) / np.float32(1 << 23) - 1
    if name.endswith(".bias"):
        values = unit * np.float32(0.02)
    elif name.endswith((".A_log", ".dt_bias")):
        # The state of a scan then decays within a few tokens, or a few tens.
        values = unit - 1
    elif len(shape) == 1:
        # Norm weights near one.
        values = 1 + unit * np.float32(0.1)
    else:
        # The standard deviation of a uniform distribution is its bound over the root of three.
        values = unit * np.float32(math.sqrt(3 / shape[-1]))
    return np.ascontiguousarray(values.reshape(shape), dtype="<f4")


def _safetensors(tensors: Mapping[str, NDArray[np.float32]], format: str) -> bytes:
    from assay.runtime.rounding import narrow

    if format not in ("f32", "bf16"):
        raise InputError(f'format: expected "f32" or "bf16", got "{format}"')
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    buffers: list[bytes] = []
    offset = 0
    for name, values in tensors.items():
        data = (values if format == "f32" else narrow(values)).tobytes()
        header[name] = {
            "dtype": format.upper(),
            "shape": list(values.shape),
            "data_offsets": [offset, offset + len(data)],
        }
        buffers.append(data)
        offset += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + b"".join(buffers)


def _library() -> Any:
    """Every byte is a token, besides BOS and EOS."""
    from tokenizers import (
        AddedToken,
        Tokenizer as Library,
        decoders,
        models,
        pre_tokenizers,
        processors,
    )

    vocabulary = {char: byte for byte, char in enumerate(byte_alphabet())}
    library = Library(models.BPE(vocabulary, []))
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    library.decoder = decoders.ByteLevel()
    library.add_special_tokens([AddedToken(text, normalized=False) for text in _SPECIALS])
    library.post_processor = processors.TemplateProcessing(
        single=f"{BEGIN} $A", special_tokens=[(BEGIN, _BYTES)]
    )
    return library


def synthetic_tokenizer() -> Tokenizer:
    """A tokenizer in which every byte is a token."""
    return Tokenizer(
        LibraryVocabulary(_library(), "synthetic model"),
        bos_id=_BYTES,
        eos_id=_BYTES + 1,
        stop_ids=[_BYTES + 1],
        add_bos=True,
        source="synthetic model",
    )
