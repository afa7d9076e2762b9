"""Models of the catalog and of any `config.json`, as values of the `architecture` scope."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from assay.catalog.checkpoints import Checkpoint, read_checkpoint
from assay.catalog.configs import Shapes, read_shapes
from assay.catalog.entries import CatalogEntry, names as entry_names, normalize_name
from assay.catalog.sourced_value import SourcedValue
from assay.errors import InputError, UnknownNameError, unknown_name
from assay.files import read_json

GROUP = "models"
_FOLDER = Path(__file__).parent / "data" / GROUP
_LARGEST_FILE = 4_000_000
_SUFFIXES = re.compile(
    r"[-_ ](instruct|chat|base|hf|it|bf16|fp16|fp8|fp4|nvfp4|mxfp4|w8a8|awq|gptq|bnb|int8|int4|"
    r"static|pertensor|dynamic|kv)(?=$|[-_ ])",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class CatalogModel:
    """A model's shapes, their source, and notes on what was assumed."""

    name: str
    shapes: Mapping[str, float]
    config: Mapping[str, Any]
    source: str
    kind: str = "spec"
    date: str = ""
    title: str = ""
    aliases: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    published: Mapping[str, Any] = field(default_factory=dict)
    stored: Checkpoint | None = None
    """The format of the published files, where the record has it."""
    recipe: Mapping[str, Any] = field(default_factory=dict)
    """How the model was trained, where the record has it: format, sequence, batch, optimizer."""

    @property
    def given(self) -> dict[str, float]:
        """Values by variable: all shapes, not the sequence, which is a choice."""
        return {f"architecture.{name}": value for name, value in self.shapes.items()}

    @property
    def context(self) -> int | None:
        """Longest sequence in tokens that the configuration states."""
        for part in (self.config, self.config.get("text_config") or {}):
            for field_name in ("max_position_embeddings", "n_positions", "max_seq_len"):
                if isinstance(part.get(field_name), int):
                    return int(part[field_name])
        return None

    @property
    def checkpoint(self) -> Checkpoint:
        """The format of the model's files, as its record or its configuration states it."""
        return self.stored or read_checkpoint(self.config, self.source)

    @property
    def weight_format(self) -> str:
        """The format of weights that the files have; empty where nothing states one."""
        return self.checkpoint.format

    @property
    def entry(self) -> CatalogEntry:
        """The model as a catalog entry."""
        values = {
            name: SourcedValue(f"{value:.15g}", self.source, self.kind, self.date, number=value)
            for name, value in self.given.items()
        }
        if (context := self.context) is not None:
            values["architecture.context"] = SourcedValue(
                f"{context} token", self.source, self.kind, self.date, number=float(context)
            )
        facts = {
            "config": dict(self.config), "notes": list(self.notes),
            "checkpoint": self.checkpoint.text, "checkpoint_source": self.checkpoint.source,
        }  # fmt: skip
        return CatalogEntry(GROUP, self.name, self.title or self.name, values, self.aliases, facts)


def names() -> tuple[str, ...]:
    """Names of all models of the catalog."""
    return entry_names(GROUP)


