"""A chat template from a file, instead of that of the model's files."""

from __future__ import annotations

from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Final

from assay.engine.loading.model_files import ModelFiles
from assay.errors import InputError
from assay.files import read_text

PROBE: Final = ({"role": "user", "content": "Hello"},)


def replaced_template(files: ModelFiles, path: str | PathLike[str]) -> ModelFiles:
    """The model with the chat template of a file; one that renders no message is refused."""
    text = read_text("chat template", Path(path))
    changed = replace(files, template_text=text)
    try:
        template = changed.chat_template
        assert template is not None
        template.render(PROBE)
    except InputError as error:
        raise InputError(
            f"{path}: expected a template that renders a message of the user, "
            f"got: {error.message.rpartition('got: ')[2]}"
        ) from None
    return changed
