"""References: where a statement of the model comes from."""

from __future__ import annotations

from typing import NamedTuple


class Reference(NamedTuple):
    """The source of a statement.

    `kind` is `cited` for an outside work, `definition` for what holds by the meaning of the
    words, `fitted` for a form or constant of ours whose page states data, method and errors,
    `unsourced` for what nobody has found a source for.
    """

    kind: str
    work: str = ""
    where: str = ""

    def __str__(self) -> str:
        if self.kind == "unsourced":
            return "unsourced"
        return f"{self.work}, {self.where}" if self.where else self.work or "by definition"


UNSOURCED = Reference("unsourced")


def cited(work: str, where: str = "") -> Reference:
    """Refer to an outside work, and to the place in it."""
    return Reference("cited", work, where)


def fitted(page: str, data: str) -> Reference:
    """Refer to a fit of ours: the page that states its errors, and the data behind it."""
    return Reference("fitted", page, data)


def by_definition(note: str = "") -> Reference:
    """Mark a statement that holds by definition."""
    return Reference("definition", note)