@cache
def read(name: str) -> CatalogModel:
    """A model of the catalog by its exact name."""
    if name not in names():
        raise unknown_name("model", name, names(), "assay catalog list models lists them")
    data = json.loads((_FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    shapes = read_shapes(data["config"], name)
    return CatalogModel(
        name, shapes.values, data["config"], data["source"], data.get("kind", "spec"),
        data.get("date", ""), data.get("title", name), tuple(data.get("aliases", ())),
        (*shapes.notes, *data.get("notes", ())), data.get("published", {}),
        Checkpoint(**data["checkpoint"]) if "checkpoint" in data else None,
        data.get("training", {}),
    )  # fmt: skip


def all_models() -> Iterator[CatalogModel]:
    """Every model of the catalog."""
    return (read(name) for name in names())


def find(name: str) -> CatalogModel:
    """A model by its name or an alias, such as `meta-llama/Llama-3.1-8B-Instruct`.

    The owner before a slash and endings that do not change shapes (`-Instruct`, `-FP8`) are
    left out when the whole name is unknown.
    """
    if name in names():
        return read(name)
    bare = name.rpartition("/")[2]
    shorter = _SUFFIXES.sub("", bare)
    known = _spellings()
    for spelling in (name, bare, shorter):
        if (model := known.get(normalize_name(spelling))) is not None:
            return read(model)
    # Some write 3_1 for 3.1: without the point, exactly one model must match.
    without_point = normalize_name(shorter).replace(".", "")
    matches = {
        model for spelling, model in known.items() if spelling.replace(".", "") == without_point
    }
    if len(matches) == 1:
        return read(matches.pop())
    raise unknown_name("model", name, names(), "assay catalog list models lists them")


@cache
def _spellings() -> dict[str, str]:
    """Catalog names by normalized spelling; two models may not share one."""
    known: dict[str, str] = {}
    for name in names():
        data = json.loads((_FOLDER / f"{name}.json").read_text(encoding="utf-8"))
        for spelling in (name, data.get("title", name), *data.get("aliases", ())):
            if known.setdefault(normalize_name(spelling), name) != name:
                raise InputError(
                    f'models {known[normalize_name(spelling)]} and {name}: both "{spelling}"'
                )
    return known


def from_config(source: str | Path | Mapping[str, Any], name: str = "") -> CatalogModel:
    """A model from a user's `config.json`, given as its path or its content."""
    if isinstance(source, Mapping):
        config, label, origin = source, name or "config", "configuration given in memory"
    else:
        path = Path(source)
        config, origin = _read_config(path), f"configuration file {path.name}"
        label = name or (path.parent.name if path.name == "config.json" else path.stem) or path.stem
    shapes = read_shapes(config, label)
    return CatalogModel(label, shapes.values, config, origin, notes=shapes.notes)


def from_source(source: str | Path) -> CatalogModel | None:
    """A model by a `config.json`, its folder or a name of the catalog.

    None for what only the engine can open: a GGUF file, or a name of its own.
    """
    text, path = str(source), Path(source)
    if path.is_dir() or path.suffix == ".json":
        return from_config(path / "config.json" if path.is_dir() else path)
    if path.suffix == ".gguf":
        return None
    if path.is_file():
        raise InputError(
            f"{path}: expected config.json, a folder with one, or a .gguf file, got another file"
        )
    try:
        return find(text.removeprefix(f"{GROUP}/"))
    except UnknownNameError:
        return None


def from_dimensions(
    *,
    layers: float,
    hidden: float,
    heads: float,
    vocabulary: float,
    name: str = "dimensions",
    source: str = "dimensions given",
    model_type: str = "",
    **fields: Any,
) -> CatalogModel:
    """A model from bare dimensions, as published runs state them.

    `fields` are further fields of a `config.json`. Where no feed-forward width is stated, the
    model is a GPT decoder whose feed-forward layer is four times as wide as its hidden state.
    """
    notes: list[str] = []
    config: dict[str, Any] = {
        "num_hidden_layers": layers, "hidden_size": hidden, "num_attention_heads": heads,
        "vocab_size": vocabulary, **{key: item for key, item in fields.items() if item is not None},
    }  # fmt: skip
    if model_type:
        config["model_type"] = model_type
    elif config.get("intermediate_size") is None:
        config["model_type"] = "gpt_neox"
        config.setdefault("tie_word_embeddings", True)
        notes.append("no feed-forward width is stated: a plain one of four times the width")
    shapes: Shapes = read_shapes(config, name)
    return CatalogModel(name, shapes.values, config, source, notes=(*notes, *shapes.notes))


def _read_config(path: Path) -> Mapping[str, Any]:
    if path.is_dir():
        path = path / "config.json"
    config = read_json("model configuration", path, _LARGEST_FILE)
    if not isinstance(config, dict):
        raise InputError(f"model configuration {path.name}: expected an object of fields")
    return config
