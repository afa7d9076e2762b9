"""What a model is, without its weights: shapes from a configuration, a GGUF file or the catalog."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from assay.engine.loading.opening import DUMMY_SUFFIX, SYNTHETIC, open_model
from assay.errors import InputError, UnknownNameError

if TYPE_CHECKING:
    from assay.catalog.models import CatalogModel
    from assay.engine.loading.model_files import ModelFiles


@dataclass(frozen=True, slots=True)
class ModelDescription:
    """The shapes of a model, and the format of most of its weights where its files state one."""

    model: CatalogModel
    weight_format: str = ""
    source: str = ""


def describe_model(source: str | Path) -> ModelDescription:
    """A model by a `config.json`, its folder, a GGUF file, a catalog name or a name of the engine.

    Only metadata is read; nothing is downloaded.
    """
    from assay.catalog import models

    text, path = str(source), Path(source)
    if path.is_dir() or path.suffix == ".json":
        model = models.from_config(path / "config.json" if path.is_dir() else path)
        return ModelDescription(model, _configured_format(model), str(path))
    if path.suffix == ".gguf":
        return _of_files(path)
    if path.is_file():
        raise InputError(
            f"{path}: expected config.json, a folder with one, or a .gguf file, got another file"
        )
    if text == SYNTHETIC or text.endswith(DUMMY_SUFFIX):
        return _of_files(text)
    try:
        model = models.find(text.removeprefix("models/"))
    except UnknownNameError:
        from assay.engine.loading.sources import SOURCES, is_pulled

        if text in SOURCES and is_pulled(text):
            return _of_files(text)
        raise
    return ModelDescription(model, _configured_format(model), f"models/{model.name}")


def _of_files(source: str | Path) -> ModelDescription:
    from assay.catalog import models

    files = open_model(source)
    config = {"model_type": files.architecture, **files.config}
    model = models.from_config(config, files.name)
    return ModelDescription(model, _stored_format(files), str(source))


def _stored_format(files: ModelFiles) -> str:
    """The format with the most bytes."""
    held: dict[str, int] = {}
    for tensor in files.tensors.values():
        held[tensor.format] = held.get(tensor.format, 0) + tensor.bytes.nbytes
    return max(held, key=lambda name: held[name], default="")


_DTYPES = {"bfloat16": "bf16", "float16": "f16", "float32": "f32"}
_METHODS = {"fp8": "fp8", "awq": "int4", "gptq": "int4", "mxfp4": "mxfp4", "compressed-tensors": ""}


def _configured_format(model: CatalogModel) -> str:
    """The format that a configuration states: its quantization, else its dtype."""
    quantization = model.config.get("quantization_config")
    if isinstance(quantization, dict):
        method = str(quantization.get("quant_method", ""))
        if _METHODS.get(method):
            return _METHODS[method]
    text = model.config.get("text_config")
    for part in (model.config, text if isinstance(text, dict) else {}):
        dtype = str(part.get("torch_dtype") or part.get("dtype") or "")
        if dtype in _DTYPES:
            return _DTYPES[dtype]
    return ""
