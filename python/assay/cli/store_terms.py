"""`--where`: the terms of `assay store find`, for commands that work on what it finds."""

from collections.abc import Sequence
from typing import Annotated

from assay.cli.declaring import option
from assay.errors import InputError

Where = Annotated[
    list[str] | None,
    option(
        "--where TERM...",
        "All items that fulfill these terms, as those of assay store find: model=llama, since=7d.",
    ),
]


def terms_of(
    words: Sequence[str] | None, where: Sequence[str] | None, kind: str | None = None
) -> tuple[list[str], list[str]]:
    """Names and terms: after `--where`, whose value is one word, the other words are terms too.

    >>> terms_of(["engine=vllm"], ["model=llama"], "run")
    ([], ['model=llama', 'engine=vllm', 'kind=run'])
    >>> terms_of(["run/a"], None)
    (['run/a'], [])
    """
    kinds = [f"kind={kind}"] if kind else []
    if where:
        return [], [*where, *(words or ()), *kinds]
    if words and kind:
        raise InputError(
            f"--kind {kind}: expected --where, or no items, got {words[0]}",
            f"{kind}/{words[0].rpartition('/')[2]} names an item of this kind",
        )
    return list(words or ()), kinds
