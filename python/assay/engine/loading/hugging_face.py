"""A Hugging Face folder as a model: config.json, safetensors files, tokenizer.json."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from assay._native import SafeTensorsFile, StoredTensor
from assay.engine.architectures.registry import ENCODERS
from assay.engine.loading import sampling_defaults
from assay.engine.loading.configuration import SCHEMAS, known_architecture, validated
from assay.engine.loading.encoder_files import open_encoder
from assay.engine.loading.json_files import optional_json, read_json
from assay.engine.loading.model_files import ModelFiles, Tensor
from assay.engine.loading.quantized_layers import is_cache_scale, scheme_of, with_computed_layers
from assay.engine.loading.tensor_shapes import LM_HEAD, check_tensors, is_buffer
from assay.engine.loading.tokenizer import Tokenizer
from assay.engine.loading.vocabulary import LibraryVocabulary, library_errors, read_library
from assay.errors import InputError
from assay.files import read_text

SINGLE: Final = "model.safetensors"
INDEX: Final = "model.safetensors.index.json"
MODELOPT: Final = "hf_quant_config.json"
"""What NVIDIA's ModelOpt writes where config.json does not state the quantization."""


def open_folder(folder: Path) -> ModelFiles:
    """Open a folder in the layout of `transformers`."""
    raw = read_json(folder / "config.json")
    where = str(folder / "config.json")
    if "model_type" not in raw:
        raise InputError(f'{where}: expected the key "model_type", got none')
    if not isinstance(raw["model_type"], str):
        raise InputError(f"{where}: model_type: expected a text, got {raw['model_type']!r}")
    if raw["model_type"] in ENCODERS:
        return open_encoder(folder, raw, _stored_tensors(folder))
    architecture = known_architecture(f"{where}: model_type", raw["model_type"])
    scheme = None
    if "quantization_config" not in SCHEMAS[architecture].keys:
        scheme = scheme_of(where, _quantization(folder, raw.pop("quantization_config", None)))
    config, notes = validated(where, architecture, raw)
    tensors = {}
    cache_scales = 0
    for stored in _stored_tensors(folder):
        name = _prefixed_name(architecture, stored.name)
        # Tied embeddings may be stored twice; transformers ignores the copy too.
        if is_buffer(name) or (name == LM_HEAD and config["tie_word_embeddings"]):
            continue
        if scheme is not None and is_cache_scale(name):
            cache_scales += 1
            continue
        transposed = architecture == "gpt2" and _is_conv1d(name)
        tensors[name] = Tensor.stored(name, stored, transposed=transposed)
    if scheme is not None:
        tensors = with_computed_layers(str(folder), scheme, tensors)
    if cache_scales:
        notes = (*notes, f"{folder}: {cache_scales} scales of an 8-bit KV cache are not used")
    check_tensors(str(folder), architecture, config, tensors)
    settings = optional_json(folder / "tokenizer_config.json")
    return ModelFiles(
        name=folder.resolve().name,
        path=folder,
        architecture=architecture,
        config=config,
        tensors=tensors,
        rope_pairs="half",
        make_tokenizer=lambda: _tokenizer(folder, config, settings),
        template_text=_template(folder, settings),
        notes=notes,
        sampling=sampling_defaults.from_folder(folder),
    )


def _quantization(folder: Path, stated: Any) -> Any:
    """The quantization that config.json states, or the file that ModelOpt writes beside it."""
    path = folder / MODELOPT
    if stated is not None or not path.exists():
        return stated
    found = read_json(path).get("quantization")
    if not isinstance(found, dict):
        raise InputError(f'{path}: expected an object "quantization", got {type(found).__name__}')
    return {"quant_method": "modelopt", **found}


def _prefixed_name(architecture: str, name: str) -> str:
    """Add the prefix of `transformers` that GPT-2's original files leave out."""
    if architecture == "gpt2" and not name.startswith(("transformer.", "lm_head.")):
        return f"transformer.{name}"
    return name


def _is_conv1d(name: str) -> bool:
    return name.endswith(
        ("c_attn.weight", "attn.c_proj.weight", "c_fc.weight", "mlp.c_proj.weight")
    )


