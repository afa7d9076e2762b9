"""What a folder of sentence-transformers says about pooling and the length of texts.

`modules.json` lists the modules: a transformer, pooling, and perhaps a normalization, which is up to
the caller here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from assay.engine.loading.json_files import optional_json, read_json, read_json_list
from assay.errors import InputError, UnsupportedError

Pooling = Literal["mean", "cls", "last", "max"]

_FLAGS: Final[dict[str, Pooling]] = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_lasttoken": "last",
}
_NAMES: Final[dict[str, Pooling]] = {
    "cls": "cls",
    "mean": "mean",
    "max": "max",
    "lasttoken": "last",
}


class TextSettings(NamedTuple):
    """How texts become vectors, besides the model."""

    pooling: Pooling
    max_tokens: int | None
    lower_case: bool
    notes: tuple[str, ...]


def text_settings(folder: Path) -> TextSettings:
    """The pooling and limits of a folder; without `modules.json` the mean of all tokens."""
    notes: list[str] = []
    path = folder / "modules.json"
    pooling: Pooling = "mean"
    if path.exists():
        pooling = _pooling(folder, path)
    else:
        notes.append(
            f"{folder} has no modules.json: mean pooling, as sentence-transformers reads it"
        )
    stated = optional_json(folder / "sentence_bert_config.json")
    limit = stated.get("max_seq_length")
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
        raise InputError(
            f"{folder / 'sentence_bert_config.json'}: expected max_seq_length as a positive integer, "
            f"got {limit!r}"
        )
    prompts = optional_json(folder / "config_sentence_transformers.json")
    if prompts.get("default_prompt_name") is not None:
        notes.append(
            f'{folder}: the prompt "{prompts["default_prompt_name"]!s:.40}" is not put before texts'
        )
    return TextSettings(pooling, limit, stated.get("do_lower_case") is True, tuple(notes))


def _pooling(folder: Path, path: Path) -> Pooling:
    pooling: Pooling | None = None
    for module in read_json_list(path):
        kind = str(module.get("type")).rpartition(".")[2] if isinstance(module, dict) else "?"
        if kind == "Pooling":
            pooling = _mode(folder / _plain(path, module.get("path")) / "config.json")
        elif kind not in ("Transformer", "Normalize"):
            raise UnsupportedError(
                f"{path}: expected modules Transformer, Pooling and Normalize, got {kind:.40}",
                "without it the embeddings would be others",
            )
    if pooling is None:
        raise UnsupportedError(f"{path}: expected a module Pooling, got none")
    return pooling


def _plain(path: Path, name: Any) -> str:
    """The folder of a module, which must not lead outside."""
    if not isinstance(name, str) or Path(name).name != name:
        raise InputError(
            f"{path}: expected the path of a module as a folder beside it, got {name!r}"
        )
    return name


def _mode(path: Path) -> Pooling:
    config = read_json(path)
    if isinstance(named := config.get("pooling_mode"), str):
        chosen = [named]
    else:
        chosen = [key for key, on in config.items() if key.startswith("pooling_mode_") and on]
    known = {**_FLAGS, **_NAMES}
    if len(chosen) != 1 or chosen[0] not in known:
        raise UnsupportedError(
            f"{path}: expected one pooling of {', '.join(_NAMES)}, got {', '.join(chosen) or 'none'}"
        )
    return known[chosen[0]]
