"""Items without names and prompts, for `assay store push --redact`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from assay.errors import CheckFailedError
from assay.report.redacted_run import redact_run
from assay.report.redaction import Redactor
from assay.report.run_files import sha256
from assay.store.describing import Item, item_of


def redacted(item: Item, folder: Path, redactor: Redactor) -> Item:
    """A copy of an item in a folder of its own; the manifest says what the originals were."""
    target = folder / item.kind / redactor.text(item.name)
    name, path = next(iter(item.files.items()))
    source = Path(str(path)[: -len(name) - 1])
    if item.kind == "run":
        statement = redact_run(source, target, redactor, item.files)
    else:
        target.mkdir(parents=True)
        statement = {
            "files": {name: sha256(path) for name, path in item.files.items()},
            "left_out": redactor.folder(source, target, list(item.files)),
        }
        if problems := redactor.left_in(target):
            raise CheckFailedError(f"{item.kind} {item.name} cannot be redacted: {problems[0]}")
    # What it is found by comes from the copy, which has no names.
    copy = item_of(target / name if item.is_file else target)
    return replace(copy, created_at=item.created_at, redaction=statement, strays=item.strays)