def _stored_tensors(folder: Path) -> Iterator[StoredTensor]:
    index = folder / INDEX
    if not index.exists():
        if not (folder / SINGLE).exists():
            raise InputError(
                f"{folder}: expected {SINGLE} or {INDEX}, got neither",
                "weights in other formats, pickles among them, are not read",
            )
        yield from SafeTensorsFile(folder / SINGLE).tensors()
        return
    files = _weight_map(index)
    for file in sorted(set(files.values())):
        for stored in SafeTensorsFile(folder / file).tensors():
            if files.pop(stored.name, None) != file:
                raise InputError(
                    f"{folder / file}: expected only tensors that {INDEX} places there, "
                    f'got "{stored.name}"'
                )
            yield stored
    if files:
        name, file = next(iter(files.items()))
        raise InputError(f'{folder / file}: expected the tensor "{name}", got none')


def _weight_map(index: Path) -> dict[str, str]:
    found = read_json(index).get("weight_map")
    if not isinstance(found, dict):
        raise InputError(f'{index}: expected an object "weight_map", got {type(found).__name__}')
    for name, file in found.items():
        # A file name without a path: an index must not reach outside its folder.
        if (
            not isinstance(file, str)
            or Path(file).name != file
            or not file.endswith(".safetensors")
        ):
            raise InputError(
                f'{index}: expected weight_map "{name}" as the name of a safetensors file '
                f"in this folder, got {file!r}"
            )
    return dict(found)


def _tokenizer(folder: Path, config: dict[str, Any], settings: dict[str, Any]) -> Tokenizer:
    path = folder / "tokenizer.json"
    library = read_library(path)
    with library_errors(f"{path}: expected a tokenizer"):
        # The special tokens that the post-processor adds to a text.
        special_ids = library.encode("", add_special_tokens=True).ids
    generation = optional_json(folder / "generation_config.json")
    stops = [
        end
        for given in (config, generation)
        for end in _ids("eos_token_id", given.get("eos_token_id"))
    ]
    begins = _ids("bos_token_id", config.get("bos_token_id"))
    bos = _special(library, settings, "bos_token", next(iter(begins), None))
    eos = _special(library, settings, "eos_token", next(iter(stops), None))
    add_bos = bool(special_ids) and special_ids[0] == bos
    add_eos = len(special_ids) > int(add_bos) and special_ids[-1] == eos
    expected = [bos] * add_bos + [eos] * add_eos
    if special_ids != expected:
        raise InputError(
            f"{path}: expected a post-processor that adds begin and end tokens only, "
            f"got tokens {special_ids}"
        )
    return Tokenizer(
        LibraryVocabulary(library, str(path)),
        bos_id=bos,
        eos_id=eos,
        stop_ids=[*stops, *([] if eos is None else [eos])],
        add_bos=add_bos,
        add_eos=add_eos,
        source=str(path),
    )


def _ids(key: str, value: Any) -> list[int]:
    """The token IDs of a configuration key: none, one, or several."""
    values = value if isinstance(value, list) else [] if value is None else [value]
    for one in values:
        if isinstance(one, bool) or not isinstance(one, int) or not 0 <= one < 2**31:
            raise InputError(f"{key}: expected token IDs, got {one!r}")
    return list(values)


def _special(library: Any, settings: dict[str, Any], name: str, default: int | None) -> int | None:
    """The token that tokenizer_config.json names by its text, else the configuration's ID."""
    text = settings.get(name)
    if isinstance(text, dict):
        text = text.get("content")
    if isinstance(text, str) and (token := library.token_to_id(text)) is not None:
        return int(token)
    return default


def _template(folder: Path, settings: dict[str, Any]) -> str | None:
    file = folder / "chat_template.jinja"
    if file.is_file():
        return read_text("chat template", file)
    template = settings.get("chat_template")
    if isinstance(template, list):
        # Several named templates: the one named default is for chat.
        named = {
            each.get("name"): each.get("template") for each in template if isinstance(each, dict)
        }
        template = named.get("default")
    return template if isinstance(template, str) else None
