"""What a model is, without its weights: shapes from a configuration, a GGUF file or the catalog."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from assay.catalog import models
from assay.engine.loading import hub
from assay.engine.loading.dummy_weights import SHAPES
from assay.engine.loading.model_files import ModelFiles
from assay.engine.loading.opening import DUMMY_SUFFIX, SYNTHETIC, open_model
from assay.engine.loading.sources import SOURCES, is_pulled

_HEADS = ("lm_head.weight", "model.embed_tokens.weight", "transformer.wte.weight")
"""Names of the output projection, the first that a file has."""


@dataclass(frozen=True, slots=True)
class ModelDescription:
    """The shapes of a model, and the format of most of its weights where its files state one."""

    model: models.CatalogModel
    weight_format: str = ""
    head_format: str = ""
    """The format of the output projection, or of the embedding that it shares."""


def describe_model(source: str | Path) -> ModelDescription:
    """A model by a `config.json`, its folder, a GGUF file, a catalog name or a name of the engine.

    Only metadata is read; nothing is downloaded.
    """
    found = models.from_source(source)
    if found is not None:
        return ModelDescription(found, found.weight_format)
    text = str(source)
    if text in SHAPES:
        # Opening it would generate a gigabyte of random weights.
        return ModelDescription(models.from_config(SHAPES[text], text), "bf16")
    is_own = text == SYNTHETIC or text.endswith(DUMMY_SUFFIX)
    if is_own or Path(source).suffix == ".gguf" or _is_fetched(text):
        files = open_model(source)
        config = {"model_type": files.architecture, **files.config}
        model = models.from_config(config, files.name)
        return ModelDescription(model, _stored_format(files), _head_format(files))
    # The error of the catalog, which names the nearest model.
    return ModelDescription(models.find(text))


def _is_fetched(text: str) -> bool:
    """Whether `assay pull` has fetched a model of this name, repository or address."""
    if text in SOURCES:
        return is_pulled(text)
    remote = hub.parse(text)
    return remote is not None and hub.stored_path(remote) is not None


def _head_format(files: ModelFiles) -> str:
    for name in _HEADS:
        if name in files.tensors:
            return files.tensors[name].format
    return ""


def _stored_format(files: ModelFiles) -> str:
    """The format with the most bytes."""
    held: dict[str, int] = {}
    for tensor in files.tensors.values():
        held[tensor.format] = held.get(tensor.format, 0) + tensor.bytes.nbytes
    return max(held, key=lambda name: held[name], default="")
